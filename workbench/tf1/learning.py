"""tf.contrib.learn: estimators over arrays, their heads, monitors and experiments, on our estimators and hooks."""
from __future__ import annotations

from workbench.io import mnist_tutorial, tables, vocabulary
from workbench.tf1.missing import Namespace
from workbench.tf1.spelling import names_of, overlay, spelled
from workbench.train.estimators import estimator, export_versions
from workbench.train.learn import (
    actions,
    config,
    debug,
    experiment,
    exports,
    generators,
    heads,
    heads_made,
    kmeans,
    monitors,
    more,
    reading,
    ready,
    skflow,
)
from workbench.train.learn import estimator as learners
from workbench.train.sessions import hooks, hooks_more, managers, monitored, scaffold

__all__ = ["learn"]

_head = Namespace(**{name: value for name, value in names_of(heads_made).items() if name.endswith("_head")}, Head=heads.Head,
                  no_op_train_fn=heads.no_op_train_fn)
_models = [f"{kind}_regression{start}" for kind in ("linear", "logistic") for start in ("", "_zero_init")]
_more = {name: value for name, value in names_of(more).items() if name not in (
    *_models, *more.OPS)}
_actions = Namespace(**names_of(actions), NanLossDuringTrainingError=hooks_more.NanLossDuringTrainingError)
_io = Namespace(
    **names_of(reading, generators), **{name: value for name, value in _more.items() if name.startswith("extract_")},
    numpy_input_fn=estimator.numpy_input_fn, pandas_input_fn=estimator.pandas_input_fn)
_utils = Namespace(**names_of(exports))
_early = names_of(skflow)
_parts = {name: value for name, value in _early.items() if not isinstance(value, type)}

learn = overlay(
    learners, **names_of(ready, config), KMeansClustering=kmeans.KMeansClustering, **vars(_head), **_more, **names_of(reading),
    **{name: value for name, value in vars(_actions).items() if name != "run_feeds_iter"},
    **{name: getattr(exports, name) for name in (
        "ExportStrategy", "InputFnOps", "build_parsing_serving_input_fn", "make_export_strategy")},
    datasets=Namespace(DATASETS=tables.DATASETS, base=tables, load_dataset=tables.load_dataset, load_iris=tables.load_iris,
                       load_boston=tables.load_boston, mnist=mnist_tutorial),
    preprocessing=Namespace(**names_of(vocabulary), text=Namespace(**names_of(vocabulary))),
    metric_spec=Namespace(MetricSpec=learners.MetricSpec), head=_head, graph_actions=_actions, io=_io, utils=_utils,
    models=Namespace(**{name: getattr(more, name) for name in _models}),
    ops=Namespace(**_parts, **{name: getattr(more, name) for name in more.OPS}),
    **{name: value for name, value in _early.items() if name not in _parts},
    Experiment=experiment.Experiment, learn_runner=Namespace(run=experiment.run, tune=experiment.tune),
    monitors=Namespace(
        **names_of(monitors), CheckpointSaver=hooks.CheckpointSaverHook, StopAtStep=hooks.StopAtStepHook,
        NanLoss=spelled(hooks_more.NanTensorHook, "loss_tensor ?every_n_steps fail_on_nan_loss"),
        SummarySaver=spelled(hooks.SummarySaverHook, "summary_op save_steps output_dir summary_writer scaffold")))

_inner = Namespace(**{name: value for name, value in vars(learn).items() if name != "head"})
_run_config = Namespace(**vars(_inner), _DEFAULT_UID_WHITE_LIST=list(config.SETTABLE))
_estimators = Namespace(
    **dict.fromkeys(["dnn", "dnn_linear_combined", "estimator", "linear", "logistic_regressor"], _inner),
    run_config=_run_config, head=_head,
    debug=Namespace(**names_of(debug)), kmeans=Namespace(KMeansClustering=kmeans.KMeansClustering),
    metric_key=Namespace(MetricKey=heads.MetricKey),
    constants=Namespace(ProblemType=learners.ProblemType),
    prediction_key=Namespace(PredictionKey=learners.PredictionKey),
    model_fn=Namespace(ModeKeys=learners.ModeKeys, ModelFnOps=learners.ModelFnOps))
vars(learn)["python"] = Namespace(learn=Namespace(
    **{**vars(learn), "utils": Namespace(
        **vars(_utils), gc=Namespace(**names_of(export_versions)), input_fn_utils=_utils,
        saved_model_export_utils=Namespace(**vars(_utils), **names_of(export_versions)))},
    estimators=_estimators, learn_io=Namespace(**vars(_io), graph_io=_io, numpy_io=_io, generator_io=_io,
                                              pandas_io=_io, dask_io=_io),
    evaluable=_inner, trainable=_inner, experiment=_inner, export_strategy=_inner, run_config=_run_config,
    monitored_session=Namespace(**names_of(monitored, managers, scaffold))))
