"""Worker processes that do not run the user's script again: `wb.Cluster()` works in a script without a main guard."""
from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from distributed import Nanny

__all__ = ["ScriptlessNanny"]

GOODBYE_SECONDS = 20.0
"""How long a worker may take to end before it is killed, about; Dask's 4 s are short on a loaded machine."""
_lock = threading.Lock()
_starting = 0


class _Fileless(ModuleType):
    """The main module for everybody who asks, but with no file or name that a new process could import."""

    def __init__(self, main: ModuleType) -> None:
        super().__init__("__main__")
        self._main = main

    def __getattr__(self, name: str) -> Any:
        if name == "__file__":
            raise AttributeError(name)
        return getattr(self._main, name)


@contextlib.contextmanager
def _without_script() -> Iterator[None]:
    """Processes that multiprocessing spawns meanwhile import no main module.

    It tells each of them where the parent's lies, and they run it top to bottom before anything else. Task processes
    need nothing from it, and in a script that starts its cluster at top level they would start clusters of their own.
    """
    global _starting
    with _lock:
        if _starting == 0:
            sys.modules["__main__"] = _Fileless(sys.modules["__main__"])
        _starting += 1
    try:
        yield
    finally:
        with _lock:
            _starting -= 1
            shown = sys.modules["__main__"]
            if _starting == 0 and isinstance(shown, _Fileless):
                sys.modules["__main__"] = shown._main


class ScriptlessNanny(Nanny):
    """Dask's watcher of one worker process; see `_without_script`."""

    async def instantiate(self) -> Any:
        with _without_script():
            return await super().instantiate()

    async def kill(self, timeout: float = 5, reason: str = "nanny-kill") -> None:
        """End the worker; one that only needs long is neither killed nor warned of, which a notebook would show."""
        await super().kill(max(timeout, GOODBYE_SECONDS), reason)
