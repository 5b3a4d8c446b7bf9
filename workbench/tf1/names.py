"""Default names of operations as TensorFlow 1.x gives them, so that programs find tensors by name: "Placeholder:0"."""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, MutableMapping
from typing import Any

__all__ = ["DEFAULTS", "NN_DEFAULTS", "rename"]

_FUNCTIONS = """
    Print=Print abs=Abs accumulate_n=AccumulateNV2 acos=Acos add=Add add_n=AddN argmax=ArgMax argmin=ArgMin arg_max=ArgMax
    arg_min=ArgMin asin=Asin assign=Assign assign_add=AssignAdd assign_sub=AssignSub atan=Atan
    batch_to_space=BatchToSpace bitcast=Bitcast cast=Cast ceil=Ceil cholesky=Cholesky complex=Complex conj=Conj
    constant=Const cos=Cos count_up_to=CountUpTo cross=Cross cumprod=Cumprod cumsum=Cumsum decode_csv=DecodeCSV
    decode_raw=DecodeRaw depth_to_space=DepthToSpace diag=Diag diag_part=DiagPart digamma=Digamma divide=truediv
    dynamic_partition=DynamicPartition dynamic_stitch=DynamicStitch encode_base64=EncodeBase64 equal=Equal erf=Erf
    erfc=Erfc exp=Exp expand_dims=ExpandDims expm1=Expm1 fill=Fill floor=Floor floormod=FloorMod gather=Gather
    gather_nd=GatherNd greater=Greater greater_equal=GreaterEqual group=group_deps identity=Identity imag=Imag
    invert_permutation=InvertPermutation is_finite=IsFinite is_inf=IsInf is_nan=IsNan less=Less less_equal=LessEqual
    lgamma=Lgamma lin_space=LinSpace linspace=LinSpace log=Log log1p=Log1p logical_and=LogicalAnd logical_not=LogicalNot
    logical_or=LogicalOr logical_xor=LogicalXor matching_files=MatchingFiles matmul=MatMul
    matrix_band_part=MatrixBandPart matrix_determinant=MatrixDeterminant matrix_diag=MatrixDiag
    matrix_diag_part=MatrixDiagPart matrix_set_diag=MatrixSetDiag matrix_triangular_solve=MatrixTriangularSolve
    matrix_inverse=MatrixInverse matrix_solve=MatrixSolve maximum=Maximum minimum=Minimum mod=FloorMod mul=Mul
    multiply=Mul multinomial=multinomial/Multinomial neg=Neg negative=Neg no_op=NoOp not_equal=NotEqual pad=Pad
    parse_example=ParseExample placeholder=Placeholder placeholder_with_default=PlaceholderWithDefault pow=Pow qr=Qr
    rank=Rank read_file=ReadFile real=Real realdiv=RealDiv reciprocal=Reciprocal reduce_all=All reduce_any=Any
    reduce_join=ReduceJoin reduce_max=Max reduce_mean=Mean reduce_min=Min reduce_prod=Prod reduce_sum=Sum
    reshape=Reshape reverse=ReverseV2 reverse_sequence=ReverseSequence rint=Rint round=Round rsqrt=Rsqrt
    scatter_add=ScatterAdd scatter_nd=ScatterNd scatter_sub=ScatterSub scatter_update=ScatterUpdate
    segment_max=SegmentMax segment_mean=SegmentMean segment_min=SegmentMin segment_prod=SegmentProd
    segment_sum=SegmentSum select=Select sequence_mask=SequenceMask shape=Shape shape_n=ShapeN sigmoid=Sigmoid sign=Sign
    sin=Sin size=Size slice=Slice space_to_batch=SpaceToBatch space_to_depth=SpaceToDepth sqrt=Sqrt square=Square
    squared_difference=SquaredDifference squeeze=Squeeze stop_gradient=StopGradient string_join=StringJoin
    string_split=StringSplit string_to_number=StringToNumber sub=Sub subtract=Sub svd=Svd tan=Tan tanh=Tanh
    tensordot=Tensordot tile=Tile to_bfloat16=ToBFloat16 to_double=ToDouble to_float=ToFloat to_int32=ToInt32
    to_int64=ToInt64 truncatediv=TruncateDiv truncatemod=TruncateMod unique=Unique
    unique_with_counts=UniqueWithCounts setdiff1d=ListDiff
    unsorted_segment_sum=UnsortedSegmentSum where=Where write_file=WriteFile global_variables_initializer=init
    initialize_all_variables=init
"""

_NETWORKS = """
    avg_pool=AvgPool bias_add=BiasAdd conv2d=Conv2D deconv2d=conv2d_transpose depthwise_conv2d=depthwise elu=Elu
    in_top_k=InTopK l2_loss=L2Loss log_softmax=LogSoftmax lrn=LRN local_response_normalization=LRN max_pool=MaxPool
    relu=Relu relu6=Relu6 selu=Selu sigmoid=Sigmoid softmax=Softmax softplus=Softplus softsign=Softsign tanh=Tanh
    top_k=TopKV2
"""


def _table(text: str) -> dict[str, str]:
    return dict(part.split("=") for part in text.split())


DEFAULTS, NN_DEFAULTS = _table(_FUNCTIONS), _table(_NETWORKS)
"""Function -> the name of its operation where the program gives none; what is not listed has one name in both."""


def rename(names: MutableMapping[str, Any], defaults: dict[str, str]) -> None:
    """Give the functions of a namespace TensorFlow's default names; what is not offered is left out."""
    for function, default in defaults.items():
        if function in names and _takes_name(names[function]):
            names[function] = _named(names[function], default)


def _takes_name(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == "name" or p.kind is p.VAR_KEYWORD for p in parameters)


def _named(function: Callable[..., Any], default: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        last = len(args) > 1 and isinstance(args[-1], str)      # the name may come last by position
        if options.get("name") is None and not last:
            options["name"] = default
        return function(*args, **options)
    return call
