"""Pushes and the moments between them: nobody's push is cut in two, and nobody waits for a worker that is gone."""
from __future__ import annotations

import itertools
import random

import pytest

from workbench.core.state.pushes import Pushes


def test_a_moment_waits_for_pushes_under_way_and_holds_up_new_ones():
    pushes, said = Pushes("p"), []
    pushes.begin("a", lambda: said.append("a pushes"))
    pushes.hold(lambda: said.append("moment"))
    pushes.begin("b", lambda: said.append("b pushes"))
    assert said == ["a pushes"]
    pushes.end("a")
    assert said == ["a pushes", "moment"]
    pushes.release()
    assert said == ["a pushes", "moment", "b pushes"]


def test_a_worker_that_begins_again_has_given_up_its_push():
    pushes, said = Pushes("p"), []
    pushes.begin("a", lambda: None)
    pushes.hold(lambda: said.append("moment"))
    pushes.begin("a", lambda: said.append("again"))      # its step was aborted and is run again
    assert said == ["moment"]
    pushes.release()
    assert said == ["moment", "again"] and pushes.under_way == {"a"}


def test_attempts_that_are_taken_back_are_nobody_s():
    pushes, said = Pushes("p"), []
    pushes.begin("a", lambda: None)
    pushes.hold(lambda: said.append("moment"))()
    pushes.begin("b", lambda: said.append("b"))()
    pushes.end("a")
    pushes.release()
    assert said == [] and pushes.under_way == set()


def test_who_is_gone_is_forgotten():
    pushes, said = Pushes("p"), []
    pushes.begin("a", lambda: None)
    pushes.hold(lambda: said.append("moment"))
    pushes.release(forget=True)
    pushes.hold(lambda: said.append("moment"))
    assert said == ["moment", "moment"]
    pushes.close()
    assert not pushes.held


class Servers:
    """Workers that add one to each server in turn, in an order made by a seed; a checkpoint is taken server by server."""

    def __init__(self, seed: int, waits: bool = True) -> None:
        self.pushes, self.chance, self.waits = Pushes("p"), random.Random(seed), waits
        self.values, self.taken, self.ready = [0, 0, 0], [], []
        for worker in "abc":
            self.come(worker)
        self.pin = iter(())

    def come(self, worker: str) -> None:
        self.pushes.begin(worker, lambda: self.ready.append(self.push(worker)))

    def push(self, worker: str):
        for server in self.chance.sample(range(3), 3):
            self.values[server] += 1
            yield
        self.pushes.end(worker)
        self.come(worker)

    def cut(self):
        found = {}
        for server in self.chance.sample(range(3), 3):
            found[server] = self.values[server]
            yield
        self.taken.append(tuple(found[server] for server in range(3)))
        self.pushes.release()

    def run(self, moments: int) -> None:
        for moment in range(moments):
            if moment % 20 == 10:
                def take() -> None:
                    self.ready.append(self.cut())
                if self.waits:
                    self.pushes.hold(take)
                else:
                    take()
            one = self.chance.choice(self.ready)
            if next(one, "over") == "over":
                self.ready.remove(one)


@pytest.mark.parametrize("seed", range(20))
def test_checkpoints_hold_of_each_push_all_or_nothing(seed):
    servers = Servers(seed)
    servers.run(2000)
    assert len(servers.taken) > 90 and all(a == b == c for a, b, c in servers.taken)
    assert all(before <= after for before, after in itertools.pairwise(servers.taken))


def test_checkpoints_that_do_not_wait_for_pushes_are_found():
    torn = Servers(0, waits=False)
    torn.run(2000)
    assert any(len(set(values)) > 1 for values in torn.taken)
