"""Training as slim and tf.contrib.training have it: train operations, gradients changed on the way, hyperparameters."""
from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.subgraph import root_graph
from workbench.nn.arguments import refuse
from workbench.nn.variables import GraphKeys, Variable, get_collection, trainable_variables
from workbench.train.optimizers.optimizer import Optimizer
from workbench.train.optimizers.schedules import clip_by_norm, get_or_create_global_step
from workbench.train.saving import summary
from workbench.train.sessions.hooks import StopAtStepHook
from workbench.train.sessions.monitored import MonitoredTrainingSession, Scaffold

__all__ = ["HParams", "add_gradients_summaries", "clip_gradient_norms", "clip_gradient_norms_fn", "create_train_op",
           "multiply_gradients", "parse_values", "slim_create_train_op", "slim_train", "train"]

_OWN_STEP = 0      # TensorFlow's default: the graph's global step, made if there is none

Pairs = list[tuple[Any, Variable]]
_ASSIGNMENT = r"\s*([\w.]+)(?:\[(\d+)\])?\s*=\s*(?:\[([^\]]*)\]|([^,]*))\s*(?:,|$)"


def _each(pairs: Sequence[tuple[Any, Variable]], change: Callable[[Any, Variable], Any]) -> Pairs:
    return [(None if g is None else change(g, v), v) for g, v in pairs]


def clip_gradient_norms(gradients_to_variables: Sequence[tuple[Any, Variable]], max_norm: float) -> Pairs:
    """Each gradient cut to Euclidean norm `max_norm`."""
    def clipped(grad: Any, _: Variable) -> Any:
        if isinstance(grad, IndexedSlices):
            return IndexedSlices(clip_by_norm(grad.values, max_norm), grad.indices, grad.dense_shape)
        return clip_by_norm(grad, max_norm)
    return _each(gradients_to_variables, clipped)


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
        if factor is None:
            return grad
        if isinstance(grad, IndexedSlices):
            return IndexedSlices(grad.values * factor, grad.indices, grad.dense_shape)
        return grad * factor
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
    return last


def slim_train(train_op: Any, logdir: Any, train_step_fn: Any = None, train_step_kwargs: Any = None, log_every_n_steps: int = 1,
               graph: Any = None, master: Any = "", is_chief: bool = True, global_step: Any = None,
               number_of_steps: int | None = None, init_op: Any = None, init_feed_dict: Any = None, local_init_op: Any = None,
               init_fn: Any = None, ready_op: Any = None, summary_op: Any = None, save_summaries_secs: float | None = None,
               summary_writer: Any = None, startup_delay_steps: int = 0, saver: Any = None, save_interval_secs: float = 600,
               sync_optimizer: Any = None, session_config: Any = None, session_wrapper: Any = None,
               trace_every_n_steps: int | None = None) -> Any:
    """Run `train_op` until the global step is `number_of_steps` (None: until the input ends), with checkpoints in `logdir`; the
    last loss."""
    refuse("slim.learning.train", "use a MonitoredTrainingSession and hooks", train_step_fn=train_step_fn,
           train_step_kwargs=train_step_kwargs, summary_writer=summary_writer, startup_delay_steps=startup_delay_steps or None,
           sync_optimizer=sync_optimizer, session_wrapper=session_wrapper, trace_every_n_steps=trace_every_n_steps,
           global_step=global_step)
    with (graph or get_default_graph()).as_default():
        get_or_create_global_step()
        hooks = [] if number_of_steps is None else [StopAtStepHook(last_step=number_of_steps)]
        scaffold = Scaffold(init_op, init_feed_dict, init_fn and (lambda _, session: init_fn(session)), ready_op, None,
                            local_init_op, summary_op, saver)
        del log_every_n_steps      # losses are in the journal that all views read
        last = None
        with MonitoredTrainingSession(
                master or None, is_chief, logdir, scaffold, hooks, (), save_interval_secs, None, save_summaries_secs,
                config=session_config) as session:
            while not session.should_stop():
                last = session.run(train_op)
        return last


class HParams:
    """Named hyperparameters as attributes; `parse` takes "name=value,other=[1,2]" and keeps each one's type."""

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        refuse("HParams", "give the values by name", hparam_def=hparam_def, model_structure=model_structure)
        self._types: dict[str, tuple[type, bool]] = {}
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Add one; InvalidArgumentErrors (ValueErrors) for a name that is taken, and for an empty list."""
        if hasattr(self, name):
            raise errors.InvalidArgumentError(f"HParams: Hyperparameter name is reserved: {name}; choose another")
        many = isinstance(value, (list, tuple))
        if many and not value:
            raise errors.InvalidArgumentError(f"HParams: Multi-valued hyperparameters cannot be empty: {name}; give a value")
        self._types[name] = (type(value[0]) if many else type(value)), many
        setattr(self, name, value)

    def _cast(self, name: str, value: Any) -> Any:
        kind, many = self._types[name]
        if many:
            return [self._single(kind, v, name) for v in value]
        return self._single(kind, value, name)

    @staticmethod
    def _single(kind: type, value: Any, name: str) -> Any:
        if kind is bool and isinstance(value, str):
            if value not in ("true", "True", "1", "false", "False", "0"):
                raise errors.InvalidArgumentError(f"HParams: Could not parse {value!r} for {name}; write true or false")
            return value in ("true", "True", "1")
        try:
            return kind(value)
        except (TypeError, ValueError):
            raise errors.InvalidArgumentError(f"HParams: Could not parse {value!r} for {name}; write a "
                                              f"{kind.__name__}") from None

    def set_hparam(self, name: str, value: Any) -> None:
        """Change one; InvalidArgumentErrors where it becomes a list or is none any more."""
        if name not in self._types:
            raise KeyError(name)
        if isinstance(value, (list, tuple)) != self._types[name][1]:
            rule = "must" if self._types[name][1] else "must not"
            raise errors.InvalidArgumentError(f"HParams: {name} {rule} be a list: {value!r}")
        setattr(self, name, self._cast(name, value))

    def parse(self, values: str) -> HParams:
        """Change those named in "name=value,name=[value,value]" or "name[index]=value"; the parameters themselves."""
        for name, index, inside, value in re.findall(_ASSIGNMENT, values):
            if name not in self._types:
                raise errors.InvalidArgumentError(f"HParams: Unknown hyperparameter type for {name}; add it first")
            if index:
                getattr(self, name)[int(index)] = self._single(self._types[name][0], value, name)
            else:
                many = self._types[name][1]
                self.set_hparam(name, [v.strip() for v in inside.split(",")] if many else value.strip())
        return self

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Change those in a dictionary."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    set_from_map = override_from_dict

    def parse_json(self, values_json: str) -> HParams:
        """Change those in a JSON object."""
        return self.override_from_dict(json.loads(values_json))

    def values(self) -> dict[str, Any]:
        """Names and values."""
        return {name: getattr(self, name) for name in self._types}

    def to_json(self, indent: int | None = None, separators: Any = None, sort_keys: bool = False) -> str:
        """As a JSON object."""
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def get(self, key: str, default: Any = None) -> Any:
        """A value, or the default."""
        return self.values().get(key, default)

    def __contains__(self, key: str) -> bool:
        return key in self._types

    def __repr__(self) -> str:
        return f"HParams({sorted(self.values().items())})"


def parse_values(values: str, type_map: Mapping[str, type]) -> dict[str, Any]:
    """"name=value,name=[value,value]" by name, of the types of `type_map`. InvalidArgumentError (ValueError) for a name that
    is not there, or given twice, or a value of another type."""
    found: dict[str, Any] = {}
    for name, index, inside, value in re.findall(_ASSIGNMENT, values):
        if name not in type_map:
            raise errors.InvalidArgumentError(f"parse_values: Unknown hyperparameter type for {name}; there are "
                                              f"{', '.join(type_map)}")
        if name in found and not index:
            raise errors.InvalidArgumentError(f"parse_values: Multiple assignments to variable '{name}' in {values}; give one")
        kind = type_map[name]
        if index:
            found.setdefault(name, {})[int(index)] = HParams._single(kind, value.strip(), name)
        elif inside:
            found[name] = [HParams._single(kind, v.strip(), name) for v in inside.split(",")]
        else:
            found[name] = HParams._single(kind, value.strip(), name)
    return found
