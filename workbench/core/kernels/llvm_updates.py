"""The optimizers' update rules as compiled loops: one pass over a variable, its slots and its gradient, or over some rows."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.core.kernels.choice import Kernel
from workbench.core.kernels.fallback import announce
from workbench.core.kernels.language import library_source
from workbench.core.kernels.llvm import HEAVY, Program, bind, usable
from workbench.core.kernels.program_updates import PARTS
from workbench.core.kernels.team import shared_rows, worth_sharing
from workbench.core.ops.updates import DENSE, Parts
from workbench.core.state.variables import at_once, updates
from workbench.settings import settings

__all__ = ["FEWEST"]

FEWEST = 256           # elements: below, NumPy's calls cost less than the kernel's gain
_BYTES = {"descend": 12, "momentum": 20, "nesterov": 20, "adagrad": 20, "rms_prop": 28, "adam": 28, "adam_table": 24}
"""What a rule reads and writes for each element."""
Array = np.ndarray[Any, Any]
Update = Callable[..., None]


class _Rule(NamedTuple):
    """What a compiled rule needs of the inputs that are no states."""

    program: str
    grad: Array
    numbers: Sequence[Any]


def _momentum(lr: Array, grad: Array, momentum: Array, use_nesterov: bool) -> _Rule:
    return _Rule("nesterov" if use_nesterov else "momentum", grad, (lr, momentum))


def _adagrad(lr: Array, grad: Array) -> _Rule:
    return _Rule("adagrad", grad, (lr,))


def _rms_prop(lr: Array, rho: Array, momentum: Array, epsilon: Array, grad: Array) -> _Rule:
    return _Rule("rms_prop", grad, (lr, 1 - float(rho), momentum, epsilon))


def _adam(beta1_power: Array, beta2_power: Array, lr: Array, beta1: Array, beta2: Array, epsilon: Array,
          grad: Array) -> _Rule:
    rate = float(lr) * float(np.sqrt(1 - float(beta2_power))) / (1 - float(beta1_power))
    return _Rule("adam", grad, (rate, 1 - float(beta1), 1 - float(beta2), epsilon))


# the size comes with the call, because the table of rules knows no plan

def _serves(grad: Array, *states: Array) -> bool:
    """float32 arrays that are worth a kernel, and that it can take."""
    return grad.size >= FEWEST and _taken(grad, *states)


def _taken(*arrays: Array) -> bool:
    return "llvm" in settings.libraries and all([a.flags.c_contiguous and a.dtype == np.float32 for a in arrays]) and usable()


@functools.lru_cache(maxsize=256)
def _kernel(name: str, elements: int, parts: int, *numbers: int) -> Kernel | None:
    """The kernel of an update rule over so many elements, which threads share by parts where they are many; None, said once,
    where it cannot be compiled."""
    sources = (library_source("program_updates.py"),)
    try:
        if worth_sharing(elements * _BYTES[name.removesuffix("_rows")]):
            return shared_rows(Program(sources, name, "team"), parts, numbers)
        return bind(Program(sources, name), (0, parts, *numbers), elements > HEAVY)
    except Exception as error:      # a compiler may fail in any way; NumPy's rule serves
        announce("llvm", name, error)
        return None


def _whole(program: str, grad: Array) -> Kernel | None:
    return _kernel(program, grad.size, grad.size)


def _moved(olds: Sequence[Array], outs: Sequence[Array]) -> Sequence[Array]:
    """The new values, which begin as the old ones."""
    for old, out in zip(olds, outs):
        if out is not old:
            np.copyto(out, old)
    return outs


def _dense(numpy_rule: Update, states: int, read: Callable[..., _Rule]) -> Update:
    def update(*given: Any) -> None:
        olds, outs = given[:states], given[-states:]
        program, grad, numbers = read(*given[states:-states])
        kernel = _whole(program, grad) if grad.shape == outs[0].shape and _serves(grad, *outs) else None
        if kernel is None:
            numpy_rule(*given)
        else:
            kernel(*_moved(olds, outs), grad, np.array(numbers, np.float32))
    return update


def _rows(numpy_rule: Update, states: int, read: Callable[..., _Rule]) -> Update:
    def update(*given: Any) -> None:
        olds, places, outs = given[:states], given[states], given[-states:]
        program, grad, numbers = read(*given[states + 1:-states])
        sizes = _sizes(places, grad, outs)
        kernel = _kernel(f"{program}_rows", grad.size, PARTS, *sizes) if sizes else None
        if kernel is None:
            numpy_rule(*given)
        else:
            kernel(*_moved(olds, outs), *_by_row(places, grad, sizes, numbers))
    return update


def _table(numpy_rule: Update) -> Update:
    def update(*given: Any) -> None:
        olds, outs = given[:3], given[-3:]
        *inputs, places = given[3:-3]
        _, grad, numbers = _adam(*inputs)
        sizes = _sizes(places, grad, outs)
        kernel = _kernel("adam_table", outs[0].size, PARTS, outs[0].shape[0], *sizes) if sizes else None
        if kernel is None:
            numpy_rule(*given)
        else:
            kernel(*_moved(olds, outs), *_by_row(places, grad, sizes, numbers))
    return update


def _sizes(places: Array, grad: Array, outs: Sequence[Array]) -> tuple[int, ...]:
    """(gradients, their elements, bits for the number of one) where a kernel serves: however few, since NumPy looks first which
    rows are named twice."""
    if not grad.size or grad.shape != (places.size, *outs[0].shape[1:]) or not _taken(grad, *outs):
        return ()
    return places.size, grad.size // places.size, places.size.bit_length()


def _by_row(places: Array, grad: Array, sizes: tuple[int, ...], numbers: Sequence[Any]) -> tuple[Array, ...]:
    """(ascending keys, gradients, settings, room for a row of each part)."""
    keys = np.left_shift(places.astype(np.int64), sizes[-1]) + np.arange(places.size)
    keys.sort()
    return keys, grad, np.array(numbers, np.float32), np.empty(PARTS * sizes[-2], np.float32)


def _descend(numpy_rule: Update) -> Update:
    def update(old: Any, lr: Any, grad: Any, out: Any) -> None:
        kernel = _whole("descend", grad) if old.shape == grad.shape and _serves(grad, old, out) else None
        if kernel is None:
            numpy_rule(old, lr, grad, out)
        else:
            kernel(old, np.asarray(lr, np.float32), grad, out)
    return update


def _descend_rows(numpy_rule: Update) -> Update:
    def update(old: Any, rows: Any, lr: Any, grad: Any, out: Any) -> None:
        sizes = _sizes(rows, grad, (out,))
        kernel = _kernel("descend_rows", grad.size, PARTS, *sizes[:2]) if sizes else None
        if kernel is None:
            numpy_rule(old, rows, lr, grad, out)
        else:
            kernel(*_moved((old,), (out,)), np.ascontiguousarray(rows, np.int64), np.asarray(lr, np.float32), grad)
    return update


_DESCENT = "apply_gradient_descent"      # the rule whose kernel takes its only setting, and a place for the new value
_READ: dict[str, Callable[..., _Rule]] = {
    _DESCENT: lambda lr, grad: _Rule("descend", grad, (lr,)), "apply_momentum": _momentum,
    "apply_adagrad": _adagrad, "apply_rms_prop": _rms_prop, "apply_adam": _adam}


def _together(numpy_rule: Update) -> Update:
    """One call of C runs the kernels of all variables, also of those so small that alone NumPy would serve them."""
    def update(rule: str, count: int, *given: Any) -> None:
        found = Parts.of(rule, count, given)
        program, _, numbers = _READ[rule](*found.before, found.grads[0], *found.after)
        kernels = [_whole(program, grad) for grad in found.grads] if _taken(*found.grads, *found.outs) else [None]
        if None in kernels:
            numpy_rule(rule, count, *given)
            return
        outs, shared, states = _moved(found.olds, found.outs), np.array(numbers, np.float32), len(found.outs) // count
        calls = ([(kernel, out, shared, grad, out) for kernel, grad, out in zip(kernels, found.grads, outs)]
                 if rule == _DESCENT else
                 [(kernel, *outs[at:at + states], grad, shared)
                  for kernel, grad, at in zip(kernels, found.grads, range(0, len(outs), states))])
        at_once(*calls)
    return update


_RULES: dict[str, Callable[[Update], Update]] = {
    _DESCENT: _descend,
    "descend_rows": _descend_rows,
    **{name: functools.partial(_dense, states=DENSE[name][0], read=_READ[name]) for name in _READ if name != _DESCENT},
    **{f"{name}_rows": functools.partial(_rows, states=DENSE[name][0], read=_READ[name])
       for name in ("apply_momentum", "apply_adagrad", "apply_rms_prop")},
    "adam_table": _table,
    "apply_together": _together,
}
for _name, _compiled in _RULES.items():
    if _name in updates:
        updates[_name] = _compiled(updates[_name])
