"""workbench: build a dataflow graph, train it on a Dask cluster, and see it live."""
import difflib as _difflib
import importlib as _importlib
from typing import Any as _Any

from workbench.environment import prepare_environment as _prepare_environment

_prepare_environment()      # before NumPy loads, or its BLAS may take the processor for an older one

from workbench import errors, nn, train
from workbench import widgets as _widgets  # noqa: F401  (in a Jupyter kernel it connects to the lab panel)
from workbench.core import ops as _families  # noqa: F401  (registers the operations)
from workbench.core.grad import AggregationMethod, NotDifferentiable, RegisterGradient, gradients
from workbench.core.graph.build import IndexedSlices, ops
from workbench.core.graph.dtype import (
    DType,
    as_dtype,
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
)
from workbench.core.graph.dtype import bool_ as bool
from workbench.core.graph.entered import get_default_session
from workbench.core.graph.graph import Graph, Operation, Tensor, get_default_graph, reset_default_graph
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape as TensorShape
from workbench.core.passes.swap import mark as swap
from workbench.core.recomputed import recompute
from workbench.core.run.default_session import InteractiveSession, explain, tune
from workbench.core.run.interrupts import deferred_interrupt as _deferred_interrupt
from workbench.core.run.knob import Knob
from workbench.core.run.session import Session
from workbench.core.trace import journal
from workbench.nn import image, layers, losses, metrics
from workbench.nn.checks import (
    add_check_numerics_ops,
    assert_equal,
    assert_greater,
    assert_greater_equal,
    assert_integer,
    assert_less,
    assert_less_equal,
    assert_near,
    assert_negative,
    assert_non_negative,
    assert_non_positive,
    assert_none_equal,
    assert_positive,
    assert_proper_iterable,
    assert_rank,
    assert_rank_at_least,
    assert_rank_in,
    assert_same_float_dtype,
    assert_scalar,
    assert_type,
    assert_variables_initialized,
    is_non_decreasing,
    is_numeric_tensor,
    is_strictly_increasing,
    verify_tensor_all_finite,
)
from workbench.nn.derivatives import custom_gradient, hessians
from workbench.nn.embedding import gather
from workbench.nn.framework import (
    colocate_with,
    control_dependencies,
    convert_to_tensor,
    device,
    name_scope,
    set_random_seed,
    tuple,
)
from workbench.nn.initializers import (
    constant_initializer,
    glorot_normal_initializer,
    glorot_uniform_initializer,
    ones_initializer,
    orthogonal_initializer,
    random_normal_initializer,
    random_uniform_initializer,
    truncated_normal_initializer,
    uniform_unit_scaling_initializer,
    variance_scaling_initializer,
    zeros_initializer,
)
from workbench.nn.scatters import (
    scatter_add,
    scatter_div,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_nd_add,
    scatter_nd_sub,
    scatter_nd_update,
    scatter_sub,
    scatter_update,
)
from workbench.nn.scopes import (
    AUTO_REUSE,
    VariableScope,
    get_local_variable,
    get_variable,
    get_variable_scope,
    variable_scope,
)
from workbench.nn.sparse import (
    SparseTensor,
    SparseTensorValue,
    edit_distance,
    sparse_placeholder,
    sparse_reduce_sum,
    sparse_tensor_dense_matmul,
    sparse_tensor_to_dense,
    string_split,
)
from workbench.nn.sparse_ops import (
    convert_to_tensor_or_sparse_tensor,
    deserialize_many_sparse,
    serialize_many_sparse,
    serialize_sparse,
    sparse_add,
    sparse_concat,
    sparse_fill_empty_rows,
    sparse_mask,
    sparse_maximum,
    sparse_merge,
    sparse_minimum,
    sparse_reduce_max,
    sparse_reduce_max_sparse,
    sparse_reduce_sum_sparse,
    sparse_reorder,
    sparse_reset_shape,
    sparse_reshape,
    sparse_retain,
    sparse_slice,
    sparse_softmax,
    sparse_split,
    sparse_to_indicator,
    sparse_transpose,
)
from workbench.nn.tensor_array import TensorArray
from workbench.nn.variables import (
    GraphKeys,
    Variable,
    add_to_collection,
    assign,
    assign_add,
    assign_sub,
    get_collection,
    get_collection_ref,
    global_variables,
    global_variables_initializer,
    group,
    is_variable_initialized,
    local_variables,
    local_variables_initializer,
    model_variables,
    report_uninitialized_variables,
    trainable_variables,
    variables_initializer,
)
from workbench.train.input import data
from workbench.train.input.accumulators import ConditionalAccumulator, SparseConditionalAccumulator
from workbench.train.input.examples import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
    parse_example,
    parse_single_example,
    parse_single_sequence_example,
)
from workbench.train.input.queues import FIFOQueue, PaddingFIFOQueue, PriorityQueue, QueueBase, RandomShuffleQueue
from workbench.train.input.readers import (
    FixedLengthRecordReader,
    ReaderBase,
    RecordInput,
    TextLineReader,
    TFRecordReader,
    WholeFileReader,
)
from workbench.train.optimizers.loss_scale import mixed_precision
from workbench.train.optimizers.schedules import (
    clip_by_average_norm,
    clip_by_global_norm,
    clip_by_norm,
    global_norm,
)
from workbench.train.saving import summary

__version__ = "0.1.0"

Assert = ops.Assert
Print = ops.Print
abs = ops.abs
accumulate_n = ops.accumulate_n
acos = ops.acos
acosh = ops.acosh
add = ops.add
add_n = ops.add_n
angle = ops.angle
argmax = ops.argmax
argmin = ops.argmin
argsort = ops.argsort
as_string = ops.as_string
asin = ops.asin
asinh = ops.asinh
atan = ops.atan
atan2 = ops.atan2
atanh = ops.atanh
batch_gather = ops.batch_gather
batch_matmul = ops.batch_matmul
batch_to_space = ops.batch_to_space
batch_to_space_nd = ops.batch_to_space_nd
betainc = ops.betainc
bincount = ops.bincount
bitcast = ops.bitcast
boolean_mask = ops.boolean_mask
broadcast_dynamic_shape = ops.broadcast_dynamic_shape
broadcast_static_shape = ops.broadcast_static_shape
broadcast_to = ops.broadcast_to
case = ops.case
cast = ops.cast
ceil = ops.ceil
check_numerics = ops.check_numerics
cholesky = ops.cholesky
cholesky_solve = ops.cholesky_solve
clip_by_value = ops.clip_by_value
complex = ops.complex
concat = ops.concat
cond = ops.cond
conj = ops.conj
constant = ops.constant
cos = ops.cos
cosh = ops.cosh
count_nonzero = ops.count_nonzero
cross = ops.cross
cumprod = ops.cumprod
cumsum = ops.cumsum
decode_base64 = ops.decode_base64
decode_compressed = ops.decode_compressed
decode_csv = ops.decode_csv
decode_raw = ops.decode_raw
depth_to_space = ops.depth_to_space
diag = ops.diag
diag_part = ops.diag_part
digamma = ops.digamma
div = ops.div
div_no_nan = ops.div_no_nan
divide = ops.divide
dynamic_partition = ops.dynamic_partition
dynamic_stitch = ops.dynamic_stitch
einsum = ops.einsum
encode_base64 = ops.encode_base64
ensure_shape = ops.ensure_shape
equal = ops.equal
erf = ops.erf
erfc = ops.erfc
exp = ops.exp
expand_dims = ops.expand_dims
expm1 = ops.expm1
extract_image_patches = ops.extract_image_patches
eye = ops.eye
fft = ops.fft
fft2d = ops.fft2d
fft3d = ops.fft3d
fill = ops.fill
floor = ops.floor
floor_div = ops.floor_div
floordiv = ops.floordiv
floormod = ops.floormod
foldl = ops.foldl
foldr = ops.foldr
gather_nd = ops.gather_nd
greater = ops.greater
greater_equal = ops.greater_equal
guarantee_const = ops.guarantee_const
histogram_fixed_width = ops.histogram_fixed_width
histogram_fixed_width_bins = ops.histogram_fixed_width_bins
identity = ops.identity
identity_n = ops.identity_n
ifft = ops.ifft
ifft2d = ops.ifft2d
ifft3d = ops.ifft3d
igamma = ops.igamma
igammac = ops.igammac
imag = ops.imag
invert_permutation = ops.invert_permutation
is_finite = ops.is_finite
is_inf = ops.is_inf
is_nan = ops.is_nan
lbeta = ops.lbeta
less = ops.less
less_equal = ops.less_equal
lgamma = ops.lgamma
lin_space = ops.lin_space
linspace = ops.linspace
log = ops.log
log1p = ops.log1p
log_sigmoid = ops.log_sigmoid
logical_and = ops.logical_and
logical_not = ops.logical_not
logical_or = ops.logical_or
logical_xor = ops.logical_xor
map_fn = ops.map_fn
matching_files = ops.matching_files
matmul = ops.matmul
matrix_band_part = ops.matrix_band_part
matrix_determinant = ops.matrix_determinant
matrix_diag = ops.matrix_diag
matrix_diag_part = ops.matrix_diag_part
matrix_inverse = ops.matrix_inverse
matrix_set_diag = ops.matrix_set_diag
matrix_solve = ops.matrix_solve
matrix_solve_ls = ops.matrix_solve_ls
matrix_transpose = ops.matrix_transpose
matrix_triangular_solve = ops.matrix_triangular_solve
maximum = ops.maximum
meshgrid = ops.meshgrid
minimum = ops.minimum
mod = ops.mod
multinomial = ops.multinomial
multiply = ops.multiply
negative = ops.negative
no_op = ops.no_op
norm = ops.norm
not_equal = ops.not_equal
one_hot = ops.one_hot
ones = ops.ones
ones_like = ops.ones_like
pad = ops.pad
parallel_stack = ops.parallel_stack
parse_tensor = ops.parse_tensor
placeholder = ops.placeholder
placeholder_with_default = ops.placeholder_with_default
polygamma = ops.polygamma
pow = ops.pow
py_func = ops.py_func
qr = ops.qr
random_crop = ops.random_crop
random_gamma = ops.random_gamma
random_normal = ops.random_normal
random_poisson = ops.random_poisson
random_shuffle = ops.random_shuffle
random_uniform = ops.random_uniform
range = ops.range
rank = ops.rank
read_file = ops.read_file
real = ops.real
realdiv = ops.realdiv
reciprocal = ops.reciprocal
reduce_all = ops.reduce_all
reduce_any = ops.reduce_any
reduce_join = ops.reduce_join
reduce_logsumexp = ops.reduce_logsumexp
reduce_max = ops.reduce_max
reduce_mean = ops.reduce_mean
reduce_min = ops.reduce_min
reduce_prod = ops.reduce_prod
reduce_sum = ops.reduce_sum
regex_replace = ops.regex_replace
register_py_func = ops.register_py_func
required_space_to_batch_paddings = ops.required_space_to_batch_paddings
reshape = ops.reshape
reverse = ops.reverse
reverse_sequence = ops.reverse_sequence
rint = ops.rint
roll = ops.roll
round = ops.round
rsqrt = ops.rsqrt
saturate_cast = ops.saturate_cast
scalar_mul = ops.scalar_mul
scan = ops.scan
scatter_nd = ops.scatter_nd
searchsorted = ops.searchsorted
segment_max = ops.segment_max
segment_mean = ops.segment_mean
segment_min = ops.segment_min
segment_prod = ops.segment_prod
segment_sum = ops.segment_sum
self_adjoint_eig = ops.self_adjoint_eig
self_adjoint_eigvals = ops.self_adjoint_eigvals
sequence_mask = ops.sequence_mask
serialize_tensor = ops.serialize_tensor
setdiff1d = ops.setdiff1d
shape = ops.shape
shape_n = ops.shape_n
sigmoid = ops.sigmoid
sign = ops.sign
sin = ops.sin
sinh = ops.sinh
size = ops.size
slice = ops.slice
sort = ops.sort
space_to_batch = ops.space_to_batch
space_to_batch_nd = ops.space_to_batch_nd
space_to_depth = ops.space_to_depth
sparse_segment_mean = ops.sparse_segment_mean
sparse_segment_sqrt_n = ops.sparse_segment_sqrt_n
sparse_segment_sum = ops.sparse_segment_sum
sparse_to_dense = ops.sparse_to_dense
split = ops.split
sqrt = ops.sqrt
square = ops.square
squared_difference = ops.squared_difference
squeeze = ops.squeeze
stack = ops.stack
stop_gradient = ops.stop_gradient
strided_slice = ops.strided_slice
string_join = ops.string_join
string_strip = ops.string_strip
string_to_hash_bucket = ops.string_to_hash_bucket
string_to_hash_bucket_fast = ops.string_to_hash_bucket_fast
string_to_hash_bucket_strong = ops.string_to_hash_bucket_strong
string_to_number = ops.string_to_number
substr = ops.substr
subtract = ops.subtract
svd = ops.svd
tan = ops.tan
tanh = ops.tanh
tensordot = ops.tensordot
tile = ops.tile
trace = ops.trace
transpose = ops.transpose
truediv = ops.truediv
truncated_normal = ops.truncated_normal
truncatediv = ops.truncatediv
truncatemod = ops.truncatemod
unique = ops.unique
unique_with_counts = ops.unique_with_counts
unravel_index = ops.unravel_index
unsorted_segment_max = ops.unsorted_segment_max
unsorted_segment_mean = ops.unsorted_segment_mean
unsorted_segment_min = ops.unsorted_segment_min
unsorted_segment_prod = ops.unsorted_segment_prod
unsorted_segment_sqrt_n = ops.unsorted_segment_sqrt_n
unsorted_segment_sum = ops.unsorted_segment_sum
unstack = ops.unstack
where = ops.where
while_loop = ops.while_loop
write_file = ops.write_file
zeros = ops.zeros
zeros_like = ops.zeros_like
zeta = ops.zeta

__all__ = [
    "AUTO_REUSE", "AggregationMethod", "Assert", "ConditionalAccumulator", "DType", "FIFOQueue", "FixedLenFeature",
    "FixedLenSequenceFeature", "FixedLengthRecordReader", "Graph", "GraphKeys",
    "IndexedSlices", "InteractiveSession", "Knob", "NotDifferentiable",
    "Operation", "PaddingFIFOQueue", "Print", "PriorityQueue", "QueueBase", "RandomShuffleQueue", "ReaderBase", "RecordInput",
    "RegisterGradient", "Session", "SparseConditionalAccumulator", "SparseFeature", "SparseTensor", "SparseTensorValue",
    "TFRecordReader", "Tensor", "TensorArray", "TensorShape", "TextLineReader", "VarLenFeature", "Variable",
    "VariableScope", "WholeFileReader", "abs", "accumulate_n", "acos", "acosh", "add", "add_check_numerics_ops",
    "add_n", "add_to_collection", "angle", "argmax", "argmin", "argsort", "as_dtype", "as_string", "asin", "asinh",
    "assert_equal", "assert_greater", "assert_greater_equal", "assert_integer", "assert_less", "assert_less_equal",
    "assert_near", "assert_negative", "assert_non_negative", "assert_non_positive", "assert_none_equal",
    "assert_positive", "assert_proper_iterable", "assert_rank", "assert_rank_at_least", "assert_rank_in",
    "assert_same_float_dtype", "assert_scalar", "assert_type", "assert_variables_initialized", "assign", "assign_add",
    "assign_sub", "atan", "atan2", "atanh", "batch_gather", "batch_matmul", "batch_to_space", "batch_to_space_nd",
    "betainc", "bfloat16", "bincount", "bitcast", "bool", "boolean_mask", "broadcast_dynamic_shape",
    "broadcast_static_shape", "broadcast_to", "case", "cast", "ceil", "check_numerics", "cholesky", "cholesky_solve",
    "clip_by_average_norm", "clip_by_global_norm", "clip_by_norm", "clip_by_value", "colocate_with", "complex",
    "complex64", "complex128", "concat", "cond", "conj", "constant", "constant_initializer", "control_dependencies",
    "convert_to_tensor", "convert_to_tensor_or_sparse_tensor", "cos", "cosh", "count_nonzero", "cross", "cumprod",
    "cumsum", "custom_gradient", "data", "decode_base64", "decode_compressed", "decode_csv", "decode_raw",
    "depth_to_space", "deserialize_many_sparse", "device", "diag", "diag_part", "digamma", "div", "div_no_nan",
    "divide", "dynamic_partition", "dynamic_stitch", "edit_distance", "einsum", "encode_base64", "ensure_shape",
    "equal", "erf", "erfc", "errors", "exp", "expand_dims", "explain", "expm1", "extract_image_patches", "eye", "fft", "fft2d",
    "fft3d", "fill", "float16", "float32", "float64", "floor", "floor_div", "floordiv", "floormod", "foldl", "foldr",
    "gather", "gather_nd", "get_collection", "get_collection_ref", "get_default_graph", "get_default_session",
    "get_local_variable", "get_variable", "get_variable_scope", "global_norm", "global_variables",
    "global_variables_initializer", "glorot_normal_initializer", "glorot_uniform_initializer", "gradients", "greater",
    "greater_equal", "group", "guarantee_const", "hessians", "histogram_fixed_width", "histogram_fixed_width_bins",
    "identity", "identity_n", "ifft", "ifft2d", "ifft3d", "igamma", "igammac", "imag", "image", "int8", "int16",
    "int32", "int64", "invert_permutation", "is_finite", "is_inf", "is_nan", "is_non_decreasing", "is_numeric_tensor",
    "is_strictly_increasing", "is_variable_initialized", "journal", "layers", "lbeta", "less", "less_equal", "lgamma",
    "lin_space", "linspace", "local_variables", "local_variables_initializer", "log", "log1p", "log_sigmoid",
    "logical_and", "logical_not", "logical_or", "logical_xor", "losses", "map_fn", "matching_files", "matmul",
    "matrix_band_part", "matrix_determinant", "matrix_diag", "matrix_diag_part", "matrix_inverse", "matrix_set_diag",
    "matrix_solve", "matrix_solve_ls", "matrix_transpose", "matrix_triangular_solve", "maximum", "meshgrid",
    "metrics", "minimum", "mixed_precision", "mod", "model_variables", "multinomial", "multiply", "name_scope", "negative",
    "nn", "no_op", "norm", "not_equal", "one_hot", "ones", "ones_initializer", "ones_like", "op", "ops",
    "orthogonal_initializer", "pad", "parallel_stack", "parse_example", "parse_single_example",
    "parse_single_sequence_example", "parse_tensor", "placeholder",
    "placeholder_with_default", "polygamma", "pow", "py_func", "qr", "random_crop", "random_gamma", "random_normal",
    "random_normal_initializer", "random_poisson", "random_shuffle", "random_uniform", "random_uniform_initializer",
    "range", "rank", "read_file", "real", "realdiv", "reciprocal", "recompute", "reduce_all", "reduce_any", "reduce_join",
    "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum", "regex_replace",
    "register_py_func", "report_uninitialized_variables", "required_space_to_batch_paddings", "reset_default_graph",
    "reshape", "reverse", "reverse_sequence", "rint", "roll", "round", "rsqrt", "saturate_cast", "scalar_mul", "scan",
    "scatter_add", "scatter_div", "scatter_max", "scatter_min", "scatter_mul", "scatter_nd", "scatter_nd_add",
    "scatter_nd_sub", "scatter_nd_update", "scatter_sub", "scatter_update", "searchsorted", "segment_max",
    "segment_mean", "segment_min", "segment_prod", "segment_sum", "self_adjoint_eig", "self_adjoint_eigvals",
    "sequence_mask", "serialize_many_sparse", "serialize_sparse", "serialize_tensor", "set_random_seed", "setdiff1d", "shape",
    "shape_n",
    "sigmoid", "sign", "sin", "sinh", "size", "slice", "sort", "space_to_batch", "space_to_batch_nd",
    "space_to_depth", "sparse_add", "sparse_concat", "sparse_fill_empty_rows", "sparse_mask", "sparse_maximum",
    "sparse_merge", "sparse_minimum", "sparse_placeholder", "sparse_reduce_max", "sparse_reduce_max_sparse",
    "sparse_reduce_sum", "sparse_reduce_sum_sparse", "sparse_reorder", "sparse_reset_shape", "sparse_reshape",
    "sparse_retain", "sparse_segment_mean", "sparse_segment_sqrt_n", "sparse_segment_sum", "sparse_slice",
    "sparse_softmax", "sparse_split", "sparse_tensor_dense_matmul", "sparse_tensor_to_dense", "sparse_to_dense",
    "sparse_to_indicator", "sparse_transpose", "split", "sqrt", "square", "squared_difference", "squeeze", "stack",
    "stop_gradient", "strided_slice", "string", "string_join", "string_split", "string_strip",
    "string_to_hash_bucket", "string_to_hash_bucket_fast", "string_to_hash_bucket_strong", "string_to_number",
    "substr", "subtract", "summary", "svd", "swap", "tan", "tanh", "tensordot", "tile", "trace", "train",
    "trainable_variables", "transpose", "truediv", "truncated_normal", "truncated_normal_initializer", "truncatediv",
    "truncatemod", "tune", "tuple", "uint8", "uint16", "uint32", "uint64", "uniform_unit_scaling_initializer", "unique",
    "unique_with_counts", "unravel_index", "unsorted_segment_max", "unsorted_segment_mean", "unsorted_segment_min",
    "unsorted_segment_prod", "unsorted_segment_sqrt_n", "unsorted_segment_sum", "unstack", "variable_scope",
    "variables_initializer", "variance_scaling_initializer", "verify_tensor_all_finite", "where", "while_loop",
    "write_file", "zeros", "zeros_initializer", "zeros_like", "zeta",
]

# Names whose modules load Dask, Bokeh or ipywidgets: found when first used, and therefore not in `import *`.
LAZY = {
    "Cluster": "workbench.cluster.chief.cluster",
    "LiveView": "workbench.widgets.live",
    "Server": "workbench.cluster.chief.server",
    "from_dask": "workbench.cluster.dask.partitions",
    "load_mnist": "workbench.io.datasets",
    "write_report": "workbench.viz.report",
}


def __getattr__(name: str) -> _Any:
    if name not in LAZY:
        near = [] if name.startswith("_") else _difflib.get_close_matches(name, __dir__(), 3)
        raise AttributeError(f"module 'workbench' has no attribute {name!r}" + (
            f"; did you mean {', '.join(near)}?" if near else ""), name=name, obj=None)
    with _deferred_interrupt():
        module = _importlib.import_module(LAZY[name])
    return globals().setdefault(name, getattr(module, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})
