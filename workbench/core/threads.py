"""Starting a thread, which may fail for want of memory or of threads."""
from __future__ import annotations

import threading

from workbench import errors

__all__ = ["start_thread"]


def start_thread(thread: threading.Thread) -> None:
    """Start it; ResourceExhaustedError, with the thread's name, where the system gives this process none."""
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        if thread.is_alive():
            raise
        raise errors.ResourceExhaustedError(
            f"{thread.name}: this process has no memory for the stack of another thread, or may have no more threads; give "
            "its machine more memory, or raise the limit (ulimit -u, or the pids limit of its container)") from error
