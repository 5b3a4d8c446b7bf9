"""Training as slim and tf.contrib.training have it: train operations, gradients changed on the way."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, on_values, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.subgraph import root_graph
from workbench.nn.variables import GraphKeys, Variable, get_collection, trainable_variables
from workbench.train.optimizers.optimizer import Optimizer
from workbench.train.optimizers.schedules import clip_by_norm, get_or_create_global_step
from workbench.train.saving import summary
from workbench.train.sessions.monitored import MonitoredTrainingSession, Scaffold

__all__ = ["add_gradients_summaries", "clip_gradient_norms", "clip_gradient_norms_fn", "create_train_op",
           "multiply_gradients", "slim_create_train_op", "train"]

_OWN_STEP = 0      # TensorFlow's default: the graph's global step, made if there is none

Pairs = list[tuple[Any, Variable]]


def _each(pairs: Sequence[tuple[Any, Variable]], change: Callable[[Any, Variable], Any]) -> Pairs:
    return [(None if g is None else change(g, v), v) for g, v in pairs]


def clip_gradient_norms(gradients_to_variables: Sequence[tuple[Any, Variable]], max_norm: float) -> Pairs:
    """Each gradient cut to Euclidean norm `max_norm`."""
    return _each(gradients_to_variables, lambda grad, _: clip_by_norm(grad, max_norm))


def clip_gradient_norms_fn(max_norm: float) -> Callable[[Any], Pairs]:
    """clip_gradient_norms as a `transform_grads_fn`."""
    return lambda pairs: clip_gradient_norms(pairs, max_norm)


def multiply_gradients(grads_and_vars: Sequence[tuple[Any, Variable]], gradient_multipliers: Mapping[Any, Any]) -> Pairs:
    """Gradients times numbers, by variable or its name. InvalidArgumentErrors (ValueErrors) without multipliers, and for a
    variable without a gradient."""
    if not gradient_multipliers or not isinstance(gradient_multipliers, Mapping):
        raise errors.InvalidArgumentError("multiply_gradients: gradient_multipliers is empty; give a number for some variables")

    def times(grad: Any, var: Variable) -> Any:
        factor = gradient_multipliers.get(var, gradient_multipliers.get(var.op.name))
        return grad if factor is None else on_values(lambda x: x * factor, grad)
    for grad, var in grads_and_vars:
        if grad is None and (var in gradient_multipliers or var.op.name in gradient_multipliers):
            raise errors.InvalidArgumentError(f"multiply_gradients: Requested multiple of `None` gradient of {var.name}; "
                                              "leave it out")
    return _each(grads_and_vars, times)


def add_gradients_summaries(grads_and_vars: Sequence[tuple[Any, Variable]]) -> list[Tensor]:
    """Summaries of each gradient: its distribution, and its norm."""
    made = []
    for grad, var in grads_and_vars:
        if grad is not None:
            values = grad.values if isinstance(grad, IndexedSlices) else grad
            made.append(summary.histogram(f"{var.op.name}_gradient", values))
            made.append(summary.scalar(f"{var.op.name}_gradient_norm", ops.sqrt(ops.reduce_sum(ops.square(values)))))
    return made


def create_train_op(total_loss: Any, optimizer: Optimizer, global_step: Any = _OWN_STEP, update_ops: Any = None,
                    variables_to_train: Sequence[Variable] | None = None,
                    transform_grads_fn: Callable[[Any], Any] | None = None, summarize_gradients: bool = False,
                    gate_gradients: int = 1, aggregation_method: Any = None, colocate_gradients_with_ops: bool = False,
                    check_numerics: bool = True) -> Tensor:
    """The loss; computing it makes a step: `update_ops` (default: the collection UPDATE_OPS) run before it, gradients pass
    through `transform_grads_fn`, and with `check_numerics` a loss that is no number is an error."""
    step = get_or_create_global_step() if isinstance(global_step, int) and global_step == _OWN_STEP else global_step
    first = get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else list(update_ops)
    loss = convert(total_loss)
    with root_graph().control_dependencies(first):
        loss = ops.identity(loss)
    pairs = optimizer.compute_gradients(loss, list(variables_to_train or trainable_variables()))
    if transform_grads_fn is not None:
        pairs = transform_grads_fn(pairs)
    if summarize_gradients:
        add_gradients_summaries(pairs)
    update = optimizer.apply_gradients(pairs, step)
    if check_numerics:
        loss = ops.check_numerics(loss, "LossTensor is inf or nan")
    with root_graph().name_scope("train_op"), root_graph().control_dependencies([update]):
        made: Tensor = ops.identity(loss)
    root_graph().add_to_collection(GraphKeys.TRAIN_OP, made)
    return made


def slim_create_train_op(total_loss: Any, optimizer: Optimizer, global_step: Any = _OWN_STEP, update_ops: Any = None,
                         variables_to_train: Sequence[Variable] | None = None, clip_gradient_norm: float = 0,
                         summarize_gradients: bool = False, gate_gradients: int = 1, aggregation_method: Any = None,
                         colocate_gradients_with_ops: bool = False, gradient_multipliers: Any = None,
                         check_numerics: bool = True) -> Tensor:
    """create_train_op with gradients multiplied, then clipped to a norm (0: not)."""
    def change(pairs: Any) -> Any:
        if gradient_multipliers:
            pairs = multiply_gradients(pairs, gradient_multipliers)
        return clip_gradient_norms(pairs, clip_gradient_norm) if clip_gradient_norm > 0 else pairs
    return create_train_op(total_loss, optimizer, global_step, update_ops, variables_to_train, change, summarize_gradients,
                           check_numerics=check_numerics)


def train(train_op: Any, logdir: Any, master: Any = "", is_chief: bool = True, scaffold: Scaffold | None = None,
          hooks: Sequence[Any] = (), chief_only_hooks: Sequence[Any] = (), save_checkpoint_secs: Any = 600,
          save_summaries_steps: int | None = 100, config: Any = None) -> Any:
    """Steps until a hook stops, or the input ends; what the last one gave. Checkpoints and summaries go to `logdir`."""
    last = None
    with MonitoredTrainingSession(master or None, is_chief, logdir, scaffold, hooks, chief_only_hooks, save_checkpoint_secs,
                                  save_summaries_steps, config=config) as session:
        while not session.should_stop():
            last = session.run(train_op)
    return last      # outside of the session, which ends quietly where the input does
