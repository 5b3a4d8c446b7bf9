"""Preloaded by the workers of an embedded cluster: Ctrl-C, which a terminal sends to all processes, is the chief's."""
from __future__ import annotations

import signal
from typing import Any

__all__ = ["dask_setup"]


def dask_setup(worker: Any) -> None:
    """Dask calls this in the main thread of the worker process; the nanny still ends it by other means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
