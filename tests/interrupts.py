"""Ctrl-C at a chosen moment: the signal's handler runs at the n-th place where Python would let it in."""
from __future__ import annotations

import contextlib
import dis
import functools
import itertools
import signal
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

__all__ = ["every_interrupt"]

_DOORS = ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME")     # after these signals are looked for


@functools.cache
def _doors(code: CodeType) -> frozenset[int]:
    """Offsets of the instructions before which a signal is handled."""
    lines = list(dis.get_instructions(code))
    return frozenset(before.argval if before.opname == "JUMP_BACKWARD" else after.offset
                     for before, after in itertools.pairwise(lines) if before.opname in _DOORS)


class _Interrupt:
    """A trace function that interrupts at the `number`-th door inside the files whose path contains one of `inside`."""

    def __init__(self, number: int, inside: tuple[str, ...]) -> None:
        self.left, self._inside, self.raised = number, inside, False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in self._inside):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode" and not self.raised and frame.f_lasti in _doors(frame.f_code):
            if self.left == 0:
                self.raised = True
                signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)      # type: ignore[operator,misc]
            self.left -= 1
        return self._step


@contextlib.contextmanager
def _tracing(trace: Any) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def every_interrupt(action: Callable[[], Any], *inside: str) -> Iterator[int]:
    """Run `action` on this thread again and again, interrupted ever later, until it ends before its interrupt comes.

    Yields the number of each interrupt after it struck, for the caller to look at what is left behind.
    """
    number = 0
    while True:
        interrupt = _Interrupt(number, inside)
        with contextlib.suppress(KeyboardInterrupt), _tracing(interrupt):
            action()
        if not interrupt.raised:
            return
        yield number
        number += 1
