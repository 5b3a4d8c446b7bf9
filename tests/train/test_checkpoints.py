"""Checkpoints beside asynchronous replicas: of each update they hold all or nothing."""
from __future__ import annotations

import threading

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.state import checkpoint
from workbench.train.input.queues import WorkerPushes
from workbench.train.replicas import Tower, replicate
from workbench.train.saving import checkpoints
from workbench.train.saving.checkpoints import Checkpointer

pytestmark = pytest.mark.usefixtures("graph")


def test_a_checkpoint_waits_for_the_push_under_way(tmp_path):
    a, b, pushes = wb.Variable(0.0, name="a"), wb.Variable(0.0, name="b"), WorkerPushes()
    begin, first, second, end = pushes.begin("w"), a.assign_add(1.0), b.assign_add(1.0), pushes.end("w")
    saver = Checkpointer(tmp_path / "m")
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(begin)
        session.run(first)
        saving = threading.Thread(target=saver.save, args=(session, 1))
        saving.start()
        session.run(second)
        session.run(end)
        saving.join()
        saver.wait()
        session.run(begin)                                     # pushes go on
        found = checkpoint.read(tmp_path / "m-1").tensors
        assert found["a"] == found["b"] == 1


def test_a_worker_that_died_in_its_push_is_not_waited_for_twice(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(checkpoints, "_PUSH_MILLISECONDS", 100)
    a, pushes = wb.Variable(0.0, name="a"), WorkerPushes()
    begin, saver = pushes.begin("w"), Checkpointer(tmp_path / "m")
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(begin)
        saver.save(session, 1)
        saver.save(session, 2)
        saver.wait()
    assert caplog.text.count("a worker has not ended its push of an update for 0.1 s; checkpoints do not wait for it") == 1
    assert checkpoint.read(tmp_path / "m-2").tensors.keys() == {a.op.name}


def model() -> Tower:
    w, v = (wb.get_variable(name, [2], initializer=wb.zeros_initializer()) for name in "wv")
    return Tower(wb.reduce_sum(w + v), ())


@pytest.mark.parametrize("mode", ["async", "stale"])
def test_checkpoints_of_asynchronous_replicas_are_of_one_moment(tmp_path, mode):
    """Each update adds the same to two variables and to the step."""
    step = wb.train.get_or_create_global_step()
    replicas = replicate(model, wb.train.GradientDescentOptimizer(-1.0), ["/job:localhost/task:0"] * 3, mode=mode,
                         global_step=step, consistent=True, **({"staleness": 50} if mode == "stale" else {}))
    saver = Checkpointer(tmp_path / "m")
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        replicas.start(session)

        def train(number: int) -> None:
            for _ in range(60):
                session.run(replicas.steps[number])
            if mode == "stale":
                replicas.leave(session, number)
        workers = [threading.Thread(target=train, args=(number,)) for number in range(3)]
        for worker in workers:
            worker.start()
        for number in range(8):
            saver.save(session, number)
        for worker in workers:
            worker.join()
        saver.wait()
        assert session.run(step) == 180
    for path in saver.candidates():
        found = checkpoint.read(path).tensors
        np.testing.assert_array_equal(found["w"], found["v"])
        assert found["w"][0] == found["global_step"]


def test_where_nobody_has_to_ask_it_is_refused():
    step = wb.train.get_or_create_global_step()
    with pytest.raises(errors.InvalidArgumentError, match="consistent is set in mode 'sync', whose checkpoints are; leave"):
        replicate(model, wb.train.AdamOptimizer(), ["/job:localhost/task:0"], mode="sync", global_step=step, consistent=True)
    with pytest.raises(errors.InvalidArgumentError, match="consistent needs global_step; pass the variable that counts"):
        replicate(model, wb.train.AdamOptimizer(), ["/job:localhost/task:0"], consistent=True)


def test_what_a_dropped_checkpoint_failed_with_is_told_without_what_to_do(tmp_path, caplog):
    """Its tasks are lost and training is brought back: nobody is asked to close the cluster."""
    wb.Variable(0.0, name="a")
    (tmp_path / "file").write_text("")
    saver = Checkpointer(tmp_path / "file" / "m")
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        saver.save(session, 1)
        saver.drop()
    [said] = [record.getMessage() for record in caplog.records if "was not completed" in record.getMessage()]
    assert str(tmp_path) in said and ";" not in said
