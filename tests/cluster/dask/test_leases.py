"""Leases that are given up while they are asked for: nothing stays taken."""
from __future__ import annotations

from typing import Any

from tests.interrupts import every_interrupt
from workbench.cluster.dask.leases import Leases

WORKERS = {"/job:worker/task:0": "tcp://a:1", "/job:worker/task:1": "tcp://b:1"}


class Future:
    """One of Dask, which gives its task up when it is released, and when nobody refers to it."""

    def __init__(self, taken: set[int]) -> None:
        self._taken = taken
        taken.add(id(self))

    def release(self) -> None:
        self._taken.discard(id(self))

    __del__ = release


class Client:
    """A client of a Dask cluster that gives what it is asked for."""

    status = "running"

    def __init__(self) -> None:
        self.taken: set[int] = set()

    def submit(self, *_: Any, **__: Any) -> Future:
        return Future(self.taken)

    def sync(self, *_: Any) -> bool:
        return True


def test_ctrl_c_at_any_moment_while_resources_are_asked_for_takes_nothing():
    """A lease that stayed would keep its worker's GPU from everybody until the program ends."""
    kept: list[Leases] = []

    def demand() -> None:
        kept.append(Leases(Client(), 7))
        kept[-1].demand(WORKERS, {task: {"GPU": 1} for task in WORKERS}, 1.0)
    for _ in every_interrupt(demand, "dask/leases.py"):
        assert not kept or not kept[-1]._client.taken
    assert len(kept[-1]._client.taken) == len(WORKERS)
