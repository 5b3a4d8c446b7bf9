"""What checkpoints keep of queues, accumulators and readers: given to another, it goes on in the same way."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.core.state.test_queues import Call
from workbench import errors
from workbench.core.graph.dtype import float32, int64, string
from workbench.core.graph.shape import Shape
from workbench.core.state.accumulators import Accumulator, SparseAccumulator
from workbench.core.state.kept import Kept
from workbench.core.state.queues import PaddingQueue, Queue
from workbench.core.state.readers import Reader
from workbench.core.state.stores import Fifo, Priority, Shuffle

STORES = {"fifo": Fifo, "shuffle": lambda: Shuffle(1, 7), "priority": Priority}


def moved(resource: Any) -> Kept:
    """Through tensors, as in a file."""
    return Kept.of("x", dict(resource.state().tensors("x")).__getitem__)


def put(queue: Queue, *values: Any) -> Call:
    call = Call()
    call.undo = queue.enqueue(values, call.done, call.fail, "put")
    return call


def take(queue: Queue, count: int = 0) -> Call:
    call = Call()
    call.undo = queue.dequeue_many(count, call.done, call.fail, who="take") if count else queue.dequeue(
        call.done, call.fail, "take")
    return call


@pytest.mark.parametrize("store", STORES)
def test_a_queue_goes_on_with_the_same_elements_in_the_same_order(store: str):
    queues = [Queue("q", 4, [int64, string], [Shape(()), Shape(())], STORES[store]()) for _ in range(2)]
    one, other = queues
    calls = [put(one, np.int64(n % 3), np.array(b"%d" % n, object)) for n in range(7)]
    take(one)
    assert [call.pending for call in calls] == [False] * 5 + [True] * 2 and one.state().waiting == {"put": 2}
    put(other, np.int64(99), np.array(b"gone", object))
    found = moved(one)
    other.set_state(found)
    other.set_state(found)                                     # twice is once
    assert other.size() == one.size() == 4
    for queue in queues:
        put(queue, np.int64(1), np.array(b"new", object))
        queue.close()
    drawn = [[take(queue).result for _ in range(7)] for queue in queues]
    assert [[part.tolist() for part in element] for element in drawn[0]] == [
        [part.tolist() for part in element] for element in drawn[1]]
    assert all(isinstance(take(queue).error, errors.OutOfRangeError) for queue in queues)


def test_what_a_waiting_dequeue_has_taken_is_still_there():
    queue, other = (Queue("q", 10, [float32], [Shape((2,))]) for _ in range(2))
    for n in range(2):
        put(queue, np.full(2, n, np.float32))
    batch = take(queue, 3)
    found = moved(queue)
    assert queue.state().waiting == {"take": 1} and batch.pending
    other.set_state(found)
    for each in (queue, other):
        put(each, np.full(2, 2, np.float32))
    assert batch.values == take(other, 3).values == [[[0, 0], [1, 1], [2, 2]]]


def test_elements_of_several_shapes_and_none_at_all():
    queue, other = (PaddingQueue("q", 10, [float32], [Shape((None,))]) for _ in range(2))
    other.set_state(moved(queue))
    assert other.size() == 0
    for n in (2, 0, 1):
        put(queue, np.arange(n, dtype=np.float32))
    other.set_state(moved(queue))
    assert take(other, 3).values == take(queue, 3).values == [[[0, 1], [0, 0], [0, 0]]]


def test_a_closed_queue_is_closed_unless_something_fills_it():
    queue, other = (Queue("q", 10, [int64]) for _ in range(2))
    put(queue, np.int64(1))
    queue.close()
    other.set_state(moved(queue))
    assert other.closed and isinstance(put(other, np.int64(2)).error, errors.CancelledError)
    other.set_state(moved(queue), reopen=True)
    assert not other.closed and not put(other, np.int64(2)).pending and other.size() == 2


def test_elements_of_another_kind_are_refused_and_nothing_has_changed():
    queue, other = Queue("q", 10, [int64]), Queue("r", 10, [float32])
    put(queue, np.int64(1))
    put(other, np.float32(5))
    with pytest.raises(errors.DtypeError, match="queue 'r': component 0 is int64 but the queue holds float32; cast it"):
        other.set_state(moved(queue))
    assert take(other).values == [5]


def test_an_accumulator_goes_on_with_what_it_had_gathered():
    one, other = (Accumulator("a", float32, Shape((2,))) for _ in range(2))
    other.set_state(moved(one))
    assert other.count() == 0
    for worker in "xy":
        one.apply(0, np.float32([1, 2]), worker=worker)
    other.set_state(moved(one))
    other.apply(0, np.float32([9, 9]), worker="x")             # it was counted before the checkpoint
    other.apply(0, np.float32([4, 5]), worker="z")
    call = Call()
    other.take(3, call.done, call.fail)
    assert call.values == [[2, 3]] and other.global_step == 1 and other.repeated == 1


def test_so_does_one_of_rows():
    one, other = (SparseAccumulator("a", float32, Shape((5, 1))) for _ in range(2))
    other.set_state(moved(one))
    one.apply(0, np.int32([3, 1]), np.float32([[1], [2]]))
    other.set_state(moved(one))
    for each in (one, other):
        each.apply(0, np.int64([1]), np.float32([[4]]))
        call = Call()
        each.take(2, call.done, call.fail)
        assert call.values == [[1, 3], [[3], [0.5]]]


def test_a_reader_goes_on_in_the_middle_of_a_file(tmp_path: Path):
    names = []
    for number in range(3):
        names.append(str(tmp_path / str(number)).encode())
        Path(names[-1].decode()).write_bytes(b"".join(b"%d.%d\n" % (number, line) for line in range(3)))
    one, other = (Reader("r", "line", (0,)) for _ in range(2))
    other.resume(one.position())
    assert other.take() is None
    for name in names:
        one.open(name)
    for _ in range(4):
        one.take()
    other.resume(one.position())
    assert [other.take() for _ in range(6)] == [one.take() for _ in range(6)]
    assert (other.produced, other.files) == (one.produced, one.files) == (9, 3)
    Path(names[1].decode()).unlink()
    one.open(names[0])
    one.take()
    other.resume(one.position())
    assert other.take() == one.take()
    for reader in (one, other):
        reader.close()
