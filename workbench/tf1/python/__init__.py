"""`tensorflow.python`: the inner modules that programs of the time imported from."""
from __future__ import annotations

import workbench.tf1 as _tf
from workbench.formats import freezing as _freezing
from workbench.nn import conv_arguments as _conv_arguments
from workbench.tf1 import serving as _serving
from workbench.tf1.keras_names import inner as _inner_keras
from workbench.tf1.missing import Namespace as _Namespace
from workbench.tf1.python import borrowed, client, debug, framework, inner, ops, platform, training, util
from workbench.tf1.spelling import names_of as _names_of
from workbench.train.estimators import feature_bases as _bases
from workbench.train.estimators.feature_models import transform_features as _transform_features

__all__ = ["client", "data", "debug", "eager", "estimator", "feature_column", "framework", "keras", "layers", "lib", "ops",
           "platform", "profiler", "pywrap_tensorflow", "saved_model", "summary", "tools", "training", "user_ops", "util"]

eager = _Namespace(context=_Namespace(**borrowed.CONTEXT))
layers = _Namespace(base=_Namespace(**vars(_tf.layers), _Layer=vars(_tf.layers)["Layer"]),
                    **vars(inner.parts(_tf.layers, "convolutional core layers normalization pooling")),
                    utils=_Namespace(**vars(_tf.contrib.layers.utils), **_names_of(_conv_arguments)))
pywrap_tensorflow = _Namespace(NewCheckpointReader=_tf.train.NewCheckpointReader, EventsWriter=borrowed.EventsWriter)
keras = _Namespace(**vars(_inner_keras), _impl=_Namespace(keras=_inner_keras))
lib = _Namespace(io=_Namespace(file_io=framework.file_io, python_io=_tf.python_io, tf_record=_tf.python_io))
saved_model = _Namespace(**vars(_tf.saved_model), signature_def_utils_impl=_tf.saved_model.signature_def_utils)
summary = _Namespace(**{**vars(_tf.summary), "summary": _tf.summary}, plugin_asset=_tf.summary,
                     summary_iterator=_Namespace(summary_iterator=_tf.train.summary_iterator),
                     writer=inner.parts(_tf.summary, "event_file_writer writer writer_cache"))
data = _Namespace(**{**vars(_tf.data), "ops": inner.parts(_tf.data, "dataset_ops iterator_ops readers"),
                     "util": _Namespace(nest=_tf.contrib.framework.nest)})
profiler = _Namespace(**{**vars(_tf.profiler), **vars(inner.parts(_tf.profiler, "model_analyzer option_builder"))})
estimator = _Namespace(**{
    **vars(_tf.estimator), **_serving.export_files,
    **vars(inner.parts(_tf.estimator, "estimator estimator_lib model_fn run_config training")),
    "canned": _Namespace(**_serving.canned_files),
    "export": _Namespace(**vars(_tf.estimator.export),
                         **vars(inner.parts(_tf.estimator.export, "export_lib export_output")),
                         export=_Namespace(**vars(_tf.estimator.export), **_serving.export_folders)),
    "inputs": inner.parts(_tf.estimator.inputs, "inputs numpy_io pandas_io")})
feature_column = inner.parts(_Namespace(
    **vars(_tf.feature_column), _CategoricalColumn=_bases.Categorical, _DenseColumn=_bases.Dense, _FeatureColumn=_bases.Column,
    _LazyBuilder=_bases.Features, _transform_features=_transform_features), "feature_column feature_column_lib")
user_ops = _Namespace()
tools = _Namespace(
    freeze_graph=_Namespace(freeze_graph=_freezing.freeze_graph,
                            freeze_graph_with_def_protos=_freezing.freeze_graph_with_def_protos),
    inspect_checkpoint=_Namespace(print_tensors_in_checkpoint_file=_freezing.print_tensors_in_checkpoint_file),
    optimize_for_inference_lib=_Namespace(optimize_for_inference=_freezing.optimize_for_inference),
    strip_unused_lib=_Namespace(strip_unused=_freezing.strip_unused,
                                strip_unused_from_files=_freezing.strip_unused_from_files))
