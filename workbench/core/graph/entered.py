"""The graphs and sessions that each thread is inside of, and so the session that eval() and run() use."""
from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

from workbench import errors

__all__ = ["default_session", "entered", "get_default_session", "pop_session", "push_for_good", "push_session"]


class _Entered(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.sessions: list[Any] = []
        self.lasting: list[Any] = []      # those of `sessions` that no `with` will take back


entered = _Entered()


def default_session() -> Any:
    if not entered.sessions:
        raise errors.InvalidArgumentError("eval/run: No default session is registered; use 'with Session() as s:' or pass "
                                          "session=")
    return entered.sessions[-1]


def get_default_session() -> Any:
    """The session that eval() and run() use in this thread, None outside `with Session()`."""
    return entered.sessions[-1] if entered.sessions else None


def push_session(session: Any) -> None:
    entered.sessions.append(session)


def pop_session(session: Any) -> None:
    if session in entered.sessions:
        entered.sessions.remove(session)


def push_for_good(session: Any, graphs: Collection[Any]) -> None:
    """Make `session` the default with no end in sight.

    Those whose graph is none of `graphs`, the default ones, are defaults no more: a notebook cell that is run again would keep
    them all.
    """
    entered.lasting = [s for s in entered.lasting if s in entered.sessions]
    for old in [s for s in entered.lasting if s.graph not in graphs]:
        entered.lasting.remove(old)
        entered.sessions.remove(old)
    entered.lasting.append(session)
    entered.sessions.append(session)
