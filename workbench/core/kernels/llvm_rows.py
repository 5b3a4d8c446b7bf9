"""Kernels that walk rows: softmax and its losses, ReLU's gradient, short sums."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.core.graph.arrays import check_labels
from workbench.core.kernels.choice import Choice, Kernel, Select, Spec, register
from workbench.core.kernels.language import library_source
from workbench.core.kernels.llvm import HEAVY, Program, bind, usable
from workbench.core.kernels.llvm_fused import sum_of_columns
from workbench.core.kernels.openmp import runtime
from workbench.core.kernels.options import kernel_options
from workbench.core.kernels.team import shared_rows

__all__ = ["FEWEST", "MOST_TERMS", "SHARED", "where_positive"]

SHARED = 1 << 17       # elements from which threads share the rows of a softmax or sum: some 0.2 ms on one
FEWEST = 256           # elements: below, NumPy's call costs less than the kernel's gain
MOST_TERMS = 4096      # terms of one float32 sum: beyond, NumPy's pairwise summation is more accurate


def _program(name: str, call: str = "arrays") -> Program:
    return Program((library_source("program_math.py"), library_source("program_rows.py")), name, call)


def _choice(name: str, inputs: Sequence[Spec], outputs: Sequence[Spec], numbers: Sequence[int], note: str) -> Choice | None:
    if not usable():
        return None
    heavy = _elements(inputs[0]) > HEAVY
    return Choice("llvm", (None,) * len(inputs), (None,) * len(outputs),
                  lambda static: bind(_program(name), numbers, heavy), note=note)


def _row_choice(name: str, inputs: Sequence[Spec], outputs: Sequence[Spec], note: str) -> Choice | None:
    """A kernel over the rows of the first input, which threads share where they are worth waking."""
    columns = inputs[0].shape[-1]
    rows = _elements(inputs[0]) // columns
    made = _choice(name, inputs, outputs, (0, rows, columns), note)
    if made is None or _elements(inputs[0]) < SHARED or runtime() is None:
        return made
    return made.by(lambda static: shared_rows(_program(name, "team"), rows, (columns,)))


def _plain(specs: Sequence[Spec], dtype: str = "float32") -> bool:
    return all(s.dtype.name == dtype for s in specs)


def _elements(spec: Spec) -> int:
    return math.prod(spec.shape)


def _rowwise(name: str) -> Select:
    def select(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
               free: Sequence[bool]) -> Choice | None:
        rank = len(inputs[0].shape)
        if not _plain([*inputs, *outputs]) or rank < 1 or attrs.get("axis", -1) not in (-1, rank - 1) or (
                _elements(inputs[0]) < FEWEST or inputs[0].shape[-1] == 0):
            return None
        return _row_choice(name, inputs, outputs, "row kernel")
    return select


for _name in ("softmax", "log_softmax"):
    register("llvm", _name)(_rowwise(_name))


@register("llvm", "softmax_xent")
def _select_xent(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                 free: Sequence[bool]) -> Choice | None:
    if not _plain([*inputs, *outputs]) or _elements(inputs[0]) < FEWEST or inputs[0].shape[-1] == 0:
        return None
    return _row_choice("softmax_xent", inputs, outputs, "loss and its gradient in one pass")


@register("llvm", "sparse_softmax_xent")
def _select_sparse_xent(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                        free: Sequence[bool]) -> Choice | None:
    logits = inputs[0]
    if not _plain([logits, *outputs]) or _elements(logits) < FEWEST or logits.shape[-1] == 0:
        return None
    choice = _row_choice("sparse_softmax_xent", inputs, outputs, "loss and its gradient in one pass")
    return None if choice is None else choice.by(_checked_labels(choice.make, logits.shape[-1]))


def _checked_labels(make: Callable[[tuple[bool, ...]], Kernel], classes: int) -> Callable[[tuple[bool, ...]], Kernel]:
    """The compiled loop looks at places by their labels: they lie inside, and are of the one type it knows."""
    def checked(static: tuple[bool, ...]) -> Kernel:
        kernel = make(static)

        def run(logits: Any, labels: Any, loss: Any, backprop: Any) -> None:
            check_labels("sparse_softmax_xent", labels, classes)
            kernel(logits, np.ascontiguousarray(labels, np.int64), loss, backprop)
        return run
    return checked


@register("llvm", "reduce_sum", "bias_add_grad")
def _select_sum(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                free: Sequence[bool]) -> Choice | None:
    shape = inputs[0].shape
    if not _plain([*inputs, *outputs]) or len(shape) < 2 or _elements(inputs[0]) < FEWEST or inputs[0].layout:
        return None
    if attrs.get("data_format", "NHWC") != "NHWC":
        return None
    shared = sum_of_columns("reduce_sum", attrs, inputs, outputs, free) if _elements(inputs[0]) >= SHARED else None
    if shared is not None:
        return shared
    axes = _summed(attrs, len(shape))
    if axes == (len(shape) - 1,):
        name, terms = "sum_rows", shape[-1]
        sizes = (_elements(outputs[0]), terms)
    elif axes == tuple(range(len(axes))):
        terms = math.prod(shape[:len(axes)])
        name, sizes = "sum_columns", (terms, _elements(outputs[0]))
    else:
        return None
    if terms > MOST_TERMS or 0 in shape:
        return None
    return _choice(name, inputs, outputs, sizes, "short sum")


@register("llvm", "l2_loss")
def _select_l2_loss(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                    free: Sequence[bool]) -> Choice | None:
    """In deterministic sessions, as NumPy's BLAS adds up otherwise on another model of processor."""
    if not kernel_options().deterministic or not _plain([*inputs, *outputs]) or inputs[0].layout:
        return None
    return _choice("half_square", inputs, outputs, (_elements(inputs[0]),), "sum in blocks")


def _summed(attrs: Mapping[str, Any], rank: int) -> tuple[int, ...]:
    if "axis" not in attrs:      # bias_add_grad
        return tuple(range(rank - 1))
    axis = attrs["axis"]
    if axis is None:
        return tuple(range(rank))
    return tuple(sorted(a % rank for a in (axis if isinstance(axis, tuple) else (axis,))))


def where_positive(count: int) -> Kernel:
    """`kernel(dy, y, out)` for vectors of `count` float32 elements: dy where y > 0, else 0."""
    return bind(_program("where_positive"), (count,), count > HEAVY)
