"""A process that can start no more threads, without using any memory or thread up."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

__all__ = ["without_threads"]


@contextlib.contextmanager
def without_threads() -> Iterator[None]:
    """Nothing can be started within: the stack of a new thread would be larger than any address space."""
    before = threading.stack_size(1 << 50)
    try:
        yield
    finally:
        threading.stack_size(before)
