"""Ctrl-C at a chosen moment: the signal's handler runs at the n-th place where Python would let it in."""
from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

__all__ = ["every_interrupt"]


class _Interrupt:
    """A profile function that interrupts at the `number`-th door in the files whose path contains one of `inside`.

    Doors are where a Python function begins and where a call of a C function has returned, as part of that call: a lock
    that it took is held by then. There the interpreter looks for signals (and when it jumps back, which is left out).
    """

    def __init__(self, number: int, inside: tuple[str, ...]) -> None:
        self.left, self._inside, self.raised = number, inside, False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "c_return") or self.raised:
            return
        if not any(part in frame.f_code.co_filename for part in self._inside):
            return
        if self.left == 0:
            self.raised = True
            signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)      # type: ignore[operator,misc]
        self.left -= 1


def every_interrupt(action: Callable[[], Any], *inside: str) -> Iterator[int]:
    """Run `action` on this thread again and again, interrupted ever later, until it ends before its interrupt comes.

    Yields the number of each interrupt after it struck, for the caller to look at what is left behind.
    """
    number = 0
    while True:
        interrupt, before = _Interrupt(number, inside), sys.getprofile()
        sys.setprofile(interrupt)
        try:
            action()
        except KeyboardInterrupt:
            assert interrupt.raised
        finally:
            sys.setprofile(before)
        if not interrupt.raised:
            assert number or not inside, f"no function of {', '.join(inside)} was called; the paths are out of date"
            return
        yield number
        number += 1
