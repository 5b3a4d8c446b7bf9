"""Default names of operations as TensorFlow 1.x gives them, so that programs find tensors by name: "Placeholder:0"."""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, MutableMapping
from typing import Any

from workbench.core.graph.graph import get_default_graph

__all__ = ["DEFAULTS", "LAYER_DEFAULTS", "NN_DEFAULTS", "OPERATIONS", "rename"]

_FUNCTIONS = """
    Print=Print abs=Abs acos=Acos add=Add add_n=AddN argmax=ArgMax argmin=ArgMin arg_max=ArgMax
    arg_min=ArgMin asin=Asin assign=Assign assign_add=AssignAdd assign_sub=AssignSub atan=Atan
    batch_to_space=BatchToSpace bitcast=Bitcast cast=Cast ceil=Ceil cholesky=Cholesky complex=Complex conj=Conj
    constant=Const convert_to_tensor=Const cos=Cos count_up_to=CountUpTo cross=Cross cumprod=Cumprod cumsum=Cumsum
    decode_csv=DecodeCSV
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
    tensor_scatter_update=TensorScatterUpdate
    tensordot=Tensordot tile=Tile to_bfloat16=ToBFloat16 to_double=ToDouble to_float=ToFloat to_int32=ToInt32
    to_int64=ToInt64 truncatediv=TruncateDiv truncatemod=TruncateMod unique=Unique
    unique_with_counts=UniqueWithCounts setdiff1d=ListDiff
    unsorted_segment_sum=UnsortedSegmentSum write_file=WriteFile global_variables_initializer=init
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
LAYER_DEFAULTS = {name: f"{name}/" for kind in ("max", "average") for name in (f"{kind}_pooling{d}d" for d in (1, 2, 3))} | {
    "dropout": "dropout/", "flatten": "flatten/"}
"""Function -> the name of its operation where the program gives none; what is not listed has one name in both. A name that
ends in "/" is that of a scope around all operations, as is the name that the program gives then."""


_INSIDE = """
    __and__=and __or__=or __xor__=xor __matmul__=matmul add=add subtract=sub multiply=mul truediv=truediv realdiv=truediv
    divide=truediv div=div floordiv=floordiv mod=mod floormod=mod pow=pow zeros=zeros ones=ones zeros_like=zeros_like
    ones_like=ones_like reduce_logsumexp=ReduceLogSumExp group=group_deps select=Select
    where_indices=Where sinh=Sinh cosh=Cosh asinh=Asinh acosh=Acosh atanh=Atanh atan2=Atan2 log_sigmoid=LogSigmoid
    angle=Angle polygamma=Polygamma zeta=Zeta igamma=Igamma igammac=Igammac betainc=Betainc lbeta=lbeta/
    bitwise_and=BitwiseAnd bitwise_or=BitwiseOr bitwise_xor=BitwiseXor invert=Invert left_shift=LeftShift
    right_shift=RightShift clip_by_value=clip_by_value saturate_cast=saturate_cast scalar_mul=Mul div_no_nan=div_no_nan
    check_numerics=CheckNumerics broadcast_to=BroadcastTo broadcast_dims=BroadcastArgs boolean_mask=boolean_mask/
    meshgrid=meshgrid/ eye=eye/ einsum=einsum/Einsum unravel_index=UnravelIndex roll=Roll random_crop=random_crop
    space_to_batch_nd=SpaceToBatchND batch_to_space_nd=BatchToSpaceND
    unsorted_segment_max=UnsortedSegmentMax unsorted_segment_min=UnsortedSegmentMin
    unsorted_segment_prod=UnsortedSegmentProd unsorted_segment_mean=UnsortedSegmentMean/truediv
    unsorted_segment_sqrt_n=UnsortedSegmentSqrtN/truediv sparse_segment_sum=SparseSegmentSum
    sparse_segment_mean=SparseSegmentMean sparse_segment_sqrt_n=SparseSegmentSqrtN
    self_adjoint_eig=SelfAdjointEigV2 self_adjoint_eigvals=SelfAdjointEigV2 log_matrix_determinant=LogMatrixDeterminant
    smallest_least_squares=MatrixSolveLs cholesky_solve=cholesky_solve/ norm=norm/Squeeze trace=Trace logdet=logdet/mul
    fft=FFT fft2d=FFT2D fft3d=FFT3D ifft=IFFT ifft2d=IFFT2D ifft3d=IFFT3D rfft=rfft rfft2d=rfft2d rfft3d=rfft3d irfft=irfft
    irfft2d=irfft2d irfft3d=irfft3d
    substr=Substr regex_replace=RegexReplace decode_base64=DecodeBase64 string_strip=StringStrip as_string=AsString
    string_to_hash_bucket=StringToHashBucket string_to_hash_bucket_fast=StringToHashBucketFast
    string_to_hash_bucket_strong=StringToHashBucketStrong set_operation=DenseToDenseSetOperation
    softmax_xent=SoftmaxCrossEntropyWithLogits sparse_softmax_xent=SparseSoftmaxCrossEntropyWithLogits
    sparse_softmax_cross_entropy_with_logits=SparseSoftmaxCrossEntropyWithLogits/ sigmoid_xent=logistic_loss
    dropout=dropout/mul moments=moments/ batch_normalization=batchnorm/ l2_normalize=l2_normalize xw_plus_b=xw_plus_b
    relu_layer=relu_layer zero_fraction=zero_fraction/Mean leaky_relu=LeakyRelu conv2d_backprop_input=Conv2DBackpropInput
    conv2d_backprop_filter=Conv2DBackpropFilter conv2d_transpose=conv2d_transpose conv3d_transpose=conv3d_transpose
    largest_in_volumes=MaxPool3D mean_in_volumes=AvgPool3D convolve_volumes=Conv3D max_pool3d=MaxPool3D avg_pool3d=AvgPool3D
    convolve_channels=DepthwiseConv2dNative
    fake_quant_with_min_max_args=FakeQuantWithMinMaxArgs fake_quant_with_min_max_vars=FakeQuantWithMinMaxVars
    fake_quant_with_min_max_vars_per_channel=FakeQuantWithMinMaxVarsPerChannel
    sparse_fill=SparseToDense
    quantize_v2=QuantizeV2 dequantize=Dequantize quantized_concat=QuantizedConcat quantized_conv2d=QuantizedConv2D
    quantized_matmul=QuantizedMatMul quantized_relu=QuantizedRelu quantized_relu6=QuantizedRelu6 quantized_relu_x=QuantizedReluX
    quantized_max_pool=QuantizedMaxPool quantized_avg_pool=QuantizedAvgPool quantized_bias_add=QuantizedBiasAdd
    requantize=Requantize requantization_range=RequantizationRange
    quantize_down_and_shrink_range=QuantizeDownAndShrinkRange
    conv3d=Conv3D convolution=convolution rgb_to_hsv=RGBToHSV hsv_to_rgb=HSVToRGB
    decode_jpeg=DecodeJpeg decode_png=DecodePng decode_bmp=DecodeBmp decode_gif=DecodeGif extract_jpeg_shape=ExtractJpegShape
    decode_and_crop_jpeg=DecodeAndCropJpeg encode_jpeg=EncodeJpeg encode_png=EncodePng
"""
OPERATIONS = {**{name: title for name, title in (DEFAULTS | NN_DEFAULTS).items() if name != "constant"}, **_table(_INSIDE)}
"""Type of an operation, or a function made of several, -> its name inside of layers, losses and operators.

"scope/result" is a scope as in LAYER_DEFAULTS, with the name of what comes out; "__and__" is the operator. Constants that
functions make for themselves keep their type's name, so that those of the program are counted as in TensorFlow: "Const",
"Const_1".
"""


def rename(names: MutableMapping[str, Any], defaults: dict[str, str]) -> None:
    """Give the functions of a namespace TensorFlow's default names; what is not offered is left out."""
    for function, default in defaults.items():
        if function in names and _takes_name(names[function]):
            names[function] = (_scoped if default.endswith("/") else _named)(names[function], default)


def _takes_name(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == "name" or p.kind is p.VAR_KEYWORD for p in parameters)


def _scoped(function: Callable[..., Any], default: str) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        given = signature.bind(*args, **options)
        with get_default_graph().name_scope(given.arguments.pop("name", None) or default[:-1]):
            return function(*given.args, **given.kwargs)
    return call


def _named(function: Callable[..., Any], default: str) -> Callable[..., Any]:
    parameters = list(inspect.signature(function).parameters.values())
    place = next((i for i, p in enumerate(parameters) if p.name == "name" and p.kind is p.POSITIONAL_OR_KEYWORD), None)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if place is not None and len(args) > place:      # the name came by position
            return function(*args[:place], args[place] or default, *args[place + 1:], **options)
        last = place is None and len(args) > 1 and isinstance(args[-1], str)
        if options.get("name") is None and not last:
            options["name"] = default
        return function(*args, **options)
    return call
