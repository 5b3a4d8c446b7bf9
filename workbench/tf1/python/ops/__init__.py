"""`tensorflow.python.ops`: each module offers the names of `tf`, and those of `tf.nn` where it is about networks."""
from __future__ import annotations

from typing import Any

import workbench.tf1 as tf
from workbench.core.graph.build import ops as _ops
from workbench.nn import functions as _functions
from workbench.nn import initializers as _initializers
from workbench.nn import lookups as _lookups
from workbench.nn import sparse_maps as _sparse_maps
from workbench.nn.partitions import PartitionedVariable as _PartitionedVariable
from workbench.nn.pure_scopes import pure_variable_scope as _pure_variable_scope
from workbench.tf1.missing import Namespace
from workbench.tf1.python import borrowed as _borrowed
from workbench.tf1.python import inner as _inner
from workbench.tf1.python import small as _small
from workbench.tf1.python.generated import Generated as _Generated
from workbench.train import testing as _testing
from workbench.train.input import barriers as _barriers
from workbench.train.input import staging as _staging

_ALL = {name: value for name, value in vars(tf).items() if not name.startswith("_")}
_NETWORKS = {**_ALL, **vars(tf.nn)}

_GENERAL = """array_grad array_ops bitwise_ops check_ops clip_ops confusion_matrix constant_op control_flow_grad
    control_flow_ops control_flow_util data_flow_grad functional_ops gradients gradients_impl histogram_ops init_ops io_ops
    linalg_grad linalg_ops logging_ops math_grad math_ops numerics parsing_ops partitioned_variables random_grad random_ops
    resource_variable_ops script_ops sdca_ops session_ops sets sets_impl sparse_grad sparse_ops special_math_ops standard_ops
    state_grad state_ops string_ops template tensor_array_grad tensor_array_ops variable_scope variables"""
_GENERATED = """gen_array_ops gen_bitwise_ops gen_control_flow_ops gen_data_flow_ops gen_functional_ops gen_io_ops
    gen_linalg_ops gen_logging_ops gen_math_ops gen_parsing_ops gen_random_ops gen_resource_variable_ops gen_script_ops
    gen_sparse_ops gen_state_ops gen_string_ops"""
_OF_NETWORKS = "candidate_sampling_ops ctc_ops embedding_ops nn nn_grad nn_impl nn_ops"

globals().update(dict.fromkeys(_GENERAL.split(), Namespace(**_ALL)))
state_ops = Namespace(**_ALL, **_small.STATE)
array_ops = Namespace(**_ALL, **_small.ARRAYS, **_borrowed.ARRAYS)
constant_op = Namespace(**_ALL, **_borrowed.CONSTANTS)
io_ops = Namespace(**_ALL, **_small.FILES)
variable_scope = Namespace(**_ALL, _pure_variable_scope=_pure_variable_scope, variable=tf.Variable)
weights_broadcast_ops = Namespace(**_ALL, **_small.WEIGHTS)
variables = Namespace(**_ALL, PartitionedVariable=_PartitionedVariable)
globals().update(dict.fromkeys(_OF_NETWORKS.split(), Namespace(**_NETWORKS)))
globals().update(dict.fromkeys(_GENERATED.split(), _Generated(**_ALL)))
gen_candidate_sampling_ops = gen_ctc_ops = gen_nn_ops = _Generated(**_NETWORKS)
gen_image_ops = _Generated(**vars(tf.image))
gen_dataset_ops = _Generated(**_ALL, **_small.ITERATORS)
control_flow_ops = Namespace(**_ALL, **_small.FLOW, smart_cond=tf.contrib.layers.utils.smart_cond,
                             with_dependencies=_small.with_dependencies)
init_ops = Namespace(**_ALL, **{name: getattr(_initializers, name) for name in (
    "Constant", "Identity", "Initializer", "Ones", "Orthogonal", "RandomNormal", "RandomUniform", "TruncatedNormal",
    "VarianceScaling", "Zeros", "identity_initializer")}, **_small.INITIAL, _compute_fans=_initializers.fans)
resource_variable_ops = Namespace(**_ALL, ResourceVariable=tf.Variable,      # every variable here is one
                                  is_resource_variable=lambda var: isinstance(var, tf.Variable),
                                  **_borrowed.HANDLES, **{name: getattr(_Generated(), name) for name in _borrowed.BY_HANDLE})
rnn = Namespace(**{**_NETWORKS, **_small.RECURRENT, "rnn_cell_impl": tf.nn.rnn_cell})
data_flow_ops = Namespace(**_ALL, Barrier=_barriers.Barrier, StagingArea=_staging.StagingArea,
                          MapStagingArea=_staging.MapStagingArea)
functional_ops = Namespace(**_ALL, remote_call=_functions.remote_call, symbolic_gradient=_functions.symbolic_gradient,
                           _symbolic_gradient=_functions.symbolic_gradient)
sparse_ops = Namespace(**_ALL, **{
    f"{line}{name}": getattr(_sparse_maps, name) for name in _sparse_maps.__all__ for line in ("", "_")})
gen_data_flow_ops, gen_functional_ops, gen_io_ops, gen_sparse_ops = (
    _Generated(**vars(names)) for names in (data_flow_ops, functional_ops, io_ops, sparse_ops))
resources = Namespace(**_small.RESOURCES)
random_ops = Namespace(**_ALL, parameterized_truncated_normal=_ops.parameterized_truncated_normal)
lookup_ops = Namespace(**{**_ALL, **vars(tf.contrib.lookup), **{name: getattr(_lookups, name) for name in (
    "index_table_from_tensor", "index_to_string_table_from_tensor")}})      # whose first argument is vocabulary_list
image_ops = image_ops_impl = tf.image
metrics, metrics_impl = tf.metrics, Namespace(**vars(tf.metrics), **_small.METRICS)
spectral_ops, spectral_grad, seq2seq = tf.spectral, tf.spectral, tf.contrib.legacy_seq2seq
rnn_cell = rnn_cell_impl = Namespace(**{**vars(tf.nn.rnn_cell), **_small.RECURRENT})
gradient_checker = Namespace(compute_gradient=_testing.compute_gradient,
                             compute_gradient_error=_testing.compute_gradient_error)
summary_ops = tf.summary
summary_ops_v2 = tf.contrib.summary
summary_op_util = Namespace(**_borrowed.SUMMARIES)
inplace_ops = Namespace(**_borrowed.PLACES)
linalg = _inner.parts(tf.linalg, """linalg linalg_impl linear_operator linear_operator_composition linear_operator_diag
    linear_operator_full_matrix linear_operator_identity linear_operator_lower_triangular linear_operator_low_rank_update
    linear_operator_util""")
vars(linalg).update(vars(tf.linalg), linear_operator_util=Namespace(**_borrowed.OPERATORS))
losses = Namespace(losses=tf.losses, losses_impl=tf.losses, util=tf.losses)
distributions = _inner.parts(tf.distributions, """bernoulli beta categorical dirichlet dirichlet_multinomial distribution
    distributions exponential gamma kullback_leibler laplace multinomial normal student_t uniform util""")


def __getattr__(name: str) -> Any:
    raise AttributeError(_inner.unknown(f"tf.python.ops.{name}", globals()))
