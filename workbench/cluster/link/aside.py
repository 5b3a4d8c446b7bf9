"""Beside an event loop: what may wait, for a lock or for a peer, runs on a thread of its own, and the loop goes on."""
from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["aside"]

R = TypeVar("R")


def aside(call: Callable[..., R], *arguments: Any) -> asyncio.Future[R]:
    """`call(*arguments)` on a new thread; await what comes of it, or do not. Call on an event loop, which never waits.

    Who stops waiting, after a time limit say, does not stop the call. A loop's own executor has few threads: as many calls as
    those that hang for ever would leave none.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[R] = loop.create_future()

    def run() -> None:
        try:
            tell: tuple[Callable[[Any], None], Any] = (found.set_result, call(*arguments))
        except BaseException as error:
            tell = (found.set_exception, error)
        with contextlib.suppress(RuntimeError):          # the loop is over, and with it who waited
            loop.call_soon_threadsafe(_settle, found, *tell)

    threading.Thread(target=run, daemon=True, name=f"wb-aside-{getattr(call, '__name__', '')}").start()
    return found


def _settle(found: asyncio.Future[Any], tell: Callable[[Any], None], value: Any) -> None:
    if not found.done():
        tell(value)
