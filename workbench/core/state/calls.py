"""What waiters are told, by whichever thread served them and outside of every lock."""
from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["Call", "make_calls"]

Call = Callable[[], None]


def make_calls(calls: Sequence[Call]) -> None:
    """All of them, for each there is a step that waits; also when one raises, such as Ctrl-C in what follows from it."""
    left = iter(calls)
    try:
        for call in left:
            call()
    except BaseException:
        make_calls(list(left))
        raise
