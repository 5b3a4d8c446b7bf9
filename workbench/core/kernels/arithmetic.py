"""The arithmetic of a step: no warnings of infinities and NaNs, and numbers too small to be normal are zero, as in TensorFlow.

Processors take a hundred times longer for subnormal numbers (below 1.2e-38 in float32), and training makes them: moments of
optimizers that decay, activations that die out. TensorFlow's threads flush them to zero, results and operands; so do ours
while they compute a step, and only then: a user's own thread gets its way of computing back.
"""
from __future__ import annotations

import contextlib
import ctypes
import platform
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

__all__ = ["FLUSHES", "Arithmetic", "computing"]

_REGISTERS: Final = {("linux", "x86_64"): (4, 0x8040), ("linux", "aarch64"): (0, 0x1000000)}
"""(system, processor) -> where in C's `femode_t` the register lies that says how to compute, and the bits that flush: FTZ and
DAZ of MXCSR (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, 10.2.3), FZ of FPCR (Arm ARM, C5.2.8)."""
_ROOM: Final = 16      # bytes, at least those of a `femode_t`
_LEAST, _HALF = sys.float_info.min, 0.5      # a product of them is subnormal, or zero where such are flushed


class _Mode(threading.local):
    """How a thread computes, as C's functions read and write it: its own way, and the same that flushes."""

    def __init__(self, place: int, bits: int) -> None:
        library = ctypes.PyDLL("libm.so.6")      # keeps the interpreter's lock: a call takes less than a microsecond
        self.before, flushing = (ctypes.c_char * _ROOM)(), (ctypes.c_ubyte * _ROOM)()
        library.fegetmode(flushing)
        register = int.from_bytes(flushing[place:place + 4], sys.byteorder) | bits
        flushing[place:place + 4] = list(register.to_bytes(4, sys.byteorder))
        self.flushing: Any = flushing
        self.read, self.write = library.fegetmode, library.fesetmode


def _found() -> _Mode | None:
    """None where this project does not know how, or it does not help: subnormal numbers stay what they are."""
    known = _REGISTERS.get((sys.platform, platform.machine()))
    try:
        made = None if known is None else _Mode(*known)
    except (OSError, AttributeError):
        return None
    if made is None:
        return None
    made.read(made.before)
    made.write(made.flushing)
    flushed = _LEAST * _HALF == 0
    made.write(made.before)
    return made if flushed else None


_mode: Final = _found()
FLUSHES: Final = _mode is not None
"""Are subnormal numbers flushed on this system?"""


class Arithmetic:
    """A context in which the calling thread computes as a step does. OpenMP's threads inherit it from who starts them."""

    __slots__ = ("_errors", "_mode", "_within")

    def __enter__(self) -> None:
        mine = _thread.mine
        if mine.holds:
            self._within: _Mine | None = mine
            mine.within += 1
            return
        self._within = None
        self._errors = np.errstate(all="ignore")
        self._errors.__enter__()
        self._mode = mode = _mode if _LEAST * _HALF != 0 else None      # else it is so already
        if mode is not None:
            mode.read(mode.before)
            mode.write(mode.flushing)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        mine = self._within
        if mine is not None:
            mine.within -= 1
            if mine.over is not None and not mine.within:
                mine.over.close()
            return
        mode = self._mode
        if mode is not None:
            mode.write(mode.before)
        self._errors.__exit__(kind, error, traceback)


class _Mine:
    """What is known of one thread."""

    __slots__ = ("holds", "over", "within")

    def __init__(self) -> None:
        self.holds = False                               # is it inside `computing`?
        self.within = 0                                  # how many Arithmetic it is in that had nothing to see to
        self.over: contextlib.ExitStack | None = None    # what ends with the last of them, as `computing` ended before


class _Thread(threading.local):
    def __init__(self) -> None:
        self.mine = _Mine()                              # one look for all of it: each takes as long as a call


_thread: Final = _Thread()


@contextlib.contextmanager
def computing() -> Iterator[None]:
    """For a thread that runs many short steps and nothing of a user's: it computes as they do all the while, so that none of
    them has to see to it. It may end in the middle of a step, which computes as it began."""
    mine = _thread.mine
    with contextlib.ExitStack() as stack:
        stack.enter_context(Arithmetic())
        stack.callback(setattr, mine, "over", None)
        mine.holds = True
        try:
            yield
        finally:
            mine.holds = False
            if mine.within:
                mine.over = stack.pop_all()
