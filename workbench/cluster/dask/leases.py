"""One Dask task per task of ours, for as long as it lives: so Dask knows that its workers and its scheduler are in use."""
from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from distributed import get_worker, secede

__all__ = ["Leases"]

logger = logging.getLogger("workbench")


def hold(session: int, task: str) -> None:
    """Runs on the Dask worker until the task has ended there; other Dask work has the worker's threads to itself."""
    secede()
    plugin: Any = get_worker().plugins["workbench"]
    if plugin.host is not None:
        plugin.host.wait_for_end(session, task)


class Leases:
    """Without them a scheduler with an idle timeout stops in the middle of training, and its workers with it."""

    def __init__(self, client: Any, session: int) -> None:
        self._client, self._session = client, session
        self._futures: dict[str, Any] = {}

    def take(self, addresses: Mapping[str, str]) -> None:
        """The tasks of `addresses` (task -> Dask worker) exist; does not wait for Dask."""
        for task, address in addresses.items():
            job, _, index = task.removeprefix("/job:").partition("/task:")
            try:
                self._futures[task] = self._client.submit(
                    hold, self._session, task, key=f"workbench-{job}-{self._session:016x}-{index}", workers=[address],
                    pure=False)
            except (OSError, RuntimeError) as error:       # the client is gone; steps need no client
                logger.info("workbench: Dask has no lease of %s (%s)", task, error or type(error).__name__)

    def release(self, task: str) -> None:
        """The task is lost; Dask need not look for its worker."""
        future = self._futures.pop(task, None)
        if future is not None and self._client.status == "running":
            future.release()

    def close(self) -> None:
        for task in list(self._futures):
            self.release(task)
