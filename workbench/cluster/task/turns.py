"""How often the threads of a process take turns: more often while any of its hosts has tasks."""
from __future__ import annotations

import sys
import threading

__all__ = ["Turns", "turns"]

_SWITCH_INTERVAL = 2e-4      # seconds; the default of 5 ms delays a receiver behind a computing thread (dask #6325)


class Turns:
    """Python's switch interval belongs to the process, which may have several hosts: the last one puts back what the
    first one found."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hosts = 0
        self._before = 0.0

    def shorten(self) -> None:
        """A host has its first task."""
        with self._lock:
            if not self._hosts:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(_SWITCH_INTERVAL)
            self._hosts += 1

    def restore(self) -> None:
        """A host's last task has ended."""
        with self._lock:
            self._hosts -= 1
            if not self._hosts:
                sys.setswitchinterval(self._before)      # the process is its other users' again


turns = Turns()
"""Those of this process."""
