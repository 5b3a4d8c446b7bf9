"""What hooks ask of a step: what they fetch, feed and want traced."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.train.config import RunMetadata, RunOptions
from workbench.train.sessions.hooks import SessionRunArgs, SessionRunHook

__all__ = ["add_feeds", "checked", "traced"]


def traced(asked: Sequence[Any], options: Any, metadata: Any) -> tuple[Any, Any]:
    """The options of a step that somebody wants traced or in time, and what takes its trace: the most that was asked for."""
    given = [o for o in (*asked, options) if o is not None]
    if len(given) > (options is not None):
        options = RunOptions(trace_level=max(o.trace_level for o in given), timeout_in_ms=max(o.timeout_in_ms for o in given))
    if metadata is None and options is not None and options.trace_level:
        metadata = RunMetadata()
    return options, metadata


def checked(hook: SessionRunHook, args: Any) -> SessionRunArgs | None:
    if args is not None and not isinstance(args, SessionRunArgs):
        raise errors.InvalidArgumentError(f"{type(hook).__name__}.before_run: it returned a {type(args).__name__}; return "
                                          "SessionRunArgs(fetches, feed_dict) or None")
    return args


def add_feeds(feeds: dict[Any, Any], more: Any, hook: SessionRunHook) -> None:
    """Feed what a hook feeds besides. RuntimeError, as TensorFlow raises it, where somebody feeds that already."""
    for tensor, value in more.items():
        if tensor in feeds:
            raise RuntimeError(f"{type(hook).__name__}.before_run: Same tensor is fed by two hooks, or a hook and the user: "
                               f"{tensor.name!r}; feed it once")
        feeds[tensor] = value
