"""Where the graph's language wants it, a monitored session finalizes its graph until it ends, and ends once."""
from __future__ import annotations

from typing import Any

from workbench import errors

__all__ = ["Ending"]


class Ending:
    """Of one session of `graph`; where the language does not want it, nothing happens."""

    def __init__(self, graph: Any) -> None:
        self._graph, self._strict, self._ended = graph, graph.language.sessions_end_once, False
        self._before = graph.finalized      # which it stays then

    def made(self, session: Any) -> Any:
        """`session`, which the one that is monitored made; to one that the program makes itself it may add operations."""
        if self._strict:
            self._graph.finalize()
        return session

    def check(self) -> None:
        """FailedPreconditionError where it has ended."""
        if self._strict and self._ended:
            raise errors.FailedPreconditionError("MonitoredSession: Session is already closed.; leave that to the end of the "
                                                 "block, or make another one")

    def end(self) -> None:
        """The session ends."""
        self._ended = True
        if self._strict and not self._before:
            self._graph._unsafe_unfinalize()
