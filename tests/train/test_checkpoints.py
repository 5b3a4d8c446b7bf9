"""Checkpoints beside asynchronous replicas: of each update they hold all or nothing."""
from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.eventually import eventually
from workbench.core.state import checkpoint
from workbench.train.pushing import pushed
from workbench.train.replicas import Tower, replicate
from workbench.train.saving import checkpoints
from workbench.train.saving.checkpoints import Checkpointer, cuts

pytestmark = pytest.mark.usefixtures("graph")


SERVERS = ("/cpu:0", "/cpu:1")


class Replica:
    """One whose push has come to the first server, while its gradient for the second has not."""

    def __init__(self, folder: Path) -> None:
        with wb.device(SERVERS[0]):
            self.left = wb.Variable(0.0, name="left")
        with wb.device(SERVERS[1]):
            self.right = wb.Variable(0.0, name="right")
            self.queue = wb.FIFOQueue(1, ["float32"], [[]])
        self.gradient = wb.placeholder("float32", [])
        optimizer = wb.train.GradientDescentOptimizer(-1.0)
        self.push = pushed("worker 0", lambda: optimizer.apply_gradients([(self.gradient, self.left), (
            self.queue.dequeue(), self.right)]))
        self.saver = Checkpointer(folder / "m")
        self.session = wb.Session(devices=2)
        self.session.run(wb.global_variables_initializer())
        self.settles = threading.Event()
        self.pushing = threading.Thread(target=self.session.run, args=(self.push, {self.gradient: 1.0}))
        self.pushing.start()
        eventually(lambda: self.session.run(self.left) == 1)

    def run(self, fetches: Any, *rest: Any, **options: Any) -> Any:
        """A step of the checkpoint."""
        if fetches is self.saver._settle:
            self.settles.set()
        return self.session.run(fetches, *rest, **options)

    def save(self) -> None:
        try:
            self.saver.save(self, 1)
        finally:
            self.settles.set()

    def saved(self, number: int = 1) -> dict[str, Any]:
        self.saver.wait()
        return checkpoint.read(f"{self.saver.prefix}-{number}").tensors


def test_a_checkpoint_between_the_two_halves_of_a_push_has_both(tmp_path):
    replica = Replica(tmp_path)
    with replica.session:
        saving = threading.Thread(target=replica.save)
        saving.start()
        assert replica.settles.wait(60)
        replica.session.run(replica.queue.enqueue(1.0))      # now the gradient comes
        replica.pushing.join(60)
        saving.join(60)
        found = replica.saved()
        assert found["left"] == found["right"] == 1
        replica.session.run(replica.queue.enqueue(1.0))
        replica.session.run(replica.push, {replica.gradient: 1.0})      # pushes go on


def test_a_worker_that_died_in_its_push_is_not_waited_for_twice(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(checkpoints, "_PUSH_MILLISECONDS", 100)
    replica = Replica(tmp_path)
    with replica.session:
        replica.save()
        replica.saver.save(replica, 2)
        assert caplog.text.count("a worker has not ended its push of an update for 0.1 s; checkpoints do not wait for it") == 1
        assert replica.saved(2).keys() >= {"left", "right"}
        replica.session.run(replica.queue.enqueue(1.0))
        replica.pushing.join(60)


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
