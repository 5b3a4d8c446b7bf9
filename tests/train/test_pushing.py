"""Pushes of replicas: checkpoints need not be asked, so that no message is sent for them."""
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

import workbench as wb
from workbench.core.compile.partition import Part, partition
from workbench.core.compile.place import place
from workbench.core.compile.plan import compile_plan
from workbench.core.passes.lower import lower
from workbench.core.passes.prune import prune
from workbench.core.run.light import script_of
from workbench.train import replicas
from workbench.train.pushing import pushed
from workbench.train.replicas import Tower, replicate

pytestmark = [pytest.mark.usefixtures("graph"), pytest.mark.once]

SERVERS = ["/job:ps/task:0", "/job:ps/task:1"]
WORKERS = ["/job:worker/task:0", "/job:worker/task:1"]
OPTIMIZERS = [wb.train.GradientDescentOptimizer, lambda rate: wb.train.MomentumOptimizer(rate, 0.9), wb.train.AdamOptimizer]


def dense() -> Tower:
    variables = [wb.get_variable(name, [2], initializer=wb.zeros_initializer()) for name in "abcd"]
    return Tower(wb.reduce_sum(wb.square(variables[0] + variables[1] * variables[2] + variables[3])), ())


def sparse() -> Tower:
    tables = [wb.get_variable(name, [6, 2], initializer=wb.zeros_initializer()) for name in ("rows", "more")]
    found = [wb.nn.embedding_lookup(table, np.array([1, 1, 3])) for table in tables]
    return Tower(wb.reduce_sum(wb.square(found[0] + found[1])), ())


def parts_of(step: wb.Operation) -> list[Part]:
    """What each task does in a step."""
    program = lower(prune(step.graph, (), [step], {}))
    return partition(program, place(program, [f"{task}/device:CPU:0" for task in (*WORKERS, *SERVERS)]))


def steps_of(model, optimizer, step_at: str | None) -> Sequence[wb.Operation]:
    with wb.device(step_at):
        step = wb.train.get_or_create_global_step()
    return replicate(model, optimizer(1.0), WORKERS, SERVERS, global_step=step).steps


def sends(parts: Sequence[Part]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(op.attrs[key] for key in ("tensor", "source", "target"))
                   for part in parts for op in part.program.graph.operations if op.kind == "send")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", [dense, sparse])
@pytest.mark.parametrize("step_at", [SERVERS[0], WORKERS[1]])
def test_a_push_sends_nothing_for_checkpoints(model, optimizer, step_at, monkeypatch):
    found = []
    for push in (pushed, lambda worker, apply: apply()):
        monkeypatch.setattr(replicas, "pushed", push)
        with wb.Graph().as_default():
            found.append([sends(parts_of(step)) for step in steps_of(model, optimizer, step_at)])
    assert found[0] == found[1] and all(found[0])


def test_each_server_that_is_updated_begins_its_part_before_all_its_updates():
    for step in steps_of(dense, wb.train.AdamOptimizer, SERVERS[0]):
        for part in parts_of(step):
            operations = part.program.graph.operations
            began = [op for op in operations if op.kind == "pushes_begin"]
            updates = [op for op in operations if op.kind.startswith(("apply", "assign"))]
            assert len(began) == (part.device.startswith("/job:ps")) == bool(updates)
            assert all(began[0] in op.controls for op in updates)
            assert not began or set(began[0].attrs["places"]) == {f"{server}" for server in SERVERS}


def test_a_server_that_counts_steps_alone_has_a_part_too():
    """It has no gradient to wait for: it begins when the others have theirs, which it is told anyhow."""
    step = steps_of(dense, wb.train.GradientDescentOptimizer, WORKERS[1])[0]
    begins = {part.device: op for part in parts_of(step) for op in part.program.graph.operations if op.kind == "pushes_begin"}
    assert begins.keys() == {f"{task}/device:CPU:0" for task in (WORKERS[1], *SERVERS)}
    assert [op.kind for op in begins[f"{WORKERS[1]}/device:CPU:0"].controls] == ["receive"]


def test_steps_of_servers_still_go_the_short_way():
    for part in parts_of(steps_of(dense, wb.train.AdamOptimizer, SERVERS[0])[0]):
        assert script_of(compile_plan(part.program)) is not None


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_slots_begin_before_there_is_a_gradient(optimizer):
    """Initializers of what an optimizer keeps are made with the push, and belong to no push."""
    def fed() -> Tower:
        x, tower = wb.placeholder("float32", [2]), dense()
        return Tower(wb.reduce_sum(tower.loss * x), [x])
    replicas = replicate(fed, optimizer(1.0), ["/cpu:2", "/cpu:3"], ["/cpu:0", "/cpu:1"])
    with wb.Session(devices=4) as session:
        session.run(wb.global_variables_initializer())
        for step, tower in zip(replicas.steps, replicas.towers, strict=True):
            session.run(step, {tower.feeds[0]: [1.0, 2.0]})
