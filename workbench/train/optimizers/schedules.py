"""The global step, learning rates that follow it, and clipping of gradients."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, on_values, ops
from workbench.core.graph.graph import Graph, Tensor
from workbench.core.graph.subgraph import root_graph
from workbench.nn.variables import GraphKeys, Variable

__all__ = [
    "assert_global_step", "assert_or_get_global_step", "clip_by_average_norm", "clip_by_global_norm", "clip_by_norm",
    "create_global_step", "exponential_decay", "get_global_step", "get_or_create_global_step", "global_norm", "global_step",
    "inverse_time_decay", "natural_exp_decay", "piecewise_constant", "polynomial_decay",
]


# the global step

LOCAL_STEP = "local_step"
"""The collection of variables that say for which global step a worker's gradients count, where that may be an older one."""


def get_global_step(graph: Graph | None = None) -> Variable | None:
    """The variable that counts updates, None when there is none; DtypeError for one that is no whole number."""
    graph = root_graph(graph)
    found = graph.get_collection(GraphKeys.GLOBAL_STEP) or [
        v for v in graph.get_collection(GraphKeys.GLOBAL_VARIABLES) if v.name == "global_step:0"]
    if not found:
        return None
    if not found[0].dtype.is_integer or found[0].shape.rank:
        raise errors.DtypeError(f"get_global_step: {found[0].name} is {found[0].dtype.name}{found[0].shape}: it does not have "
                                "integer type or is not scalar; make an int64 scalar")
    step: Variable = found[0]
    return step


def get_local_step(graph: Graph | None = None) -> Variable | None:
    """The variable that says for which step the gradients count, None where that is the global step; or each of several
    workers in the graph has its own."""
    found: list[Variable] = root_graph(graph).get_collection(LOCAL_STEP)
    return found[0] if len(found) == 1 else None


def create_global_step(graph: Graph | None = None) -> Variable:
    """Make the int64 scalar variable that counts updates; AlreadyExistsError when there is one."""
    graph = root_graph(graph)
    if get_global_step(graph) is not None:
        raise errors.AlreadyExistsError("create_global_step: the graph has a global step; use get_global_step()")
    with graph.as_default(), graph.name_scope(None):
        return Variable(0, trainable=False, name="global_step", dtype="int64",
                        collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP])


def get_or_create_global_step(graph: Graph | None = None) -> Variable:
    """The variable that counts updates, made when there is none."""
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """The number of updates done, as an int."""
    return int(sess.run(global_step_tensor))


# learning rates

def _progress(step: Any, steps: Any, dtype: Any) -> Tensor:
    return ops.realdiv(ops.cast(convert(step), dtype), ops.cast(convert(steps), dtype))


def exponential_decay(learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False,
                      name: str = "ExponentialDecay") -> Tensor:
    """learning_rate · decay_rate ^ (global_step / decay_steps), a scalar of the rate's dtype.

    `global_step` is an int scalar tensor or variable; numbers and scalar tensors will do for the rest. The exponent
    is rounded down with `staircase`.
    """
    with root_graph().name_scope(name):
        rate = convert(learning_rate)
        done = _progress(global_step, decay_steps, rate.dtype)
        return rate * ops.pow(convert(decay_rate, rate.dtype), ops.floor(done) if staircase else done)


def natural_exp_decay(learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False,
                      name: str = "NaturalExpDecay") -> Tensor:
    """learning_rate · exp(-decay_rate · global_step / decay_steps), as exponential_decay; `decay_rate` is a number."""
    return exponential_decay(learning_rate, global_step, decay_steps, math.exp(-decay_rate), staircase, name)


def inverse_time_decay(learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False,
                       name: str = "InverseTimeDecay") -> Tensor:
    """learning_rate / (1 + decay_rate · global_step / decay_steps), a scalar; the quotient is rounded down with `staircase`."""
    with root_graph().name_scope(name):
        rate = convert(learning_rate)
        done = _progress(global_step, decay_steps, rate.dtype)
        return rate / (1.0 + convert(decay_rate, rate.dtype) * (ops.floor(done) if staircase else done))


def polynomial_decay(learning_rate: Any, global_step: Any, decay_steps: Any, end_learning_rate: Any = 0.0001,
                     power: float = 1.0, cycle: bool = False, name: str = "PolynomialDecay") -> Tensor:
    """From `learning_rate` to `end_learning_rate` in `decay_steps`, a scalar, along (1 - global_step / decay_steps) ^
    `power`.

    With `cycle` it begins again after the end, each time over a longer span.
    """
    with root_graph().name_scope(name):
        rate = convert(learning_rate)
        end, done = convert(end_learning_rate, rate.dtype), _progress(global_step, decay_steps, rate.dtype)
        if cycle:
            done = done / ops.maximum(ops.ceil(done), 1.0)
        return (rate - end) * ops.pow(1.0 - ops.minimum(done, 1.0), convert(power, rate.dtype)) + end


def piecewise_constant(x: Any, boundaries: Sequence[Any], values: Sequence[Any],
                       name: str = "PiecewiseConstant") -> Tensor:
    """values[0] while x <= boundaries[0], then values[1] while x <= boundaries[1], …, at last values[-1]: a scalar.

    Raises InvalidArgumentError unless there is one value more than boundaries.
    """
    if len(values) != len(boundaries) + 1:
        raise errors.InvalidArgumentError(f"piecewise_constant: {len(values)} values for {len(boundaries)} boundaries; "
                                          "give one value more than boundaries")
    with root_graph().name_scope(name):
        step, result = convert(x), convert(values[-1])
        for bound, value in reversed(list(zip(boundaries, values))):
            result = ops.select(step <= convert(bound, step.dtype), convert(value, result.dtype), result)
        return result


def assert_global_step(global_step_tensor: Any) -> None:
    """TypeErrors (DtypeError, ShapeError) unless it is an integer scalar, which a global step is."""
    if global_step_tensor.dtype.base_dtype.kind not in ("int", "uint"):
        raise errors.DtypeError(f"assert_global_step: Existing \"global_step\" does not have integer type: "
                                f"{global_step_tensor.dtype.name}; make it by create_global_step")
    shape = global_step_tensor.get_shape()
    if shape.rank not in (0, None):
        raise errors.ShapeError(f"assert_global_step: Existing \"global_step\" is not scalar: {shape}; make it by "
                                "create_global_step")


def assert_or_get_global_step(graph: Any = None, global_step_tensor: Any = None) -> Any:
    """The global step of a graph, after assert_global_step; a tensor that is given must be that one."""
    found = get_global_step(graph)
    if global_step_tensor is None:
        global_step_tensor = found
    if global_step_tensor is not None:
        assert_global_step(global_step_tensor)
    if found is not None and global_step_tensor is not found:
        raise TypeError(f"Expected global_step_tensor to be {found.name}, got {global_step_tensor.name}")
    return global_step_tensor


# clipping

def global_norm(t_list: Sequence[Any], name: str = "global_norm") -> Tensor:
    """√(sum of the squares of all elements of all tensors), a scalar; None entries count nothing.
    InvalidArgumentError for no tensor."""
    present = [t.values if isinstance(t, IndexedSlices) else convert(t) for t in t_list if t is not None]
    if not present:
        raise errors.InvalidArgumentError("global_norm: the list holds 0 tensors; pass at least one")
    with root_graph().name_scope(name):
        return ops.sqrt(2.0 * ops.add_n([ops.l2_loss(t) for t in present]), name="global_norm")


def clip_by_global_norm(t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None,
                        name: str = "clip_by_global_norm") -> tuple[list[Any], Tensor]:
    """(tensors scaled together so that their common norm is at most `clip_norm`, their norm before), shapes and
    dtypes as given.

    None entries stay None, IndexedSlices stay sparse. `use_norm` is a norm that is known already. All elements become
    NaN when the norm is infinite or NaN. Source: Pascanu et al. 2013.
    """
    norm = global_norm(t_list) if use_norm is None else convert(use_norm)
    with root_graph().name_scope(name) as scope:
        limit = convert(clip_norm, norm.dtype)
        scale = limit / ops.maximum(norm, limit)
        scale = ops.select(ops.is_finite(norm), scale, np.nan)      # an infinite norm must show, not become a step of 0
        return [_scaled(t, scale, f"{scope}{scope.split('/')[-2]}/_{number}/") for number, t in enumerate(t_list)], norm


def _scaled(t: Any, scale: Tensor, name: str | None = None) -> Any:
    return None if t is None else on_values(lambda x: ops.multiply(convert(x), scale, name=name), t)


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str = "clip_by_norm") -> Any:
    """`t` (or IndexedSlices) scaled so that its Euclidean norm (over `axes`; None = all) is at most `clip_norm`."""
    values = t.values if isinstance(t, IndexedSlices) else convert(t)
    with root_graph().name_scope(name) as scope:
        energy = ops.reduce_sum(ops.square(values), axis=axes, keepdims=axes is not None)
        some = energy > 0.0      # the root of 0 has no gradient
        norm = ops.select(some, ops.sqrt(ops.select(some, energy, 1.0)), energy)
        limit = convert(clip_norm, values.dtype)
        found = _scaled(t, limit / ops.maximum(norm, limit), scope)
    values.shape.merge(getattr(found, "values", found).shape, "clip_by_norm: t and clip_norm")
    return found


def clip_by_average_norm(t: Any, clip_norm: Any, name: str = "clip_by_average_norm") -> Tensor:
    """`t` scaled so that its Euclidean norm divided by its number of elements is at most `clip_norm`."""
    values = convert(t)
    with root_graph().name_scope(name) as scope:
        norm = ops.sqrt(ops.reduce_sum(ops.square(values))) / ops.cast(ops.size(values), values.dtype)
        limit = convert(clip_norm, values.dtype)
        return ops.multiply(values, limit / ops.maximum(norm, limit), name=scope)
