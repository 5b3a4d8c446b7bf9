"""Kernels that walk rows: softmax and its losses, ReLU's gradient, short sums, and the optimizers' update rules."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.core.graph.arrays import check_rows
from workbench.core.kernels.choice import Choice, Kernel, Select, Spec, register
from workbench.core.kernels.fallback import announce
from workbench.core.kernels.llvm import HEAVY, Program, bind, library_source, usable
from workbench.core.state.variables import updates
from workbench.settings import settings

__all__ = ["FEWEST", "MOST_TERMS", "where_positive"]

FEWEST = 256           # elements: below, NumPy's call costs less than the kernel's gain
MOST_TERMS = 4096      # terms of one float32 sum: beyond, NumPy's pairwise summation is more accurate


def _program(name: str) -> Program:
    return Program((library_source("program_math.py"), library_source("program_rows.py")), name)


def _choice(name: str, inputs: Sequence[Spec], outputs: Sequence[Spec], numbers: Sequence[int], note: str) -> Choice | None:
    if not usable():
        return None
    heavy = _elements(inputs[0]) > HEAVY
    return Choice("llvm", (None,) * len(inputs), (None,) * len(outputs),
                  lambda static: bind(_program(name), numbers, heavy), note=note)


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
        columns = inputs[0].shape[-1]
        return _choice(name, inputs, outputs, (_elements(inputs[0]) // columns, columns), "row kernel")
    return select


for _name in ("softmax", "log_softmax"):
    register("llvm", _name)(_rowwise(_name))


@register("llvm", "softmax_xent")
def _select_xent(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                 free: Sequence[bool]) -> Choice | None:
    if not _plain([*inputs, *outputs]) or _elements(inputs[0]) < FEWEST or inputs[0].shape[-1] == 0:
        return None
    columns = inputs[0].shape[-1]
    return _choice("softmax_xent", inputs, outputs, (_elements(inputs[0]) // columns, columns),
                   "loss and its gradient in one pass")


@register("llvm", "sparse_softmax_xent")
def _select_sparse_xent(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                        free: Sequence[bool]) -> Choice | None:
    logits = inputs[0]
    if not _plain([logits, *outputs]) or _elements(logits) < FEWEST or logits.shape[-1] == 0:
        return None
    rows, columns = logits.shape
    choice = _choice("sparse_softmax_xent", inputs, outputs, (rows, columns), "loss and its gradient in one pass")
    return None if choice is None else replace(choice, make=_checked_labels(choice.make, columns))


def _checked_labels(make: Callable[[tuple[bool, ...]], Kernel], classes: int) -> Callable[[tuple[bool, ...]], Kernel]:
    """The compiled loop looks at places by their labels: they lie inside, and are of the one type it knows."""
    def checked(static: tuple[bool, ...]) -> Kernel:
        kernel = make(static)

        def run(logits: Any, labels: Any, loss: Any, backprop: Any) -> None:
            check_rows("sparse_softmax_xent", labels, classes, "logits has {} classes", "labels")
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


# optimizer updates: the size comes with the call, because the table of rules knows no plan

def _serves(old: Any, grad: Any, out: Any) -> bool:
    """float32 arrays of one size that are worth a kernel, and that it can take."""
    return (old.dtype == grad.dtype == np.float32 and old.size == grad.size >= FEWEST and old.flags.c_contiguous
            and grad.flags.c_contiguous and out.flags.c_contiguous and "llvm" in settings.libraries and usable())


@functools.lru_cache(maxsize=256)
def _update(name: str, size: int) -> Kernel | None:
    """The kernel of an update rule; None, said once, where it cannot be compiled."""
    try:
        return bind(_program(name), (size,), size > HEAVY)
    except Exception as error:      # a compiler may fail in any way; NumPy's rule serves
        announce("llvm", name, error)
        return None


_numpy_descend = updates.get("apply_gradient_descent")


def _gradient_descent(old: Any, lr: Any, grad: Any, out: Any) -> None:
    kernel = _update("descend", old.size) if _serves(old, grad, out) else None
    if kernel is not None:
        kernel(old, np.asarray(lr, np.float32), grad, out)
    else:
        _numpy_descend(old, lr, grad, out)      # type: ignore[misc]


_numpy_descend_rows = updates.get("descend_rows")


def _descend_rows(old: Any, rows: Any, lr: Any, grad: Any, out: Any) -> None:
    served = (grad.size >= FEWEST and grad.shape == (rows.size, *old.shape[1:]) and old.dtype == grad.dtype == np.float32
              and all(a.flags.c_contiguous for a in (old, grad, out)) and "llvm" in settings.libraries and usable())
    kernel = _row_update(rows.size, grad.size // rows.size) if served else None
    if kernel is None:
        _numpy_descend_rows(old, rows, lr, grad, out)      # type: ignore[misc]
        return
    places = np.ascontiguousarray(rows, np.int64)
    if out is not old:
        np.copyto(out, old)
    kernel(out, places, np.asarray(lr, np.float32), grad)


@functools.lru_cache(maxsize=256)
def _row_update(count: int, width: int) -> Kernel | None:
    """The kernel that takes steps in `count` rows of a table; None, said once, where it cannot be compiled."""
    try:
        return bind(_program("descend_rows"), (count, width), count * width > HEAVY)
    except Exception as error:      # a compiler may fail in any way; NumPy's rule serves
        announce("llvm", "descend_rows", error)
        return None


_numpy_adam = updates.get("apply_adam")


def _adam(old: Any, old_m: Any, old_v: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any,
          epsilon: Any, grad: Any, out: Any, m: Any, v: Any) -> None:
    own = out is old and m is old_m and v is old_v and m.flags.c_contiguous and _serves(old, grad, v)
    kernel = _update("adam", old.size) if own else None
    if kernel is None:
        _numpy_adam(old, old_m, old_v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, out, m, v)      # type: ignore[misc]
        return
    rate = float(lr) * float(np.sqrt(1 - float(beta2_power))) / (1 - float(beta1_power))
    numbers = np.array([rate, 1 - float(beta1), 1 - float(beta2), float(epsilon)], np.float32)
    kernel(old, m, v, grad, numbers)


if _numpy_descend is not None:
    updates["apply_gradient_descent"] = _gradient_descent
if _numpy_descend_rows is not None:
    updates["descend_rows"] = _descend_rows
if _numpy_adam is not None:
    updates["apply_adam"] = _adam
