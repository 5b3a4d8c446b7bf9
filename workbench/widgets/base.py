"""What live widgets share: messages of the page are answered while a cell runs."""

from __future__ import annotations

from typing import Any

__all__ = ["reply_at_once"]


def reply_at_once(widget: Any) -> None:
    """Have the page's messages to `widget` handled on the shell the page sent them to, also while a cell runs.

    NOTE: ipykernel 7.4 hands a comm's messages to the shell that last sent on it. For a widget made or changed by a
    running cell that is the main shell, and a button would be heard when the cell has ended. The hook is private;
    kernels without it need no help.
    """
    comm = widget.comm
    if comm is not None and hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: default
