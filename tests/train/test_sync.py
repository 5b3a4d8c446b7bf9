"""Synchronous replicas, backup workers, threads that feed queues: the whole protocol in one process."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.eventually import eventually
from workbench import errors
from workbench.core.state.accumulators import Accumulator

pytestmark = pytest.mark.usefixtures("graph")


class Model:
    """w with a gradient fed per worker: the update is -mean(gradients)."""

    def __init__(self, aggregate: int, total: int, **options: Any) -> None:
        self.step = wb.train.get_or_create_global_step()
        self.w = wb.Variable([0.0, 0.0], name="w")
        self.optimizer = wb.train.SyncReplicasOptimizer(wb.train.GradientDescentOptimizer(1.0), aggregate, total,
                                                          **options)
        self.feeds = [wb.placeholder(wb.float32, [2]) for _ in range(total)]
        self.steps = [self.optimizer.apply_gradients([(feed, self.w)], self.step) for feed in self.feeds]
        self.count = self.optimizer._accumulators[self.w].num_accumulated()
        self.start = [wb.global_variables_initializer(), wb.local_variables_initializer()]
        self.chief = self.optimizer.chief_init_op
        self.apply, = self.optimizer.get_chief_queue_runner().enqueue_ops

    @contextlib.contextmanager
    def session(self) -> Iterator[wb.Session]:
        """A session in which the chief has begun."""
        with wb.Session() as session:
            session.run(self.start)
            session.run(self.chief)
            yield session

    def send(self, session: wb.Session, worker: int, grad: list[float]) -> threading.Thread:
        feeds = {self.feeds[worker]: grad}
        thread = threading.Thread(target=lambda: session.run(self.steps[worker], feeds), daemon=True)
        thread.start()
        return thread


def joined(*workers: threading.Thread) -> None:
    """These workers got their token."""
    for worker in workers:
        worker.join(30)
        assert not worker.is_alive()


def test_one_update_takes_the_mean_of_all_workers_and_lets_them_go_on():
    model = Model(2, 2)
    with model.session() as session:
        workers = [model.send(session, 0, [1, 0]), model.send(session, 1, [3, 0])]
        session.run(model.apply)      # waits for both gradients
        joined(*workers)
        assert session.run(model.w).tolist() == [-2, 0] and int(session.run(model.step)) == 1
        assert [int(s) for s in session.run(wb.local_variables())] == [1, 1]
    assert [v.op.name for v in wb.local_variables()] == ["sync_rep_local_step", "sync_rep_local_step_1"]      # as TensorFlow's


def test_a_round_that_is_left_out_lets_its_workers_go_on():
    mixed = wb.mixed_precision("float16")
    model = Model(2, 2)
    with model.session() as session:
        for round_, second in enumerate([np.inf, 3]):
            workers = [model.send(session, 0, [1, 0]), model.send(session, 1, [second, 0])]
            session.run(model.apply)
            joined(*workers)
            assert session.run(model.w).tolist() == [[0, 0], [-2, 0]][round_]
            assert session.run([model.step, mixed.skipped_steps]) == [round_ + 1, 1]


def test_a_round_that_overflows_is_left_out_and_no_error_to_a_session_that_looks():
    """What the chief takes out of an accumulator comes from a scaled loss, though no operation of its step says so."""
    mixed, step, w = wb.mixed_precision("float16"), wb.train.get_or_create_global_step(), wb.Variable([[1.0, 2.0]])
    optimizer, x = wb.train.SyncReplicasOptimizer(wb.train.GradientDescentOptimizer(1.0), 1, 1), wb.placeholder("float32", [])
    worker = optimizer.minimize(wb.reduce_sum(wb.matmul(w.value() * x, wb.ones([2, 1]))), step)
    start = [optimizer.chief_init_op, wb.global_variables_initializer(), wb.local_variables_initializer()]
    apply, = optimizer.get_chief_queue_runner().enqueue_ops
    with wb.Session(check_numerics=True) as session:
        for operation in reversed(start):
            session.run(operation)
        for value, expected in ((1e35, [1, 2]), (3.0, [-2, -1])):
            thread = threading.Thread(target=session.run, args=(worker, {x: value}), daemon=True)
            thread.start()
            session.run(apply)
            joined(thread)
            assert session.run(w).tolist() == [expected] and session.run(mixed.skipped_steps) == 1


def test_backup_workers_late_gradients_are_dropped():
    model = Model(2, 3)
    with model.session() as session:
        early = [model.send(session, n, [1, 1]) for n in range(2)]
        session.run(model.apply)
        joined(*early)
        assert session.run(model.w).tolist() == [-1, -1]
        late = model.send(session, 2, [100, 100])      # of step 0, which is over: dropped, yet it gets a token
        joined(late)
        second = [model.send(session, n, [2, 2]) for n in range(2)]
        session.run(model.apply)
        joined(*second)
        assert session.run(model.w).tolist() == [-3, -3] and int(session.run(model.step)) == 2


def test_a_token_that_another_worker_left_behind_is_dropped():
    """With it a worker would compute a gradient of a step that is over, for the bin."""
    model = Model(2, 3)
    with model.session() as session:
        for _ in range(4):                             # worker 2 is dead: one token of each step stays
            workers = [model.send(session, n, [1, 1]) for n in range(2)]
            session.run(model.apply)
            for worker in workers:
                worker.join(30)
                assert not worker.is_alive()
        assert session.run(model.w).tolist() == [-4, -4] and int(session.run(model.step)) == 4
        assert int(session.run(model.optimizer.dropped_gradients)) == 0


def test_a_worker_that_is_quick_takes_no_token_from_one_that_is_slow():
    model = Model(2, 2)
    with model.session() as session:
        slow, quick = model.send(session, 0, [1, 1]), model.send(session, 1, [1, 1])
        session.run(model.apply)
        quick.join(30)
        again = model.send(session, 1, [1, 1])         # of step 1, before the other one has begun it
        eventually(lambda: int(session.run(model.count)) == 1)
        joined(slow)
        assert again.is_alive()
        slow = model.send(session, 0, [1, 1])
        session.run(model.apply)
        joined(slow, again)
        assert session.run(model.w).tolist() == [-2, -2]


def test_tokens_as_tensorflow_takes_them_on_request():
    model = Model(2, 3, keep_stale_tokens=True)
    with model.session() as session:
        workers = [model.send(session, n, [1, 1]) for n in range(2)]
        session.run(model.apply)
        joined(*workers)
        late = model.send(session, 0, [1, 1])          # takes the token that worker 2 left: its step is over
        joined(late)
        assert int(session.run(model.optimizer.dropped_gradients)) == 0


def test_a_round_that_waits_for_a_dead_worker_goes_on_without_it():
    model = Model(3, 3)
    with model.session() as session:
        workers = [model.send(session, n, [3, 3]) for n in range(2)]
        applying = threading.Thread(target=lambda: session.run(model.apply), daemon=True)
        applying.start()
        model.optimizer.lose_workers(session, 1)
        applying.join(30)
        joined(*workers)
        assert session.run(model.w).tolist() == [-3, -3]
        with pytest.raises(errors.FailedPreconditionError, match="3 of 3 workers are gone; restore the newest checkpoint"):
            model.optimizer.lose_workers(session, 3)
        with pytest.raises(errors.InvalidArgumentError, match="follow: the session runs in this process"):
            model.optimizer.follow(session)


class Losing:
    """A session on a cluster that loses two tasks at once; the first to tell of its loss is held up until the other has run."""

    def __init__(self, session: wb.Session) -> None:
        self.backend = self.cluster = self
        self._session, self._second = session, threading.Event()
        self.members: list[int] = []

    def when_lost(self, callback) -> None:
        threads = [threading.Thread(target=callback, args=(f"/job:worker/task:{number}",)) for number in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    def run(self, fetches, feeds) -> None:
        members, = map(int, feeds.values())
        if members == 1:
            self._second.set()
        else:
            self._second.wait(0.05)      # for another to come in between, if it may
        self.members.append(members)
        self._session.run(fetches, feeds)


def test_of_two_workers_that_are_lost_at_once_both_are_gone():
    model = Model(3, 3)
    model.optimizer._workers = [f"/job:worker/task:{number}/device:CPU:0" for number in range(3)]
    with model.session() as session:
        losing = Losing(session)
        model.optimizer.follow(losing)
    assert losing.members[-1] == 1


def test_a_step_that_is_tried_again_counts_once():
    """It was aborted after its gradient had arrived and before it had its token."""
    model = Model(2, 2)
    with model.session() as session:
        first = model.send(session, 0, [1, 1])
        eventually(lambda: int(session.run(model.count)) == 1)
        retried = model.send(session, 0, [1, 1])
        eventually(lambda: int(session.run(model.optimizer.dropped_gradients)) == 1)
        assert int(session.run(model.count)) == 1
        other = model.send(session, 1, [3, 3])
        session.run(model.apply)
        for thread in (first, other):
            thread.join(30)
        assert session.run(model.w).tolist() == [-2, -2]
        joined(retried)


def test_workers_and_chief_run_by_themselves_and_equal_plain_descent():
    features = np.random.default_rng(0).normal(size=(3, 8, 4)).astype(np.float32)
    step = wb.train.get_or_create_global_step()
    w = wb.Variable(np.ones((4, 1), np.float32))
    optimizer = wb.train.SyncReplicasOptimizer(wb.train.GradientDescentOptimizer(0.05), 3, 3)
    trains = [optimizer.minimize(wb.reduce_mean(wb.square(wb.matmul(f, w))), step) for f in features]
    start = [wb.global_variables_initializer(), wb.local_variables_initializer()]
    chief, tokens = optimizer.chief_init_op, optimizer.get_init_tokens_op(0)
    with wb.Session() as session:
        assert set(session.run(optimizer.ready_for_local_init_op)) == {b"global_step", w.op.name.encode()}
        session.run(start)
        assert not len(session.run(optimizer.ready_for_local_init_op))
        session.run([chief, tokens])
        coordinator = wb.train.Coordinator()
        threads = optimizer.get_chief_queue_runner().create_threads(session, coordinator, start=True)

        def work(number: int) -> None:
            with coordinator.stop_on_exception():
                for _ in range(10):
                    session.run(trains[number])
        workers = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        found, done = session.run(w), int(session.run(step))
        coordinator.request_stop()
        session.close()
        coordinator.join(threads, ignore_live_threads=True)
    assert done == 10      # all three wait for each other: ten steps of each are ten updates
    value = np.ones((4, 1))
    for _ in range(10):
        value -= 0.05 * np.mean([2 * f.T @ (f @ value) / 8 for f in features], axis=0)
    np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-6)


class Overtaken(wb.train.SessionRunHook):
    """Another worker makes a step between this one's beginning and its first examples."""

    def __init__(self, model: Model) -> None:
        self._step = model.step
        self._other = model.optimizer._accumulators[model.w].apply_grad([1.0, 1.0], 0, worker="another")

    def after_create_session(self, session: wb.Session, coord: wb.train.Coordinator) -> None:
        session.run(self._other)
        eventually(lambda: session.run(self._step) == 1)


def test_a_worker_takes_the_examples_of_the_step_for_which_its_gradients_count():
    """Counted from the global step it began with, all its examples were one step ahead of those of the others."""
    model, asked = Model(1, 1), []

    def examples(number: int) -> dict[wb.Tensor, list[float]]:
        asked.append(number)
        return {model.feeds[0]: [1.0, 1.0]}
    hooks = [model.optimizer.make_session_run_hook(is_chief=True), Overtaken(model)]
    with wb.train.MonitoredTrainingSession(hooks=hooks) as session:
        for _ in range(3):
            session.run(model.steps[0], examples)
    assert asked == [0, 1, 2]


def test_backups_are_chosen_in_any_training_and_begin_anew_with_it():
    """A session of its own loop: worker 1 never comes, and after fifty rounds of the others nobody waits for slow ones."""
    model = Model(3, 3, backups="auto")
    hooks = [model.optimizer.make_session_run_hook(is_chief=True)]
    with wb.train.MonitoredTrainingSession(hooks=hooks) as session:
        model.optimizer.lose_workers(session, 1)
        for number in range(50):
            assert model.optimizer.backups == 0
            joined(*[model.send(session, worker, [1.0, 1.0]) for worker in (0, 2)])
            if number == 40:
                held, = session._tf_sess().backend.container.of(Accumulator).values()
                first, third = sorted({name for name, _ in held.arrivals})
                second = first.replace("#0", "#1")
                assert first < second < third
                held.arrivals.extend([(first, 0.01), (second, 5.0), (third, 0.01)] * 1000)
        eventually(lambda: model.optimizer.backups == 1)
        joined(*[model.send(session, worker, [1.0, 1.0]) for worker in (0, 2)])
        assert session.run(model.step) == 51
        hooks[0].after_create_session(session, None)           # as after a loss
        assert model.optimizer.backups == 0


def test_times_of_a_worker_that_was_lost_choose_no_backups():
    """Of four one is slow and one is lost: it is the slow one that the other two do not wait for."""
    model = Model(4, 4, backups="auto")
    hooks = [model.optimizer.make_session_run_hook(is_chief=True)]
    with wb.train.MonitoredTrainingSession(hooks=hooks) as session:
        held, = session._tf_sess().backend.container.of(Accumulator).values()
        device = "/job:worker/task:{0}/device:CPU:0#{0}"
        held.arrivals.extend([(device.format(worker), seconds) for worker, seconds in enumerate((0.01, 0.01, 0.01, 0.1))] * 100)
        for gone, backups in (set(), 1), ({"/job:worker/task:1"}, 2):
            model.optimizer._gone |= gone
            model.optimizer._adapt(session)
            assert model.optimizer.backups == backups


def test_initial_tokens_and_uses_that_cannot_work():
    for options, text in (({"backups": 1}, "backups is 1; use \"auto\", or replicas_to_aggregate for a fixed number"),
                          ({"backups": "auto", "keep_stale_tokens": True}, "tokens of old steps are kept, so that every")):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            wb.train.SyncReplicasOptimizer(wb.train.GradientDescentOptimizer(1.0), 1, 3, **options)
    optimizer = wb.train.SyncReplicasOptimizer(wb.train.GradientDescentOptimizer(1.0), 3, 1)
    with pytest.raises(errors.FailedPreconditionError, match="get_init_tokens_op: there is no training step yet"):
        optimizer.get_init_tokens_op()
    w = wb.Variable(1.0)
    with pytest.raises(errors.InvalidArgumentError, match="global_step is None; pass the variable that counts updates"):
        optimizer.minimize(w * w)
    optimizer.minimize(w * w, wb.train.get_or_create_global_step())
    with pytest.raises(errors.InvalidArgumentError, match="1 tokens for 1 workers cannot make 3 gradients; use 2 or "
                                                          "more"):
        optimizer.get_init_tokens_op(1)
    with pytest.raises(errors.InvalidArgumentError, match="replicas_to_aggregate is 0, total_num_replicas 0; use"):
        wb.train.SyncReplicasOptimizer(wb.train.GradientDescentOptimizer(1.0), 0)


def test_sparse_gradients_are_gathered_by_rows():
    step = wb.train.get_or_create_global_step()
    table = wb.Variable(np.zeros((4, 1), np.float32))
    optimizer = wb.train.SyncReplicasOptimizer(wb.train.GradientDescentOptimizer(1.0), 1, 1)
    train = optimizer.minimize(wb.reduce_sum(table.gather([1, 1, 3])), step)
    start = [wb.global_variables_initializer(), wb.local_variables_initializer()]
    apply, = optimizer.get_chief_queue_runner().enqueue_ops
    with wb.Session() as session:
        session.run(start)
        worker = threading.Thread(target=lambda: session.run(train), daemon=True)
        worker.start()
        session.run(apply)
        worker.join(30)
        assert session.run(table).tolist() == [[0], [-2], [0], [-1]]


# placement of replicas

def test_variables_go_to_the_servers_in_turn_and_the_rest_to_the_worker():
    with wb.device(wb.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:1")):
        a, b, c = (wb.Variable(wb.zeros([2])) for _ in range(3))
        y = wb.constant([1.0, 1.0]) + a
    assert [v.device for v in (a, b, c)] == ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0"]
    assert y.device == "/job:worker/task:1" and a.initializer.device == "/job:ps/task:0"


def test_the_strategy_and_the_number_of_servers_can_be_given_otherwise():
    with wb.device(wb.train.replica_device_setter(cluster={"ps": ["a", "b", "c"]}, ps_strategy=lambda op: 2)):
        assert wb.Variable(1.0).device == "/job:ps/task:2"
    assert wb.train.replica_device_setter(ps_tasks=0) is None
