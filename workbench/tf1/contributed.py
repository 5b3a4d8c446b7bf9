"""tf.contrib: what programs used of it, on our layers, cells, losses and estimators."""
from __future__ import annotations

import os
from typing import Any

import workbench as wb
from workbench import nn, train
from workbench.core.graph.build import ops
from workbench.formats import folders, messages, predictor, remapping, restoring
from workbench.nn import arg_scope, initializers, layers, lookups, losses, metrics, nest, sparse_lookups
from workbench.nn.contrib import (
    deprecation,
    graph_copies,
    graph_reroute,
    graph_select,
    graph_transform,
    graph_views,
    growing_lookups,
    image_colours,
    metric_learning,
    sparsemax,
)
from workbench.nn.contrib import fields as contrib_fields
from workbench.nn.contrib import framework as contrib_framework
from workbench.nn.contrib import image as contrib_image
from workbench.nn.contrib import layers as contrib_layers
from workbench.nn.contrib import layers_3d as contrib_layers_3d
from workbench.nn.contrib import losses as contrib_losses
from workbench.nn.contrib import metrics as contrib_metrics
from workbench.nn.contrib import metrics_more as contrib_metrics_more
from workbench.nn.contrib import more as contrib_more
from workbench.nn.contrib import nn as contrib_nn
from workbench.nn.contrib import signal as contrib_signal
from workbench.nn.contrib import utils as contrib_utils
from workbench.nn.critical_section import CriticalSection
from workbench.nn.recurrent import (
    attention,
    attention_monotonic,
    beam_search,
    crf,
    decoders,
    rnn_cell,
    rnn_contrib,
    rnn_conv,
    rnn_cudnn,
    rnn_fused,
    rnn_grid,
    rnn_stacks,
    rnn_wrappers,
    seq2seq,
)
from workbench.tf1 import families, functions, graphs, memory, profiler, serving, slim_parts, specs, tpus
from workbench.tf1.keras_names import inner as _inner_keras
from workbench.tf1.keras_names import keras
from workbench.tf1.learning import learn
from workbench.tf1.missing import Namespace
from workbench.tf1.spelling import names_of, predictions_first, spelled
from workbench.train import all_reduce, contrib_training, hyperparameters, optimize, placement
from workbench.train.estimators import contrib_columns, contrib_sums, feeding
from workbench.train.input import buckets, contrib_data, contrib_data_more, data, sampling, segments, staging
from workbench.train.learn import clustering, heads_made, kmeans
from workbench.train.optimizers import contrib as contrib_optimizers
from workbench.train.optimizers import decayed, layerwise, schedules, signs
from workbench.train.saving import files, inspection, step_summary
from workbench.train.sessions import evaluation
from workbench.train.slim import learning as slim_learning

__all__ = ["contrib"]


_losses = Namespace(**{**names_of(losses), **names_of(contrib_losses)}, metric_learning=Namespace(**names_of(metric_learning)))

# layers

_layers = Namespace(
    **names_of(contrib_layers, contrib_layers_3d, contrib_fields, contrib_more, contrib_columns, contrib_sums, sparse_lookups),
    conv2d=contrib_layers.convolution2d, convolution2d_in_plane=contrib_layers_3d.conv2d_in_plane,
    convolution3d=contrib_layers_3d.conv3d, convolution3d_transpose=contrib_layers_3d.conv3d_transpose,
    conv2d_transpose=contrib_layers.convolution2d_transpose, separable_conv2d=contrib_layers.separable_convolution2d,
    embed_sequence=layers.embed_sequence, OPTIMIZER_CLS_NAMES=optimize.OPTIMIZER_CLS_NAMES,
    optimize_loss=optimize.optimize_loss, adaptive_clipping_fn=optimize.adaptive_clipping_fn,
    real_valued_column=learn.real_valued_column,
    infer_real_valued_columns=spelled(learn.infer_real_valued_columns_from_input, "features=x"),
    variance_scaling_initializer=initializers.contrib_variance_scaling, xavier_initializer=initializers.xavier_initializer,
    xavier_initializer_conv2d=initializers.xavier_initializer,
    **{name: getattr(inspection, name) for name in inspection.__all__ if name.startswith("summar")},
    OPTIMIZER_SUMMARIES=optimize.OPTIMIZER_SUMMARIES,
    utils=Namespace(**names_of(contrib_utils)), feature_column=Namespace(
        **names_of(contrib_columns), real_valued_column=learn.real_valued_column,
        SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY=contrib_sums.SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY),
    summaries=Namespace(**{name: getattr(inspection, name) for name in inspection.__all__ if name.startswith("summar")}),
    regularizers=Namespace(**{name: getattr(contrib_more, name) for name in contrib_more.__all__ if "regulariz" in name}),
    initializers=Namespace(variance_scaling_initializer=initializers.contrib_variance_scaling,
                           xavier_initializer=initializers.xavier_initializer,
                           xavier_initializer_conv2d=initializers.xavier_initializer))
del vars(_layers)["variable"], vars(_layers)["model_variable"]

_framework = Namespace(
    **names_of(arg_scope, contrib_framework, deprecation, remapping, restoring, specs), list_variables=folders.list_variables,
    load_checkpoint=folders.load_checkpoint, load_variable=folders.load_variable,
    assert_global_step=schedules.assert_global_step, assert_or_get_global_step=schedules.assert_or_get_global_step,
    convert_to_tensor_or_sparse_tensor=functions.convert_to_tensor_or_sparse_tensor, nest=Namespace(**names_of(nest)),
    variable=contrib_layers.variable, model_variable=contrib_layers.model_variable,
    assert_same_float_dtype=wb.assert_same_float_dtype, assert_scalar=wb.assert_scalar, CriticalSection=CriticalSection,
    create_global_step=train.create_global_step, get_global_step=train.get_global_step,
    get_or_create_global_step=train.get_or_create_global_step, is_non_decreasing=wb.is_non_decreasing,
    is_numeric_tensor=wb.is_numeric_tensor, is_strictly_increasing=wb.is_strictly_increasing,
    zero_initializer=lambda ref, use_locking=True, name="zero_initializer": ref.assign(ops.zeros_like(ref.value())))

_metrics = Namespace(
    **names_of(contrib_metrics, contrib_metrics_more), streaming_percentage_less=metrics.percentage_below,
    streaming_sparse_recall_at_k=predictions_first(metrics.recall_at_k),
    **{name: value for name, value in vars(families.sets).items() if name.startswith("set_")},
    confusion_matrix=metrics.confusion_matrix, streaming_mean=metrics.mean, streaming_mean_tensor=metrics.mean_tensor,
    **{f"streaming_{name}": predictions_first(getattr(metrics, name))
       for name in metrics.__all__ if name not in ("confusion_matrix", "mean", "mean_tensor")})

_factorization = Namespace(**names_of(clustering), KMeansClustering=kmeans.KMeansEstimator)
vars(_factorization)["python"] = Namespace(ops=Namespace(
    clustering_ops=Namespace(**names_of(clustering)), kmeans=Namespace(KMeansClustering=kmeans.KMeansEstimator)))

_slim = Namespace(
    **{name: value for name, value in vars(_layers).items() if name not in (
        "summaries", "relu", "relu6", "linear", "maxout", "optimize_loss", "OPTIMIZER_CLS_NAMES", "real_valued_column")},
    convolution=contrib_layers.convolution2d, losses=_losses, layers=_layers,
    **{name: vars(_framework)[name] for name in (
        "add_arg_scope", "add_model_variable", "arg_scope", "arg_scoped_arguments", "assign_from_checkpoint",
        "assign_from_checkpoint_fn", "assign_from_values", "assign_from_values_fn",
        "create_global_step", "filter_variables", "get_global_step", "get_local_variables", "get_model_variables",
        "get_or_create_global_step", "get_trainable_variables", "get_unique_variable", "get_variable_full_name",
        "get_variables", "get_variables_by_name", "get_variables_by_suffix", "get_variables_to_restore", "has_arg_scope",
        "local_variable", "model_variable", "variable")},
    add_loss=contrib_losses.add_loss,
    evaluation=Namespace(
        checkpoints_iterator=evaluation.checkpoints_iterator, evaluate_once=evaluation.slim_evaluate_once,
        evaluation_loop=evaluation.slim_evaluation_loop, get_or_create_eval_step=evaluation.get_or_create_eval_step,
        wait_for_new_checkpoint=evaluation.wait_for_new_checkpoint),
    metrics=_metrics, model_analyzer=Namespace(
        analyze_ops=inspection.analyze_ops, analyze_vars=inspection.analyze_vars,
        tensor_description=inspection.tensor_description),
    nets=slim_parts.nets, **slim_parts.parts,
    learning=Namespace(
        add_gradients_summaries=contrib_training.add_gradients_summaries,
        clip_gradient_norms=contrib_training.clip_gradient_norms, create_train_op=contrib_training.slim_create_train_op,
        multiply_gradients=contrib_training.multiply_gradients, train=slim_learning.train,
        train_step=slim_learning.train_step))

_lookup = Namespace(**{**names_of(lookups), **names_of(growing_lookups)}, tables_initializer=lookups.tables_initializer)
vars(_lookup)["lookup_ops"] = Namespace(**vars(_lookup))


def _visualize_embeddings(summary_writer: Any, config: Any) -> None:
    """Write what TensorBoard's projector shall show beside the events of a FileWriter."""
    with files.GFile(os.path.join(str(summary_writer.get_logdir()), "projector_config.pbtxt"), "w") as file:
        file.write(messages.text_of(config))


class _Projector(Namespace):
    """tf.contrib.tensorboard.plugins.projector; its messages load their library when they are asked for."""

    def __getattr__(self, name: str) -> Any:
        if name in ("EmbeddingInfo", "ProjectorConfig", "SpriteMetadata"):
            return messages.message(name)
        return super().__getattr__(name)


_graph_editor = Namespace(
    **names_of(graph_select, graph_views, graph_reroute, graph_copies), Transformer=graph_transform.Transformer,
    sgv=graph_views.make_view,
    sgv_scope=graph_views.make_view_from_scope, ph=graph_reroute.make_placeholder_from_dtype_and_shape,
    **{part: Namespace(**names_of(*modules)) for part, modules in {
        "select": [graph_select], "subgraph": [graph_views], "reroute": [graph_reroute], "edit": [graph_reroute],
        "transform": [graph_copies, graph_transform], "util": [graph_select, graph_reroute]}.items()})

contrib = Namespace(
    summary=Namespace(**names_of(step_summary)), memory_stats=Namespace(**names_of(memory)),
    tpu=tpus.tpu, cluster_resolver=tpus.cluster_resolver, eager=tpus.eager,
    tensorboard=Namespace(plugins=Namespace(projector=_Projector(visualize_embeddings=_visualize_embeddings))),
    distributions=Namespace(
        **vars(families.distributions),
        estimator_head_distribution_regression=heads_made.estimator_head_distribution_regression),
    framework=_framework, graph_editor=_graph_editor, layers=_layers,
    keras=Namespace(**vars(keras), api=Namespace(keras=keras), python=Namespace(keras=_inner_keras)),
    losses=_losses, slim=_slim,
    learn=learn, factorization=_factorization,
    image=Namespace(**names_of(contrib_image, image_colours)), legacy_seq2seq=Namespace(**names_of(seq2seq)), lookup=_lookup,
    metrics=_metrics, nn=Namespace(**names_of(contrib_nn)), saved_model=serving.contrib_saved_model,
    estimator=serving.contrib_estimator, tfprof=profiler.tfprof,
    seq2seq=Namespace(**names_of(decoders, attention, attention_monotonic, beam_search),
                      sequence_loss=seq2seq.batch_sequence_loss),
    staging=Namespace(StagingArea=staging.StagingArea, MapStagingArea=staging.MapStagingArea),
    nccl=Namespace(**names_of(all_reduce)), cudnn_rnn=Namespace(**names_of(rnn_cudnn)), crf=Namespace(**names_of(crf)),
    data=Namespace(**names_of(data, contrib_data, contrib_data_more)),
    opt=Namespace(**names_of(contrib_optimizers, decayed, layerwise, signs)), predictor=Namespace(**names_of(predictor)),
    signal=Namespace(**names_of(contrib_signal)), sparsemax=Namespace(**names_of(sparsemax)),
    util=Namespace(constant_value=graphs.constant_value, make_ndarray=graphs.make_ndarray,
                   make_tensor_proto=graphs.make_tensor_proto),
    training=Namespace(**{name: value for name, value in names_of(contrib_training, hyperparameters, evaluation).items()
                          if not name.startswith("slim")}, **names_of(buckets, sampling, segments, feeding),
                       **{name: getattr(placement, name) for name in placement.__all__ if name != "replica_device_setter"}),
    rnn=Namespace(_linear=rnn_cell._linear, _Linear=rnn_cell._Linear, **names_of(
        rnn_cell, rnn_contrib, rnn_conv, rnn_fused, rnn_grid, rnn_stacks, rnn_wrappers),
                  static_rnn=nn.static_rnn, static_bidirectional_rnn=nn.static_bidirectional_rnn))

vars(contrib.image)["python"] = Namespace(ops=Namespace(
    image_ops=Namespace(**names_of(contrib_image)), distort_image_ops=Namespace(**names_of(image_colours))))
vars(contrib.rnn)["core_rnn_cell"] = Namespace(**vars(contrib.rnn))      # where the cells were public before 1.2

_INNER = {
    "crf": "ops: crf", "cudnn_rnn": "ops: cudnn_rnn_ops; layers: cudnn_rnn",
    "data": "ops: batching dataset_ops iterator_ops readers",
    "distributions": """ops: bernoulli beta binomial categorical chi2 deterministic dirichlet distribution exponential gamma
        geometric gumbel independent inverse_gamma laplace logistic mixture mixture_same_family multinomial mvn_diag
        mvn_diag_plus_low_rank mvn_full_covariance mvn_linear_operator mvn_tril negative_binomial normal onehot_categorical
        poisson relaxed_bernoulli relaxed_onehot_categorical sinh_arcsinh student_t uniform wishart""",
    "framework": """ops: arg_scope checkpoint_ops ops variables;
        framework: checkpoint_utils experimental graph_util tensor_util""",
    "layers": """layers: embedding_ops encoders feature_column feature_column_ops initializers layers normalization optimizers
        regularizers summaries target_column utils""",
    "legacy_seq2seq": "ops: seq2seq", "losses": "losses: loss_ops; metric_learning: metric_loss_ops",
    "lookup": "ops: lookup", "metrics": "ops: confusion_matrix_ops metric_ops set_ops",
    "opt": """training: external_optimizer lazy_adam_optimizer moving_average_optimizer nadam_optimizer
        variable_clipping_optimizer""",
    "rnn": "ops: core_rnn core_rnn_cell core_rnn_cell_impl fused_rnn_cell gru_ops lstm_ops rnn rnn_cell",
    "seq2seq": """ops: attention_wrapper basic_decoder beam_search_decoder beam_search_ops decoder dynamic_attention_wrapper
        helper loss""",
    "slim": "slim: evaluation learning losses model_analyzer nets queues summaries",
    "training": """training: bucket_ops device_setter evaluation hparam resample sampling_ops sequence_queueing_state_saver
        training tuner"""}
"""Part of contrib -> the folders and files of TensorFlow that its names were spread over."""



def _own(offers: Namespace, file: str) -> Namespace:
    """What is public of a file alone."""
    found = vars(offers).get(file)
    return found if isinstance(found, Namespace) else Namespace()


for _part, _folders in _INNER.items():
    _offers = getattr(contrib, _part)
    if isinstance(_offers, Namespace):
        vars(_offers)["python"] = Namespace(**{
            folder.strip(): Namespace(**{**vars(_offers), **{
                file: Namespace(**{**vars(_offers), **vars(_own(_offers, file))}) for file in files.split()}})
            for folder, _, files in (line.partition(":") for line in _folders.split(";"))})

class _Called(Namespace):
    """A file of TensorFlow with a function of its own name, which hides it in its folder: both under that name."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return vars(self)[self.__name__.rpartition(".")[2]](*args, **options)


_frame = vars(contrib.framework.python.ops)
_frame["arg_scope"] = _Called(**vars(_frame["arg_scope"]))
_thin = vars(contrib.slim.python)["slim"]
vars(_thin)["data"] = Namespace(**slim_parts.parts)
vars(vars(_thin)["nets"]).update(slim_parts.files_of_nets)
