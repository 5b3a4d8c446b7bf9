"""Where the handlers of signals run while a thread computes: on memory of their own, not on the stack that kernels use.

Kernels that oneDNN 3.2 generates keep numbers below the end of the stack, beyond the 128 bytes that the system leaves alone
there. A handler on the same stack overwrites them, and what the kernel writes next goes anywhere: the process ends, sooner or
later, with a damaged heap. Ctrl-C, alarms, profilers and children that end all send signals. Python installs its handlers so
that they take another stack where the thread has one (`SA_ONSTACK`); otherwise only `faulthandler` gives the main thread one.
"""
from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from typing import Any, Final

__all__ = ["take_signal_stack"]

_BYTES: Final = 1 << 17      # of which the system touches what a handler uses; the registers alone may take 11 KiB
_DISABLED: Final = 2
_APART: Final[Any] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
"""A child that is forked keeps the stack, and must write on pages of its own."""


class _Stack(ctypes.Structure):
    """C's `stack_t`, as Linux has it."""

    _fields_ = (("place", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


def _found() -> Any:
    """C's `sigaltstack`; None where this project does not know how it is called."""
    if sys.platform != "linux":
        return None
    try:
        found = ctypes.PyDLL(None).sigaltstack
    except (OSError, AttributeError):
        return None
    found.argtypes = (ctypes.POINTER(_Stack), ctypes.POINTER(_Stack))      # passes structures by their addresses
    return found


_sigaltstack: Final = _found()


class _Own:
    """The stack for signals of one thread, given up when the thread ends."""

    def __init__(self) -> None:
        self.memory = ctypes.c_char.from_buffer(mmap.mmap(-1, _BYTES, **_APART))      # which it keeps
        # NOTE: at the end of the process modules are gone before this is: it has all that it calls
        self.thread, self.sigaltstack, self.none = threading.get_ident, _sigaltstack, _Stack(None, _DISABLED, 0)
        self.keep, self.kept = ctypes.pythonapi.Py_IncRef, ctypes.py_object(self.memory)
        self.owner = self.thread()
        self.taken = self.sigaltstack(_Stack(ctypes.addressof(self.memory), 0, _BYTES), None) == 0

    def __del__(self) -> None:
        """Usually in the thread itself; memory at which a thread may still point is left to it."""
        if self.taken and (self.thread() != self.owner or self.sigaltstack(self.none, None) != 0):
            self.keep(self.kept)


_mine: Final = threading.local()


def take_signal_stack() -> None:
    """See to it that the calling thread has a stack for signals; one that it has already stays."""
    if hasattr(_mine, "own"):
        return
    _mine.own = None
    if _sigaltstack is None:
        return
    now = _Stack()
    if _sigaltstack(None, now) == 0 and now.flags & _DISABLED:
        _mine.own = _Own()
