"""The arithmetic of a step: no warnings of infinities and NaNs, and numbers too small to be normal are zero, as in TensorFlow.

Processors take a hundred times longer for subnormal numbers (below 1.2e-38 in float32), and training makes them: moments of
optimizers that decay, activations that die out. TensorFlow's threads flush them to zero, results and operands; so do ours
while they compute a step, and only then: a user's own thread gets its way of computing back.
"""
from __future__ import annotations

import ctypes
import functools
import platform
import sys
from typing import Any, Final

import numpy as np

__all__ = ["Arithmetic"]

_REGISTERS: Final = {("linux", "x86_64"): (28, 0x8040), ("linux", "aarch64"): (0, 0x1000000)}
"""(system, processor) -> where in C's `fenv_t` the register lies that says how to compute, and the bits that flush: FTZ and
DAZ of MXCSR (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, 10.2.3), FZ of FPCR (Arm ARM, C5.2.8)."""
_ROOM: Final = 64      # bytes, at least those of a `fenv_t`


class _Flush:
    """C's functions for the calling thread's floating-point environment."""

    def __init__(self, place: int, bits: int) -> None:
        library = ctypes.PyDLL("libm.so.6")      # which keeps the interpreter's lock: each call takes less than a microsecond
        self.read, self.write = library.fegetenv, library.fesetenv
        self.place, self.bits = place, bits

    def begin(self) -> Any:
        """Flush from now on; what to give to `write` later, None where it was so before."""
        before: Any = ctypes.create_string_buffer(_ROOM)
        self.read(before)
        register = int.from_bytes(before[self.place:self.place + 4], sys.byteorder)
        if register & self.bits == self.bits:
            return None
        flushing: Any = ctypes.create_string_buffer(before.raw, _ROOM)
        flushing[self.place:self.place + 4] = (register | self.bits).to_bytes(4, sys.byteorder)
        self.write(flushing)
        return before


@functools.cache
def _flush() -> _Flush | None:
    """None where this project does not know how, or it does not help: subnormal numbers stay what they are."""
    known = _REGISTERS.get((sys.platform, platform.machine()))
    if known is None:
        return None
    try:
        found = _Flush(*known)
    except (OSError, AttributeError):
        return None
    before, smallest = found.begin(), np.finfo(np.float32).tiny
    flushed = smallest * np.float32(0.5) == 0
    if before is not None:
        found.write(before)
    return found if flushed else None


class Arithmetic:
    """A context in which the calling thread computes as a step does. OpenMP's threads inherit it from who starts them."""

    __slots__ = ("_before", "_errors")

    def __enter__(self) -> None:
        self._errors = np.errstate(all="ignore")
        self._errors.__enter__()
        flush = _flush()
        self._before = flush.begin() if flush is not None else None

    def __exit__(self, *error: object) -> None:
        flush = _flush()
        if flush is not None and self._before is not None:
            flush.write(self._before)
        self._errors.__exit__(*error)      # type: ignore[arg-type]
