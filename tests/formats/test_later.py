"""Nodes of later versions of TensorFlow, and those whose attributes change values, against NumPy; If and While of functions."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.tf1 as tf
from tests.formats.test_functions import X, function, graph, node
from workbench import errors
from workbench.formats.messages import message

RNG = np.random.default_rng(3)
REAL, OTHER = RNG.normal(size=(2, 3, 3)), RNG.normal(size=(2, 3, 3))
COMPLEX = (REAL + 1j * OTHER).astype(np.complex64)
IMAGES = RNG.normal(size=(2, 4, 5, 3)).astype(np.float32)
ZERO = np.int32(0)


def built(kind: str, inputs: tuple[Any, ...], **attrs: Any) -> Any:
    """A GraphDef with one node `y` of this kind over constants."""
    with tf.Graph().as_default() as made:
        for position, value in enumerate(inputs):
            tf.constant(value, name=f"in{position}")
        proto = made.as_graph_def()
    found = proto.node.add(name="y", op=kind, input=[f"in{i}" for i in range(len(inputs))])
    found.attr["T"].type = tf.as_dtype(np.asarray(inputs[0]).dtype).as_datatype_enum
    for key, value in attrs.items():
        if isinstance(value, bool):
            found.attr[key].b = value
        elif isinstance(value, (bytes, str)):
            found.attr[key].s = value if isinstance(value, bytes) else value.encode()
        elif isinstance(value, list):
            found.attr[key].list.i.extend(value)
        elif isinstance(value, int):
            found.attr[key].i = value
        else:
            found.attr[key].f = value
    return proto


def run(proto: Any, fetch: Any, feeds: Any = None) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(proto, name="")
        return session.run(fetch, feeds)


def transposed(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


MEAN = IMAGES.mean((1, 2), keepdims=True)
FLAT = [np.int32(-1), np.int32(-1)]
CASES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], Any]] = {
    "inverse": ("MatrixInverse", (REAL,), {}, np.linalg.inv(REAL)),
    "adjoint of the inverse": ("MatrixInverse", (COMPLEX,), {"adjoint": True}, transposed(np.linalg.inv(COMPLEX)).conj()),
    "adjoints multiplied": ("BatchMatMulV2", (COMPLEX, COMPLEX), {"adj_x": True, "adj_y": True},
                            transposed(COMPLEX).conj() @ transposed(COMPLEX).conj()),
    "left adjoint multiplied": ("BatchMatMul", (COMPLEX, COMPLEX), {"adj_x": True}, transposed(COMPLEX).conj() @ COMPLEX),
    "diagonal": ("MatrixDiagV3", (np.float32([1, 2]), ZERO, *FLAT, np.float32(0)), {}, np.diag([1, 2])),
    "diagonal taken": ("MatrixDiagPartV3", (REAL, ZERO, np.float64(0)), {}, np.diagonal(REAL, axis1=1, axis2=2)),
    "diagonal set": ("MatrixSetDiagV3", (np.ones((2, 2)), np.float64([5, 6]), ZERO), {}, [[5, 1], [1, 6]]),
    "means of segments": ("SegmentMean", (np.float32([1, 3, 7]), np.int32([0, 0, 2])), {}, [2, 0, 7]),
    "between": ("ClipByValue", (np.float32([-2, 0.5, 9]), np.float32(-1), np.float32(1)), {}, [-1, 0.5, 1]),
    "contrast": ("AdjustContrastv2", (IMAGES, np.float32(2)), {}, (IMAGES - MEAN) * 2 + MEAN),
    "not zero": ("Where", (np.float32([[0, 2], [3, 0]]),), {}, [[0, 1], [1, 0]]),
    "joined": ("ReduceJoin", (np.array([[b"a", b"b"], [b"c", b"d"]], object), ZERO), {"separator": "-"}, [b"a-c", b"b-d"]),
    "differences of sets": ("DenseToDenseSetOperation", (np.int64([[1, 2, 3]]), np.int64([[2, 9, 9]])),
                            {"set_operation": "a-b"}, [[0, 0], [0, 1]])}


@pytest.mark.parametrize("name", CASES)
def test_a_node_computes_what_it_says(name: str) -> None:
    kind, inputs, attrs, exact = CASES[name]
    found = run(built(kind, inputs, **attrs), "y:0")
    if np.asarray(exact).dtype.kind in "SO":
        assert found.tolist() == exact
    else:
        np.testing.assert_allclose(found, exact, 1e-4, 1e-5)


@pytest.mark.parametrize(("kind", "inputs", "attrs", "text"), [
    ("MatrixDiagPartV3", (REAL, np.int32(1), np.float64(0)), {}, "its diagonals are 1"),
    ("MatrixDiagV3", (np.float32([1, 2]), ZERO, np.int32(3), np.int32(-1), np.float32(0)), {}, "num_rows is 3"),
    ("MatrixDiagV3", (np.float32([1, 2]), ZERO, *FLAT, np.float32(7)), {}, r"pads with 7\.0"),
    ("DepthwiseConv2dNativeBackpropFilter", (IMAGES, np.int32([2, 2, 3, 1]), IMAGES),
     {"strides": [1, 1, 1, 1], "padding": "SAME", "dilations": [1, 2, 2, 1]}, r"dilations are \[1, 2, 2, 1\]")])
def test_what_a_node_asks_beyond_that_is_named(kind: str, inputs: Any, attrs: Any, text: str) -> None:
    with pytest.raises(errors.UnimplementedError, match=text):
        run(built(kind, inputs, **attrs), "y:0")


def test_derivatives_that_are_nodes() -> None:
    filters, dy = RNG.normal(size=(2, 2, 3, 2)).astype(np.float32), RNG.normal(size=(2, 4, 5, 6)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        x, w = tf.constant(IMAGES), tf.constant(filters)
        y = tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME")
        z = tf.nn.lrn(x, 1, 1.0, 0.5, 0.75)
        wanted = session.run([*tf.gradients(y, [x, w], dy), *tf.gradients(z, x, IMAGES), z])
    window = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    found = [run(built("DepthwiseConv2dNativeBackpropInput", (np.int32(IMAGES.shape), filters, dy), **window), "y:0"),
             run(built("DepthwiseConv2dNativeBackpropFilter", (IMAGES, np.int32(filters.shape), dy), **window), "y:0"),
             run(built("LRNGrad", (IMAGES, IMAGES, wanted[3]), depth_radius=1, bias=1.0, alpha=0.5, beta=0.75), "y:0")]
    for mine, exact in zip(found, wanted):
        np.testing.assert_allclose(mine, exact, 1e-4, 1e-5)


# If and While

def flow(op: str, name: str, inputs: str, functions: dict[str, str], **lists: int) -> Any:
    made = message("NodeDef")(name=name, op=op, input=inputs.split())
    for key, called in functions.items():
        made.attr[key].func.name = called
    for key, count in lists.items():
        made.attr[key].list.type.extend([1] * count)      # DT_FLOAT
    return made


SQUARED = function("squared", "x", {"y": "m:z:0"}, node("m", "Mul", "x", "x"))
LESS = function("less", "x", {"y": "n:y:0"}, node("n", "Neg", "x"))
TWICE = function("twice", "x", {"y": "call:y:0"}, node("call", "squared", "x", attrs=""))


def number(name: str, value: int) -> str:
    return (f"node {{ name: '{name}' op: 'Const' attr {{ key: 'dtype' value {{ type: DT_FLOAT }} }} "
            f"attr {{ key: 'value' value {{ tensor {{ dtype: DT_FLOAT tensor_shape {{ }} float_val: {value} }} }} }} }}")


def over_zero(*texts: str) -> Any:
    return graph(X, number("zero", 0), node("p", "Greater", "x", "zero"), *texts)


@pytest.mark.parametrize("op", ["If", "StatelessIf"])
def test_a_branch_calls_its_functions_and_has_gradients(op: str) -> None:
    proto = over_zero(SQUARED, LESS, TWICE)
    proto.node.append(flow(op, "y", "p x", {"then_branch": "twice", "else_branch": "less"}, Tin=1, Tout=1))
    with tf.Graph().as_default(), tf.Session() as session:
        [y] = tf.import_graph_def(proto, name="", return_elements=["y:0"])
        slope = tf.gradients(y, tf.get_default_graph().get_tensor_by_name("x:0"))[0]
        assert [session.run([y, slope], {"x:0": x}) for x in (3.0, -2.0)] == [[9, 6], [2, -1]]


@pytest.mark.parametrize("op", ["While", "StatelessWhile"])
def test_a_loop_calls_its_functions_and_has_gradients(op: str) -> None:
    """Squares x while it is below 100."""
    below = function("below", "v x", {"go": "l:z:0"}, number("c", 100), node("l", "Less", "v", "c:output:0")).replace(
        "name: 'go' type: DT_FLOAT", "name: 'go' type: DT_BOOL")
    turn = function("turn", "v x", {"a": "m:z:0", "b": "x"}, node("m", "Mul", "v", "v"))
    proto = graph(X, below, turn)
    proto.node.append(flow(op, "y", "x x", {"cond": "below", "body": "turn"}, T=2))
    with tf.Graph().as_default(), tf.Session() as session:
        [y] = tf.import_graph_def(proto, name="", return_elements=["y:0"])
        slope = tf.gradients(y, tf.get_default_graph().get_tensor_by_name("x:0"))[0]
        assert [session.run([y, slope], {"x:0": x}) for x in (3.0, 200.0)] == [[6561, 8 * 3.0 ** 7], [200, 1]]


def test_a_branch_whose_function_is_not_there_is_named() -> None:
    proto = over_zero(SQUARED)
    proto.node.append(flow("If", "y", "p x", {"then_branch": "squared", "else_branch": "gone"}, Tin=1, Tout=1))
    with pytest.raises(errors.InvalidArgumentError, match="node 'y' calls the function 'gone', which is not in the library"):
        tf.import_graph_def(proto)


# what we write

def test_axes_counted_from_the_end_are_written_in_an_order_that_keeps_their_places() -> None:
    import workbench as wb
    with tf.Graph().as_default() as made:
        x = tf.placeholder(tf.float32, name="x")
        tf.identity(wb.expand_dims(x, (-2, -1)), name="y")
        proto = made.as_graph_def()
    axes = [int(n.attr["value"].tensor.int_val[0] if n.attr["value"].tensor.int_val else np.frombuffer(
        n.attr["value"].tensor.tensor_content, np.int32)[0]) for n in proto.node if "dim" in n.name]
    assert axes == [-1, -2] and run(proto, "y:0", {"x:0": [1.0, 2.0]}).shape == (2, 1, 1)


@pytest.mark.parametrize(("turn", "exact"), [(tf.transpose, np.transpose(REAL)), (tf.matrix_transpose, transposed(REAL))])
def test_turns_of_tensors_of_unknown_rank_are_nodes_of_theirs(turn: Any, exact: Any) -> None:
    with tf.Graph().as_default() as made:
        tf.identity(turn(tf.placeholder(tf.float64, name="x")), name="y")
        proto = made.as_graph_def()
    assert not any(n.op.startswith("Workbench") for n in proto.node)
    np.testing.assert_array_equal(run(proto, "y:0", {"x:0": REAL}), exact)
