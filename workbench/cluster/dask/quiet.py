"""Preloaded by the workers of an embedded cluster: Ctrl-C is the chief's, and the end of the cluster is no error."""
from __future__ import annotations

import logging
import signal
from typing import Any

__all__ = ["dask_setup"]

_GOODBYE = ("Failed to communicate with scheduler during heartbeat", "Connection to scheduler broken")


def _not_goodbye(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_GOODBYE)


def dask_setup(worker: Any) -> None:
    """Dask calls this in the main thread of the worker process; the nanny still ends it by other means.

    A terminal sends Ctrl-C to all processes, but the chief decides what it means. A worker whose heartbeat is under way
    when the chief closes the scheduler would print a traceback; a scheduler that really dies is reported by the chief.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("distributed.worker").addFilter(_not_goodbye)
