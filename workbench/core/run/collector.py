"""Python's cycle collector stands still while a plan or an instance is made: millions of new records, none of them garbage."""
from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

__all__ = ["uncollected"]

_lock = threading.Lock()
_holders: set[int] = set()      # threads, not a count: what Ctrl-C leaves behind ends with the thread's next plan
_was_on = True


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No collection in this process inside; the last thread that leaves turns it on again if it was on."""
    global _was_on
    me = threading.get_ident()
    with _lock:
        if not _holders:
            _was_on = gc.isenabled()
        _holders.add(me)
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _holders.discard(me)
            if not _holders and _was_on:
                gc.enable()
