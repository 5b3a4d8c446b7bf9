"""Mixed precision of a graph: the type its products are computed in, and a multiple of losses so that small gradients last."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, on_values, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.subgraph import root_graph
from workbench.nn.variables import Variable, group
from workbench.train.saving.summary import scalar

__all__ = ["LossScale", "loss_scale_of", "mixed_precision"]

_FIRST = 2.0 ** 15      # where a dynamic scale starts; the first steps halve it if that is too much
_KEY = "__loss_scale"


def mixed_precision(precision: Any, loss_scale: float | str | None = None, growth_steps: int = 2000) -> LossScale | None:
    """Sessions compute the default graph's products and convolutions of float32 from values of `precision`, "bfloat16" or
    "float16", and add them up in float32; variables, updates and all else stay float32 (Micikevicius et al. 2018, mixed
    precision training). "float32" ends it. Say it before gradients are made.

    Gradients vanish in float16 below 6e-8. So optimizers make them from a multiple of the loss, divide them by it again, and
    leave a step out whose gradients are not all finite. `loss_scale` is that multiple, a positive number, or "dynamic", the
    default for float16: it then doubles after `growth_steps` finite steps on end, and halves, to no less than 1, after one
    that was not. bfloat16 has the range of float32, and by default no scale. Returns the LossScale, whose `scale` and
    `skipped_steps` can be fetched, or None where there is none.
    """
    try:
        name = as_dtype(precision).name
    except (errors.Error, TypeError, ValueError):
        name = repr(precision)
    if name not in ("float32", "bfloat16", "float16"):
        raise errors.InvalidArgumentError(f"mixed_precision: precision is {precision!r} but products are computed in "
                                          "'bfloat16' or 'float16'; name one of them, or 'float32' to end it")
    wanted = "dynamic" if loss_scale is None and name == "float16" else loss_scale
    made = None if wanted is None else LossScale(wanted, growth_steps)
    graph = root_graph()
    graph.precision = None if name == "float32" else name
    graph.get_collection_ref(_KEY)[:] = [made] if made else []
    return made


def loss_scale_of() -> LossScale | None:
    """That of the default graph, or None."""
    return next(iter(root_graph().get_collection(_KEY)), None)


class LossScale:
    """What `mixed_precision` does to the steps of a graph's optimizers. Its state are variables, which savers save; summaries
    "mixed_precision/scale" and "mixed_precision/skipped" show it.

    Raises InvalidArgumentError for a scale that is neither a positive number nor "dynamic", or fewer than 1 step.
    """

    def __init__(self, loss_scale: float | str, growth_steps: int) -> None:
        number = isinstance(loss_scale, (int, float)) and not isinstance(loss_scale, bool)
        if loss_scale != "dynamic" and not (number and 0 < float(loss_scale) < np.inf):
            raise errors.InvalidArgumentError(f"mixed_precision: loss_scale is {loss_scale!r}; pass a positive number, or "
                                              "'dynamic'")
        if growth_steps < 1:
            raise errors.InvalidArgumentError(f"mixed_precision: growth_steps is {growth_steps}; pass 1 or more")
        self._dynamic, self._growth = loss_scale == "dynamic", growth_steps
        self._first = _FIRST if loss_scale == "dynamic" else float(loss_scale)
        self._made: tuple[Variable, Variable, Variable] | None = None
        self._shown: tuple[Tensor, Tensor]

    def variables(self) -> tuple[Variable, Variable, Variable]:
        """The scale, how many finite steps there were on end since it changed, and how many steps were left out in all; made
        when they are first asked for, where device scopes say by then."""
        if self._made is None:
            with root_graph().as_default() as graph, graph.control_dependencies(None), graph.name_scope("mixed_precision/"):
                scale = Variable(np.float32(self._first), trainable=False, name="loss_scale")
                good, skipped = (Variable(np.int64(0), trainable=False, name=name) for name in ("good_steps", "skipped_steps"))
                self._shown = scale.value(), skipped.value()
                for name, value in zip(("scale", "skipped"), self._shown):
                    scalar(name, value)
            self._made = scale, good, skipped
        return self._made

    @property
    def scale(self) -> Tensor:
        """The multiple in the next step, a float32 scalar."""
        self.variables()
        return self._shown[0]

    @property
    def skipped_steps(self) -> Tensor:
        """How many steps changed nothing since a gradient was not finite, an int64 scalar."""
        self.variables()
        return self._shown[1]

    def gradients(self, loss: Any, grad_loss: Any, make: Callable[[Tensor], list[Any]]) -> list[Any]:
        """The gradients of `loss` that `make` gives for the gradient of the loss itself, which is `grad_loss` or 1."""
        scale, value = self.variables()[0].value(), convert(loss)
        seed = ops.ones_like(value) if grad_loss is None else convert(grad_loss, value.dtype)
        found = make(seed * ops.cast(scale, value.dtype))

        def unscaled(x: Tensor) -> Tensor:
            """What is not finite becomes NaN, which clipping does not hide."""
            divided = x / ops.cast(scale, x.dtype)
            return ops.where(ops.is_finite(divided), divided, ops.zeros_like(divided) + np.nan)
        return [None if g is None else on_values(unscaled, g) for g in found]

    def guarded(self, grads: Sequence[Any], step: Callable[[], Operation], scope: str) -> Operation:
        """The operation `scope`: `step`, if all of `grads` are finite; then the scale of the next."""
        self.variables()      # a branch may hold their updates, not them
        values = [g.values if isinstance(g, IndexedSlices) else g for g in grads]
        finite = ops.reduce_all(ops.stack([ops.reduce_all(ops.is_finite(v)) for v in values]))
        made = ops.cond(finite, lambda: group(step(), *self._after_a_step()), lambda: group(*self._after_none()))
        return group(made, name=scope)

    def _after_a_step(self) -> list[Operation]:
        if not self._dynamic:
            return []
        scale, good, _ = self.variables()
        now, more = scale.value(), good.value() + 1
        full = more >= self._growth
        grows = ops.logical_and(full, ops.is_finite(now * 2.0))
        return [scale.assign_add(ops.where(grows, now, 0.0)).op,      # adds, so that it takes no halving of another worker back
                good.assign(ops.where(full, ops.zeros_like(more), more)).op]

    def _after_none(self) -> list[Operation]:
        scale, good, skipped = self.variables()
        counted = skipped.assign_add(1).op
        if not self._dynamic:
            return [counted]
        return [counted, scale.assign(ops.maximum(scale.value() / 2.0, 1.0)).op, good.assign(0).op]
