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
from workbench.viz.lost import broken
from workbench.viz.reader import Reader

__all__ = ["Reporter"]

_LOOKED_AT = 2000      # spans of a report
_BARS = 50      # of one step in the task stream

logger = logging.getLogger("workbench")


class Reporter:
    """Sends events through `client` and never waits for them."""

    def __init__(self, client: Any, session: int, timeout: float, journal: Journal) -> None:
        self._client, self._session, self._timeout = client, f"{session:016x}", timeout
        self._books, self._told = books_of(journal), 0
        self._journal = journal
        self._wrong: dict[str, Any] = {"lost": {}, "broken": []}      # as told
        self._spans = Reader(journal.spans_since, _LOOKED_AT)
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
        """What each task's steps consist of, the verdict, who is lost and what is no number: what every other view says.

        What the accounts cost counts as taking in what tasks record, which decides how often they do (`Sampling`).
        """
        status = self._journal.status
        lost = {one.task: f"{one.cause}. {one.fix}" for one in status.lost}
        wrong = {"lost": lost, "broken": [f"{fact} {fix}" for fact, fix in broken(status)]}
        if wrong != self._wrong:
            self._wrong = wrong
            self._tell({"session": self._session, **wrong})
        began = time.thread_time()
        self._account()
        self._journal.taking += time.thread_time() - began

    def _account(self) -> None:
        self._books.advance()
        version, found = self._books.version, self._books.summary
        if version != self._told:
            self._told = version
            rows = [dashboard.row(self._session, row, self._addresses[row.task], time.time())
                    for row in found.rows      # sessions without a cluster are no news here
                    if row.known and row.task in self._addresses]
            if rows:
                self._tell({"rows": rows, "verdict": found.verdict.text, "stream": self._stream()})

    def _stream(self) -> list[dict[str, Any]]:
        """One of the steps that ended since the last report as it went, for Dask's task stream: that holds a thousand bars."""
        mine = [span for span in self._spans.new()[-_LOOKED_AT:] if span.kind in ("segment", "send") and span.step >= 0
                and span.task in self._addresses]
        if not mine:
            return []
        numbers = sorted({span.step for span in mine})
        number, ahead = numbers[len(numbers) // 2], self._journal.wall(0.0)      # in the middle: all of it has come
        longest = sorted((span for span in mine if span.step == number), key=lambda span: span.start - span.end)[:_BARS]
        return [dashboard.bar(span.task, self._addresses[span.task], span, ahead) for span in longest]

    def _tell(self, message: dict[str, Any]) -> Any:
        async def tell() -> None:
            try:
                async with asyncio.timeout(self._timeout):
                    await self._client.scheduler.log_event(topic=dashboard.TOPIC, msg=message)
            except (OSError, TimeoutError) as error:     # a scheduler that is gone is noticed elsewhere
                logger.info("workbench: the scheduler did not take a report (%s)", str(error) or type(error).__name__)
        telling = tell()
        try:
            return asyncio.run_coroutine_threadsafe(telling, self._client.loop.asyncio_loop)
        except RuntimeError as error:                    # its owner closed the client; steps go on without it
            telling.close()
            logger.info("workbench: no report to the scheduler (%s)", error)
            return None
