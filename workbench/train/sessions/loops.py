"""Loops of training: one function called again and again in a supervisor's session."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench import errors

__all__ = ["basic_train_loop"]


def basic_train_loop(supervisor: Any, train_step_fn: Callable[..., Any], args: Sequence[Any] | None = None,
                     kwargs: Mapping[str, Any] | None = None, master: str = "") -> None:
    """Call `train_step_fn(session, *args, **kwargs)` until the supervisor should stop.

    After AbortedError, which tells that a task of a cluster began anew, it goes on in a new session.
    """
    while True:
        try:
            with supervisor.managed_session(master) as session:
                while not supervisor.should_stop():
                    train_step_fn(session, *(args or ()), **(kwargs or {}))
            return
        except errors.AbortedError:
            continue
