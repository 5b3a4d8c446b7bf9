"""Pushes of replicas: checkpoints need not be asked, so that no message is sent for them."""
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

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
from workbench.train.optimizers import optimizer as base
from workbench.train.optimizers.contrib import MovingAverageOptimizer, VariableClippingOptimizer
from workbench.train.pushing import pushed
from workbench.train.replicas import Tower, replicate
from workbench.train.saving.checkpoints import Checkpointer

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


def placed(tasks: int, wrap: Any = lambda optimizer: optimizer, kind: Any = wb.train.AdamOptimizer) -> wb.Operation:
    """The step of a program of one worker that knows nothing of pushes, with its variables on so many servers."""
    with wb.device(wb.train.replica_device_setter(tasks, worker_device=WORKERS[0])):
        step = wb.train.get_or_create_global_step()
        loss = dense().loss
        return wrap(kind(1.0)).minimize(loss, step)


def begins(step: wb.Operation) -> dict[str, list[wb.Operation]]:
    """Task -> what lets it begin in a step."""
    return {part.device: [op for op in part.program.graph.operations if op.kind == "pushes_begin"] for part in parts_of(step)}


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
def test_steps_of_any_program_are_pushes_where_variables_are_on_several_tasks(optimizer, monkeypatch):
    """They send no more than without; each server begins before all its updates, and its steps go the short way."""
    step = placed(2, kind=optimizer)
    parts = parts_of(step)
    for part in parts:
        operations = part.program.graph.operations
        began = [op for op in operations if op.kind == "pushes_begin"]
        updates = [op for op in operations if op.kind.startswith(("apply", "assign"))]
        assert len(began) == (part.device.startswith("/job:ps")) == bool(updates)
        assert all(began[0] in op.controls for op in updates)
        assert all(set(op.attrs["places"]) == set(SERVERS) for op in began)
        assert script_of(compile_plan(part.program)) is not None
    monkeypatch.setattr(base, "pushed_to_tasks", lambda apply: apply())
    with wb.Graph().as_default():
        assert sends(parts_of(placed(2, kind=optimizer))) == sends(parts) and sends(parts)


@pytest.mark.parametrize("tasks", [0, 1])
def test_variables_of_one_task_need_no_push(tasks, monkeypatch):
    """Neither those of one process nor those of one server: its graph is what it was."""
    kinds = [op.kind for op in placed(tasks).graph.operations]
    monkeypatch.setattr(base, "pushed_to_tasks", lambda apply: apply())
    with wb.Graph().as_default():
        assert kinds == [op.kind for op in placed(tasks).graph.operations]


def clipping(optimizer: wb.train.Optimizer) -> wb.train.Optimizer:
    dims = {variable: [0] for variable in wb.trainable_variables()}
    return VariableClippingOptimizer(optimizer, dims, 1.0)


@pytest.mark.parametrize("around", [MovingAverageOptimizer, clipping])
def test_what_follows_the_updates_of_an_optimizer_is_in_its_push(around):
    for part in parts_of(placed(2, around)):
        operations = part.program.graph.operations
        began = [op for op in operations if op.kind == "pushes_begin"]
        updates = [op for op in operations if op.kind.startswith(("apply", "assign"))]
        assert len(began) == bool(updates) and all(began[0] in op.controls for op in updates)


def test_rounds_of_synchronous_replicas_are_pushes_already():
    """Its chief applies on all servers what one of them lets begin: a second one would wait for the first, and it for this."""
    placed(2, lambda optimizer: wb.train.SyncReplicasOptimizer(optimizer, 1, 1))
    assert [op.kind for op in wb.get_default_graph().operations].count("pushes_begin") == 1
    for mode in ("sync", "mirror"):
        with wb.Graph().as_default():
            made = replicate(dense, wb.train.AdamOptimizer(1.0), WORKERS, () if mode == "mirror" else SERVERS, mode)
            assert not any(begins(made.steps[0]).values())


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


def test_checkpoints_ask_servers_wherever_they_are_built(tmp_path):
    """Estimators build them where what they make asks for the worker."""
    step = placed(2)
    with wb.device(WORKERS[0]):
        Checkpointer(tmp_path / "m")
    kinds = {f"pushes_{what}" for what in ("hold", "settle", "forget", "release")}
    asking = [op for op in step.graph.operations if op.kind in kinds]
    assert len(asking) == 4 * len(SERVERS) and all(op.device == op.inputs[0].op.device for op in asking)
