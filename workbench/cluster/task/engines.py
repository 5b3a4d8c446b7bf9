"""The seam between tasks and engines: what a task calls, what it tells, and the engines known by name."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from workbench import errors
from workbench.core.device.interface import Outgoing
from workbench.core.run.rendezvous import Rendezvous
from workbench.core.state.container import Container
from workbench.core.state.partitions import Columns
from workbench.core.state.retries import TryOf
from workbench.core.trace import Journal

__all__ = ["LONG", "OPERATIONS", "SILENT", "SPANS", "Engine", "Result", "Send", "TaskContext", "define_engine", "make_engine"]

SILENT, LONG, SPANS, OPERATIONS = range(4)
"""What is recorded of a step: nothing; that it took long, if it did; its spans; every operation too."""

Send = Callable[..., None]
"""send(edge, value, dead, kept=False): towards the device that the edge leads to; never waits for it unless it is far behind.
On return the memory of `value` may be reused, unless `kept` says that nobody writes it while somebody refers to it."""
Result = list[Any] | BaseException


class Engine(Protocol):
    """What runs partitions inside a task. Methods are called from receiver threads, several at a time."""

    def register(self, handle: str, program: bytes | memoryview) -> None:
        """Prepare `program` (the text of one device graph per device of this task) under `handle`."""

    def run(self, handle: str, step: int, feeds: dict[str, np.ndarray[Any, Any]], send: Send, rendezvous: Rendezvous,
            done: Callable[[Result], None], trace: int, of: TryOf | None = None) -> None:
        """Start a step; `done` is called once with the fetches or an error, from any thread, now or later, when
        the last kernel of the step has returned, also after `abort`. `of` says what it is a try of, if it may be tried again.

        A feed for which there was no memory is `Dropped`: the step ends with its error.

        From `trace` SPANS on, what the step does goes to the journal; the task itself records steps and sends.

        Runs on the thread that receives from the chief: call `release_receiver()` before anything long, or hand over.
        """

    def abort(self, step: int, error: errors.Error) -> None:
        """End the step soon; its rendezvous gives `error` to whoever waits. `done` still tells when nothing of it runs."""

    def unregister(self, handle: str) -> None:
        """Forget what was registered under `handle`, if anything; steps that run go on."""

    def reset(self, containers: Sequence[str] | None) -> None:
        """Forget the state in `containers`; "" means what is in none, None all there is."""

    def keep(self, name: str, partitions: Sequence[Columns]) -> None:
        """Have these partitions of the data `name` for datasets to read, until `close`."""

    def facts(self) -> dict[str, Any]:
        """What people may want to know of its state. Takes no lock: event loops ask, and people whose steps hang."""

    def close(self) -> None:
        """Release threads and memory; no call follows."""


@dataclass(frozen=True)
class TaskContext:
    """What an engine is told when it is made."""

    task: str
    tasks: tuple[str, ...]
    session: int
    journal: Journal           # spans recorded here reach the chief within a second
    container: Container | None = None      # the state that the task shares with others; None: it is its own
    outgoing: Outgoing | None = None        # where it makes large arrays that it sends


_engines: dict[str, Callable[[TaskContext], Engine]] = {}


def define_engine(name: str, factory: Callable[[TaskContext], Engine]) -> None:
    """Make `Cluster(engine=name)` possible in this process; a worker's plugin defines "graph"."""
    _engines[name] = factory


def make_engine(name: str, context: TaskContext) -> Engine:
    """The engine called `name` for a task; NotFoundError lists the known ones. Nothing is imported by name."""
    if name not in _engines:
        raise errors.NotFoundError(f"{context.task}: there is no engine {name!r}, only {', '.join(sorted(_engines))}; "
                                   "call define_engine on every worker first")
    return _engines[name](context)
