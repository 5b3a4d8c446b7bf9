"""Replicas whose workers go from turn to turn by themselves: the same training, what is told of it, what is refused."""
from __future__ import annotations

import threading

import numpy as np
import pytest

import workbench as wb
from tests.eventually import eventually
from workbench import errors
from workbench.core.state.clocks import Clocks
from workbench.train.config import ConfigProto
from workbench.train.own_loops import own_loops
from workbench.train.replicas import Tower, replicate

pytestmark = pytest.mark.usefixtures("graph")
WORKERS = ["/job:localhost/task:0"] * 2
DATA = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)


def model() -> Tower:
    x = wb.data.Dataset.from_tensor_slices(DATA).batch(7).repeat().make_one_shot_iterator().get_next()
    w = wb.get_variable("w", [3, 1], initializer=wb.ones_initializer())
    loss = wb.reduce_mean(wb.square(wb.matmul(x, w) - x[:, :1]))
    return Tower(loss, [], {"rows": wb.shape(x)[0]})


def trained(build, runs, **options):
    """Parameters, step and last losses after so many runs of what `build` makes."""
    with wb.Graph().as_default() as graph:
        step = wb.train.get_or_create_global_step()
        replicas = build(model, wb.train.MomentumOptimizer(0.1, 0.9), WORKERS, global_step=step, **options)
        with wb.Session(graph=graph) as session:
            session.run(wb.global_variables_initializer())
            for _ in range(runs):
                told = session.run([replicas.steps, [tower.loss for tower in replicas.towers]])[1]
            return session.run(replicas.variables[0]).tobytes(), int(session.run(step)), [float(loss) for loss in told]


def test_a_loop_of_synchronous_turns_has_the_bits_of_as_many_steps():
    assert trained(own_loops, 3, mode="sync", turns=4) == trained(replicate, 12, mode="sync")


def test_asynchronous_loops_of_workers_each_make_their_turns_and_learn():
    _, step, losses = trained(own_loops, 3, turns=10)
    assert step == 3 * 10 * len(WORKERS)
    assert max(losses) < 0.2 < trained(own_loops, 1, turns=1)[2][0]


def test_losses_and_metrics_are_those_of_the_last_turn_in_their_own_types():
    turns = wb.placeholder(wb.int32, [])
    replicas = own_loops(model, wb.train.GradientDescentOptimizer(0.0), WORKERS[:1], turns=turns)
    tower, = replicas.towers
    assert tower.loss.dtype == wb.float32 and tower.metrics["rows"].dtype == wb.int32 and not tower.feeds
    assert tower.loss.op.name == "loop_0/loss"
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        assert session.run(tower.metrics["rows"], {turns: 8}) == 7
        assert session.run(tower.metrics["rows"], {turns: 1}) == 4      # the ninth batch holds what is left of the data


def test_loops_of_bounded_staleness_wait_for_the_slowest_that_is_under_way():
    """The second worker's examples wait in a queue."""
    step, queue = wb.train.get_or_create_global_step(), wb.FIFOQueue(99, wb.float32, [()])
    made: list[int] = []

    def quick_or_slow() -> Tower:
        made.append(0)
        w = wb.get_variable("w", [], initializer=wb.zeros_initializer())
        return Tower((wb.constant(1.0) if len(made) == 1 else queue.dequeue()) * w, [])
    turns = wb.placeholder(wb.int32, [])
    replicas = own_loops(quick_or_slow, wb.train.GradientDescentOptimizer(0.1), WORKERS, mode="stale", global_step=step,
                         turns=turns, staleness=2)
    put, late = queue.enqueue(1.0), queue.size()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        slow = threading.Thread(target=session.run, args=(replicas.steps[1], {turns: 10}), daemon=True)
        slow.start()
        eventually(lambda: session.backend.container.of(Clocks))
        clocks, = session.backend.container.of(Clocks).values()
        eventually(lambda: list(clocks.clocks.values()) == [0])
        fast = threading.Thread(target=session.run, args=(replicas.steps[0], {turns: 10}), daemon=True)
        fast.start()
        for done in range(7):
            eventually(lambda done=done: clocks._waiting and sorted(clocks.clocks.values()) == [done, done + 3])
            session.run(put)
        fast.join(60)
        eventually(lambda: list(clocks.clocks.values()) == [7])
        for _ in range(3):
            session.run(put)
        slow.join(60)
        assert not clocks.clocks and session.run(step) == 20 and session.run(late) == 0


def test_a_loop_that_is_over_holds_up_none_that_began_later_and_so_counts_further():
    turns, step = wb.placeholder(wb.int32, []), wb.train.get_or_create_global_step()
    replicas = own_loops(model, wb.train.GradientDescentOptimizer(0.1), WORKERS, mode="stale", global_step=step, turns=turns)
    with wb.Session(config=ConfigProto(operation_timeout_in_ms=60_000)) as session:
        session.run(wb.global_variables_initializer())
        session.run(replicas.steps[0], {turns: 2})
        session.run(replicas.steps[1], {turns: 3})
        session.run(replicas.towers[0].loss, {turns: 1})      # who asks for what a loop told ran it, too
        session.run(replicas.steps[1], {turns: 3})
        assert session.run(step) == 9
        replicas.finish(session)
        session.run(replicas.steps[0], {turns: 5})            # nobody waits for anybody
        replicas.start(session)
        session.run(replicas.steps, {turns: 5})
        assert session.run(step) == 24


def test_a_turn_of_bounded_staleness_reads_variables_when_it_may_begin():
    """What it read before could be older than the bound."""
    step = wb.train.get_or_create_global_step()
    replicas = own_loops(model, wb.train.GradientDescentOptimizer(0.1), WORKERS, mode="stale", global_step=step, staleness=2)
    assert len(replicas.steps) == len(WORKERS)
    loops = [op for op in step.graph.operations if op.kind == "while"]
    assert len(loops) == len(WORKERS)
    for loop in loops:
        body = loop.attrs["body_graph"].operations
        wait, = (op for op in body if op.kind == "clocks_wait")
        reads = [op for op in body if op.kind == "read_variable"]
        assert reads and all(wait in op.control_inputs for op in reads)


def test_rounds_that_wait_for_all_workers_have_the_updates_of_synchronous_steps():
    """Sums are added in the order in which gradients come, so not always the same bits."""
    found, step, losses = trained(own_loops, 3, mode="backup", turns=4)
    expected, expected_step, expected_losses = trained(own_loops, 3, mode="sync", turns=4)
    np.testing.assert_allclose(np.frombuffer(found, np.float32), np.frombuffer(expected, np.float32), rtol=1e-5)
    assert step == expected_step == 12
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)


def test_a_round_goes_on_without_the_backups_and_a_slow_worker_comes_back_in_the_newest():
    """The second worker's first example waits in a queue; all rounds but the last are over when it comes."""
    step, queue = wb.train.get_or_create_global_step(), wb.FIFOQueue(9, wb.float32, [()])
    made: list[int] = []

    def slow_or_quick() -> Tower:
        made.append(0)
        w = wb.get_variable("w", [], initializer=wb.zeros_initializer())
        x = wb.constant(1.0) if len(made) == 1 else queue.dequeue()
        return Tower(wb.stop_gradient(x) * w, [], {})
    turns = wb.placeholder(wb.int32, [])
    replicas = own_loops(slow_or_quick, wb.train.GradientDescentOptimizer(1.0), WORKERS, mode="backup", global_step=step,
                         turns=turns, backups=1)
    w, put, late = replicas.variables[0], queue.enqueue(100.0), queue.size()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        running = threading.Thread(target=session.run, args=(replicas.steps, {turns: 5}), daemon=True)
        running.start()
        eventually(lambda: session.run(step) == 5)
        assert session.run(w) == -5.0 and running.is_alive()   # the slow worker is waited for by the end of the run alone
        session.run(put)
        running.join(60)
        assert not running.is_alive() and session.run([w, step, late]) == [-5.0, 5, 0]


def test_rounds_begin_anew_after_a_run_that_ended_within_one():
    """One variable's gradients were taken, the other's not: what was gathered is forgotten, and nobody waits for ever."""
    step, stop = wb.train.get_or_create_global_step(), wb.placeholder_with_default(np.float32(1.0), [])

    def failing() -> Tower:
        a = wb.get_variable("a", [], initializer=wb.zeros_initializer())
        b = wb.get_variable("b", [], initializer=wb.zeros_initializer())
        return Tower(a + wb.check_numerics(wb.stop_gradient(stop), "stopped") * b, [], {})
    replicas = own_loops(failing, wb.train.GradientDescentOptimizer(1.0), WORKERS, mode="backup", global_step=step, turns=3)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        with pytest.raises(errors.InvalidArgumentError, match="stopped"):
            session.run(replicas.steps, {stop: np.nan})
        session.run(replicas.steps)
        assert session.run([step, *replicas.variables]) == [3, -3.0, -3.0]


@pytest.mark.parametrize("mode", ["mirror", "fast"])
def test_other_modes_are_refused(mode):
    with pytest.raises(errors.InvalidArgumentError, match=f"own_loops: mode is '{mode}'; use async, sync, backup or stale, or"):
        own_loops(model, wb.train.GradientDescentOptimizer(0.1), WORKERS, mode=mode)


@pytest.mark.parametrize("options, told", [({"staleness": 2}, "staleness is 2 but mode is 'async'; use mode 'stale'"),
                                           ({"mode": "stale", "staleness": -1}, "staleness is -1; use 0 or more"),
                                           ({"mode": "stale"}, "mode 'stale' needs global_step; pass the variable"),
                                           ({"mode": "backup"}, "mode 'backup' needs global_step; pass the variable"),
                                           ({"mode": "backup", "backups": 2}, "2 of 2 workers are backups; one must count"),
                                           ({"mode": "backup", "backups": "auto"}, "nobody chooses anew between the turns"),
                                           ({"backups": 1}, "backups is 1 but mode is 'async'; use mode 'backup'")])
def test_numbers_that_do_not_fit_the_mode_are_refused(options, told):
    with pytest.raises(errors.InvalidArgumentError, match=told):
        own_loops(model, wb.train.GradientDescentOptimizer(0.1), WORKERS, **options)


def test_towers_that_are_fed_and_no_workers_are_refused():
    def fed():
        x = wb.placeholder(wb.float32, [2])
        return Tower(wb.reduce_sum(x * wb.get_variable("v", [2])), [x])
    with pytest.raises(errors.InvalidArgumentError, match=r"the model is to be fed .*, but nobody feeds a loop between its"):
        own_loops(fed, wb.train.GradientDescentOptimizer(0.1), WORKERS)
    with pytest.raises(errors.InvalidArgumentError, match="there are 0 workers; pass at least one device"):
        own_loops(model, wb.train.GradientDescentOptimizer(0.1), [])
