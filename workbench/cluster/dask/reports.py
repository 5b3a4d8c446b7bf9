"""What the chief tells the Dask scheduler twice a second: step times for the page, and which workers hold tasks."""
from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any

from workbench.cluster.chief.member import Member
from workbench.cluster.dask import page as dashboard

__all__ = ["Reporter"]

logger = logging.getLogger("workbench")


class Reporter:
    """Sends events through `client` and never waits for them."""

    def __init__(self, client: Any, session: int, timeout: float) -> None:
        self._client, self._session, self._timeout = client, f"{session:016x}", timeout

    def members(self, addresses: Iterable[str]) -> None:
        """These Dask workers hold our tasks; adaptive scaling leaves them alone. None of them: the session is over."""
        self._tell({"session": self._session, "members": list(addresses)})

    def step_times(self, members: Iterable[Member]) -> None:
        """One small row per task that ran since the last call."""
        rows, now = [], time.time()
        for member in members:
            times, member.times = member.times, []
            if times:
                rows.append(dashboard.row(self._session, member.task, member.address, now, times))
        if rows:
            self._tell({"rows": rows})

    def _tell(self, message: dict[str, Any]) -> None:
        async def tell() -> None:
            try:
                async with asyncio.timeout(self._timeout):
                    await self._client.scheduler.log_event(topic=dashboard.TOPIC, msg=message)
            except (OSError, TimeoutError) as error:     # a scheduler that is gone is noticed elsewhere
                logger.info("workbench: the scheduler did not take a report (%s)", error or type(error).__name__)
        telling = tell()
        try:
            asyncio.run_coroutine_threadsafe(telling, self._client.loop.asyncio_loop)
        except RuntimeError as error:                    # its owner closed the client; steps go on without it
            telling.close()
            logger.info("workbench: no report to the scheduler (%s)", error)
