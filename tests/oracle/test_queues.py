"""Queues and accumulators against sessions of TensorFlow: order, waiting, closing, batches, what is left."""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.oracle.harness import error_of, same_story

pytestmark = pytest.mark.oracle
STORIES: dict[str, Callable[[Any], Any]] = {}


def story(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    STORIES[function.__name__] = function
    return function


# queues
@story
def first_in_first_out(tf):
    q = tf.FIFOQueue(5, ["int32"], shapes=[()])
    x = tf.placeholder("int32", [])
    put, many, take, three, size = q.enqueue(x), q.enqueue_many([[7, 8, 9]]), q.dequeue(), q.dequeue_many(3), q.size()
    with tf.Session() as s:
        found = [s.run(size)]
        for i in (1, 2):
            s.run(put, {x: i})
        s.run(many)
        return [*found, s.run(size), s.run(take), s.run(three), s.run(size), s.run(q.dequeue_up_to(1)), s.run(size)]


@story
def elements_of_several_parts(tf):
    q = tf.FIFOQueue(5, ["int32", "float32"], shapes=[(), (2,)])
    put = q.enqueue_many([[1, 2, 3], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]])
    one, two = q.dequeue(), q.dequeue_many(2)
    with tf.Session() as s:
        s.run(put)
        return [s.run(one), s.run(two)]


@story
def elements_with_names(tf):
    q = tf.FIFOQueue(5, ["int32", "float32"], shapes=[(), ()], names=["n", "x"])
    put, take = q.enqueue({"n": 3, "x": 0.5}), q.dequeue()
    with tf.Session() as s:
        s.run(put)
        found = s.run(take)
        return [found["n"], found["x"]]


@story
def closed_with_elements_left(tf):
    q = tf.FIFOQueue(5, ["int32"], shapes=[()])
    with tf.Session() as s:
        s.run(q.enqueue_many([[1, 2, 3]]))
        s.run(q.close())
        return [error_of(tf, s, q.enqueue(4)), s.run(q.dequeue()), error_of(tf, s, q.dequeue_many(3)), s.run(q.size()),
                s.run(q.dequeue_up_to(5)), error_of(tf, s, q.dequeue()), error_of(tf, s, q.dequeue_up_to(1)),
                s.run(q.is_closed())]      # closing again is an error there, and fine here


def background(run: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(run()))
    thread.start()
    return thread, found


@story
def a_full_queue_waits(tf):
    q = tf.FIFOQueue(1, ["int32"], shapes=[()])
    first, second, take = q.enqueue(1), q.enqueue(2), q.dequeue()
    with tf.Session() as s:
        s.run(first)
        thread, _ = background(lambda: s.run(second))
        found = [s.run(take), s.run(take)]
        thread.join()
        return found


@story
def an_empty_queue_waits(tf):
    q = tf.FIFOQueue(5, ["int32"], shapes=[()])
    put, two = q.enqueue_many([[1, 2]]), q.dequeue_many(3)
    with tf.Session() as s:
        thread, found = background(lambda: s.run(two))
        s.run(put)
        s.run(put)
        thread.join()
        return [found, s.run(q.size())]


@story
def closing_ends_those_who_wait_for_elements(tf):
    q = tf.FIFOQueue(5, ["int32"], shapes=[()])
    two = q.dequeue_many(2)
    with tf.Session() as s:
        s.run(q.enqueue(1))
        thread, found = background(lambda: error_of(tf, s, two))
        s.run(q.close())
        thread.join()
        return [found, s.run(q.size())]


@story
def closing_lets_or_cancels_those_who_wait_for_room(tf):
    found = []
    for cancel in (False, True):
        q = tf.FIFOQueue(1, ["int32"], shapes=[()], name="queue")
        put, close, take = q.enqueue_many([[2, 3]]), q.close(cancel_pending_enqueues=cancel), q.dequeue()
        with tf.Session() as s:
            s.run(q.enqueue(1))
            started_, ended = background(lambda s=s, put=put: error_of(tf, s, put))
            if not cancel:
                found += [s.run(take), s.run(take)]      # both waited for
            s.run(close)
            if cancel:
                started_.join()
            found += [s.run(take), error_of(tf, s, take)]
            started_.join()
            found += ended
    return found


@story
def padding(tf):
    q = tf.PaddingFIFOQueue(5, ["int32", "float32"], shapes=[(None,), (None, 2)])
    a, b = tf.placeholder("int32", [None]), tf.placeholder("float32", [None, 2])
    put, take = q.enqueue([a, b]), q.dequeue_many(3)
    with tf.Session() as s:
        for n in (1, 3, 0):
            s.run(put, {a: np.arange(n) + 1, b: np.ones((n + 1, 2))})
        return s.run(take)


@story
def by_priority(tf):
    q = tf.PriorityQueue(9, ["float32"], shapes=[()])
    put = q.enqueue_many([np.array([5, 1, 3, 1], np.int64), [0.5, 0.1, 0.3, 0.2]])
    with tf.Session() as s:
        s.run(put)
        return [s.run(q.dequeue())[0] for _ in range(4)]


@story
def shuffled_are_the_same_elements(tf):
    q = tf.RandomShuffleQueue(20, 2, ["int32"], shapes=[()])
    with tf.Session() as s:
        s.run(q.enqueue_many([list(range(10))]))
        first = s.run(q.dequeue_many(8))
        s.run(q.close())
        rest = s.run(q.dequeue_many(2))
        return [np.sort(np.concatenate([first, rest])), error_of(tf, s, q.dequeue())]


@story
def one_queue_by_its_shared_name(tf):
    a = tf.FIFOQueue(5, ["int32"], shapes=[()], shared_name="both")
    b = tf.FIFOQueue(5, ["int32"], shapes=[()], shared_name="both")
    with tf.Session() as s:
        s.run(a.enqueue(4))
        return [s.run(b.size()), s.run(b.dequeue())]


@story
def shapes_of_what_comes_out(tf):
    q = tf.FIFOQueue(5, ["int32", "float32"], shapes=[(), (2, 3)])
    tensors = [*q.dequeue(), *q.dequeue_many(4), *q.dequeue_up_to(4)]
    return [np.array([-1 if d is None else d for d in t.get_shape().as_list()]) for t in tensors]


# accumulators
@story
def a_mean_of_gradients(tf):
    a = tf.ConditionalAccumulator("float32", shape=[2])
    x, step = tf.placeholder("float32", [2]), tf.placeholder("int64", [])
    put, take, count = a.apply_grad(x, local_step=step), a.take_grad(2), a.num_accumulated()
    with tf.Session() as s:
        for i in range(3):
            s.run(put, {x: [i, 2.0 * i], step: 0})
        found = [s.run(count), s.run(take), s.run(count)]
        s.run(put, {x: [9.0, 9.0], step: 0})      # of a step that is over: dropped
        found.append(s.run(count))
        s.run(a.set_global_step(5))
        for step_ in (4, 5, 6):
            s.run(put, {x: [1.0, step_], step: step_})
        return [*found, s.run(count), s.run(take)]


@story
def a_sum_of_gradients(tf):
    a = tf.ConditionalAccumulator("float32", shape=[], reduction_type="SUM")
    with tf.Session() as s:
        for i in (1.0, 2.0):
            s.run(a.apply_grad(i))
        return s.run(a.take_grad(1))


@story
def a_sum_by_rows(tf):
    """Not the mean: there each row is divided by the gradients that touched it, here by all, as in the dense mean."""
    a = tf.SparseConditionalAccumulator("float32", shape=[4, 2], reduction_type="SUM")
    with tf.Session() as s:
        s.run(a.apply_grad(np.array([1, 3], np.int64), np.array([[1, 1], [2, 2]], np.float32)))
        s.run(a.apply_grad(np.array([0, 3], np.int64), np.array([[4, 4], [6, 6]], np.float32)))
        taken = a.take_indexed_slices_grad(2)
        return s.run([taken.indices, taken.values])


@pytest.mark.parametrize("name", STORIES)
def test_program(name: str) -> None:
    same_story(STORIES[name])
