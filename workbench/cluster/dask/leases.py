"""One Dask task per task of ours, for as long as it lives: so Dask knows that its workers and its scheduler are in use."""
from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from typing import Any

import distributed
from distributed import get_worker, secede

from workbench import errors
from workbench.cluster.dask.choice import Amounts, written

__all__ = ["Leases"]

logger = logging.getLogger("workbench")

_ARRIVAL = 5.0      # seconds that a task may come after its lease
_LOOK = 0.01        # between two looks whether a lease has begun
_END = 3.0          # seconds that leases with resources may take to end with their tasks


def hold(session: int, task: str, arrival: float) -> None:
    """Runs on the Dask worker until the task has ended there; other Dask work has the worker's threads to itself."""
    secede()
    plugin: Any = get_worker().plugins["workbench"]
    if plugin.host is not None:
        plugin.host.wait_for_end(session, task, arrival)


class Leases:
    """Without them a scheduler with an idle timeout stops in the middle of training, and its workers with it.

    Those of tasks that ask for resources take them from Dask: another cluster, or Dask's other work, waits for them.
    """

    def __init__(self, client: Any, session: int) -> None:
        self._client, self._session = client, session
        self._futures: dict[str, Any] = {}
        self._demanding: list[str] = []
        self._name = secrets.token_hex(4)       # or Dask takes a second try for the first one

    def take(self, addresses: Mapping[str, str]) -> None:
        """The tasks of `addresses` (task -> Dask worker) exist; does not wait for Dask."""
        for task, address in addresses.items():
            if task not in self._futures:
                try:
                    self._submit(task, address, {}, 0.0)
                except (OSError, RuntimeError) as error:       # the client is gone; steps need no client
                    logger.info("workbench: Dask has no lease of %s (%s)", task, str(error) or type(error).__name__)

    def demand(self, addresses: Mapping[str, str], resources: Mapping[str, Amounts], timeout: float) -> None:
        """The tasks of `addresses` exist: take what they ask for, in an order in which of two that want the same one succeeds.

        ResourceExhaustedError when Dask does not give it within `timeout` seconds; then nothing is taken.
        """
        try:
            for task in sorted(resources.keys() & addresses.keys(), key=lambda task: (addresses[task], task)):
                self._demanding.append(task)
                self._submit(task, addresses[task], resources[task], _ARRIVAL)
                if not self._client.sync(self._begun, task, addresses[task], timeout):
                    raise errors.ResourceExhaustedError(
                        f"Cluster: {task} is to have {written(resources[task])} of the Dask worker {addresses[task]}, which "
                        f"did not give it within {timeout:g} s: somebody took it at the same time, or all its threads are "
                        "busy with other work of Dask; try again, or start more workers with these resources")
        except BaseException:
            self.close()
            raise

    async def _begun(self, task: str, address: str, timeout: float) -> bool:
        try:
            async with asyncio.timeout(timeout):
                while True:
                    status = await self._client.rpc(address).wb_status()
                    if [self._session, task] in [list(one) for one in status["leased"]]:
                        return True
                    await asyncio.sleep(_LOOK)
        except (OSError, TimeoutError):      # it is gone, or somebody else has what it could give
            return False

    def _submit(self, task: str, address: str, resources: Amounts, arrival: float) -> None:
        job, _, index = task.removeprefix("/job:").partition("/task:")
        self._futures[task] = self._client.submit(
            hold, self._session, task, arrival, key=f"workbench-{job}-{self._session:016x}-{index}-{self._name}",
            workers=[address], resources=dict(resources), pure=False)

    def release(self, task: str) -> None:
        """Dask need not look for the task's worker."""
        future = self._futures.pop(task, None)
        if future is not None and self._client.status == "running":
            future.release()

    def wait(self) -> None:
        """Until what ended tasks had taken can be taken by others, for a while."""
        found = [self._futures[task] for task in self._demanding if task in self._futures]
        if found and self._client.status == "running":
            try:
                self._client.sync(distributed.client._wait, found, timeout=_END)      # `wait` asks the default client
            except (OSError, TimeoutError):
                logger.info("workbench: the resources of %s are still taken", ", ".join(self._demanding))

    def close(self) -> None:
        for task in list(self._futures):
            self.release(task)
