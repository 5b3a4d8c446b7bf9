"""Queues as state machines: every blocking rule by itself, then random histories against a model of lists."""
from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench import errors
from workbench.core.graph.dtype import float32, int32, int64, string
from workbench.core.graph.shape import Shape
from workbench.core.state.queues import PaddingQueue, Queue
from workbench.core.state.stores import Fifo, Priority, Shuffle


class Call:
    """Records how an attempt ended."""

    def __init__(self) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self.count = 0
        self.undo: Any = None

    def done(self, *values: Any) -> None:
        self.result, self.count = values, self.count + 1

    def fail(self, error: BaseException) -> None:
        self.error, self.count = error, self.count + 1

    @property
    def pending(self) -> bool:
        return self.count == 0

    @property
    def values(self) -> list[Any]:
        return [v.tolist() for v in self.result]


def make(capacity: int = 3, store: Any = None, shapes: Any = ((),)) -> Queue:
    return Queue("q", capacity, [int32], [Shape(s) for s in shapes] if shapes is not None else None,
                 Fifo() if store is None else store)


def put(queue: Queue, *values: int) -> Call:
    call = Call()
    if len(values) == 1:
        call.undo = queue.enqueue([np.asarray(values[0], np.int32)], call.done, call.fail)
    else:
        call.undo = queue.enqueue_many([np.asarray(values, np.int32)], call.done, call.fail)
    return call


def get(queue: Queue, count: int | None = None, partial: bool = False) -> Call:
    call = Call()
    if count is None:
        call.undo = queue.dequeue(call.done, call.fail)
    else:
        call.undo = queue.dequeue_many(count, call.done, call.fail, partial)
    return call


def close(queue: Queue, cancel: bool = False) -> Call:
    call = Call()
    queue.close(cancel, call.done)
    return call


# order and blocking

def test_elements_come_out_in_the_order_they_went_in():
    queue = make()
    assert [put(queue, n).count for n in (1, 2, 3)] == [1, 1, 1]
    assert [get(queue).values for _ in range(3)] == [[1], [2], [3]]


def test_an_enqueue_waits_while_the_queue_is_full_and_goes_on_when_there_is_room():
    queue = make(1)
    put(queue, 1)
    waiting = put(queue, 2)
    assert waiting.pending and queue.size() == 1
    assert get(queue).values == [1]
    assert not waiting.pending and queue.size() == 1


def test_a_dequeue_waits_for_an_element():
    queue = make()
    waiting = get(queue)
    assert waiting.pending
    put(queue, 7)
    assert waiting.values == [7] and queue.size() == 0


def test_attempts_of_one_side_are_served_in_order_even_when_a_later_one_could_go_first():
    queue = make()
    many, one = get(queue, 2), get(queue)
    put(queue, 1)
    assert many.pending and one.pending      # head of line: the single dequeue does not overtake
    put(queue, 2)
    assert many.values == [[1, 2]] and one.pending
    put(queue, 3)
    assert one.values == [3]


def test_enqueue_many_proceeds_partially():
    queue = make(2)
    many = put(queue, 1, 2, 3, 4)
    assert many.pending and queue.size() == 2
    assert get(queue).values == [1]
    assert many.pending and queue.size() == 2
    assert get(queue, 3).values == [[2, 3, 4]]
    assert not many.pending


def test_dequeue_many_may_ask_for_more_than_the_capacity():
    queue = make(1)
    wanted = get(queue, 3)
    for n in (1, 2, 3):
        assert not put(queue, n).pending
    assert wanted.values == [[1, 2, 3]]


def test_dequeue_of_zero_elements_gives_empty_columns():
    assert get(make(), 0).values == [[]]


def test_no_bound_when_the_capacity_is_negative():
    queue = make(-1)
    assert not put(queue, *range(1000)).pending
    assert queue.size() == 1000


# closing

def test_enqueue_after_close_is_cancelled():
    queue = make()
    assert not close(queue).pending
    assert isinstance(put(queue, 1).error, errors.CancelledError)
    assert str(put(queue, 1).error) == ("queue 'q': it is closed, so nothing can be added; stop the producer, or make "
                                        "a new queue")


def test_close_waits_behind_pending_enqueues():
    queue = make(1)
    put(queue, 1)
    second, closing = put(queue, 2), close(queue)
    assert second.pending and closing.pending and not queue.closed
    later = put(queue, 3)
    assert get(queue).values == [1]
    assert not second.pending and not closing.pending and queue.closed
    assert isinstance(later.error, errors.CancelledError)
    assert get(queue).values == [2]


def test_close_can_cancel_pending_enqueues():
    queue = make(1)
    put(queue, 1)
    second = put(queue, 2)
    assert not close(queue, cancel=True).pending
    assert isinstance(second.error, errors.CancelledError)
    assert get(queue).values == [1]
    assert isinstance(get(queue).error, errors.OutOfRangeError)


def test_closing_twice_is_fine():
    queue = make()
    assert not close(queue).pending
    assert not close(queue).pending
    assert not close(queue, cancel=True).pending


def test_a_waiting_dequeue_fails_when_the_queue_closes_empty():
    queue = make()
    waiting = get(queue)
    close(queue)
    assert isinstance(waiting.error, errors.OutOfRangeError)
    assert str(waiting.error) == ("queue 'q': it is closed and has insufficient elements (requested 1, current size 0); "
                                  "stop, or use dequeue_up_to for the rest")


def test_an_unfulfilled_dequeue_many_gives_its_elements_back_in_order():
    queue = make()
    wanted = get(queue, 3)
    put(queue, 1)
    put(queue, 2)
    assert queue.size() == 0      # both are held by the waiting attempt
    close(queue)
    assert isinstance(wanted.error, errors.OutOfRangeError) and "(requested 3, current size 2)" in str(wanted.error)
    assert queue.size() == 2
    assert get(queue, 2).values == [[1, 2]]


def test_dequeue_up_to_gives_the_rest_once_closed():
    queue = make()
    put(queue, 1)
    wanted = get(queue, 3, partial=True)
    assert wanted.pending
    close(queue)
    assert wanted.values == [[1]]
    assert isinstance(get(queue, 3, partial=True).error, errors.OutOfRangeError)


def test_dequeue_up_to_waits_for_all_while_open():
    queue = make()
    wanted = get(queue, 2, partial=True)
    put(queue, 1)
    assert wanted.pending
    put(queue, 2)
    assert wanted.values == [[1, 2]]


# cancelling a step

def test_a_withdrawn_dequeue_gives_its_elements_back_to_the_front():
    queue = make()
    wanted, next_one = get(queue, 3), get(queue)
    put(queue, 1)
    wanted.undo()
    assert wanted.pending and next_one.values == [1]


def test_a_withdrawn_enqueue_lets_the_next_one_through():
    queue = make(1)
    put(queue, 1)
    second, third = put(queue, 2), put(queue, 3)
    second.undo()
    assert get(queue).values == [1]
    assert second.pending and not third.pending
    assert get(queue).values == [3]


def test_taking_back_what_is_done_changes_nothing():
    queue = make()
    done = put(queue, 1)
    done.undo()
    assert queue.size() == 1 and done.count == 1


def test_callbacks_run_outside_the_lock():
    queue = make()
    sizes: list[int] = []
    queue.dequeue(lambda value: sizes.append(queue.size()), lambda error: None)
    put(queue, 1)      # would deadlock if done() were called under the lock
    assert sizes == [0]


# other orders

def test_one_completion_that_raises_takes_no_other_with_it():
    """What follows from a completed attempt runs on this thread, so Ctrl-C may end it there; the others wait too."""
    queue, ended = make(), Call()

    def interrupted(*values: Any) -> None:
        raise KeyboardInterrupt

    queue.dequeue(interrupted, ended.fail)
    queue.dequeue(ended.done, ended.fail)
    with pytest.raises(KeyboardInterrupt):
        put(queue, 1, 2)
    assert ended.values == [2]


def test_shuffle_keeps_a_reserve_until_closed_and_gives_every_element_once():
    queue = make(20, Shuffle(3, seed=1))
    put(queue, *range(10))
    first = [get(queue) for _ in range(8)]
    assert [c.pending for c in first] == [False] * 7 + [True]
    close(queue)
    rest = [get(queue) for _ in range(2)]
    seen = [c.values[0] for c in first + rest]
    assert sorted(seen) == list(range(10)) and seen != list(range(10))
    assert isinstance(get(queue).error, errors.OutOfRangeError)


def test_shuffle_depends_on_its_seed_alone():
    def order(seed: int) -> list[int]:
        queue = make(20, Shuffle(0, seed))
        put(queue, *range(10))
        return get(queue, 10).values[0]
    assert order(5) == order(5) != order(6)


def test_priority_gives_the_smallest_first_and_equal_ones_in_order():
    queue = Queue("p", 10, [int64, int32], [Shape(()), Shape(())], Priority())
    for priority, value in ((3, 0), (1, 1), (2, 2), (1, 3)):
        queue.enqueue([np.asarray(priority, np.int64), np.asarray(value, np.int32)], lambda: None, pytest.fail)
    call = Call()
    queue.dequeue_many(4, call.done, call.fail)
    assert call.values == [[1, 1, 2, 3], [1, 3, 2, 0]]


def test_priority_elements_given_back_come_first_among_equals():
    queue = Queue("p", 10, [int64], [Shape(())], Priority())
    for priority in (1, 1):
        queue.enqueue([np.asarray(priority, np.int64)], lambda: None, pytest.fail)
    call = Call()
    queue.dequeue_many(3, call.done, call.fail)
    queue.close()
    assert isinstance(call.error, errors.OutOfRangeError) and queue.size() == 2


def test_padding_fills_unknown_dimensions_with_zeros_or_empty_text():
    queue = PaddingQueue("pad", 5, [float32, string], [Shape([None, 2]), Shape([None])])
    for rows in (1, 3):
        queue.enqueue([np.ones((rows, 2), np.float32), np.array([b"a"] * rows, object)], lambda: None, pytest.fail)
    call = Call()
    queue.dequeue_many(2, call.done, call.fail)
    numbers, texts = call.result
    assert numbers.shape == (2, 3, 2) and numbers[0].tolist() == [[1, 1], [0, 0], [0, 0]]
    assert texts.tolist() == [[b"a", b"", b""], [b"a", b"a", b"a"]]


# elements

def test_the_queue_keeps_its_own_copy():
    queue, array = make(shapes=([2],)), np.array([1, 2], np.int32)
    queue.enqueue([array], lambda: None, pytest.fail)
    array[:] = 9
    assert get(queue).values == [[1, 2]]


@pytest.mark.parametrize(("values", "text"), [
    ([np.float32(1)], "queue 'q': component 0 is float32 but the queue holds int32; cast it"),
    ([np.zeros(2, np.int32)], "queue 'q': Shape mismatch in tuple component 0. Expected [], got [2]; reshape it"),
    ([np.int32(1), np.int32(2)], "queue 'q': 2 components were given but an element has 1; give each"),
])
def test_wrong_elements_are_refused_at_once(values: Any, text: str):
    queue = make()
    with pytest.raises(errors.InvalidArgumentError) as caught:
        queue.enqueue(values, pytest.fail, pytest.fail)
    assert str(caught.value) == text and queue.size() == 0


def test_enqueue_many_needs_equally_long_columns():
    queue = Queue("q", 3, [int32, int32])
    with pytest.raises(errors.ShapeError, match=r"enqueue_many got components of \[1, 2\] elements"):
        queue.enqueue_many([np.zeros(1, np.int32), np.zeros(2, np.int32)], pytest.fail, pytest.fail)


def test_dequeue_many_needs_shapes():
    with pytest.raises(errors.InvalidArgumentError, match="dequeue_many needs the shapes of its components"):
        get(make(shapes=None), 2)


# everything together

class Model:
    """The rules once more, with lists and nothing clever: attempts are tried in order until nothing moves."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.items, self.closed = capacity, [], False
        self.producers: list[list[Any]] = []
        self.consumers: list[list[Any]] = []
        self.log: dict[int, Any] = {}

    def act(self, number: int, action: tuple[Any, ...]) -> None:
        kind = action[0]
        if kind == "put":
            self.producers.append([number, "put", list(action[1])])
        elif kind == "get":
            self.consumers.append([number, action[1], action[2], []])
        elif kind == "close" and action[1]:
            self.closed = True
            for attempt in self.producers:
                self.log[attempt[0]] = "cancelled" if attempt[1] == "put" else "done"
            self.producers, self.log[number] = [], "done"
        elif kind == "close":
            self.producers.append([number, "close", []])
        while self.produce() or self.consume():
            pass

    def produce(self) -> bool:
        if not self.producers:
            return False
        number, kind, left = self.producers[0]
        if kind == "close":
            self.closed, self.log[number] = True, "done"
        elif self.closed:
            self.log[number] = "cancelled"
        elif left and len(self.items) < self.capacity:
            self.items.append(left.pop(0))
            if left:
                return True
            self.log[number] = "done"
        else:
            return False
        self.producers.pop(0)
        return True

    def consume(self) -> bool:
        if not self.consumers:
            return False
        number, wanted, partial, taken = self.consumers[0]
        if len(taken) < wanted and self.items:
            taken.append(self.items.pop(0))
            return True
        if len(taken) == wanted or (self.closed and partial and taken):
            self.log[number] = taken
        elif self.closed:
            self.items[:0] = taken
            self.log[number] = "end"
        else:
            return False
        self.consumers.pop(0)
        return True


ACTIONS = st.one_of(
    st.tuples(st.just("put"), st.lists(st.integers(0, 99), min_size=1, max_size=4)),
    st.tuples(st.just("get"), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("close"), st.booleans()),
)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 4), st.lists(ACTIONS, max_size=12))
def test_random_histories_agree_with_a_model_of_lists(capacity: int, actions: list[tuple[Any, ...]]):
    queue, model, calls = make(capacity), Model(capacity), {}
    for number, action in enumerate(actions):
        model.act(number, action)
        if action[0] == "put":
            calls[number] = call = Call()
            queue.enqueue_many([np.asarray(action[1], np.int32)], call.done, call.fail)
        elif action[0] == "get":
            calls[number] = get(queue, action[1], action[2])
        else:
            calls[number] = close(queue, action[1])
        assert {n: outcome(c, actions[n]) for n, c in calls.items() if not c.pending} == model.log
        assert queue.size() == len(model.items) and queue.closed == model.closed
    assert all(c.count <= 1 for c in calls.values())


def outcome(call: Call, action: tuple[Any, ...]) -> Any:
    if isinstance(call.error, errors.CancelledError):
        return "cancelled"
    if isinstance(call.error, errors.OutOfRangeError):
        return "end"
    return call.values[0] if action[0] == "get" else "done"


def test_many_threads_lose_and_double_nothing():
    queue, seen, lock = make(5), [], threading.Lock()
    finished = threading.Semaphore(0)

    def took(value: Any) -> None:
        with lock:
            seen.append(int(value))
        finished.release()

    def produce(start: int) -> None:
        for n in range(start, start + 100):
            queue.enqueue([np.asarray(n, np.int32)], lambda: None, lambda error: None)

    def consume() -> None:
        for _ in range(100):
            queue.dequeue(took, lambda error: None)
    threads = [threading.Thread(target=produce, args=(100 * i,)) for i in range(3)]
    threads += [threading.Thread(target=consume) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(finished.acquire(timeout=30) for _ in range(300))
    assert sorted(seen) == list(range(300))


def test_padding_of_scalars_stacks_them():
    queue = PaddingQueue("q", 10, [int32], [Shape(())])
    put(queue, 1, 2, 3)
    assert get(queue, 2).values == [[1, 2]]


def test_a_failure_while_stacking_reaches_whoever_waits():
    queue = PaddingQueue("q", 10, [int32], [Shape(None)])
    waiting = get(queue, 2)
    for value in (np.zeros(2, np.int32), np.zeros((2, 2), np.int32)):      # no padding makes one rank of two
        queue.enqueue([value], lambda: None, lambda error: None)
    assert waiting.count == 1 and waiting.error is not None


def test_priority_waits_for_all_that_are_wanted_and_then_sorts():
    queue = Queue("q", 10, [int64], [Shape(())], Priority())
    waiting = get(queue, 3)
    for number in (5, 3, 4):
        assert waiting.pending
        queue.enqueue([np.asarray(number, np.int64)], lambda: None, lambda error: None)
    assert waiting.values == [[3, 4, 5]]


def test_priority_does_not_wait_for_more_than_its_capacity_or_once_closed():
    queue = Queue("q", 2, [int64], [Shape(())], Priority())
    waiting = get(queue, 3)
    for number in (5, 3, 4):
        queue.enqueue([np.asarray(number, np.int64)], lambda: None, lambda error: None)
    assert waiting.values == [[3, 5, 4]]
    rest = get(queue, 4, partial=True)
    queue.enqueue([np.asarray(1, np.int64)], lambda: None, lambda error: None)
    assert rest.pending
    close(queue)
    assert rest.values == [[1]]
