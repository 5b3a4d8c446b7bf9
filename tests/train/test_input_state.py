"""Pipelines of queues in checkpoints: training that goes on gets the elements that follow, each once."""
from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import train
from workbench.core.state import checkpoint
from workbench.train.input import input_state
from workbench.train.saving.checkpoints import Checkpointer

pytestmark = pytest.mark.usefixtures("graph")
ROWS = 7


def of_dataset(folder: Path) -> Any:
    """A dataset fills a queue."""
    element = wb.data.Dataset.range(ROWS).shuffle(5, seed=3).repeat().make_one_shot_iterator().get_next()
    queue = wb.FIFOQueue(4, "int64", [()])
    train.add_queue_runner(train.QueueRunner(queue, [queue.enqueue(element)]))
    return queue.dequeue()


def of_range(folder: Path) -> Any:
    """Indices, shuffled anew each epoch, fill a queue, from which those fill a second whose batches wait in a third."""
    index = train.range_input_producer(ROWS, seed=2, capacity=3).dequeue()
    batch = train.batch([wb.cast(index, "int64")], 3, capacity=5)
    waiting = wb.FIFOQueue(2, "int64", [(3,)])
    train.add_queue_runner(train.QueueRunner(waiting, [waiting.enqueue(batch)]))
    return wb.reduce_sum(waiting.dequeue() * [1, 20, 300])


def of_files(folder: Path) -> Any:
    """Names of files wait in a queue, their lines in another."""
    names = []
    for number in range(3):
        names.append(str(folder / f"{number}.txt"))
        Path(names[-1]).write_text("".join(f"{10 * number + line}\n" for line in range(4)))
    _, line = wb.TextLineReader().read(train.string_input_producer(names, seed=4, capacity=2))
    return wb.cast(train.batch([wb.string_to_number(line)], 1, capacity=3)[0], "int64")


def trained(folder: Path, source: Callable[[Path], Any], *stops: int, **options: Any) -> list[int]:
    """The elements of the steps up to the last of `stops`, each with a graph and a session of its own."""
    seen: list[int] = []
    folder.mkdir()
    for stop in stops:
        with wb.Graph().as_default():
            wb.set_random_seed(7)
            element = source(folder)
            step = train.get_or_create_global_step()
            train.run([element, step.assign_add(1)], steps=stop, folder=folder / "run",
                      on_step=lambda values: seen.append(int(values[0])), **options)
    return seen
@pytest.mark.parametrize("source", [of_dataset, of_range, of_files])
def test_a_pipeline_goes_on_with_the_elements_that_follow(tmp_path: Path, source: Callable[[Path], Any]):
    straight = trained(tmp_path / "a", source, 40)
    assert trained(tmp_path / "b", source, 11, 12, 29, 40) == straight
    assert len(set(straight)) > 5
def test_each_element_of_a_number_of_epochs_comes_once(tmp_path: Path):
    def source(folder: Path) -> Any:
        return wb.cast(train.range_input_producer(ROWS, num_epochs=3, seed=2, capacity=4).dequeue(), "int64")
    seen = trained(tmp_path / "a", source, 9, 13, 1000)
    assert sorted(seen) == sorted([*range(ROWS)] * 3)


def epochs_of_indices(folder: Path) -> Any:
    return wb.cast(train.batch([train.range_input_producer(ROWS, num_epochs=2, seed=2).dequeue()], 1)[0], "int64")


def epochs_of_dataset(folder: Path) -> Any:
    return wb.data.Dataset.range(ROWS).repeat(2).make_one_shot_iterator().get_next()
@pytest.mark.parametrize("source", [epochs_of_indices, epochs_of_dataset])
@pytest.mark.parametrize("options", [{}, {"save_steps": 1}])
def test_after_the_end_of_the_input_it_begins_anew(tmp_path: Path, source: Callable[[Path], Any], options: dict[str, Any]):
    """As estimators do that are trained again: the end was no place to go on from."""
    seen = trained(tmp_path / "a", source, 1000, 1000, **options)
    assert sorted(seen) == sorted([*range(ROWS)] * 4) and sorted(seen[:2 * ROWS]) == sorted([*range(ROWS)] * 2)
def test_what_was_gathered_by_hand_is_kept(tmp_path: Path):
    """A user's own accumulator and a queue that nothing fills anew, closed before the checkpoint."""
    def build() -> tuple[Any, ...]:
        accumulator, queue = wb.ConditionalAccumulator("float32", [2]), wb.FIFOQueue(5, "string", [()])
        wb.Variable(1.0, name="w")
        return (accumulator.apply_grad(np.float32([1, 3])), accumulator.take_grad(2), queue.enqueue_many([["a", "b"]]),
                queue.close(), queue.dequeue(), Checkpointer(tmp_path / "m"))
    apply, _, fill, close, _, saver = build()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for operation in (apply, fill, close):
            session.run(operation)
        saver.save(session, 1)
        saver.wait()
    with wb.Graph().as_default():
        apply, mean, _, _, element, saver = build()
        with wb.Session() as session:
            assert saver.restore_newest(session) == str(tmp_path / "m-1")
            session.run(apply)
            assert session.run(mean).tolist() == [1, 3]
            assert [session.run(element) for _ in range(2)] == [b"a", b"b"]
            with pytest.raises(wb.errors.OutOfRangeError):
                session.run(element)
def test_a_step_that_does_not_end_is_waited_for_once(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: Any):
    monkeypatch.setattr(input_state, "_PATIENCE", 0.05)
    begun, gate = threading.Event(), threading.Event()

    def slow() -> np.ndarray:
        begun.set()
        gate.wait(60)
        return np.int64(1)
    queue = wb.FIFOQueue(3, "int64", [()])
    runner = train.QueueRunner(queue, [queue.enqueue(wb.py_func(slow, [], "int64"))])
    train.add_queue_runner(runner)
    w = wb.Variable(1.0, name="w")
    saver, coord = Checkpointer(tmp_path / "m"), train.Coordinator()
    with wb.Session() as session:
        session.run(w.initializer)
        threads = runner.create_threads(session, coord, start=True)
        begun.wait(60)
        for step in range(2):
            saver.save(session, step)
        saver.wait()
        coord.request_stop()
        gate.set()
        coord.join(threads)
    assert caplog.text.count("a step that fills queue 'fifo_queue' has not ended for 0.1 s") == 1
def test_a_queue_may_be_left_out(tmp_path: Path):
    queues = [wb.FIFOQueue(3, "int64", [()], name=name) for name in ("kept", "large")]
    w, fills = wb.Variable(1.0, name="w"), [queue.enqueue(wb.constant(4, "int64")) for queue in queues]
    wb.get_default_graph().add_to_collection("begun_anew", queues[1].queue_ref)
    saver = Checkpointer(tmp_path / "m")
    with wb.Session() as session:
        session.run([w.initializer, *fills])
        saver.save(session, 1)
        saver.wait()
    assert {name.partition(":")[2] for name in checkpoint.contents(tmp_path / "m-1").tensors} == {
        "", "kept", "kept:0", "kept:0:shapes"}
def test_a_checkpoint_of_another_pipeline_leaves_queues_alone(tmp_path: Path):
    w = wb.Variable(1.0, name="w")
    with wb.Session() as session:
        session.run(w.initializer)
        plain = Checkpointer(tmp_path / "m")
        plain.save(session, 1)
        plain.wait()
        queue = wb.FIFOQueue(3, "int64", [()])
        saver, fill = Checkpointer(tmp_path / "m"), queue.enqueue(wb.constant(4, "int64"))
        session.run(fill)
        assert saver.restore_newest(session) == str(tmp_path / "m-1")
        assert session.run(queue.size()) == 1
