"""Wrong programs: TensorFlow and we refuse the same ones, with errors of the same name."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.opcases import ints, reals
from tests.oracle.harness import COMPARED, outcome, tensorflow

pytestmark = pytest.mark.oracle
A = reals(3, 4)
WRONG: dict[str, Callable[[Any], Any]] = {}


def wrong(name: str, program: Callable[[Any], Any]) -> None:
    WRONG[name] = program


def built(name: str, program: Callable[[Any], Any]) -> None:
    """A program that must fail while it is built, or when it runs at the latest."""
    def whole(tf: Any) -> None:
        made = program(tf)
        with tf.Session() as session:
            session.run(made)
    wrong(f"building {name}", whole)


def run(name: str, program: Callable[[Any], Any], feed: Any = None) -> None:
    """A program that must fail when its tensor, of a placeholder if there is a feed, is run."""
    def whole(tf: Any) -> None:
        place = None if feed is None else tf.placeholder(np.asarray(feed).dtype, [None] * np.ndim(feed))
        fetch = program(tf) if feed is None else program(tf, place)
        with tf.Session() as session:
            session.run(fetch, {} if feed is None else {place: feed})
    wrong(f"running {name}", whole)


# shapes that cannot fit
built("matmul of 3 by 4", lambda tf: tf.matmul(tf.zeros([2, 3]), tf.zeros([4, 5])))
built("matmul of vectors", lambda tf: tf.matmul(tf.zeros([3]), tf.zeros([3])))
built("a sum of shapes that do not broadcast", lambda tf: tf.zeros([2, 3]) + tf.zeros([2]))
built("a comparison of shapes that do not broadcast", lambda tf: tf.equal(tf.zeros([2, 3]), tf.zeros([2])))
built("concat of other widths", lambda tf: tf.concat([tf.zeros([2, 3]), tf.zeros([2, 4])], 0))
built("concat of other ranks", lambda tf: tf.concat([tf.zeros([2, 3]), tf.zeros([2])], 0))
built("concat along no axis", lambda tf: tf.concat([tf.zeros([2, 3]), tf.zeros([2, 3])], 2))
built("stack of other shapes", lambda tf: tf.stack([tf.zeros([2]), tf.zeros([3])]))
built("reshape to another size", lambda tf: tf.reshape(tf.zeros([6]), [4]))
built("reshape with two unknowns", lambda tf: tf.reshape(tf.zeros([6]), [-1, -1]))
built("reshape to no multiple", lambda tf: tf.reshape(tf.zeros([6]), [-1, 4]))
built("transpose with a wrong order", lambda tf: tf.transpose(tf.zeros([2, 3]), [0, 1, 2]))
built("transpose with an axis twice", lambda tf: tf.transpose(tf.zeros([2, 3]), [0, 0]))
built("squeeze of a long axis", lambda tf: tf.squeeze(tf.zeros([2, 3]), [0]))
built("expand_dims outside", lambda tf: tf.expand_dims(tf.zeros([2, 3]), 4))
built("reduce_sum over no axis", lambda tf: tf.reduce_sum(tf.zeros([2, 3]), 2))
built("argmax over no axis", lambda tf: tf.argmax(tf.zeros([2, 3]), 2))
built("split into unequal parts", lambda tf: tf.split(tf.zeros([5]), 2))
built("unstack of an unknown axis", lambda tf: tf.unstack(tf.placeholder("float32", [None, 2])))
built("index outside", lambda tf: tf.zeros([2, 3])[2])
built("too many indices", lambda tf: tf.zeros([2, 3])[0, 0, 0])
built("slice outside", lambda tf: tf.slice(tf.zeros([2, 3]), [1, 0], [2, 3]))
built("tile with too few multiples", lambda tf: tf.tile(tf.zeros([2, 3]), [2]))
built("pad with too few paddings", lambda tf: tf.pad(tf.zeros([2, 3]), [[1, 1]]))
built("broadcast_to a smaller shape", lambda tf: tf.broadcast_to(tf.zeros([2, 3]), [3]))
built("gather along no axis", lambda tf: tf.gather(tf.zeros([2, 3]), [0], axis=2))
built("conv2d of other channels", lambda tf: tf.nn.conv2d(tf.zeros([1, 4, 4, 3]), tf.zeros([2, 2, 2, 5]), [1, 1, 1, 1], "SAME"))
built("conv2d with a window larger than the image", lambda tf: tf.nn.conv2d(
    tf.zeros([1, 2, 2, 1]), tf.zeros([3, 3, 1, 1]), [1, 1, 1, 1], "VALID"))
built("conv2d with an unknown padding", lambda tf: tf.nn.conv2d(tf.zeros([1, 2, 2, 1]), tf.zeros([1, 1, 1, 1]), [1, 1, 1, 1],
                                                                "SOME"))
built("bias of another width", lambda tf: tf.nn.bias_add(tf.zeros([2, 3]), tf.zeros([2])))
for _logits, _labels in (([None], [2, 3]), ([None], [2, 2, 3]), ([2, None], [4, 2, 3])):
    built(f"softmax_cross_entropy of logits {_logits} and labels {_labels}",
          lambda tf, a=_logits, b=_labels: tf.nn.softmax_cross_entropy_with_logits(
              labels=tf.zeros(b), logits=tf.placeholder(tf.float32, a)))
built("softmax_cross_entropy of other shapes", lambda tf: tf.nn.sigmoid_cross_entropy_with_logits(
    labels=tf.zeros([2]), logits=tf.zeros([3])))
built("top_k of too many", lambda tf: tf.nn.top_k(tf.zeros([2]), 3))
built("fill of a negative size", lambda tf: tf.fill([-1], 0.0))
built("a value of another shape for a variable", lambda tf: tf.assign(tf.Variable(tf.zeros([2])), tf.zeros([3])))
built("get_variable again", lambda tf: [tf.get_variable("w", [2]), tf.get_variable("w", [2])])
built("get_variable that is not there", lambda tf: reused(tf))
built("get_variable with another shape", lambda tf: [tf.get_variable("w", [2]), tf.get_variable_scope().reuse_variables(),
                                                     tf.get_variable("w", [3])])
built("get_variable without a shape", lambda tf: tf.get_variable("w"))
built("set_shape that contradicts", lambda tf: tf.placeholder("float32", [2]).set_shape([3]))
built("a ragged constant", lambda tf: tf.constant([[1], [2, 3]]))
built("a tensor of another graph", lambda tf: other_graph(tf))
built("a name that is none", lambda tf: tf.constant(1, name="a b"))
built("minimize without variables", lambda tf: tf.train.GradientDescentOptimizer(0.1).minimize(tf.constant(1.0)))
built("minimize of what no variable reaches", lambda tf: [tf.Variable(1.0), tf.train.GradientDescentOptimizer(0.1).minimize(
    tf.constant(1.0))])
built("a while_loop that changes a shape", lambda tf: tf.while_loop(lambda x: tf.reduce_sum(x) < 9.0, lambda x: tf.concat(
    [x, x], 0), [tf.ones([1])]))
built("a while_loop that returns too much", lambda tf: tf.while_loop(lambda x: x < 9, lambda x: [x, x], [tf.constant(0)]))
built("a cond with other structures", lambda tf: tf.cond(tf.constant(True), lambda: [tf.constant(1), tf.constant(2)],
                                                         lambda: tf.constant(1)))
built("dropout that keeps more than all", lambda tf: tf.nn.dropout(tf.zeros([2]), 1.5))
built("piecewise_constant with too few values", lambda tf: tf.train.piecewise_constant(tf.constant(1), [1, 2], [0.1, 0.2]))

# types that cannot fit
built("a sum of two types", lambda tf: tf.zeros([2]) + tf.zeros([2], "int32"))
built("matmul of two types", lambda tf: tf.matmul(tf.zeros([2, 2]), tf.zeros([2, 2], "float64")))
built("sqrt of integers", lambda tf: tf.sqrt(tf.constant([1, 2])))
built("floor of integers", lambda tf: tf.floor(tf.constant([1, 2])))
built("and of numbers", lambda tf: tf.logical_and(tf.constant([1.0]), tf.constant([1.0])))
built("a float for an integer", lambda tf: tf.constant(1.5, "int32"))
built("text for a number", lambda tf: tf.constant("a", "float32"))
built("None", lambda tf: tf.constant(None))
built("a branch of another type", lambda tf: tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: tf.constant(1.0)))
built("where of two types", lambda tf: tf.where(tf.constant([True]), tf.constant([1]), tf.constant([1.0])))
built("concat of two types", lambda tf: tf.concat([tf.zeros([1]), tf.zeros([1], "int32")], 0))
built("gather by floats", lambda tf: tf.gather(tf.zeros([2]), tf.constant([0.0])))
built("a tensor as a bool", lambda tf: bool(tf.constant(1) > 0))
built("iterating over an unknown tensor", lambda tf: list(tf.placeholder("float32", [None])))
built("an unknown type", lambda tf: tf.zeros([2], "float31"))
built("assign of another type", lambda tf: tf.assign(tf.Variable(1.0), tf.constant(1)))

# values that cannot be, found while running
run("gather outside", lambda tf, i: tf.gather(tf.zeros([3]), i), ints(0, 3))
run("gather_nd outside", lambda tf, i: tf.gather_nd(tf.zeros([3, 2]), i), ints([0, 2]))
run("scatter_nd outside", lambda tf, i: tf.scatter_nd(i, tf.ones([1]), [3]), ints([3]))
run("an index outside", lambda tf, i: tf.zeros([3])[i[0]], ints(3))
run("a slice outside", lambda tf, i: tf.slice(tf.zeros([3]), i, [2]), ints(2))
run("reshape to another size", lambda tf, x: tf.reshape(x, [4]), A)
run("a sum that does not broadcast", lambda tf, x: x + tf.zeros([3], "float64"), A)
run("matmul that does not fit", lambda tf, x: tf.matmul(x, x), A)
run("concat that does not fit", lambda tf, x: tf.concat([x, tf.zeros([1, 3], "float64")], 0), A)
run("split that does not fit", lambda tf, x: tf.split(x, 3, 1)[0], A)
run("squeeze that does not fit", lambda tf, x: tf.squeeze(x, [0]), A)
run("unstack that does not fit", lambda tf, x: tf.unstack(x, 2)[0], A)
run("stack of other shapes", lambda tf, x: tf.stack([x, x[:1]]), A)
run("integer division by zero", lambda tf, i: tf.floordiv(ints(1, 2), i), ints(1, 0))
run("integer modulo zero", lambda tf, i: tf.mod(ints(1, 2), i), ints(1, 0))
run("a negative integer power", lambda tf, i: tf.pow(ints(2, 2), i), ints(1, -1))
run("a class that does not exist", lambda tf, i: tf.nn.sparse_softmax_cross_entropy_with_logits(
    labels=i, logits=tf.zeros([2, 3])), ints(0, 3))
run("NaN where none may be", lambda tf, x: tf.check_numerics(tf.log(x), "log"), np.float32([1, -1]))
run("an infinity where none may be", lambda tf, x: tf.check_numerics(tf.log(x), "log"), np.float32([1, 0]))
run("a singular matrix", lambda tf, x: tf.matrix_inverse(x), np.ones((2, 2)))
run("no permutation", lambda tf, i: tf.invert_permutation(i), ints(0, 0))
run("a partition outside", lambda tf, i: tf.dynamic_partition(tf.zeros([2]), i, 2)[0], ints(0, 2))
run("segments out of order", lambda tf, i: tf.segment_sum(tf.zeros([2]), i), ints(1, 0))
run("a segment outside", lambda tf, i: tf.unsorted_segment_sum(tf.zeros([2]), i, 2), ints(0, 2))
run("a range that leads away", lambda tf, i: tf.range(i[0], 2), ints(5))
run("a range without steps", lambda tf, i: tf.range(0, 2, i[0]), ints(0))
run("mirrors larger than the image", lambda tf, x: tf.pad(x, [[0, 0], [0, 4]], "REFLECT"), A)
run("top_k of too many", lambda tf, x: tf.nn.top_k(x, 9)[0], A)
run("an embedding that does not exist", lambda tf, i: tf.nn.embedding_lookup(tf.zeros([3, 2]), i), ints(3))
run("a false assertion", lambda tf, x: asserted(tf, x), A)
run("an uninitialised variable", lambda tf: tf.Variable(1.0) + 1.0)
run("an assertion of case", lambda tf, i: tf.case([(i[0] < 2, lambda: i), (i[0] < 3, lambda: i)], default=lambda: i,
                                                  exclusive=True), ints(1))


def asserted(tf: Any, x: Any) -> Any:
    with tf.control_dependencies([tf.Assert(tf.reduce_all(x > 0.0), [x])]):
        return tf.sqrt(x)


def reused(tf: Any) -> Any:
    with tf.variable_scope("a", reuse=True):
        return tf.get_variable("w", [2])


def other_graph(tf: Any) -> Any:
    x = tf.constant(1.0)
    with tf.Graph().as_default():
        return x + tf.constant(1.0)


def stepping(name: str) -> Callable[[Callable[[Any, Any], Any]], None]:
    def add(program: Callable[[Any, Any], Any]) -> None:
        def whole(tf: Any) -> None:
            with tf.Session() as session:
                program(tf, session)
        wrong(name, whole)
    return add


stepping("an unfed placeholder")(lambda tf, s: s.run(tf.placeholder("float32", [2]) + 1.0))
stepping("a feed of a wrong shape")(lambda tf, s: (lambda x: s.run(x + 1.0, {x: [1.0]}))(tf.placeholder("float32", [2])))
stepping("a feed of a wrong rank")(lambda tf, s: (lambda x: s.run(x + 1.0, {x: 1.0}))(tf.placeholder("float32", [None])))
stepping("a feed of text")(lambda tf, s: (lambda x: s.run(x + 1.0, {x: "a"}))(tf.placeholder("float32", [])))
stepping("a feed of a tensor")(lambda tf, s: (lambda x: s.run(x + 1.0, {x: tf.constant(1.0)}))(tf.placeholder("float32", [])))
stepping("a ragged feed")(lambda tf, s: (lambda x: s.run(x, {x: [[1], [2, 3]]}))(tf.placeholder("float32", None)))
stepping("a number too large to feed")(lambda tf, s: (lambda x: s.run(x, {x: 2**40}))(tf.placeholder("int32", [])))
stepping("feeds that are no dict")(lambda tf, s: s.run(tf.constant(1), [1]))
stepping("a fetch of None")(lambda tf, s: (tf.constant(1), s.run(None)))
stepping("a fetch of a number")(lambda tf, s: (tf.constant(1), s.run(3)))
stepping("a fetch by a name that is none")(lambda tf, s: (tf.constant(1), s.run("nothing:0")))
stepping("a fetch by a wrong output")(lambda tf, s: s.run(tf.constant(1, name="c").op.name + ":7"))
stepping("a closed session")(lambda tf, s: (s.close(), s.run(tf.constant(1))))
stepping("an empty closed queue")(lambda tf, s: (lambda q: (s.run(q.close()), s.run(q.dequeue())))(tf.FIFOQueue(3, ["int32"])))
stepping("adding to a closed queue")(lambda tf, s: (lambda q: (s.run(q.close()), s.run(q.enqueue(1))))(
    tf.FIFOQueue(3, ["int32"])))
stepping("an element of another shape")(lambda tf, s: s.run(tf.FIFOQueue(3, ["int32"], shapes=[(2,)]).enqueue([[1, 2, 3]])))
stepping("an element with too few parts")(lambda tf, s: s.run(tf.FIFOQueue(3, ["int32", "int32"]).enqueue([1])))
stepping("many of unknown shape")(lambda tf, s: s.run(tf.FIFOQueue(3, ["int32"]).dequeue_many(2)))
stepping("a gradient of another shape for an accumulator")(lambda tf, s: s.run(tf.ConditionalAccumulator(
    "float32", shape=[2]).apply_grad([1.0, 2.0, 3.0])))
stepping("a device that does not exist")(lambda tf, s: s.run(on_device(tf, "/job:nowhere/task:7")))
stepping("a row outside of a variable")(lambda tf, s: (lambda v: (s.run(v.initializer), s.run(tf.scatter_add(
    v, [5], tf.ones([1])))))(tf.Variable(tf.zeros([3]))))
stepping("a row outside of a table")(lambda tf, s: (lambda v: (s.run(v.initializer), s.run(tf.nn.embedding_lookup(v, [5]))))(
    tf.Variable(tf.zeros([3, 2]))))


def on_device(tf: Any, name: str) -> Any:
    with tf.device(name):
        return tf.constant(1.0) + 1.0


# What Python calls a TypeError there (AssertionError for structures, ValueError for names) is the misuse of a value here.
OTHERWISE = {
    "building a cond with other structures": "InvalidArgumentError", "building a tensor as a bool": "InvalidArgumentError",
    "building iterating over an unknown tensor": "TypeError", "a feed of a tensor": "InvalidArgumentError",
    "feeds that are no dict": "InvalidArgumentError", "a fetch of None": "InvalidArgumentError",
    "a fetch of a number": "InvalidArgumentError",
}


def names(error: BaseException) -> set[str]:
    """The names it can be caught by: those of the session's errors and of Python's."""
    return {kind.__name__ for kind in type(error).__mro__ if kind.__name__.endswith("Error")} - {"OpError", "Error"}


@pytest.mark.parametrize("name", WRONG)
def test_refused_alike(name: str) -> None:
    wanted = outcome(tensorflow(), WRONG[name])
    assert wanted is not None, "TensorFlow accepts it"
    found = outcome(ours, WRONG[name])
    COMPARED["errors"] += 1
    assert found is not None, f"only TensorFlow refuses it: {type(wanted).__name__}: {wanted}"
    pythons = type(found) is TypeError and isinstance(wanted, TypeError)
    assert pythons or type(found).__module__ == "workbench.errors", f"{type(found).__name__}: {found}"
    kind = OTHERWISE.get(name, type(wanted).__name__)
    assert kind in names(found), f"{type(found).__name__} ({found}) cannot be caught as {kind} ({str(wanted)[:200]})"
