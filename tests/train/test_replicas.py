"""Replicas of every mode, one argument apart: what counts, who waits for whom, and changing the mode while training."""
from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.eventually import eventually
from workbench import errors
from workbench.core.state.accumulators import Accumulator
from workbench.train.config import RunOptions
from workbench.train.replicas import Replicas, Tower, replicate

pytestmark = pytest.mark.usefixtures("graph")
WORKERS = ["/job:localhost/task:0"] * 3
SOON, LATE = RunOptions(timeout_in_ms=300), RunOptions(timeout_in_ms=60_000)


def model() -> Tower:
    """Each gradient is what is fed."""
    x = wb.placeholder_with_default(np.float32([1, 2]), [2])
    w = wb.get_variable("w", [2], initializer=wb.zeros_initializer())
    return Tower(wb.reduce_sum(w * x), (x,))


def build(workers: int = 3, **options) -> tuple[Replicas, wb.Variable]:
    step = wb.train.get_or_create_global_step()
    return replicate(model, wb.train.GradientDescentOptimizer(1.0), WORKERS[:workers], global_step=step, **options), step


def test_averages_are_named_after_their_variables(graph: wb.Graph) -> None:
    build(mode="sync")
    names = {variable.op.name for variable in wb.trainable_variables()}
    scopes = {op.name.rpartition("/")[0] for op in graph.operations if op.name.startswith("average")}
    assert names and {f"average/{name}" for name in names} <= scopes


@pytest.mark.parametrize(("options", "text"), [
    ({"mode": "fast"}, "mode 'fast' is unknown; use one of async, sync, backup, stale, mirror"),
    ({"mode": "sync", "backups": 1}, "backups is 1 but mode is 'sync'; use mode 'backup'"),
    ({"mode": "async", "staleness": 2}, "staleness is 2 but mode is 'async'; use mode 'stale'"),
    ({"mode": "backup", "backups": 3}, "3 of 3 workers are backups; one must count"),
    ({"mode": "backup", "backups": "some"}, 'backups is \'some\'; use 0 or more, or "auto"'),
    ({"mode": "sync", "backups": "auto"}, "backups is 'auto' but mode is 'sync'; use mode 'backup'"),
    ({"mode": "stale", "staleness": -1}, "staleness is -1; use 0 or more"),
    ({"mode": "stale", "staleness": "auto"}, "staleness is 'auto'; use 0 or more"),
    ({"mode": "mirror", "bucket_bytes": -1}, "bucket_bytes is -1; use 0 or more"),
    ({"mode": "sync", "bucket_bytes": 1024}, "bucket_bytes is 1024 but mode is 'sync'; use mode 'mirror'"),
])
def test_what_does_not_fit_is_refused(options, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        build(**options)


def test_modes_with_waiting_need_a_step():
    with pytest.raises(errors.InvalidArgumentError, match="mode 'stale' needs global_step; pass the variable that"):
        replicate(model, wb.train.GradientDescentOptimizer(1.0), WORKERS, mode="stale")


def test_the_first_gradients_of_a_step_count():
    """Two of three workers train; the third never comes, then comes too late and is dropped."""
    replicas, step = build(mode="backup", backups=1)
    init = [wb.global_variables_initializer(), wb.local_variables_initializer()]
    w = replicas.variables[0]
    coordinator = wb.train.Coordinator()
    with wb.Session() as session:
        session.run(init)
        replicas.start(session, coordinator)
        workers = [threading.Thread(target=lambda n=n: [session.run(replicas.steps[n]) for _ in range(5)]) for n in (0, 1)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        np.testing.assert_array_equal(session.run(w), [-5, -10])      # the mean of two, five times
        session.run(replicas.steps[2])                         # of a step that is over
        assert session.run(step) == 5
        np.testing.assert_array_equal(session.run(w), [-5, -10])
        replicas.leave(session, 1)                             # a backup more is gone: the others are enough
        replicas.leave(session, 2)
        session.run(replicas.steps[0])
        assert session.run(step) == 6
        with pytest.raises(errors.FailedPreconditionError, match="3 of 3 workers are gone"):
            replicas.leave(session, 0)
        coordinator.request_stop()
        replicas.finish(session)
        coordinator.join()


def rounds(session: wb.Session, steps: list[Any], count: int) -> None:
    """So many steps of these workers side by side."""
    for _ in range(count):
        together = [threading.Thread(target=session.run, args=(one,)) for one in steps]
        for worker in together:
            worker.start()
        for worker in together:
            worker.join()


def test_backups_are_chosen_while_training():
    """One of three workers takes ten times as long: after a while nobody waits for it. Training that begins anew waits."""
    replicas, step = build(mode="backup", backups="auto")
    first = next(iter(replicas._optimizer._accumulators.values()))
    coordinator = wb.train.Coordinator()
    with wb.Session() as session:
        session.run([wb.global_variables_initializer(), wb.local_variables_initializer()])
        replicas.start(session, coordinator)
        rounds(session, replicas.steps, 4)
        names, seconds = session.run(first.arrivals())
        assert len(set(names)) == 3 and len(seconds) == 9 and min(seconds) >= 0      # nobody knows when the first step began
        held, = session.backend.container.of(Accumulator).values()
        held.arrivals.extend([(names[0].decode(), 1.0)] * 3000)
        held.arrivals.extend((name.decode(), 0.1) for name in sorted(set(names)) for _ in range(50) if name != names[0])
        assert replicas.backups == 0
        rounds(session, replicas.steps, 46)                    # nobody but those who train looks at the stragglers
        eventually(lambda: replicas.backups == 1)
        others = [op for op in replicas.steps if f"worker_{names[0].decode()[-1]}" not in op.name]
        rounds(session, others, 2)                             # two gradients make a step now
        assert session.run(step) == 52
        with pytest.raises(errors.InvalidArgumentError, match="4 gradients are to count, but it was made for 1 to 3"):
            replicas._optimizer.count_first(session, 4)
        coordinator.request_stop()
        replicas.finish(session)
        coordinator.join()
        coordinator.clear_stop()
        replicas.start(session, coordinator)
        assert replicas.backups == 0
        coordinator.request_stop()
        replicas.finish(session)
        coordinator.join()


def test_nobody_is_further_ahead_than_the_staleness():
    replicas, step = build(2, mode="stale", staleness=2)
    fast, slow = replicas.steps
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        replicas.start(session)
        session.run(slow)
        session.run(slow)
        for _ in range(3):                                     # it joins where the slowest is, and gets two ahead
            session.run(fast)
        with pytest.raises(errors.DeadlineExceededError):
            session.run(fast, options=SOON)
        session.run(slow)
        session.run(fast)                                      # the step that was given up counted for nothing
        with pytest.raises(errors.DeadlineExceededError):
            session.run(fast, options=SOON)
        replicas.leave(session, 1)
        session.run(fast)
        replicas.start(session)
        session.run(slow)                                      # it joins again, where the slowest is now
        assert session.run(step) == 9
        replicas.finish(session)
        for _ in range(4):
            session.run(fast, options=LATE)


def test_who_evaluates_the_model_of_a_worker_that_left_holds_nobody_up():
    replicas, step = build(2, mode="stale", staleness=1)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        replicas.start(session)
        for _ in range(2):
            for operation in replicas.steps:
                session.run(operation)
        replicas.leave(session, 0)
        session.run(replicas.towers[0].loss)
        for _ in range(4):
            session.run(replicas.steps[1], options=LATE)
        assert session.run(step) == 8


def test_who_evaluates_the_model_of_a_worker_that_never_began_holds_nobody_up():
    """So after recovery: tasks that are new know of nobody who left."""
    replicas, _ = build(2, mode="stale", staleness=1)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        replicas.start(session)
        for _ in range(4):
            session.run(replicas.towers[0].loss)
            session.run(replicas.steps[1], options=LATE)
        session.run(replicas.steps[0])
        session.run(replicas.steps[1], options=LATE)
        with pytest.raises(errors.DeadlineExceededError):      # that was a step, and worker 0 counts from then on
            for _ in range(4):
                session.run(replicas.steps[1], options=SOON)


@pytest.mark.parametrize("mode, options", [("async", {}), ("sync", {}),
                                           ("backup", {"backups": 1})])
def test_an_evaluation_takes_nothing_that_a_step_needs(mode: str, options: dict[str, Any]):
    """No token, no clock, no push, no gradient lies on the way to a tower's loss and metrics."""
    replicas, _ = build(3, mode=mode, **options)
    for tower in replicas.towers:
        left, seen = [tower.loss.op, *(metric.op for metric in tower.metrics.values())], set()
        while left:
            op = left.pop()
            if op not in seen:
                seen.add(op)
                left += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
        assert not [op.name for op in seen if op.definition.blocking]


MOMENTUM = 0.5


def trained(updates: int) -> tuple[np.ndarray, np.ndarray]:
    """(values, momentum) after so many updates by the gradient [1, 2] at rate 1: exact, whichever mode they came of."""
    value, slot = np.zeros(2, np.float32), np.zeros(2, np.float32)
    for _ in range(updates):
        slot = np.float32(MOMENTUM) * slot + np.float32([1, 2])
        value = value - slot
    return value, slot


def some_steps(session: wb.Session, replicas: Replicas) -> int:
    """Three steps of each worker, of two workers where one is a backup; returns how many updates those are."""
    if replicas.mode != "backup":
        for operation in replicas.steps * 3:
            session.run(operation, options=LATE)
        return 3 * len(replicas.steps)
    workers = [threading.Thread(target=lambda op=op: [session.run(op, options=LATE) for _ in range(3)])
               for op in replicas.steps[:2]]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return 3


def test_the_mode_changes_while_training():
    """Async, sync, with a backup, bounded staleness, mirrored, and back to those that wait: one model in one graph."""
    step = wb.train.get_or_create_global_step()
    optimizer = wb.train.MomentumOptimizer(1.0, MOMENTUM)

    def of(mode: str, **options: Any) -> Replicas:
        return replicate(model, optimizer, WORKERS, mode=mode, global_step=step, **options)
    modes = {"async": of("async"), "sync": of("sync"), "backup": of("backup", backups=1), "stale": of("stale", staleness=1),
             "mirror": of("mirror")}
    (w,), slot = wb.trainable_variables(), optimizer.get_slot(wb.trainable_variables()[0], "momentum")
    updates = 0
    with wb.Session() as session:
        session.run([wb.global_variables_initializer(), wb.local_variables_initializer()])
        for mode in ("async", "sync", "backup", "stale", "mirror", "backup", "async", "mirror", "stale"):
            replicas = modes[mode]
            replicas.start(session)
            updates += some_steps(session, replicas)
            replicas.finish(session)
            assert session.run(step) == updates
            for found, expected in zip(session.run([w, slot]), trained(updates)):
                np.testing.assert_array_equal(found, expected)
        assert [held.count() for held in session.backend.container.of(Accumulator).values()] == [0]
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("QueueRunner")]


def test_staleness_is_bounded_again_after_another_mode():
    replicas, _ = build(2, mode="stale", staleness=1)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for _ in range(2):
            replicas.start(session)
            for operation in (replicas.steps[1], replicas.steps[0], replicas.steps[0]):
                session.run(operation)
            with pytest.raises(errors.DeadlineExceededError):
                session.run(replicas.steps[0], options=SOON)
            replicas.finish(session)
            session.run(replicas.steps[0], options=LATE)       # nobody waits any more


def test_waiting_replicas_begin_again_as_soon_as_they_were_ended():
    """What applied the gradients of their first life is over when `finish` returns: it would end the second one."""
    replicas, step = build(1, mode="backup")
    with wb.Session() as session:
        session.run([wb.global_variables_initializer(), wb.local_variables_initializer()])
        for number in range(20):
            replicas.start(session)
            session.run(replicas.steps[0], options=LATE)
            assert session.run(step) == number + 1
            replicas.finish(session)
            assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("QueueRunner")]
        replicas.start(session)
        replicas.start(session)                                # begun anew, without an end before
        session.run(replicas.steps[0], options=LATE)
        replicas.finish(session)
        assert session.run(step) == 21
