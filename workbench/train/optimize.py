"""optimize_loss: one call from a loss to a training step, with decay, clipping, noise and summaries."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, on_values, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.initializers import Zeros
from workbench.nn.moving import assign_moving_average
from workbench.nn.scopes import get_variable, variable_scope
from workbench.nn.variables import GraphKeys, Variable, get_collection, trainable_variables
from workbench.train.optimizers.optimizer import Optimizer
from workbench.train.optimizers.rules import (
    AdagradOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
    RMSPropOptimizer,
)
from workbench.train.optimizers.schedules import assert_global_step, clip_by_global_norm, get_global_step, global_norm
from workbench.train.saving import summary

__all__ = ["OPTIMIZER_CLS_NAMES", "OPTIMIZER_SUMMARIES", "adaptive_clipping_fn", "optimize_loss"]

OPTIMIZER_CLS_NAMES: dict[str, Callable[[Any], Optimizer]] = {
    "Adagrad": AdagradOptimizer, "Adam": AdamOptimizer, "Ftrl": FtrlOptimizer,
    "Momentum": lambda learning_rate: MomentumOptimizer(learning_rate, momentum=0.9), "RMSProp": RMSPropOptimizer,
    "SGD": GradientDescentOptimizer}
"""Optimizers by the names that optimize_loss takes."""

OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm"]
"""What optimize_loss can summarise."""

_DEFAULT = ["learning_rate", "loss", "global_gradient_norm"]


def optimize_loss(loss: Any, global_step: Any, learning_rate: Any, optimizer: Any, gradient_noise_scale: float | None = None,
                  gradient_multipliers: Mapping[Any, Any] | None = None, clip_gradients: Any = None,
                  learning_rate_decay_fn: Callable[[Any, Any], Any] | None = None, update_ops: Sequence[Any] | None = None,
                  variables: Sequence[Variable] | None = None, name: str | None = None,
                  summaries: Sequence[str] | None = None, colocate_gradients_with_ops: bool = False,
                  increment_global_step: bool = True) -> Tensor:
    """A tensor with the loss (float scalar) whose computation also does one training step.

    `optimizer` is a name of OPTIMIZER_CLS_NAMES, an Optimizer, its class, or a function of the learning rate;
    `clip_gradients` the largest global norm or a function of (gradient, variable) pairs; `gradient_multipliers` maps
    variables or their names to factors; `update_ops` (default: the collection UPDATE_OPS) run before the loss.
    InvalidArgumentError for an unknown optimizer or summary, or a decay without a global step.
    """
    step = get_global_step() if global_step is None else global_step
    if step is not None:
        assert_global_step(step)
    if isinstance(learning_rate, (int, float)) and learning_rate < 0:
        raise errors.InvalidArgumentError(f"optimize_loss: Invalid learning_rate {learning_rate}.; use 0 or more")
    wanted = _DEFAULT if summaries is None else list(summaries)
    if set(wanted) - set(OPTIMIZER_SUMMARIES):
        raise errors.InvalidArgumentError(f"optimize_loss: summaries are {wanted}; use some of "
                                          f"{', '.join(OPTIMIZER_SUMMARIES)}")
    with variable_scope(name, "OptimizeLoss"):
        value = _after(get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else list(update_ops), convert(loss))
        rate = _rate(learning_rate, learning_rate_decay_fn, step)
        if rate is not None and "learning_rate" in wanted:
            summary.scalar("learning_rate", rate)
        chosen = _optimizer(optimizer, rate)
        pairs = chosen.compute_gradients(value, list(trainable_variables() if variables is None else variables))
        pairs = [(g, v) for g, v in pairs if g is not None]
        pairs = _changed(pairs, gradient_noise_scale, gradient_multipliers)
        if "global_gradient_norm" in wanted:
            summary.scalar("global_norm/gradient_norm", global_norm([g for g, _ in pairs]))
        pairs = _clipped(pairs, clip_gradients)
        _summarise(value, pairs, wanted)
        update = chosen.apply_gradients(pairs, global_step=step if increment_global_step else None, name="train")
        return _after([update], value)


def _after(operations: Sequence[Any], value: Tensor) -> Tensor:
    if not operations:
        return value
    with get_default_graph().control_dependencies(list(operations)):
        return ops.identity(value)


def _rate(rate: Any, decay: Callable[[Any, Any], Any] | None, step: Any) -> Any:
    if rate is None:
        return None
    if decay is not None and step is None:
        raise errors.InvalidArgumentError("optimize_loss: learning_rate_decay_fn needs a global step and there is none; call "
                                          "get_or_create_global_step() (global_step is required for "
                                          "learning_rate_decay_fn)")
    found = convert(rate) if isinstance(rate, (int, float)) or decay is None else rate
    return found if decay is None else decay(found, step)


def _optimizer(given: Any, rate: Any) -> Optimizer:
    if isinstance(given, Optimizer):
        return given
    if isinstance(given, str):
        if given not in OPTIMIZER_CLS_NAMES:
            raise errors.InvalidArgumentError(f"optimize_loss: optimizer {given!r} is unknown; use one of "
                                              f"{', '.join(OPTIMIZER_CLS_NAMES)}")
        given = OPTIMIZER_CLS_NAMES[given]
    elif not callable(given):
        raise errors.InvalidArgumentError(f"optimize_loss: optimizer {given!r} is a {type(given).__name__}; pass a name, an "
                                          "Optimizer, its class, or a function of the learning rate")
    if rate is None and isinstance(given, type):
        raise errors.InvalidArgumentError(f"optimize_loss: learning_rate is None but {given.__name__} needs one; pass it")
    made = given() if rate is None else given(rate)
    if not isinstance(made, Optimizer):
        raise errors.InvalidArgumentError(f"optimize_loss: the optimizer function gave {made!r}; return an Optimizer")
    return made


def _changed(pairs: list[tuple[Any, Variable]], noise: float | None, factors: Mapping[Any, Any] | None) -> list[Any]:
    found = []
    for gradient, variable in pairs:
        factor = None if factors is None else factors.get(variable, factors.get(variable.name))
        if noise is not None:
            shape = variable.shape.as_list()
            gradient = convert(gradient) + noise * ops.truncated_normal(shape, dtype=variable.dtype)
        found.append((gradient if factor is None else _times(gradient, factor), variable))
    return found


def _times(gradient: Any, factor: Any) -> Any:
    return on_values(lambda x: x * factor, gradient)


def _clipped(pairs: list[Any], clip: Any) -> list[Any]:
    if clip is None:
        return pairs
    if callable(clip):
        return list(clip(pairs))
    if not isinstance(clip, (int, float)):
        raise errors.InvalidArgumentError(f"optimize_loss: clip_gradients is {clip!r}; pass a norm or a function of pairs")
    clipped, _ = clip_by_global_norm([g for g, _ in pairs], clip)
    return [(g, v) for g, (_, v) in zip(clipped, pairs)]


def adaptive_clipping_fn(std_factor: Any = 2.0, decay: Any = 0.95, static_max_norm: Any = None, global_step: Any = None,
                         report_summary: bool = False, epsilon: float = 1e-8,
                         name: str | None = None) -> Callable[[Sequence[Any]], list[Any]]:
    """A function of (gradient, variable) pairs, for `clip_gradients`: where the global norm is above exp(mean + std_factor ·
    deviation) of its logarithm so far, it becomes exp(mean) (Chorowski et al. 2014, arXiv:1412.1602).

    Mean and deviation are moving averages of `decay`, with a `global_step` n of n / (n + 1) at first. `static_max_norm` is a
    largest norm besides; `epsilon` the least variance.
    """
    def clipped(pairs: Sequence[Any]) -> list[Any]:
        gradients = [gradient for gradient, _ in pairs]
        norm = global_norm(gradients)
        with variable_scope(name, "AdaptiveMaxNorm"):
            logarithm, rate = ops.log(norm + epsilon), decay
            if global_step is not None:
                n = ops.cast(convert(global_step), "float32")
                rate = ops.minimum(decay, n / (n + 1.0))
            mean, square = (assign_moving_average(get_variable(title, [], norm.dtype, Zeros(), trainable=False), value, rate,
                                                  False)
                            for title, value in (("mean", logarithm), ("sq_mean", ops.square(logarithm))))
            deviation = ops.sqrt(ops.maximum(square - ops.square(mean), epsilon))
            largest = ops.exp(mean + std_factor * deviation)
        if report_summary:
            summary.scalar("global_norm/adaptive_max_gradient_norm", largest)
        factor = ops.where(norm < largest, ops.ones_like(norm), ops.exp(mean) / norm)
        if static_max_norm is not None:
            factor = ops.minimum(static_max_norm / norm, factor)
        return [(None if gradient is None else _times(gradient, factor), variable) for gradient, variable in pairs]
    return clipped


def _summarise(loss: Tensor, pairs: list[Any], wanted: Sequence[str]) -> None:
    if "loss" in wanted:
        summary.scalar("loss", loss)
    for gradient, variable in pairs:
        values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
        title = variable.op.name
        if "gradients" in wanted:
            summary.histogram(f"gradients/{title}", values)
        if "gradient_norm" in wanted:
            summary.scalar(f"gradient_norm/{title}", global_norm([values]))
