"""Checkpoints beside asynchronous replicas: of each update they hold all or nothing."""
from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.train.half_pushed import HalfPushed
from workbench.core.state import checkpoint
from workbench.train.pushing import pushed
from workbench.train.replicas import Tower, replicate
from workbench.train.saving import checkpoints
from workbench.train.saving.checkpoints import Checkpointer, cuts

pytestmark = pytest.mark.usefixtures("graph")


SERVERS = ("/cpu:0", "/cpu:1")


def replica(folder: Path) -> HalfPushed:
    return HalfPushed(folder, SERVERS, lambda apply: pushed("worker 0", apply), lambda: wb.Session(devices=2))


def test_a_checkpoint_between_the_two_halves_of_a_push_has_both(tmp_path):
    replica(tmp_path).check()


def test_a_worker_that_died_in_its_push_is_not_waited_for_twice(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(checkpoints, "_PUSH_MILLISECONDS", 100)
    half = replica(tmp_path)
    with half.session:
        half.save()
        half.saver.save(half, 2)
        assert caplog.text.count("a worker has not ended its push of an update for 0.1 s; checkpoints do not wait for it") == 1
        assert half.saved(2).keys() >= {"left", "right"}
        half.session.run(half.queue.enqueue(1.0))
        half.pushing.join(60)


def test_no_server_waits_for_a_push_that_has_no_part_on_it():
    begun = [{"a": (7, ["x", "y"]), "b": (3, ["x"])}, {"a": (6, ["x", "y"]), "c": (1, ["y"])}, {"b": (4, [])}]
    assert cuts(["x", "y", "z"], begun) == [{"a": 7}, {"a": 7, "c": 1}, {}]


def model() -> Tower:
    w, v = (wb.get_variable(name, [2], initializer=wb.zeros_initializer()) for name in "wv")
    return Tower(wb.reduce_sum(w + v), ())


@pytest.mark.parametrize("mode", ["async", "stale"])
def test_checkpoints_of_asynchronous_replicas_are_of_one_moment(tmp_path, mode):
    """Each update adds the same to two variables and to the step."""
    step = wb.train.get_or_create_global_step()
    replicas = replicate(model, wb.train.GradientDescentOptimizer(-1.0), ["/job:localhost/task:0"] * 3, mode=mode,
                         global_step=step, **({"staleness": 50} if mode == "stale" else {}))
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
