"""What the chief tells the Dask scheduler twice a second: the account of each task, and which workers hold tasks."""
from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Any

from workbench.cluster.dask import page as dashboard
from workbench.core.trace import Journal
from workbench.viz.books import books_of

__all__ = ["Reporter"]

logger = logging.getLogger("workbench")


class Reporter:
    """Sends events through `client` and never waits for them."""

    def __init__(self, client: Any, session: int, timeout: float, journal: Journal) -> None:
        self._client, self._session, self._timeout = client, f"{session:016x}", timeout
        self._books, self._told = books_of(journal), 0
        self._addresses: Mapping[str, str] = {}

    def members(self, addresses: Mapping[str, str]) -> None:
        """These Dask workers hold our tasks; adaptive scaling leaves them alone. None of them: the session is over."""
        self._tell({"session": self._session, "members": list(addresses.values()), "client": self._client.id})
        self._addresses = addresses

    def goodbye(self) -> None:
        """The session is over. Waits until the scheduler knows, for the client may be closed next."""
        told = self._tell({"session": self._session, "members": [], "client": self._client.id})
        if told is not None:
            with contextlib.suppress(TimeoutError, concurrent.futures.CancelledError):
                told.result(self._timeout)

    def summary(self) -> None:
        """What each task's steps consist of, and the verdict: the numbers of every other view."""
        self._books.advance()
        version, found = self._books.version, self._books.summary
        if version != self._told:
            self._told = version
            rows = [dashboard.row(self._session, row, self._addresses[row.task], time.time())
                    for row in found.rows if row.task in self._addresses]      # sessions without a cluster are no news here
            if rows:
                self._tell({"rows": rows, "verdict": found.verdict.text})

    def _tell(self, message: dict[str, Any]) -> Any:
        async def tell() -> None:
            try:
                async with asyncio.timeout(self._timeout):
                    await self._client.scheduler.log_event(topic=dashboard.TOPIC, msg=message)
            except (OSError, TimeoutError) as error:     # a scheduler that is gone is noticed elsewhere
                logger.info("workbench: the scheduler did not take a report (%s)", error or type(error).__name__)
        telling = tell()
        try:
            return asyncio.run_coroutine_threadsafe(telling, self._client.loop.asyncio_loop)
        except RuntimeError as error:                    # its owner closed the client; steps go on without it
            telling.close()
            logger.info("workbench: no report to the scheduler (%s)", error)
            return None
