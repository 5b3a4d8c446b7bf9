"""Kernels for fused chains, compiled from generated text: elementwise loops, and those that sum rows between."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.core.graph.opdef import registry
from workbench.core.kernels.choice import Choice, Kernel, Select, Spec, register
from workbench.core.kernels.fused_columns import MANY, NARROWEST, SUMS, column_source, reduces_columns, summed_up
from workbench.core.kernels.fused_loops import calls, loop_source
from workbench.core.kernels.fused_rows import SOFTMAX, row_source, softmax_steps
from workbench.core.kernels.language import library_source
from workbench.core.kernels.llvm import HEAVY, Program, bind, usable
from workbench.core.kernels.stated import unreadable
from workbench.core.kernels.team import shared_rows, worth_sharing

__all__ = ["kernel_source", "make_kernel", "sum_of_columns", "translatable"]

FEWEST = 128      # elements of an operation alone: below, NumPy's calls cost little more
LONG = 128               # elements of a row whose softmax fills vectors by itself
FEWEST_TURNS = 16        # of a loop that is shared: parts of fewer would be of unequal size
_CALL = 1e-9             # seconds that a function's call takes on one core: 0.5e-9 with AVX-512, 2e-9 with AVX2


@register("llvm", "fused")
def _select(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
            free: Sequence[bool]) -> Choice | None:
    if not usable():
        return None
    source, extents = kernel_source(attrs, inputs, outputs)
    shared = _shared(attrs, [*inputs, *outputs], extents)

    def make(static: tuple[bool, ...]) -> Kernel:
        kernel = make_kernel(source, extents, shared)
        return summed_up(attrs, len(inputs), extents, kernel) if _sums_columns(attrs) else kernel
    return Choice("llvm", (None,) * len(inputs), (None,) * len(outputs), make, source=source,
                  note="fused loop" if len(attrs["steps"]) > 1 else "compiled loop")


def _shared(attrs: Mapping[str, Any], values: Sequence[Spec], extents: Sequence[int]) -> bool:
    """Is there so much to do that threads share it?"""
    seconds = calls(attrs["steps"]) * math.prod(extents) * _CALL
    return extents[0] >= FEWEST_TURNS and worth_sharing(sum(s.nbytes for s in values), seconds)


def _alone(kind: str) -> Select:
    """A selector for operations that NumPy computes in several passes, or by calling Python for each element."""
    def select(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
               free: Sequence[bool]) -> Choice | None:
        dtypes = tuple(s.dtype.name for s in inputs)
        if outputs[0].nbytes < FEWEST * outputs[0].dtype.itemsize or not translatable(kind, dtypes, outputs[0].dtype.name):
            return None
        operands = tuple(("input", i) for i in range(len(inputs)))
        return _select({"steps": ((kind, operands, tuple(attrs.items())),), "results": ((0,),)}, inputs, outputs, free)
    return select


for _kind in ("erf", "softplus", "sigmoid_xent", "elu", "selu", "sigmoid", "sigmoid_grad", "tanh_grad", "softsign",
              "squared_difference", "rounded_to_bfloat16", "rounded_to_float16", "bfloat16_of", "float32_of"):
    register("llvm", _kind)(_alone(_kind))


def _softmax(kind: str) -> Select:
    """A selector for softmax of long rows; shorter ones are taken together (`llvm_rows.py`)."""
    def select(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
               free: Sequence[bool]) -> Choice | None:
        shape = inputs[0].shape
        last = attrs.get("axis", -1) in (-1, len(shape) - 1)
        if not shape or shape[-1] < LONG or not last or inputs[0].dtype != np.float32:
            return None
        steps = tuple(softmax_steps(kind, ("input", 0), 0))
        return _select({"steps": steps, "results": ((len(steps) - 1,),), "space": shape}, inputs, outputs, free)
    return select


for _kind in SOFTMAX:
    register("llvm", _kind)(_softmax(_kind))


def sum_of_columns(kind: str, attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                   free: Sequence[bool]) -> Choice | None:
    """A choice for sums and means over all axes but the last; None for what NumPy adds up as fast."""
    given = inputs[0]
    shape = given.shape
    axis = attrs["axis"] if "axis" in attrs else tuple(range(len(shape) - 1))      # bias_add_grad has none
    if not reduces_columns(axis, shape) or shape[-1] < NARROWEST or math.prod(shape) < MANY or given.layout:
        return None
    if given.dtype.name not in ("float32", "float64"):
        return None
    steps = ((kind, (("input", 0),), (("axis", axis), ("keepdims", len(outputs[0].shape) == len(shape)))),)
    return _select({"steps": steps, "results": ((0,),), "space": shape}, inputs, outputs, free)


register("llvm", "reduce_mean")(partial(sum_of_columns, "reduce_mean"))


def translatable(kind: str, dtypes: tuple[str, ...], result: str) -> bool:
    """Does the kernel language compute this operation for these element types?"""
    definition = registry[kind]
    return definition.elementwise is not None and not unreadable(definition.elementwise, definition.inputs, dtypes, result)


def kernel_source(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec]) -> tuple[str, list[int]]:
    """Text of the kernel in the kernel language, and the extents of its loops from outside in."""
    if not attrs.get("space"):
        return loop_source(attrs, inputs, outputs)
    return (column_source if _sums_columns(attrs) else row_source)(attrs, inputs, outputs)


def _sums_columns(attrs: Mapping[str, Any]) -> bool:
    """Is it over columns, not rows, that steps reduce?"""
    space = attrs.get("space", ())
    return any(kind in SUMS and reduces_columns(dict(options)["axis"], space) for kind, _, options in attrs["steps"])


def make_kernel(source: str, extents: Sequence[int], shared: bool = False) -> Kernel:
    """The kernel of generated source for loops of these extents; threads may share the outermost."""
    if shared:
        return shared_rows(_program(source, "team"), extents[0], extents[1:])
    return bind(_program(source), (0, *extents), math.prod(extents) > HEAVY)


def _program(source: str, call: str = "arrays") -> Program:
    return Program((library_source("program_math.py"), source), "kernel", call)
