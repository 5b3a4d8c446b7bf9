"""Updates of several variables as one: their locks taken in one order, new values in all of them or in none."""
from __future__ import annotations

import collections
import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from workbench.core.graph.dtype import float32
from workbench.core.graph.shape import Shape
from workbench.core.state.variables import VariableState, at_once

__all__ = ["update_together"]

Array = np.ndarray[Any, Any]
R = TypeVar("R")

_LOCK = type(threading.RLock())
_ACQUIRE, _RELEASE = _LOCK.acquire, _LOCK.release


def update_together(states: Sequence[VariableState], kernel: Callable[..., None], *arguments: Any,
                    rows: Array | None = None) -> Array:
    """`kernel(*olds, *arguments, *outs)` while no other writer has any of `states`; returns the first new value.

    As VariableState.update; a kernel writes the new values `at_once`.
    """
    if len(states) == 1:
        return states[0].update(kernel, *arguments, rows=rows)
    order = sorted(states, key=id)      # everybody takes locks in one order, so that no two wait for each other
    return _locked([state.lock for state in order],
                   lambda: _update(states, [state._pointer for state in order], kernel, arguments, rows))


def _locked(locks: Iterable[Any], action: Callable[[], R]) -> R:
    """`action()` with all the locks.

    They are taken in one call and freed in one, both of C, so that Ctrl-C separates no lock from the list of what is to be
    freed, and finds nothing half freed.
    """
    held: list[Any] = []
    freed: list[None] = []
    free = map(_RELEASE, held)
    try:
        held.extend(filter(_ACQUIRE, locks))
        return action()
    finally:
        freed.extend(free)


def _update(states: Sequence[VariableState], pointers: Sequence[Any], kernel: Callable[..., None],
            arguments: Sequence[Any], rows: Array | None) -> Array:
    outs, done = _locked(pointers, lambda: _in_place(states, kernel, arguments, rows))
    if not done:
        kernel(*[state.read() for state in states], *arguments, *outs)
        calls = [call for state, out in zip(states, outs) for call in state._publishing(out)]
        _locked(pointers, lambda: at_once(*calls))
    return outs[0]


def _in_place(states: Sequence[VariableState], kernel: Callable[..., None], arguments: Sequence[Any],
              rows: Array | None) -> tuple[list[Array], bool]:
    """The buffers to write. If some are current values the update is done, and readers wait; else it is not.

    NOTE: the main thread may be interrupted between the kernel's last write and the exchange of buffers, so there
    all variables are written in place or none, lest they be of different steps.
    """
    pins = [state.saving(rows) for state in states]
    alone = [references == _ALONE + len(saving) for references, saving in zip(_references(states), pins)]
    olds = [state._held() for state in states]
    for state, old in zip(states, olds):
        state.changes.note(state.version + 1, old, rows)
    fresh = rows is None and any([state._awaited for state in states])
    within = [not fresh and free and getattr(old.flags, "writeable", True) for free, old in zip(alone, olds)]
    if not all(within) and threading.get_ident() == threading.main_thread().ident:
        within = [False] * len(within)
    outs = [old if inside else state._target(old.shape, old.dtype, True) for state, old, inside in zip(states, olds, within)]
    if fresh:
        _give(states, "_awaited", itertools.repeat(False))
    if any(within):
        for pin in itertools.chain.from_iterable(itertools.compress(pins, within)):
            pin.save(rows)
        _overwrite(states, kernel, arguments, olds, outs)
    return outs, any(within)


def _references(states: Sequence[VariableState]) -> list[int]:
    """How many refer to the buffer of each."""
    return [sys.getrefcount(state._buffer) for state in states]


def _give(states: Sequence[VariableState], name: str, values: Iterable[Any]) -> None:
    """Set an attribute of all, in one call of C."""
    collections.deque(map(setattr, states, itertools.repeat(name), values), 0)


def _overwrite(states: Sequence[VariableState], kernel: Callable[..., None], arguments: Sequence[Any],
               olds: Sequence[Array], outs: Sequence[Array]) -> None:
    before = [state.version for state in states]
    _give(states, "version", [version + 1 for version in before])
    try:
        _give(states, "_overwritten", itertools.repeat(True))
        kernel(*olds, *arguments, *outs)
    except Exception:      # a kernel that fails has not written yet; an interrupted one may have, so its version counts
        _give(states, "version", before)
        raise
    finally:
        _give(states, "_overwritten", itertools.repeat(False))
    calls = [call for state, old, out in zip(states, olds, outs) if out is not old for call in state._publishing(out)[1:]]
    if calls:
        at_once(*calls)


def _calibrate() -> int:
    """References to a buffer that nobody else holds, as `_references` sees it; differs between interpreter versions."""
    probe = VariableState("probe", float32, Shape(()))
    probe._buffer = np.zeros(())
    return _references([probe])[0]


_ALONE = _calibrate()
