"""Numba kernels that walk rows: softmax and its losses, short sums, and the optimizers' update rules."""
from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.core.kernels.choice import Choice, Kernel, Spec, register
from workbench.core.state.variables import updates

__all__ = ["FEWEST", "MOST_TERMS"]

FEWEST = 256           # elements: below, NumPy's call costs less than compiling
MOST_TERMS = 4096      # terms of one float32 sum: beyond, NumPy's pairwise summation is more accurate
_FAST = {"reassoc", "nsz", "contract"}


def _compiled(signature: str, fastmath: bool = True) -> Callable[[Callable[..., None]], Callable[[], Kernel]]:
    """Decorator: a function that compiles the kernel on first use and returns it."""
    def wrap(function: Callable[..., None]) -> Callable[[], Kernel]:
        @functools.cache
        def build() -> Kernel:
            import numba

            from workbench.core.kernels import numba_math
            function.__globals__["exp32"], function.__globals__["log32"] = numba_math.exp32, numba_math.log32
            types = [_numba_type(word) for word in signature.split()]
            return numba.njit(numba.void(*types), error_model="numpy", nogil=True,      # type: ignore[no-any-return]
                              fastmath=_FAST if fastmath else False)(function)
        return build
    return wrap


def _numba_type(word: str) -> Any:
    """`f2` = readable float32 matrix, `F2` = writable, `i1` = readable int64 vector, `f0` = float32 scalar array."""
    import numba
    dtype = numba.float32 if word[0] in "fF" else (numba.int64 if word[0] == "i" else numba.int32)
    return numba.types.Array(dtype, int(word[1]), "C", readonly=word[0].islower())


def exp32(x: Any) -> Any:
    return np.exp(x)       # replaced by the vectorisable one when a kernel is compiled


def log32(x: Any) -> Any:
    return np.log(x)


@_compiled("f2 F2")
def _softmax(x, y):      # type: ignore[no-untyped-def]
    for r in range(x.shape[0]):
        top = x[r, 0]
        for c in range(x.shape[1]):
            top = max(top, x[r, c])
        total = np.float32(0.0)
        for c in range(x.shape[1]):
            e = exp32(x[r, c] - top)
            y[r, c] = e
            total += e
        scale = np.float32(1.0) / total
        for c in range(x.shape[1]):
            y[r, c] *= scale


@_compiled("f2 F2")
def _log_softmax(x, y):      # type: ignore[no-untyped-def]
    for r in range(x.shape[0]):
        top = x[r, 0]
        for c in range(x.shape[1]):
            top = max(top, x[r, c])
        total = np.float32(0.0)
        for c in range(x.shape[1]):
            total += exp32(x[r, c] - top)
        shift = top + log32(total)
        for c in range(x.shape[1]):
            y[r, c] = x[r, c] - shift


@_compiled("f2 f2 F1 F2")
def _softmax_xent(x, labels, loss, dx):      # type: ignore[no-untyped-def]
    for r in range(x.shape[0]):
        top = x[r, 0]
        for c in range(x.shape[1]):
            top = max(top, x[r, c])
        total = np.float32(0.0)
        for c in range(x.shape[1]):
            e = exp32(x[r, c] - top)
            dx[r, c] = e
            total += e
        shift, scale, sum_ = log32(total), np.float32(1.0) / total, np.float32(0.0)
        for c in range(x.shape[1]):
            sum_ += labels[r, c] * (shift - (x[r, c] - top))
            dx[r, c] = dx[r, c] * scale - labels[r, c]
        loss[r] = sum_


@_compiled("f2 F1")
def _sum_rows(x, y):      # type: ignore[no-untyped-def]
    for r in range(x.shape[0]):
        total = np.float32(0.0)
        for c in range(x.shape[1]):
            total += x[r, c]
        y[r] = total


@_compiled("f2 F1")
def _sum_columns(x, y):      # type: ignore[no-untyped-def]
    y[:] = 0
    for r in range(x.shape[0]):
        for c in range(x.shape[1]):
            y[c] += x[r, c]


def _choice(build: Callable[[], Kernel], inputs: Sequence[Spec], outputs: Sequence[Spec], note: str,
            wrap: Callable[[Kernel], Kernel] | None = None) -> Choice:
    def make(static: tuple[bool, ...]) -> Kernel:
        return wrap(build()) if wrap else build()
    return Choice("numba", (None,) * len(inputs), (None,) * len(outputs), make, note=note)


def _plain(specs: Sequence[Spec], dtype: str = "float32") -> bool:
    return all(s.dtype.name == dtype for s in specs)


def _elements(spec: Spec) -> int:
    return int(np.prod(spec.shape, dtype=np.int64))


def _rowwise(kernel: Callable[[], Kernel]) -> Any:
    def select(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
               free: Sequence[bool]) -> Choice | None:
        rank = len(inputs[0].shape)
        if not _plain([*inputs, *outputs]) or rank < 1 or attrs.get("axis", -1) not in (-1, rank - 1) or (
                _elements(inputs[0]) < FEWEST or inputs[0].shape[-1] == 0):
            return None
        flat = (-1, inputs[0].shape[-1])
        wrap = None if rank == 2 else lambda run: lambda x, y: run(x.reshape(flat), y.reshape(flat))
        return _choice(kernel, inputs, outputs, "row kernel", wrap)
    return select


register("numba", "softmax")(_rowwise(_softmax))
register("numba", "log_softmax")(_rowwise(_log_softmax))


@register("numba", "softmax_xent")
def _select_xent(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                 free: Sequence[bool]) -> Choice | None:
    if not _plain([*inputs, *outputs]) or _elements(inputs[0]) < FEWEST:
        return None
    return _choice(_softmax_xent, inputs, outputs, "loss and its gradient in one pass")


@register("numba", "reduce_sum", "bias_add_grad")
def _select_sum(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                free: Sequence[bool]) -> Choice | None:
    shape = inputs[0].shape
    if not _plain([*inputs, *outputs]) or len(shape) < 2 or _elements(inputs[0]) < FEWEST or inputs[0].layout:
        return None
    if attrs.get("data_format", "NHWC") != "NHWC":
        return None
    axes = _summed(attrs, len(shape))
    if axes == (len(shape) - 1,):
        rows, columns, kernel, terms = -1, shape[-1], _sum_rows, shape[-1]
    elif axes == tuple(range(len(axes))):
        terms = int(np.prod(shape[:len(axes)]))
        rows, columns, kernel = terms, -1, _sum_columns
    else:
        return None
    if terms > MOST_TERMS or 0 in shape:
        return None
    return _choice(kernel, inputs, outputs, "short sum",
                   lambda run: lambda x, y: run(x.reshape(rows, columns), y.reshape(-1)))


def _summed(attrs: Mapping[str, Any], rank: int) -> tuple[int, ...]:
    if "axis" not in attrs:      # bias_add_grad
        return tuple(range(rank - 1))
    axis = attrs["axis"]
    if axis is None:
        return tuple(range(rank))
    return tuple(sorted(a % rank for a in (axis if isinstance(axis, tuple) else (axis,))))


# optimizer updates: one kernel that writes in place, one that writes a spare buffer

@_compiled("F1 f0 f1", fastmath=False)
def _descend_in_place(w, rate, grad):      # type: ignore[no-untyped-def]
    step = rate[()]
    for i in range(w.size):
        w[i] -= step * grad[i]


@_compiled("f1 f0 f1 F1", fastmath=False)
def _descend(old, rate, grad, out):      # type: ignore[no-untyped-def]
    step = rate[()]
    for i in range(old.size):
        out[i] = old[i] - step * grad[i]


_numpy_descend = updates.get("apply_gradient_descent")


def _gradient_descent(old: Any, lr: Any, grad: Any, out: Any) -> None:
    if old.dtype != np.float32 or old.size < FEWEST or not (grad.flags.c_contiguous and old.flags.c_contiguous):
        _numpy_descend(old, lr, grad, out)      # type: ignore[misc]
    elif out is old:
        _descend_in_place()(old.reshape(-1), lr, grad.reshape(-1))
    else:
        _descend()(old.reshape(-1), lr, grad.reshape(-1), out.reshape(-1))


@_compiled("F1 F1 F1 f1 f1", fastmath=False)
def _adam_in_place(w, m, v, grad, settings):      # type: ignore[no-untyped-def]
    rate, keep1, keep2, epsilon = settings[0], settings[1], settings[2], settings[3]
    for i in range(w.size):
        g = grad[i]
        m[i] += (g - m[i]) * keep1
        v[i] += (g * g - v[i]) * keep2
        w[i] -= rate * m[i] / (np.sqrt(v[i]) + epsilon)


_numpy_adam = updates.get("apply_adam")


def _adam(old: Any, old_m: Any, old_v: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any,
          epsilon: Any, grad: Any, out: Any, m: Any, v: Any) -> None:
    in_place = out is old and m is old_m and v is old_v
    if not in_place or old.dtype != np.float32 or old.size < FEWEST or not grad.flags.c_contiguous:
        _numpy_adam(old, old_m, old_v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, out, m, v)      # type: ignore[misc]
        return
    rate = float(lr) * float(np.sqrt(1 - float(beta2_power))) / (1 - float(beta1_power))
    settings = np.array([rate, 1 - float(beta1), 1 - float(beta2), float(epsilon)], np.float32)
    _adam_in_place()(old.reshape(-1), m.reshape(-1), v.reshape(-1), grad.reshape(-1), settings)


if _numpy_descend is not None:
    updates["apply_gradient_descent"] = _gradient_descent
if _numpy_adam is not None:
    updates["apply_adam"] = _adam
