"""Python's cycle collector stands still while a plan or an instance is made: millions of new records, none of them garbage."""
from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

__all__ = ["uncollected"]

_lock = threading.Lock()
_holders: set[int] = set()      # threads, not a count: what Ctrl-C leaves behind ends with the thread's next plan
_threshold = 0


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No collection in this process inside; the last thread that leaves sets the threshold back.

    The collector stays enabled: Dask asks once, when it is loaded, whether it is, and would never enable it again.
    """
    global _threshold
    me = threading.get_ident()
    with _lock:
        if not _holders:
            _threshold = gc.get_threshold()[0]
        _holders.add(me)
        gc.set_threshold(0)
    try:
        yield
    finally:
        with _lock:
            _holders.discard(me)
            if not _holders:
                gc.set_threshold(_threshold)
