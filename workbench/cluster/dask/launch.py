"""Finding Dask workers for tasks: an embedded LocalCluster or the user's client, the plugin, the choice."""
from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from multiprocessing import resource_tracker
from types import MappingProxyType
from typing import Any, NamedTuple

import dask
from distributed import Client, LocalCluster, SpecCluster, Status
from distributed.utils import get_mp_context

from workbench import errors
from workbench.cluster.dask.choice import Wishes, assign, limited
from workbench.cluster.dask.nanny import ScriptlessNanny
from workbench.cluster.dask.page import ROUTE, WorkbenchScheduler
from workbench.cluster.task.host import WorkbenchWorker
from workbench.core.run.interrupts import deferred_interrupt

__all__ = ["choose_workers", "embedded", "install", "install_page", "let_go", "more_to_come", "page_of", "resolve"]

logger = logging.getLogger("workbench")


_SILENT = 1 << 20      # what counts as the tasks of a worker that does not say how many it has
_PATIENCE = 3.0        # seconds that a worker may take to say it
_SOON = 0.5            # seconds within which a worker answers that is well
_CALM = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "500ms",
         "distributed.admin.system-monitor.interval": "1s"}
"""Dask looks at itself 150 times a second in every process, which small steps feel; see docs/decisions.md."""


_METHOD = "distributed.worker.multiprocessing-method"
PRELOADED = ["distributed", "workbench.cluster.dask.quiet", "workbench.cluster.task.engine", "workbench.cluster.task.host"]
"""What every worker process loads."""
_served: dict[str, str] = {}
"""The environment in which the process that forks workers was started; it never hears of another."""


@contextlib.contextmanager
def _forked_workers() -> Iterator[None]:
    """Workers started meanwhile are forked by one process that has loaded what they need, which takes each a second and more.

    That process has a single thread and lives until this one ends. Where the environment has changed since it was started,
    and on other systems than Linux, whose libraries do not bear forks, each worker loads all by itself.
    """
    if sys.platform != "linux" or (_served and _served != dict(os.environ)):
        yield
        return
    with dask.config.set({_METHOD: "forkserver"}):
        get_mp_context().set_forkserver_preload(PRELOADED)
        try:
            yield
        finally:
            _served.update(os.environ)


def embedded(workers: int, dashboard_address: str | None) -> tuple[Client, LocalCluster]:
    """A cluster of single-threaded processes on this machine; memory is not limited, for variables live there.

    FailedPreconditionError in a process that may start none, as Dask's workers are.
    """
    if multiprocessing.current_process().daemon:
        raise errors.FailedPreconditionError("Cluster: client is None but this process, a Dask worker perhaps, may not start "
                                             "others; in a task of Dask pass distributed.get_client(), so that its workers "
                                             "serve")
    local = None
    try:
        with dask.config.set(_CALM), deferred_interrupt(), _deaf_children(), _forked_workers():
            local = LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, memory_limit=0,
                                 dashboard_address=dashboard_address, host="127.0.0.1",
                                 preload="workbench.cluster.dask.quiet", worker_class=ScriptlessNanny)
        return Client(local), local
    except BaseException:
        if local is not None:
            local.close()
        raise


@contextlib.contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes started meanwhile do not hear Ctrl-C, which a terminal sends to all: half a cluster cannot be closed.

    Threads and processes inherit the signals that their maker blocks; the chief is told of them by the interpreter.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()      # or the thread that starts it first hears signals again (CPython 3.11)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def page_of(client: Client) -> str:
    """Address of our page in the dashboard of the client's cluster, "" when it has none."""
    try:
        link = client.dashboard_link or ""
    except (KeyError, AttributeError):      # a scheduler that serves no dashboard
        return ""
    return link.removesuffix("/status") + ROUTE if link else ""


def let_go(client: Client) -> None:
    """Close `client`, also where its scheduler is gone.

    NOTE: distributed 2026.8: a client that gives its scheduler up closes itself; who closes it at that moment cancels the same
    connection attempt a second time, which raises. The attempt is over then.
    """
    try:
        client.close()
    except RuntimeError:
        logger.debug("a client was closed twice at once", exc_info=True)
        client.close()


def resolve(client: Any, timeout: float) -> tuple[Client, bool]:
    """The Dask client meant by `client` (a Client, a cluster object or an address), and whether we opened it."""
    if isinstance(client, Client):
        if client.asynchronous:
            raise errors.InvalidArgumentError("Cluster: client is asynchronous, a synchronous one is needed; "
                                              "pass Client(address) made without asynchronous=True")
        if client.status != "running":
            raise errors.UnavailableError(f"Cluster: the client's status is {client.status!r}, not 'running'; "
                                          "make a new Client")
        return client, False
    try:
        return Client(client, timeout=timeout), True
    except (OSError, TimeoutError) as error:
        raise errors.UnavailableError(f"Cluster: no Dask scheduler answers at {client} within {timeout:g} s "
                                      f"({str(error) or type(error).__name__}); check the address "
                                      "and that it runs") from error
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgumentError(f"Cluster: {client!r} is not a Dask client or an address ({error}); "
                                          "pass a distributed.Client, a cluster, 'tcp://host:port' or None") from error


async def install(client: Client) -> None:
    """Register the worker plugin everywhere; runs on the client's loop."""
    try:
        await client.register_plugin(WorkbenchWorker())
    except ImportError as error:
        raise errors.UnavailableError(f"Cluster: a worker cannot import workbench ({error}); "
                                      "install the same version on all workers") from error


async def install_page(client: Client) -> None:
    """Register the scheduler plugin; a scheduler that cannot take it goes without our page."""
    try:
        await client.register_plugin(WorkbenchScheduler())
    except Exception as error:
        logger.warning("workbench: the Dask scheduler did not take our plugin (%s: %s); there is no step-time page, and "
                       "adaptive scaling may stop workers that hold variables", type(error).__name__, error)


async def choose_workers(client: Client, tasks: tuple[str, ...], wanted: Wishes, answering: bool = False) -> dict[str, str]:
    """task -> address of a Dask worker, see choice.assign; runs on the client's loop.

    With `answering`, workers that do not answer do not count, nor are they waited for while there are enough others.
    """
    info = (await client.scheduler.identity(n_workers=-1))["workers"]
    enough = len(tasks) if answering and not wanted.resources else len(info)
    idle = await _idle(client, list(info), enough)
    hosted = {address: idle[address].hosted for address in info if not answering or idle[address].hosted < _SILENT}
    workers = {address: {**info[address], "free": idle[address].free, "holders": idle[address].holders} for address in hosted}
    if workers and all(count == _SILENT for count in hosted.values()):
        raise errors.UnavailableError(
            f"Cluster: the Dask scheduler at {client.scheduler.address} answers but none of its {len(workers)} workers does, "
            f"as at {next(iter(workers))}; where this machine reaches the scheduler alone, as through a gateway or a forwarded "
            "port, run the program on a worker: client.submit(main), and in main() wb.Cluster(distributed.get_client(), …); "
            "else check that the workers run and that their ports are open")
    found = assign(tasks, workers, hosted, wanted)
    for task, limit in limited(found, workers).items():
        logger.warning("workbench: %s is on a Dask worker that is killed when it holds %.1f GB, variables included; start "
                       "workers with --memory-limit 0", task, 0.95 * limit / 1e9)
    return found


async def more_to_come(client: Client) -> bool:
    """Has the client's cluster asked for workers that are not there yet? SSH and batch systems start them in their own time."""
    wanted = len(getattr(client.cluster, "plan", ()))
    return wanted > len((await client.scheduler.identity(n_workers=-1))["workers"])


def call_again(client: Client) -> None:
    """Have the client's cluster start what it gave up: Dask waits 15 s for a lost worker (`lost-worker-timeout`), for a second
    loss within them no longer, and puts none in its place until it is scaled, be it to the number that it has. One that could
    not be started, as while another still has its name, it counts as started: such ones are forgotten here.

    Clusters with a meaning of their own for that number (of jobs, of pods) are left alone; their systems start again what died.
    """
    cluster = client.cluster
    if isinstance(cluster, SpecCluster) and type(cluster).scale is SpecCluster.scale:
        for name in [name for name, worker in cluster.workers.items() if worker.status is Status.failed]:
            del cluster.workers[name]
        cluster.scale(len(cluster.worker_spec))


class _Idle(NamedTuple):
    """How many tasks a worker has, which of Dask's resources nobody has taken, and which tasks have others, for people."""

    hosted: int
    free: Mapping[str, float] = MappingProxyType({})
    holders: tuple[str, ...] = ()


async def _idle(client: Client, addresses: list[str], enough: int) -> dict[str, _Idle]:
    """What each worker has to give; those that do not answer, or not soon while `enough` others do, come last."""
    asked = {address: asyncio.ensure_future(_ask(client, address)) for address in addresses}
    if enough < len(asked):
        await asyncio.wait(asked.values(), timeout=_SOON)
    while (waiting := [one for one in asked.values() if not one.done()]) and enough > sum(
            one.done() and one.result().hosted < _SILENT for one in asked.values()):
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    found = {}
    for address, one in asked.items():
        found[address] = one.result() if one.done() else _Idle(_SILENT)
        one.cancel()
    return found


async def _ask(client: Client, address: str) -> _Idle:
    try:
        async with asyncio.timeout(_PATIENCE):
            status = await client.rpc(address).wb_status()
        holders = tuple(f"{task} of session {session:016x}" for session, task in sorted(status["leased"]))
        return _Idle(int(status["hosted"]), dict(status["free"]), holders)
    except (OSError, TimeoutError, KeyError, TypeError) as error:
        logger.warning("workbench: worker %s did not say what it hosts (%s); it is used last", address,
                       str(error) or type(error).__name__)
        return _Idle(_SILENT)
