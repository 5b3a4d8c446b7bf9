"""Estimators and models to serve by TensorFlow's names: tf.estimator with its exports, tf.saved_model."""
from __future__ import annotations

from typing import Any

import workbench as wb
from workbench.formats import exporting
from workbench.formats import saved_model as models
from workbench.formats.assets import ASSETS_KEY
from workbench.tf1.missing import Namespace
from workbench.tf1.spelling import overlay
from workbench.train.estimators import (
    canned,
    canned_models,
    export_versions,
    extenders,
    feature_models,
    heads,
    shared,
    signatures,
    specs,
    tasks,
)
from workbench.train.estimators import estimator as estimators

__all__ = ["canned_files", "contrib_estimator", "contrib_saved_model", "estimator", "export_files", "export_folders",
           "saved_model"]

exporting.install()

saved_model = Namespace(
    builder=Namespace(SavedModelBuilder=models.Builder), simple_save=models.simple_save,
    constants=Namespace(
        ASSETS_DIRECTORY="assets", ASSETS_KEY=ASSETS_KEY, LEGACY_INIT_OP_KEY="legacy_init_op",
        MAIN_OP_KEY="saved_model_main_op", SAVED_MODEL_FILENAME_PB="saved_model.pb",
        SAVED_MODEL_FILENAME_PBTXT="saved_model.pbtxt", SAVED_MODEL_SCHEMA_VERSION=1, VARIABLES_DIRECTORY="variables",
        VARIABLES_FILENAME="variables"),
    loader=Namespace(load=models.load, maybe_saved_model_directory=models.maybe_saved_model_directory),
    main_op=Namespace(main_op=models.main_op, main_op_with_restore=models.main_op_with_restore),
    signature_constants=Namespace(
        DEFAULT_SERVING_SIGNATURE_DEF_KEY=signatures.DEFAULT_KEY, CLASSIFY_INPUTS="inputs",
        CLASSIFY_METHOD_NAME=signatures.CLASSIFY, CLASSIFY_OUTPUT_CLASSES="classes", CLASSIFY_OUTPUT_SCORES="scores",
        PREDICT_INPUTS="inputs", PREDICT_METHOD_NAME=signatures.PREDICT, PREDICT_OUTPUTS="outputs", REGRESS_INPUTS="inputs",
        REGRESS_METHOD_NAME=signatures.REGRESS, REGRESS_OUTPUTS="outputs"),
    signature_def_utils=Namespace(
        build_signature_def=signatures.build_signature_def,
        classification_signature_def=signatures.classification_signature_def,
        is_valid_signature=signatures.is_valid_signature,
        predict_signature_def=signatures.predict_signature_def,
        regression_signature_def=signatures.regression_signature_def),
    tag_constants=Namespace(SERVING="serve", TRAINING="train", GPU="gpu", TPU="tpu"),
    utils=Namespace(build_tensor_info=signatures.build_tensor_info,
                    get_tensor_from_tensor_info=signatures.get_tensor_from_tensor_info))
contrib_saved_model = Namespace(
    get_signature_def_by_key=signatures.get_signature_def_by_key,
    reader=Namespace(read_saved_model=models.read, get_saved_model_tag_sets=models.tag_sets),
    utils=Namespace(simple_save=models.simple_save))
"""`tf.contrib.saved_model`."""


def train_and_evaluate(estimator: Any, train_spec: specs.TrainSpec, eval_spec: specs.EvalSpec) -> Any:
    """Train, evaluate and export as the part says that TF_CONFIG gives this process; see workbench.train.estimators.tasks."""
    return tasks.train_and_evaluate(estimator, train_spec, eval_spec, lambda *task: wb.Server(*task))


_SPECS = ("classifier_parse_example_spec", "regressor_parse_example_spec")

estimator = overlay(
    estimators, inputs=Namespace(numpy_input_fn=estimators.numpy_input_fn, pandas_input_fn=estimators.pandas_input_fn),
    export=Namespace(
        ClassificationOutput=signatures.ClassificationOutput, ExportOutput=signatures.ExportOutput,
        PredictOutput=signatures.PredictOutput, RegressionOutput=signatures.RegressionOutput,
        ServingInputReceiver=exporting.ServingInputReceiver,
        TensorServingInputReceiver=exporting.TensorServingInputReceiver,
        build_parsing_serving_input_receiver_fn=exporting.build_parsing_serving_input_receiver_fn,
        build_raw_serving_input_receiver_fn=exporting.build_raw_serving_input_receiver_fn),
    train_and_evaluate=train_and_evaluate, FinalExporter=exporting.FinalExporter, LatestExporter=exporting.LatestExporter,
    **{name: getattr(specs, name) for name in specs.__all__}, **{name: getattr(canned, name) for name in canned.__all__},
    **{name: getattr(feature_models, name) for name in _SPECS})

contrib_estimator = Namespace(**{name: getattr(extenders, name) for name in extenders.__all__},
                              **{name: getattr(heads, name) for name in heads.__all__ if name.endswith("_head")})
"""`tf.contrib.estimator`."""

_public = {name: getattr(canned, name) for name in canned.__all__}
_optimizers = Namespace(get_optimizer_instance=shared.optimizer_of)
export_files = {"gc": Namespace(Path=export_versions.Path, **{f"_{name}": getattr(export_versions, name) for name in (
    "get_paths", "largest_export_versions", "mod_export_version", "negation", "one_of_every_n_export_versions", "union")})}
"""Files of `tensorflow.python.estimator` that are about exported models."""
export_folders = {name: getattr(export_versions, name) for name in ("get_temp_export_dir", "get_timestamped_export_dir")}
"""What `tensorflow.python.estimator.export.export` knows of folders."""
canned_files = {
    "dnn": Namespace(**_public, _dnn_model_fn=canned_models.dnn_model_fn,
                     _dnn_logit_fn_builder=canned_models.dnn_logit_fn_builder),
    "linear": Namespace(**_public, _linear_model_fn=canned_models.linear_model_fn,
                        _linear_logit_fn_builder=canned_models.linear_logit_fn_builder),
    "dnn_linear_combined": Namespace(**_public, _dnn_linear_combined_model_fn=canned_models.dnn_linear_combined_model_fn),
    "optimizers": _optimizers,
    "head": Namespace(
        _Head=heads.Head, LossAndLabels=heads.LossAndLabels,
        _regression_head_with_mean_squared_error_loss=heads.regression_head,
        _binary_logistic_head_with_sigmoid_cross_entropy_loss=heads.binary_classification_head,
        _multi_class_head_with_softmax_cross_entropy_loss=heads.multi_class_head),
    "metric_keys": Namespace(MetricKeys=heads.METRIC_KEYS), "prediction_keys": Namespace(PredictionKeys=heads.PREDICTION_KEYS)}
"""Files of `tensorflow.python.estimator.canned`: the estimators with the functions that they are made of, and heads."""
