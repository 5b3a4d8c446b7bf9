"""Large tensors are sent when there is room for them: what lies unused is bounded, and nothing else is other than before."""
from __future__ import annotations

import random
import weakref
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from graphlib import TopologicalSorter
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.compile.partition import partition
from workbench.core.compile.place import place
from workbench.core.graph.check import verify
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.passes.hold import hold
from workbench.core.passes.prune import prune
from workbench.core.run import local, prepare

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("graph")]
DEVICES = [f"/job:localhost/task:0/device:CPU:{i}" for i in range(3)]
SIDE, LAYERS = 64, 12
NBYTES = 4 * SIDE * SIDE


def shares(*fetches: Tensor) -> list[Program]:
    program = prune(fetches[0].graph, fetches, (), {})
    return [part.program for part in partition(program, place(program, DEVICES))]


def layers(weights: str = "/cpu:1", products: str = "/cpu:0") -> Tensor:
    """What multiplies by one weight after the other, which lie on another device."""
    with wb.device(products):
        x = wb.ones([1, SIDE])
    for number in range(LAYERS):
        values = np.random.default_rng(number).standard_normal((SIDE, SIDE)).astype(np.float32) / SIDE ** 0.5
        with wb.device(weights):
            weight = wb.Variable(values, name=f"w{number}")
        with wb.device(products):
            x = wb.tanh(wb.matmul(x, weight))
    return x


def edges(programs: Sequence[Program]) -> dict[Operation, list[Operation]]:
    """Before each operation of all shares: those that run first."""
    operations = [op for program in programs for op in program.graph.operations]
    sent = {ends(op): op for op in operations if op.kind == "send"}
    return {op: [*(t.op for t in op.inputs), *op.controls, *([sent[ends(op)]] if op.kind == "receive" else [])]
            for op in operations}


def ends(op: Operation) -> tuple[str, ...]:
    return tuple(op.attrs[name] for name in ("tensor", "source", "target"))


def held(programs: Sequence[Program]) -> int:
    """Operations that send and wait for a token."""
    return sum(op.kind == "send" and any(c.kind == "receive" for c in op.controls) for op in edges(programs))


def most_unused(programs: Sequence[Program], least: int) -> int:
    """The most bytes that lie where they were sent to before anybody uses them: each device runs one operation at a time,
    as they were built, and messages take none."""
    before = edges(programs)
    readers = defaultdict(list)
    for op, earlier in before.items():
        for one in earlier:
            readers[one].append(op)
    sizes = {op: op.outputs[0].shape.num_elements() * op.outputs[0].dtype.size for op in before if op.kind == "receive"}
    done: set[Operation] = set()
    most = 0
    while len(done) < len(before):
        ready = [op for op in before if op not in done and done.issuperset(before[op])]
        assert ready, "nothing can go on"
        instant = [op for op in ready if op.kind in ("send", "receive", "constant", "variable", "read_variable")]
        done.update(instant or {op.device: op for op in reversed(ready)}.values())
        unused = [size for op, size in sizes.items() if op in done and size >= least and done.isdisjoint(readers[op])]
        most = max(most, sum(unused))
    return most


def test_what_arrived_and_is_unused_stays_within_its_bytes():
    programs = shares(layers())
    room = 4 * NBYTES
    later = hold(programs, room, NBYTES)
    for program in later:
        verify(program, "hold")
    assert most_unused(programs, NBYTES) == LAYERS * NBYTES
    assert most_unused(later, NBYTES) == room
    assert held(later) == LAYERS - 4
    narrow = hold(programs, NBYTES // 2, NBYTES)      # one that is awaited, and one behind it
    assert most_unused(narrow, NBYTES) == 2 * NBYTES


def test_small_tensors_and_those_that_there_is_room_for_are_sent_at_once():
    programs = shares(layers())
    for same in (hold(programs), hold(programs, LAYERS * NBYTES, NBYTES), hold(programs, 0, NBYTES + 1)):
        assert all(one is other for one, other in zip(same, programs, strict=True))


def test_what_does_not_depend_on_an_earlier_use_waits_for_none():
    """Another branch may be first, whatever the order in which both were built."""
    x = layers()
    with wb.device("/cpu:1"):
        other = wb.Variable(np.ones((SIDE, SIDE), np.float32), name="other")
    programs = hold(shares(x, wb.reduce_sum(wb.exp(other))), 2 * NBYTES, NBYTES)
    waiting = {op.attrs["tensor"]: bool(op.controls) for op in edges(programs)
               if op.kind == "send" and not op.attrs["tensor"].startswith("^")}
    assert sum(waiting.values()) == LAYERS - 2
    assert [wait for tensor, wait in waiting.items() if "other" in tensor] == [False]


def crossing(seed: int) -> list[Tensor]:
    """Chains on three devices that read each other's values, in the order in which they were built."""
    draw = random.Random(seed)
    known = []
    for number, device in enumerate(("/cpu:0", "/cpu:1", "/cpu:2")):
        with wb.device(device):
            known.append([wb.Variable(np.full((2, 2), 0.1 * (number + 1), np.float32)).value()])
    for _ in range(draw.randint(6, 40)):
        mine = draw.randrange(3)
        other = draw.choice(known[draw.randrange(3)])
        with wb.device(f"/cpu:{mine}"):
            value = wb.tanh(other) if draw.random() < 0.2 else other
            known[mine].append(wb.matmul(known[mine][-1] if draw.random() < 0.8 else draw.choice(known[mine]), value))
    return [chain[-1] for chain in known]


def test_no_circle_arises_and_nothing_waits_for_anything_new():
    """Each product comes after those that it came after before, and after no other."""
    count = 0
    for seed in range(60):
        with wb.Graph().as_default():
            programs = shares(*crossing(seed))
        later = hold(programs, ahead=0, large=1)
        count += held(later)
        assert list(TopologicalSorter(edges(later)).static_order())
        assert after(edges(later)) == after(edges(programs))
    assert count > 100


def after(before: dict[Operation, list[Operation]]) -> dict[str, set[str]]:
    """Name and device of each product -> those of the products that come before it."""
    known: dict[Operation, set[str]] = {}
    for op in TopologicalSorter(before).static_order():
        earlier = {one.name + one.device for one in before[op] if one.kind == "matmul"}
        known[op] = earlier.union(*(known[one] for one in before[op]))
    return {op.name + op.device: names for op, names in known.items() if op.kind == "matmul"}


def run(fetches: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[list[bytes], list[str]]:
    """Bits of what is fetched, and what was sent in its order."""
    sent: list[str] = []

    class Listening(local.LocalRendezvous):
        def send(self, edge: str, value: Any, dead: bool = False) -> None:
            sent.append(edge.split("|")[0])
            super().send(edge, value, dead)
    monkeypatch.setattr(local, "LocalRendezvous", Listening)
    with wb.Session(devices=3, **options) as session:
        session.run(wb.global_variables_initializer())
        sent.clear()
        found = session.run(fetches)
    return [value.tobytes() for value in found], sent


def test_results_are_the_same_bits_and_held_tensors_follow_their_tokens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prepare, "hold", partial(hold, ahead=3 * NBYTES, large=NBYTES))
    x = layers()
    later, sent = run([x], monkeypatch)
    assert later == run([x], monkeypatch, disabled_passes=["hold"])[0]
    tokens = [place for place, name in enumerate(sent) if name.startswith("^hold/")]
    assert len(tokens) == LAYERS - 3
    for number, token in enumerate(tokens):      # each lets one go, and three were sent at once
        assert sum(not name.startswith("^") for name in sent[:token]) <= 3 + number


def test_loops_over_devices_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prepare, "hold", partial(hold, ahead=0, large=1))
    x = layers()
    with wb.device("/cpu:2"):
        turns = wb.while_loop(lambda i: i < 3.0, lambda i: i + wb.reduce_sum(x) * 0.0 + 1.0, [wb.constant(0.0)])
    found, sent = run([turns], monkeypatch, lower_all=True)
    assert found == [np.float32(3.0).tobytes()] and not any(name.startswith("^hold/") for name in sent)


def test_what_was_used_is_let_go_before_the_step_ends_and_variables_are_updated_in_place(monkeypatch: pytest.MonkeyPatch):
    """Of all that was sent no more is held at a time than travels or lies unused, and what is in use."""
    monkeypatch.setattr("workbench.core.compile.plan.LARGE", NBYTES)
    monkeypatch.setattr(prepare, "hold", partial(hold, ahead=3 * NBYTES, large=NBYTES))
    sent: list[weakref.ref[np.ndarray]] = []
    alive: list[int] = []

    class Counting(local.LocalRendezvous):
        def send(self, edge: str, value: Any, dead: bool = False) -> None:
            if value.nbytes == NBYTES:
                alive.append(sum(one() is not None for one in sent))
                sent.append(weakref.ref(value))
            super().send(edge, value, dead)
    monkeypatch.setattr(local, "LocalRendezvous", Counting)
    x = layers()
    weights = wb.global_variables()
    change = 1e-3 * wb.reduce_sum(x)
    with wb.device("/cpu:1"):
        after = [weight.assign_sub(change * wb.ones([SIDE, SIDE])) for weight in weights]
    with wb.Session(devices=3) as session:
        session.run(wb.global_variables_initializer())
        for _ in range(3):
            session.run(wb.group(*after))
        states = session.backend.container.variables()
    assert len(alive) == 3 * LAYERS and max(alive[:LAYERS]) <= 4
    assert [state._spare for state in states.values()] == [None] * LAYERS


@pytest.mark.parametrize("seed", range(5))
def test_random_chains_have_the_same_bits(monkeypatch: pytest.MonkeyPatch, seed: int):
    monkeypatch.setattr(prepare, "hold", partial(hold, ahead=0, large=1))
    fetches = crossing(seed)
    assert run(fetches, monkeypatch)[0] == run(fetches, monkeypatch, disabled_passes=["hold"])[0]
