"""Mixed precision of a graph: the type its products are computed in, and a multiple of losses so that small gradients last."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, on_values, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Graph, Operation, Tensor, get_default_graph
from workbench.core.graph.subgraph import root_graph
from workbench.nn.variables import Variable, group, near
from workbench.train.saving.summary import scalar

__all__ = ["LossScale", "loss_scale_of", "mixed_precision", "scale_losses"]

_FIRST = 2.0 ** 15      # where a dynamic scale starts; the first steps halve it if that is too much
_LEAST, _MOST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
_POWERS = 2.0 ** np.arange(128, dtype=np.float32)
_KEY = "__loss_scale"
_STATE = {"loss_scale": "float32", "steps": "int64", "steps_at_overflow": "int64", "skipped_steps": "int64"}


def mixed_precision(precision: Any, loss_scale: float | str | None = None, growth_steps: int = 2000) -> LossScale | None:
    """Sessions compute the default graph's products and convolutions of float32 from values of `precision`, "bfloat16" or
    "float16", and add them up in float32; variables, updates and all else stay float32 (Micikevicius et al. 2018, mixed
    precision training). "float32" ends it. Say it before gradients are made.

    Gradients vanish in float16 below 6e-8. So optimizers make them from a multiple of the loss, divide them by it again, and
    leave a step out whose gradients are not all finite. `loss_scale` is that multiple, a positive number, or "dynamic", the
    default for float16: it then doubles after `growth_steps` finite steps on end, and halves, to no less than 1, after one
    that was not. Optimizers that run in one step count it once; each leaves out its own part. bfloat16 has the range of
    float32, and by default no scale. Returns the LossScale, whose `scale` and `skipped_steps` can be fetched, or None where
    there is none. Meta graphs carry all of it.
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
    scale_losses(graph, made)
    return made


def scale_losses(graph: Graph, scaling: LossScale | None) -> None:
    """Let optimizers of `graph` scale their losses so, or no more."""
    graph.get_collection_ref(_KEY)[:] = [scaling] if scaling else []


def loss_scale_of(graph: Graph | None = None) -> LossScale | None:
    """That of `graph`, by default the default graph, or None."""
    return next(iter((graph or root_graph()).get_collection(_KEY)), None)


class LossScale:
    """What `mixed_precision` does to the steps of a graph's optimizers. Its state are variables, which savers save; summaries
    "mixed_precision/scale" and "mixed_precision/skipped" show it. A gradient of a scaled loss that is not finite is no error
    to sessions with `check_numerics`: its step is left out.

    Raises InvalidArgumentError for a scale that is neither a positive number of float32 nor "dynamic", or fewer than 1 step.
    """

    def __init__(self, loss_scale: float | str, growth_steps: int) -> None:
        number = isinstance(loss_scale, (int, float)) and not isinstance(loss_scale, bool)
        if loss_scale != "dynamic" and not (number and _LEAST <= loss_scale <= _MOST):      # type: ignore[operator]
            raise errors.InvalidArgumentError(f"mixed_precision: loss_scale is {loss_scale!r}; pass a positive number of "
                                              "float32, or 'dynamic'")
        if not isinstance(growth_steps, (int, np.integer)) or not 1 <= growth_steps < 2 ** 63:
            raise errors.InvalidArgumentError(f"mixed_precision: growth_steps is {growth_steps!r}; pass a whole number from 1 "
                                              "on, of int64")
        self._dynamic, self._growth = loss_scale == "dynamic", int(growth_steps)
        self._first = _FIRST if loss_scale == "dynamic" else float(loss_scale)
        self._made: tuple[Variable, ...] | None = None
        self._found: dict[Graph, tuple[Tensor, Tensor, Tensor]] = {}

    def told(self) -> dict[str, Any]:
        """Texts and numbers that `of` makes an equal one of."""
        return {"loss_scale": "dynamic" if self._dynamic else self._first, "growth_steps": self._growth,
                "variables": None if self._made is None else [v.op.name for v in self._made]}

    @classmethod
    def of(cls, told: Mapping[str, Any], variables: Mapping[str, Variable]) -> LossScale | None:
        """The one that `told` such facts, its state among `variables` by name; None where they are not all there.

        InvalidArgumentError for other facts.
        """
        scale, growth, names = (told[key] for key in ("loss_scale", "growth_steps", "variables"))
        if type(growth) is not int or not (names is None or (type(names) is list and len(names) == len(_STATE))):
            raise errors.InvalidArgumentError(f"mixed_precision: growth_steps is {growth!r} and variables are {names!r}; they "
                                              f"must be an integer and {len(_STATE)} names")
        made = cls(scale, growth)
        if names is None:
            return made
        state = tuple([variables[name] for name in names if name in variables])
        if [(v.dtype.name, v.shape.rank) for v in state] != [(dtype, 0) for dtype in _STATE.values()]:
            return None
        made._take(state)
        return made

    def _take(self, state: tuple[Variable, ...]) -> None:
        self._made = state
        state[0].graph.loss_scales.add(state[0].op.name)

    def variables(self) -> tuple[Variable, ...]:
        """The scale after the last overflow, how many steps were counted, how many had been at that overflow, and how many
        were left out; made when they are first asked for, where device scopes say by then.

        That scale and the steps since give the scale now. So each optimizer of a step writes what the others write, or what
        they leave alone, and no order among them changes what is counted.
        """
        if self._made is None:
            with root_graph().as_default() as graph, graph.control_dependencies(None), graph.name_scope("mixed_precision/"):
                first = (np.float32(self._first), *(np.int64(0),) * 3)
                self._take(tuple([Variable(value, trainable=False, name=name) for value, name in zip(first, _STATE)]))
                for name, value in (("scale", self.scale), ("skipped", self.skipped_steps)):
                    scalar(name, value)
        assert self._made is not None
        return self._made

    @property
    def scale(self) -> Tensor:
        """The multiple, a float32 scalar: in a step that trains the one that it takes, else that of the next."""
        return self._state(root_graph())[0]

    @property
    def skipped_steps(self) -> Tensor:
        """How many steps before this one left something out, since a gradient was not finite; an int64 scalar."""
        return self._state(root_graph())[2]

    def _state(self, graph: Graph) -> tuple[Tensor, Tensor, Tensor]:
        """(the scale, steps counted, steps left out) as a step finds them, read once for all optimizers of `graph`."""
        after, steps, since, skipped = self.variables()
        if graph not in self._found:
            with graph.as_default(), graph.control_dependencies(None), graph.name_scope("mixed_precision/"), near(after):
                scale, counted = after.value(), steps.value()
                if self._dynamic:
                    with graph.control_dependencies([scale.op]):      # where another worker halves it this comes before
                        good = counted - since.value()
                    doubled = ops.maximum(ops.minimum(good // self._growth, len(_POWERS) - 1), 0)
                    scale = ops.minimum(scale * ops.gather(_POWERS, doubled), _POWERS[-1])
                self._found[graph] = scale, counted, skipped.value()
        return self._found[graph]

    def gradients(self, loss: Any, grad_loss: Any, make: Callable[[Tensor], list[Any]]) -> list[Any]:
        """The gradients of `loss` that `make` gives for the gradient of the loss itself, which is `grad_loss` or 1."""
        scale, value = self._state(get_default_graph())[0], convert(loss)
        seed = ops.ones_like(value) if grad_loss is None else convert(grad_loss, value.dtype)
        found = make(seed * ops.cast(scale, value.dtype))

        def unscaled(x: Tensor) -> Tensor:
            """What is not finite becomes NaN, which clipping does not hide."""
            divided = x / ops.cast(scale, x.dtype)
            return ops.where(ops.is_finite(divided), divided, ops.zeros_like(divided) + np.nan)
        return [None if g is None else on_values(unscaled, g) for g in found]

    def guarded(self, grads: Sequence[Any], step: Callable[[], Operation], scope: str) -> Operation:
        """The operation `scope`: `step`, if all of `grads` are finite; then the scale of the next."""
        found = self._state(get_default_graph())
        values = [g.values if isinstance(g, IndexedSlices) else g for g in grads]
        finite = ops.reduce_all(ops.stack([ops.reduce_all(ops.is_finite(v)) for v in values]))
        made = ops.cond(finite, lambda: group(step(), *self._after_a_step(found[1])), lambda: group(*self._after_none(*found)))
        return group(made, name=scope)

    def _after_a_step(self, counted: Tensor) -> list[Operation]:
        return [_raise(self.variables()[1], counted + 1)] if self._dynamic else []

    def _after_none(self, scale: Tensor, counted: Tensor, skipped: Tensor) -> list[Operation]:
        after, steps, since, left_out = self.variables()
        if not self._dynamic:
            return [_raise(left_out, skipped + 1)]
        noted = [_raise(variable, number + 1) for variable, number in ((left_out, skipped), (steps, counted), (since, counted))]
        with get_default_graph().control_dependencies(noted):      # who reads in between takes too low a scale, not too high
            return [after.assign(ops.maximum(scale / 2.0, 1.0)).op]


def _raise(variable: Variable, least: Tensor) -> Operation:
    """Let it be `least`, if another worker has not counted further meanwhile."""
    return variable.assign(ops.maximum(variable.value(), least)).op
