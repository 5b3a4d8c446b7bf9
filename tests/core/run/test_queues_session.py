"""Queue and accumulator operations in sessions: blocking steps of several threads, errors with their place,
cancelling."""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.state.queues import Queue

pytestmark = pytest.mark.usefixtures("graph")


class Thread(threading.Thread):
    """Runs a function and keeps what it returned or raised."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.function, self.result, self.error = function, None, None
        self.start()

    def run(self) -> None:
        try:
            self.result = self.function()
        except errors.Error as error:
            self.error = error

    def wait(self) -> Any:
        self.join(30)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error
        return self.result


def test_one_thread_waits_for_what_another_adds():
    queue = wb.FIFOQueue(2, [wb.float32, wb.int32], [[], [2]])
    add, take = queue.enqueue([1.5, [1, 2]]), queue.dequeue()
    with wb.Session() as session:
        waiting = Thread(lambda: session.run(take))
        session.run(add)
        number, pair = waiting.wait()
        assert (float(number), pair.tolist()) == (1.5, [1, 2])


def test_a_full_queue_holds_the_producer_until_there_is_room():
    queue = wb.FIFOQueue(1, wb.int32, [()])
    value = wb.placeholder(wb.int32, [])
    add, take, size = queue.enqueue(value), queue.dequeue(), queue.size()
    with wb.Session() as session:
        session.run(add, {value: 1})
        blocked = Thread(lambda: session.run(add, {value: 2}))
        assert int(session.run(take)) == 1
        blocked.wait()
        assert int(session.run(size)) == 1 and int(session.run(take)) == 2


def test_batches_have_static_shapes_and_names_are_kept():
    queue = wb.FIFOQueue(10, [wb.float32, wb.int64], [[3], []], names=["x", "y"])
    batch = queue.dequeue_many(4)
    assert batch["x"].shape == [4, 3] and batch["y"].dtype is wb.int64
    assert queue.dequeue_up_to(4)["x"].shape == [None, 3]
    add = queue.enqueue_many({"x": np.arange(12, dtype=np.float32).reshape(4, 3), "y": np.arange(4)})
    with wb.Session() as session:
        session.run(add)
        found = session.run(batch)
        assert found["y"].tolist() == [0, 1, 2, 3] and found["x"].shape == (4, 3)


def test_the_rest_after_closing_and_then_the_end():
    queue = wb.FIFOQueue(10, wb.int32, [()])
    with wb.Session() as session:
        session.run(queue.enqueue_many([[1, 2, 3]]))
        assert not session.run(queue.is_closed())
        session.run(queue.close())
        assert session.run(queue.is_closed())
        assert session.run(queue.dequeue_up_to(2)).tolist() == [1, 2]
        with pytest.raises(errors.OutOfRangeError, match=r"is closed and has insufficient elements .requested 2") as caught:
            session.run(queue.dequeue_many(2, name="batch"))
        assert "operation: 'batch'" in str(caught.value) and "test_queues_session.py" in str(caught.value)
        assert session.run(queue.dequeue()).tolist() == 3      # nothing was lost
        with pytest.raises(errors.CancelledError, match="it is closed, so nothing can be added"):
            session.run(queue.enqueue(1))


def test_closing_cancels_a_waiting_producer():
    queue = wb.FIFOQueue(1, wb.int32, [()])
    add, cancel = queue.enqueue(1), queue.close(cancel_pending_enqueues=True)
    with wb.Session() as session:
        session.run(add)
        blocked = Thread(lambda: session.run(add))
        while blocked.is_alive():      # the producer may come before or after the close: both are cancelled
            session.run(cancel)
            blocked.join(0.01)
        with pytest.raises(errors.CancelledError):
            blocked.wait()


def test_closing_the_session_frees_whoever_waits():
    queue = wb.FIFOQueue(1, wb.int32, [()])
    take, size = queue.dequeue(), queue.size()
    session = wb.Session()
    session.run(size)
    waiting = Thread(lambda: session.run(take))
    session.close()
    with pytest.raises((errors.CancelledError, errors.FailedPreconditionError)):      # the latter when it came later
        waiting.wait()


def test_who_comes_to_a_queue_after_its_session_was_closed_is_cancelled_too():
    """The step had begun, the queue was closed before its dequeue came: that is no end of the data."""
    found = []
    queue = Queue("q", 1, [wb.int32], [wb.TensorShape([])])
    queue.abandon()
    queue.dequeue(lambda *_: found.append("an element"), found.append)
    queue.enqueue([np.int32(1)], lambda: found.append("added"), found.append)
    assert [type(one) for one in found] == [errors.CancelledError] * 2 and "Dequeue operation was cancelled" in str(found[0])


def test_a_producer_and_a_consumer_exchange_everything_in_order():
    queue = wb.FIFOQueue(3, wb.int32, [()])
    value = wb.placeholder(wb.int32, [])
    add, take = queue.enqueue(value), queue.dequeue()
    with wb.Session() as session:
        producer = Thread(lambda: [session.run(add, {value: n}) for n in range(50)])
        assert [int(session.run(take)) for _ in range(50)] == list(range(50))
        producer.wait()


def test_shuffle_padding_and_priority_queues():
    shuffled = wb.RandomShuffleQueue(100, 2, wb.int32, [()], seed=3)
    padded = wb.PaddingFIFOQueue(10, wb.int32, [[None]])
    urgent = wb.PriorityQueue(10, wb.string, [()])
    with wb.Session() as session:
        session.run(shuffled.enqueue_many([np.arange(20, dtype=np.int32)]))
        assert set(session.run(shuffled.dequeue_many(18)).tolist()) < set(range(20))
        for length in (1, 3):
            session.run(padded.enqueue([np.full(length, length, np.int32)]))
        assert session.run(padded.dequeue_many(2)).tolist() == [[1, 0, 0], [3, 3, 3]]
        for priority, text in ((5, "late"), (1, "first")):
            session.run(urgent.enqueue([np.int64(priority), text]))
        assert session.run(urgent.dequeue()[1]) == b"first"


@pytest.mark.parametrize(("build", "text"), [
    (lambda q: wb.FIFOQueue(3, [wb.float32] * 2).enqueue([1.0, 2.0, 3.0]),
     "3 components were given but an element has 2; give each"),
    (lambda q: q.enqueue([[1.0, 2.0]]), r"Shape mismatch in tuple component 0. Expected \[\], got \[2\]; reshape it"),
    (lambda q: q.enqueue({"x": 1.0}), r"names \['x'\] were given but the components are \[\]"),
])
def test_mistakes_are_found_where_the_graph_is_built(build: Any, text: str):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        build(wb.FIFOQueue(3, wb.float32, [()]))


def test_rows_that_do_not_fit_are_shown_with_their_batch():
    queue, rows = wb.PaddingFIFOQueue(10, wb.int32, [[None, 3]]), wb.placeholder(wb.int32)
    add = queue.enqueue_many([rows])
    with wb.Session() as session, pytest.raises(
            errors.InvalidArgumentError, match=r"Shape mismatch in tuple component 0. Expected \[2,\?,3\], got \[2,3,4\]"):
        session.run(add, {rows: np.zeros([2, 3, 4], np.int32)})


@pytest.mark.parametrize(("other", "text"), [
    (lambda: wb.FIFOQueue(4, wb.float32, [()], shared_name="q"), "has capacity 3 but requested capacity was 4; ask"),
    (lambda: wb.FIFOQueue(3, wb.int32, [()], shared_name="q"), r"has component types \['float32'\] but requested .*int32"),
    (lambda: wb.FIFOQueue(3, wb.float32, [[2]], shared_name="q"), "has component shapes .* but requested component shapes"),
    (lambda: wb.RandomShuffleQueue(3, 0, wb.float32, [()], shared_name="q"), "has type Queue of Fifo but requested type"),
    (lambda: wb.PriorityQueue(3, wb.float32, [()], shared_name="q"), "has type Queue of Fifo but requested type")])
def test_a_shared_queue_is_one_queue(other: Any, text: str):
    first = wb.FIFOQueue(3, wb.float32, [()], shared_name="q")
    same = wb.FIFOQueue(3, wb.float32, [()], shared_name="q")
    with wb.Session() as session:
        session.run(first.enqueue(5.0))
        assert session.run(same.dequeue()) == 5
        with pytest.raises(errors.InvalidArgumentError, match=f"Shared queue 'q' {text}"):
            session.run(other().size())


@pytest.mark.parametrize("rows", [[7, [1, 2]], [[1, 2, 3], [1, 2]]])
def test_rows_of_several_components_are_as_many(rows: Any):
    with pytest.raises(ValueError, match=r"enqueue_many got components of shapes .* give each the same first"):
        wb.FIFOQueue(10, [wb.int32, wb.int32], [(), ()]).enqueue_many(rows)


def test_one_of_several_queues_by_number():
    queues = [wb.FIFOQueue(3, wb.int32, [[2, number]]) for number in (3, 4)]
    number = wb.placeholder(wb.int32, [])
    chosen = wb.QueueBase.from_list(number, queues)
    assert chosen.shapes == [wb.TensorShape([2, None])] and chosen.dtypes == [wb.int32]
    add, size = chosen.enqueue(np.zeros([2, 3], np.int32)), [queue.size() for queue in queues]
    with wb.Session() as session:
        session.run(add, {number: 0})
        assert [int(n) for n in session.run(size)] == [1, 0]
        assert session.run(chosen.dequeue(), {number: 0}).shape == (2, 3)
        with pytest.raises(errors.InvalidArgumentError, match=r"index = 2 is not in \[0, 2\), since there are 2 queues"):
            session.run(chosen.size(), {number: 2})
    for wrong in ([], [wb.FIFOQueue(3, wb.int32), wb.FIFOQueue(3, wb.float32)]):
        with pytest.raises(TypeError, match=r"A list of queues expected|do not have matching component dtypes"):
            wb.QueueBase.from_list(0, wrong)


def test_lengths_to_be_padded_need_shapes():
    with pytest.raises(ValueError, match="When providing partial shapes, a list of shapes must be provided"):
        wb.PaddingFIFOQueue(3, wb.float32, None)
    with pytest.raises(ValueError, match=r"must have a defined rank; say how many axes"):
        wb.PaddingFIFOQueue(3, [wb.float32], [wb.TensorShape(None)])


def test_batches_need_shapes():
    with pytest.raises(errors.InvalidArgumentError, match="dequeue_many needs the shapes of its components"):
        wb.FIFOQueue(3, wb.float32).dequeue_many(2)


def test_accumulators_average_and_drop_stale_gradients():
    accumulator = wb.ConditionalAccumulator(wb.float32, [2])
    grad, step = wb.placeholder(wb.float32, [2]), wb.placeholder(wb.int64, [])
    apply, take, count = accumulator.apply_grad(grad, step), accumulator.take_grad(2), accumulator.num_accumulated()
    with wb.Session() as session:
        waiting = Thread(lambda: session.run(take))
        for value in (1, 3):
            session.run(apply, {grad: [value, 0], step: 0})
        assert waiting.wait().tolist() == [2, 0]
        session.run(apply, {grad: [9, 9], step: 0})
        assert int(session.run(count)) == 0
        session.run(accumulator.set_global_step(5))
        session.run(apply, {grad: [9, 9], step: 4})
        assert int(session.run(count)) == 0


def test_sparse_accumulators_take_and_give_indexed_slices():
    accumulator = wb.SparseConditionalAccumulator(wb.float32, [4, 1])
    slices = wb.IndexedSlices(wb.constant([[1.0], [2.0], [3.0]]), wb.constant([2, 0, 2]))
    apply, mean = accumulator.apply_indexed_slices_grad(slices), accumulator.take_indexed_slices_grad(2)
    with wb.Session() as session:
        session.run(apply)
        session.run(apply)
        values, indices, shape = session.run(mean)
    assert indices.tolist() == [0, 2] and values.tolist() == [[2], [4]] and shape.tolist() == [4, 1]
