"""TensorFlow 1.x and 0.x names for workbench: `import workbench.tf1 as tf` runs old programs unchanged."""
from __future__ import annotations

import importlib as _importlib
import sys as _sys
from typing import Any as _Any

import workbench as _wb
from workbench import *  # noqa: F403
from workbench import errors as _errors
from workbench import nn as _nn
from workbench import train as _train
from workbench.core.graph.build import convert as _convert
from workbench.core.graph.build import ops as _ops
from workbench.core.graph.dimension import Dimension as _Dimension
from workbench.core.graph.dtype import as_dtype as _as_dtype
from workbench.core.graph.dtype import qint8 as qint8
from workbench.core.graph.dtype import qint16 as qint16
from workbench.core.graph.dtype import qint32 as qint32
from workbench.core.graph.dtype import quint8 as quint8
from workbench.core.graph.dtype import quint16 as quint16
from workbench.core.graph.dtype import resource as resource
from workbench.core.graph.dtype import variant as variant
from workbench.core.run import handles as _handles
from workbench.formats import restoring as _restoring
from workbench.io import mnist_tutorial as _mnist_tutorial
from workbench.nn import layer_classes as _layer_classes
from workbench.nn import layers_1d as _layers_1d
from workbench.nn import layers_3d as _layers_3d
from workbench.nn import metrics as _metrics
from workbench.nn.recurrent import seq2seq as _seq2seq
from workbench.tf1 import devices as _devices
from workbench.tf1 import families as _families
from workbench.tf1 import functions as _functions
from workbench.tf1 import graphs as _graphs
from workbench.tf1 import imports as _imports
from workbench.tf1 import language as _language
from workbench.tf1 import later as _later
from workbench.tf1 import missing as _missing
from workbench.tf1 import mnist_model as _mnist_model
from workbench.tf1 import names as _names
from workbench.tf1 import namespaces as _small
from workbench.tf1 import serving as _serving
from workbench.tf1.contributed import contrib as contrib
from workbench.tf1.keras_names import keras as keras
from workbench.tf1.missing import Namespace as _Namespace
from workbench.tf1.profiler import profiler as profiler
from workbench.tf1.spelling import first as _first
from workbench.tf1.spelling import names_of as _names_of
from workbench.tf1.spelling import overlay as _overlay
from workbench.tf1.spelling import renamed as _renamed
from workbench.tf1.spelling import spelled as _spelled
from workbench.train import app as _app
from workbench.train import config as _config
from workbench.train.estimators import feature_columns as _feature_columns
from workbench.train.estimators import feature_models as _feature_models
from workbench.train.input import accumulators as _accumulators
from workbench.train.input import examples as _examples
from workbench.train.input import inputs as _inputs
from workbench.train.input import readers as _readers
from workbench.train.optimizers import schedules as _schedules
from workbench.train.saving import files as _files
from workbench.train.sessions import hooks_more as _hooks
from workbench.train.sessions import managers as _sessions
from workbench.train.sessions.timer import SecondOrStepTimer as _SecondOrStepTimer

__version__ = "1.9.0"      # programs compare it as text too: "1.15" is before "1.4" then
VERSION = __version__


# reductions: reduction_indices, keep_dims and input_tensor
_REDUCE = {"reduction_indices": "axis", "keep_dims": "keepdims"}
reduce_all = _renamed(_ops.reduce_all, "input_tensor", **_REDUCE)
reduce_any = _renamed(_ops.reduce_any, "input_tensor", **_REDUCE)
reduce_logsumexp = _renamed(_ops.reduce_logsumexp, "input_tensor", **_REDUCE)
reduce_max = _renamed(_ops.reduce_max, "input_tensor", **_REDUCE)
reduce_mean = _renamed(_ops.reduce_mean, "input_tensor", **_REDUCE)
reduce_min = _renamed(_ops.reduce_min, "input_tensor", **_REDUCE)
reduce_prod = _renamed(_ops.reduce_prod, "input_tensor", **_REDUCE)
reduce_sum = _renamed(_ops.reduce_sum, "input_tensor", **_REDUCE)
argmax, argmin = _functions.position(_ops.argmax), _functions.position(_ops.argmin)
arg_max, arg_min = argmax, argmin

# first arguments that TensorFlow calls otherwise
expand_dims = _renamed(_ops.expand_dims, "input", dim="axis")
identity = _first(_ops.identity, "input")
matrix_transpose = _first(_ops.matrix_transpose, "a")
pad = _first(_ops.pad, "tensor")
reshape = _first(_ops.reshape, "tensor")
reverse = _renamed(_ops.reverse, "tensor", dims="axis")
slice = _first(_ops.slice, "input_")
squeeze = _renamed(_ops.squeeze, "input", squeeze_dims="axis")
stop_gradient = _first(_ops.stop_gradient, "input")
tile = _first(_ops.tile, "input")


# argument orders of 0.x
def concat(  # type: ignore[no-redef]
        values: _Any, axis: _Any = None, name: str | None = None, **old: _Any) -> _Any:
    """concat(values, axis), or concat(axis, values) as before 1.0. One value, in a list or not, is joined to nothing."""
    axis = old.pop("concat_dim", axis)
    if isinstance(values, int) and not _is_one(axis):
        values, axis = axis, values
    parts = [values] if _is_one(values) else list(values)
    if len(parts) != 1:
        return _ops.concat(parts, axis=axis, name=name)
    at = _convert(axis, "int32")
    if at.shape.rank not in (0, None):
        raise _errors.ShapeError(f"concat: axis has shape {at.shape}; pass one number")
    return _ops.identity(parts[0], name=name)


concat_v2 = concat


def _is_one(value: _Any) -> _Any:
    """Is it one value, not a list of values?"""
    return not hasattr(value, "__iter__") or any(hasattr(value, name) for name in ("__tensor__", "consumers", "dtype"))


def split(  # type: ignore[no-redef]
        value: _Any, num_or_size_splits: _Any = None, axis: _Any = 0, num: _Any = None, name: str | None = None,
        **old: _Any) -> _Any:
    """split(value, num_or_size_splits, axis), or split(axis, num_split, value) as before 1.0."""
    axis, num_or_size_splits = old.pop("split_dim", axis), old.pop("num_split", num_or_size_splits)
    if isinstance(value, int):
        value, axis = axis, value
    sizes = num_or_size_splits
    if num is not None and isinstance(sizes, _wb.Tensor) and not sizes.shape.known:
        sizes.set_shape([num])
    if num is not None and hasattr(sizes, "__len__") and len(sizes) != num:
        raise _errors.InvalidArgumentError(f"split: num is {num} but num_or_size_splits lists {len(sizes)} sizes; make them "
                                           "agree")
    return _ops.split(value, num_or_size_splits=num_or_size_splits, axis=axis, name=name)


def _cross_entropy(function: _Any) -> _Any:
    def call(*args: _Any, **options: _Any) -> _Any:
        if "dim" in options:
            options["axis" if function is _ops.softmax_cross_entropy_with_logits_v2 else "dim"] = options.pop("dim")
        if args and args[0] is not None:      # (logits, labels) as before 1.0
            options.update(zip(("logits", "labels", "name"), args))
        elif args:
            options.update(zip(("labels", "logits", "dim", "name"), args[1:]))
        return function(**options)
    call.__doc__ = function.__doc__
    return call


# names of 0.x
all_variables = _wb.global_variables
batch_matmul = _ops.matmul
complex_abs = _ops.abs
initialize_all_variables = _wb.global_variables_initializer
initialize_local_variables = _wb.local_variables_initializer
initialize_variables = _wb.variables_initializer
inv = _ops.reciprocal
mul = _ops.multiply
neg = _ops.negative
pack = _ops.stack
select = _ops.where
sub = _ops.subtract
unpack = _ops.unstack


def _to(dtype: str) -> _Any:
    def convert(x: _Any, name: str | None = None) -> _Any:
        return globals()["cast"](x, dtype, name=name)      # that of here, which takes sparse tensors too
    convert.__doc__ = f"x as {dtype}."
    return convert


to_bfloat16, to_double, to_float = _to("bfloat16"), _to("float64"), _to("float32")
to_int32, to_int64 = _to("int32"), _to("int64")
as_dtype = _as_dtype
Dimension = _Dimension
NoGradient = _wb.NotDifferentiable
newaxis = None
half, double = _wb.float16, _wb.float64
layers = _overlay(_wb.layers, **_names_of(_layers_1d, _layers_3d, _layer_classes))
reverse_v2 = reverse
GIT_VERSION, COMPILER_VERSION = "workbench-" + _wb.__version__, "none: nothing is compiled ahead"
trace = _ops.trace
diag = _ops.diag
to_complex64, to_complex128 = _to("complex64"), _to("complex128")
distributions = _families.distributions
bitwise, linalg, manip, math, sets, spectral, strings = (
    _families.bitwise, _families.linalg, _families.manip, _families.math, _families.sets, _families.spectral, _families.strings)


nn = _overlay(
    _nn,
    avg_pool=_first(_nn.avg_pool, "input"),
    bias_add=_first(_nn.bias_add, "value"),
    conv2d=_renamed(_nn.conv2d, "input", filters="filter"),
    deconv2d=_nn.conv2d_transpose,
    elu=_first(_nn.elu, "features"),
    l2_loss=_first(_nn.l2_loss, "t"),
    l2_normalize=_renamed(_nn.l2_normalize, dim="axis"),
    log_softmax=_renamed(_nn.log_softmax, "logits", dim="axis"),
    leaky_relu=_first(_nn.leaky_relu, "features"),
    lrn=_first(_nn.lrn, "input"),
    local_response_normalization=_first(_nn.lrn, "input"),
    max_pool=_first(_nn.max_pool, "input"),
    **{name: getattr(_ops, name) for name in ("quantized_avg_pool", "quantized_conv2d", "quantized_max_pool",
                                              "quantized_relu_x")},
    relu=_first(_nn.relu, "features"),
    rnn=_nn.static_rnn,
    bidirectional_rnn=_nn.static_bidirectional_rnn,
    seq2seq=_seq2seq,
    relu6=_first(_nn.relu6, "features"),
    selu=_first(_nn.selu, "features"),
    sigmoid_cross_entropy_with_logits=_cross_entropy(_nn.sigmoid_cross_entropy_with_logits),
    softmax=_renamed(_nn.softmax, "logits", dim="axis"),
    softmax_cross_entropy_with_logits=_cross_entropy(_nn.softmax_cross_entropy_with_logits),
    softmax_cross_entropy_with_logits_v2=_cross_entropy(_nn.softmax_cross_entropy_with_logits_v2),
    softplus=_first(_nn.softplus, "features"),
    softsign=_first(_nn.softsign, "features"),
    sparse_softmax_cross_entropy_with_logits=_cross_entropy(_nn.sparse_softmax_cross_entropy_with_logits),
    top_k=_first(_nn.top_k, "input"),
)


class _Train(_Namespace):
    """The names of workbench.train, and Server, whose module loads Dask, when it is asked for."""

    @property
    def Server(self) -> _Any:
        return _graphs.with_server_def(_wb.Server)

    def __getattr__(self, name: str) -> _Any:
        if name in _train.MESSAGES or name in ("ClusterDef", "JobDef", "SaverDef", "ServerDef"):
            return _graphs.message(name)
        return super().__getattr__(name)


train = _Train(**vars(_overlay(      # type: ignore[assignment]

    _train,
    SummaryWriter=_wb.summary.FileWriter,
    queue_runner=_Namespace(**{name: getattr(_train, name) for name in (
        "QueueRunner", "add_queue_runner", "start_queue_runners")}),
    **_names_of(_hooks, _inputs, _sessions),
    SecondOrStepTimer=_SecondOrStepTimer,
    **_graphs.TRAIN, init_from_checkpoint=_restoring.init_from_checkpoint,
    assert_global_step=_schedules.assert_global_step,
)))
errors = _small.errors      # type: ignore[assignment]
OpError = _wb.errors.Error

# graphs, which speak TensorFlow's language
Graph = _language.Graph      # type: ignore[misc]
reset_default_graph = _language.reset_default_graph      # type: ignore[assignment]
_language.begin()
_graphs.install()
import_graph_def = _graphs.import_graph_def
graph_util = _overlay(_graphs.graph_util)
GRAPH_DEF_VERSION, GRAPH_DEF_VERSION_MIN_CONSUMER, GRAPH_DEF_VERSION_MIN_PRODUCER = (
    _graphs.GRAPH_DEF_VERSION, _graphs.GRAPH_DEF_VERSION_MIN_CONSUMER, _graphs.GRAPH_DEF_VERSION_MIN_PRODUCER)
core, make_ndarray, make_tensor_proto = _graphs.core, _graphs.make_ndarray, _graphs.make_tensor_proto
DeviceSpec = _devices.DeviceSpec
saved_model = _serving.saved_model

# summaries before 0.12
histogram_summary = _renamed(_wb.summary.histogram, tag="name")
merge_all_summaries = _wb.summary.merge_all
merge_summary = _wb.summary.merge
image_summary = _renamed(_wb.summary.image, tag="name", max_images="max_outputs")
scalar_summary = _renamed(_wb.summary.scalar, tags="name", values="tensor")

# programs around the graph
_FLAG = "flag_name=name default_value=default docstring=help name default help"
ConfigProto, GPUOptions = _config.ConfigProto, _config.GPUOptions
GraphOptions, OptimizerOptions = _config.GraphOptions, _config.OptimizerOptions
RunMetadata, RunOptions = _config.RunMetadata, _config.RunOptions
flags = _overlay(_app, **{name: _spelled(getattr(_app, name), _FLAG) for name in _app.__all__ if name.startswith("DEFINE_")
                          and name != "DEFINE_enum"}, _FlagValues=_app.FLAGS.forget)
app = _Namespace(run=_app.run, flags=flags)
gfile = _files
estimator = _serving.estimator
feature_column = _Namespace(
    **{name: getattr(_feature_columns, name) for name in _feature_columns.__all__}, input_layer=_feature_models.input_layer,
    linear_model=_feature_models.linear_model, make_parse_example_spec=_feature_models.make_parse_example_spec)
confusion_matrix = _metrics.confusion_matrix
python_io = _Namespace(**{name: getattr(_examples, name) for name in (
    "TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "tf_record_iterator")})
image = _overlay(_wb.image, per_image_whitening=_wb.image.per_image_standardization, random_crop=_ops.random_crop,
                 resize=_wb.image.resize_images)
examples = _Namespace(tutorials=_Namespace(mnist=_Namespace(input_data=_mnist_tutorial, mnist=_mnist_model)))

compat, initializers, logging = _small.compat, _small.initializers, _small.logging
resource_loader, sysconfig = _small.resource_loader, _small.sysconfig
test = _Namespace(**vars(_small.test), assert_equal_graph_def=_graphs.assert_equal_graph_def)

get_session_handle, get_session_tensor = _handles.get_session_handle, _handles.get_session_tensor
delete_session_tensor = _handles.delete_session_tensor

fake_quant_with_min_max_args = _ops.fake_quant_with_min_max_args
fake_quant_with_min_max_args_gradient = _ops.fake_quant_with_min_max_args_gradient
fake_quant_with_min_max_vars = _ops.fake_quant_with_min_max_vars
fake_quant_with_min_max_vars_gradient = _ops.fake_quant_with_min_max_vars_gradient
fake_quant_with_min_max_vars_per_channel = _ops.fake_quant_with_min_max_vars_per_channel
fake_quant_with_min_max_vars_per_channel_gradient = _ops.fake_quant_with_min_max_vars_per_channel_gradient
dequantize, quantize_v2, quantized_concat = _ops.dequantize, _ops.quantize_v2, _ops.quantized_concat
QUANTIZED_DTYPES = frozenset([qint8, quint8, qint16, quint16, qint32])
decode_json_example = _ops.decode_json_example
IdentityReader, ConditionalAccumulatorBase = _readers.IdentityReader, _accumulators.ConditionalAccumulator
data = _overlay(_wb.data)
_functions.install(globals())
_names.rename(globals(), _names.DEFAULTS)
_names.rename(vars(nn), _names.NN_DEFAULTS)
_names.rename(vars(layers), _names.LAYER_DEFAULTS)
_later.install(globals())
__all__ = [name for name in globals() if not name.startswith("_") and name != "print"]
"""What a star imports: in 1.4 nothing was called as what programs print with."""


def _placed(root: _Namespace) -> None:
    """Tell every namespace where it stands, for the text of what is missing; of two places that which is nearer to the root."""
    waiting = [("tf", root)]
    for path, namespace in waiting:
        for name, value in list(vars(namespace).items()):
            if isinstance(value, _Namespace) and "_path" not in vars(value):
                vars(value)["_path"] = f"{path}.{name}"
                waiting.append((f"{path}.{name}", value))


vars(compat)["v1"] = _sys.modules[__name__]
_placed(_Namespace(**{name: value for name, value in globals().items() if not name.startswith("_")}))
_imports.install()


def __getattr__(name: str) -> _Any:
    if name == "python":      # it takes its names from here, so it comes when all are there
        return _importlib.import_module(f"{__name__}.{name}")
    if name in _graphs.MESSAGES:
        return _graphs.message(name)
    raise AttributeError(_missing.unknown(f"tf.{name}", globals()))
