"""Variables, order of effects, feeds and fetches against sessions of TensorFlow: what a program sees, step by step."""
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


def started(tf: Any) -> Any:
    session = tf.Session()
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return session


# variables
@story
def assignments_give_the_new_value(tf):
    v = tf.Variable([1.0, 2.0])
    set_, add, take = tf.assign(v, [5.0, 6.0]), tf.assign_add(v, [1.0, 1.0]), tf.assign_sub(v, [0.5, 0.5])
    with started(tf) as s:
        return [s.run(f) for f in (v, set_, v, add, add, take, v, v.assign([0.0, 0.0]), v.assign_add([2.0, 1.0]), v)]


@story
def assignments_that_may_change_the_shape(tf):
    free = tf.Variable([1.0, 2.0], validate_shape=False)
    fixed = tf.get_variable("fixed", initializer=[1.0, 2.0], use_resource=False)      # the others' resources cannot do it
    given = tf.placeholder(tf.float32)
    grow, keep = tf.assign(free, given, validate_shape=False), tf.assign(fixed, given, validate_shape=False)
    with started(tf) as s:
        return [s.run(keep, {given: [3.0, 4.0]}), s.run(fixed), s.run(grow, {given: [[1.0]]}), s.run(free), s.run(free + 1.0),
                s.run(tf.assign(fixed, [5.0, 6.0], validate_shape=False)), s.run(keep, {given: [[3.0, 4.0, 5.0]]}),
                s.run(fixed), s.run(fixed * 2.0),
                s.run(tf.get_variable("nothing", initializer=tf.zeros([0, 2]), use_resource=False))]


@story
def scatters(tf):
    v = tf.Variable(np.zeros((4, 2), np.float32))
    ops = [tf.scatter_add(v, [1, 1, 3], np.ones((3, 2), np.float32)), tf.scatter_sub(v, [0, 1], np.ones((2, 2), np.float32)),
           tf.scatter_update(v, [2], np.full((1, 2), 7, np.float32)), tf.scatter_add(v, 3, np.ones(2, np.float32)),
           tf.scatter_update(v, np.zeros(0, np.int32), np.zeros((0, 2), np.float32))]
    with started(tf) as s:
        return [(s.run(op), s.run(v))[1] for op in ops]


@story
def variables_cut_by_a_list(tf):
    whole = np.arange(14, dtype=np.float32).reshape(7, 2)
    parts = tf.create_partitioned_variables([7, 2], [3, 1], tf.constant(whole), name="table")
    columns = tf.create_partitioned_variables([2, 4], [1, 2], tf.ones_initializer(), tf.int32)
    with started(tf) as s:
        return [*s.run(list(parts)), *s.run(list(columns)), s.run(tf.concat([p.read_value() for p in parts], 0)),
                [v.op.name for v in parts]]


@story
def a_step_that_reads_and_writes_after_each_other(tf):
    v = tf.Variable(1.0)
    before = tf.identity(v)
    with tf.control_dependencies([before]):
        add = tf.assign_add(v, 10.0)
    with tf.control_dependencies([add]):
        after = tf.identity(v)
        with tf.control_dependencies([after]):
            again = tf.assign(v, after * 2.0)
    with started(tf) as s:
        return [s.run([before, after, again]) for _ in range(3)]


@story
def a_group_runs_everything(tf):
    a, b = tf.Variable(1), tf.Variable(2)
    both = tf.group(tf.assign_add(a, 1), tf.assign(b, 7))
    with started(tf) as s:
        return [s.run(both) is None, *s.run([a, b])]


@story
def a_tuple_waits_for_all(tf):
    v = tf.Variable(0)
    add = tf.assign_add(v, 1)
    pair = tf.tuple([tf.constant(1), tf.constant(2)], control_inputs=[add.op])
    with started(tf) as s:
        return [s.run(pair), s.run(pair[0]), s.run(v)]


@story
def only_what_is_fetched_runs(tf):
    v = tf.Variable(0)
    add = tf.assign_add(v, 1)
    with tf.control_dependencies([add]):
        noop, x = tf.no_op(), tf.constant(5) + 1
    y = tf.constant(3)
    with started(tf) as s:
        return [s.run(y), s.run(v), s.run(noop) is None, s.run(v), s.run(x), s.run(v), s.run([add, add]), s.run(v)]


@story
def fed_tensors_are_not_computed(tf):
    v = tf.Variable(0)
    x = tf.placeholder_with_default(np.int32(3), [])
    with tf.control_dependencies([tf.assign_add(v, 1)]):
        add = x + 1
    twice = add * 2
    with started(tf) as s:
        return [s.run(twice), s.run(twice, {add: 50}), s.run(v), s.run(twice, {twice: 9}), s.run(v)]


@story
def two_sessions_have_their_own_values(tf):
    v = tf.Variable(1)
    add = tf.assign_add(v, 5)
    with started(tf) as one, started(tf) as two:
        one.run(add)
        return [one.run(v), two.run(v)]


@story
def shared_by_name(tf):
    with tf.variable_scope("a"):
        first = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
    with tf.variable_scope("a", reuse=True):
        second = tf.get_variable("w", [2])
    add = tf.assign_add(first, [1.0, 2.0])
    with started(tf) as s:
        s.run(add)
        return [s.run(second), len(tf.global_variables())]


@story
def names_and_collections(tf):
    with tf.variable_scope("net"):
        tf.get_variable("w", [2, 3])
        tf.Variable(1.0, name="b", trainable=False)
        with tf.variable_scope("inner"):
            tf.get_variable("w", [1])
            tf.get_variable("local", [1], collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False)
    with tf.name_scope("scope"):
        x = tf.constant(1.0, name="x")
        y = tf.add(x, x, name="sum")
        z = tf.add(x, x, name="sum")
    tf.add_to_collection("mine", x)
    names = [v.name for kind in (tf.global_variables, tf.trainable_variables, tf.local_variables) for v in kind()]
    names += [t.name for t in (x, y, z, *tf.get_collection("mine"))] + [v.name for v in tf.get_collection(
        tf.GraphKeys.TRAINABLE_VARIABLES, scope="net/inner")]
    return [np.array(name.encode()) for name in names]


@story
def initialised_or_not(tf):
    v, w = tf.Variable(1, name="v"), tf.Variable(2, name="w")
    asked, missing = tf.is_variable_initialized(v), tf.report_uninitialized_variables()
    with tf.Session() as s:
        before = s.run([asked, missing])
        s.run(v.initializer)
        return [before, s.run([asked, missing]), error_of(tf, s, w), s.run(v)]


@story
def writes_in_a_branch(tf):
    v, p = tf.Variable(0), tf.placeholder("bool", [])
    y = tf.cond(p, lambda: tf.assign_add(v, 10), lambda: tf.assign_add(v, 1))
    with started(tf) as s:
        return [s.run(y, {p: True}), s.run(v), s.run(y, {p: False}), s.run(v)]


@story
def writes_in_a_loop(tf):
    v = tf.Variable(1.0)

    def body(i):
        with tf.control_dependencies([tf.assign(v, v * 2.0)]):
            return i + 1
    n = tf.while_loop(lambda i: i < 5, body, [tf.constant(0)])
    with started(tf) as s:
        return [s.run(n), s.run(v), s.run(n), s.run(v)]


@story
def a_counter_from_many_threads(tf):
    v = tf.Variable(0)
    add = tf.assign_add(v, 1)
    with started(tf) as s:
        threads = [threading.Thread(target=lambda: [s.run(add) for _ in range(50)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return s.run(v)


@story
def what_a_session_gives_back(tf):
    """Types of fetched values: NumPy scalars, bytes, arrays, None, and the structure that was asked for."""
    x, v = tf.constant([1.0, 2.0]), tf.Variable(3)
    with started(tf) as s:
        found = s.run({"a": x, "b": [v, (tf.constant("text"), v.initializer)], "c": tf.constant(True)})
        more = s.run([tf.constant(2), tf.reduce_sum(x), [], {}])
    names = [type(f).__name__ for f in (found["a"], found["b"], found["b"][0], found["b"][1], found["b"][1][0],
                                        found["b"][1][1], found["c"], *more)]
    return [np.array(n.encode()) for n in names]


@story
def a_partial_feed_by_name(tf):
    x = tf.placeholder("float32", [None, 2], name="x")
    tf.multiply(x, 2.0, name="y")
    with tf.Session() as s:
        return [s.run("y:0", {"x:0": [[1, 2]]}), s.run(["y:0"], {x: np.ones((0, 2))})[0]]


@story
def gradients_say_which_path_there_is(tf):
    x, y = tf.constant(2.0), tf.constant(3.0)
    z = x * x + tf.stop_gradient(y * x)
    found = [tf.gradients(z, [x, y]), tf.gradients([z, x], x), tf.gradients(x, x),
             tf.gradients(z, x, grad_ys=[tf.constant(5.0)]),
             tf.gradients(x * y + y, y, stop_gradients=[x]), tf.gradients(tf.cast(tf.cast(x, "int32"), "float32"), x)]
    none = [np.array([g is None for g in grads]) for grads in found]
    with tf.Session() as s:
        return none + [s.run([g for g in grads if g is not None]) for grads in found]


@pytest.mark.parametrize("name", STORIES)
def test_program(name: str) -> None:
    same_story(STORIES[name])
