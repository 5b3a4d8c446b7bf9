"""Pushes and the moments between them: nobody's push is cut in two, and nobody waits for a worker that is gone."""
from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

import pytest

from workbench.core.state.pushes import Pushes

BOTH = ("left", "right")


class Server:
    """The parts that began on a server, and what their steps call at their ends."""

    def __init__(self) -> None:
        self.pushes, self.began, self.ends = Pushes("p"), [], {}

    def come(self, worker: str, number: int) -> Callable[[], None]:
        """A part of a push comes; returns what takes it back."""
        return self.pushes.begin(worker, number, BOTH, lambda: self.began.append((worker, number)),
                                 lambda end: self.ends.__setitem__((worker, number), end))

    def settle(self, **cut: int) -> list[str]:
        """Gets an element when what is in `cut` has ended."""
        said: list[str] = []
        self.undo = self.pushes.settle(cut, lambda: said.append("settled"))
        return said


def test_a_server_that_is_held_says_what_began_and_lets_that_alone_begin_and_end():
    server = Server()
    server.come("a", 1)
    server.come("b", 2)
    server.ends["b", 2]()
    assert server.pushes.hold() == {"a": (1, BOTH), "b": (2, BOTH)}
    server.come("c", 3)
    server.come("b", 4)
    assert server.began == [("a", 1), ("b", 2)]
    said = server.settle(a=1, b=2, c=3)      # c's push began on another server
    assert server.began == [("a", 1), ("b", 2), ("c", 3)] and not said
    server.ends["c", 3]()
    assert not said
    server.ends["a", 1]()
    assert said == ["settled"] and ("b", 4) not in server.began
    server.pushes.release()
    assert server.began[-1] == ("b", 4)


def test_who_settles_waits_for_what_began_elsewhere_and_has_not_come():
    server = Server()
    server.pushes.hold()
    said = server.settle(a=7)
    server.come("a", 7)
    assert server.began == [("a", 7)] and not said
    server.ends["a", 7]()
    assert said
    server.pushes.release()
    assert server.pushes.hold() == {}      # whole everywhere, and never asked for again


def test_what_was_whole_at_the_last_moment_does_not_begin_anew_with_another_try():
    server = Server()
    server.come("a", 7)
    server.ends["a", 7]()
    server.pushes.hold()
    assert server.settle(a=7)
    server.pushes.release()
    server.come("a", 7)                    # its answer was lost, not its update
    assert server.pushes.hold() == {}


def test_a_server_that_is_new_since_it_was_held_says_so():
    """What is read of it is not of the moment that the others hold."""
    server = Server()
    server.come("a", 1)
    assert server.settle(b=7) and not server.pushes.release()
    assert server.pushes.hold() == {"a": (1, BOTH)} and server.pushes.release()


def test_two_who_settle_the_same_are_both_told():
    """Two programs of one graph may name the same pushes."""
    server = Server()
    server.come("a", 7)
    server.ends["a", 7]()
    server.pushes.hold()
    server.pushes.hold()
    assert server.settle(a=7) and server.settle(a=7)


def test_a_worker_that_comes_with_a_later_push_has_given_up_the_one_before():
    server = Server()
    server.pushes.hold()
    said = server.settle(a=7)
    server.come("a", 8)      # its step was aborted and is run again
    assert said and not server.began
    server.pushes.release()
    assert server.began == [("a", 8)]


def test_attempts_that_are_taken_back_are_nobody_s():
    server = Server()
    server.pushes.hold()
    server.come("a", 1)()
    said = server.settle(b=1)
    server.undo()
    server.come("b", 1)
    server.ends["b", 1]()
    server.pushes.release()
    assert server.began == [("b", 1)] and not said


def test_who_is_gone_is_forgotten():
    server = Server()
    server.come("a", 1)
    server.pushes.hold()
    said = server.settle(a=1, b=5)
    server.pushes.forget()
    assert said and not server.began[1:]
    server.pushes.release()
    server.come("b", 5)      # so slow, not gone: it counts as what was there
    assert server.pushes.hold() == {}
    server.come("c", 6)
    server.pushes.close()
    assert not server.pushes.held and server.began[-1] == ("c", 6)


class Servers:
    """Workers that add one to each server, in an order made by a seed; a checkpoint is taken server by server."""

    def __init__(self, seed: int, waits: bool = True, holds: bool = True) -> None:
        self.servers, self.chance = [Pushes(str(number)) for number in range(3)], random.Random(seed)
        self.waits, self.holds, self.cutting = waits, holds, False
        self.values, self.taken, self.ready = [0, 0, 0], [], []
        self.places = ("0", "1", "2")
        for worker in "abc":
            self.ready.append(self.work(worker))

    def work(self, worker: str) -> Iterator[None]:
        for number in itertools.count():
            left = set(range(3))
            for server in self.chance.sample(range(3), 3):
                yield
                self.ready.append(self.part(worker, number, server, left))
            while left:
                yield

    def part(self, worker: str, number: int, server: int, left: set[int]) -> Iterator[None]:
        may: list[None] = []
        ends: list[Callable[[], None]] = []
        self.servers[server].begin(worker, number, self.places, lambda: may.append(None), ends.append)
        while not may:
            yield
        yield
        self.values[server] += 1
        yield
        ends[0]()
        left.discard(server)

    def cut(self) -> Iterator[None]:
        begun: list[dict[str, tuple[int, tuple[str, ...]]]] = []
        for one in self.chance.sample(self.servers, 3 if self.holds else 0):
            begun.append(one.hold())
            yield
        cut = {worker: max(one[worker][0] for one in begun if worker in one) for one in begun for worker in one}
        settled: list[None] = []
        for one in self.chance.sample(self.servers, 3):
            one.settle(cut, lambda: settled.append(None))
            yield
        while self.waits and len(settled) < 3:
            yield
        found = {}
        for server in self.chance.sample(range(3), 3):
            found[server] = self.values[server]
            yield
        self.taken.append(tuple(found[server] for server in range(3)))
        for one in self.chance.sample(self.servers, 3):
            one.release()
            yield
        self.cutting = False

    def run(self, moments: int) -> None:
        for moment in range(moments):
            if moment % 200 == 10 and not self.cutting:
                self.cutting = True
                self.ready.append(self.cut())
            one = self.chance.choice(self.ready)
            if next(one, "over") == "over":
                self.ready.remove(one)


@pytest.mark.parametrize("seed", range(20))
def test_checkpoints_hold_of_each_push_all_or_nothing(seed):
    servers = Servers(seed)
    servers.run(10_000)
    assert len(servers.taken) > 30 and all(a == b == c for a, b, c in servers.taken)
    assert all(before <= after for before, after in itertools.pairwise(servers.taken)) and servers.taken[-1][0] > 200


@pytest.mark.parametrize("without", ["waits", "holds"])
def test_checkpoints_that_do_not_wait_for_pushes_or_hold_them_are_found(without):
    torn = Servers(0, **{without: False})
    torn.run(10_000)
    assert any(len(set(values)) > 1 for values in torn.taken)
