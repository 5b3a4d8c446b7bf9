"""gradients(): sums over paths, sparse parts, seeds, stops, missing gradients, higher orders."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.evaluate import evaluate
from tests.growth import growth
from workbench import errors
from workbench.core.grad import gradients
from workbench.core.graph.build import IndexedSlices, convert, ops
from workbench.core.graph.graph import Graph, Tensor
from workbench.core.graph.opdef import OpDef, registry

pytestmark = pytest.mark.usefixtures("graph")


def values(tensors: list[Any], **feeds: Any) -> list[Any]:
    found = {t: feeds[op.name] for op in tensors[0].graph.operations for t in op.outputs if op.name in feeds}
    return evaluate([convert(t) for t in tensors], found)


def x(name: str = "x", *shape: Any) -> Tensor:
    return ops.placeholder("float64", list(shape), name=name)


def test_paths_add_up() -> None:
    t = x()
    y = t * t + 3.0 * t + ops.exp(t) * t
    assert values(gradients(y, t), x=0.0) == [4.0]


def test_orders_up_to_four() -> None:
    grads = [ops.sin(x())]
    t = grads[0].op.inputs[0]
    for _ in range(4):
        grads += gradients(grads[-1], t)
    np.testing.assert_allclose(values(grads, x=0.3),
                               [np.sin(0.3), np.cos(0.3), -np.sin(0.3), -np.cos(0.3), np.sin(0.3)])


def test_nothing_to_differentiate_gives_nothing() -> None:
    assert gradients([], [x("a"), x("b")]) == [None, None] and gradients(x("c"), []) == []


def test_what_lies_beside_the_path_costs_nothing() -> None:
    def prepare(size: int) -> Any:
        t = x(f"t{size}")
        y = ops.exp(t)
        for _ in range(100 * size):
            ops.tanh(t)
        return lambda: gradients(y, t)
    assert growth(prepare, 3) == 1


def test_no_path_is_none() -> None:
    a, b = x("a"), x("b")
    assert gradients(a * 2.0, [a, b])[1] is None
    assert gradients(ops.stop_gradient(a) * b, [a])[0] is None
    assert gradients(ops.cast(ops.argmax(x("c", 3)), "float64"), a) == [None]


@pytest.mark.parametrize("made", [lambda t: ops.relu(t), lambda t: ops.relu6(t), lambda t: wb.nn.crelu(t)])
def test_what_is_flat_has_zeros_where_nothing_else_arrives(made: Any) -> None:
    t = x("t", 2)
    first = gradients(made(t), t)
    assert [g.tolist() for g in values(gradients(first, t), t=[0.5, -2.0])] == [[0.0, 0.0]]


def test_a_flat_path_costs_nothing_beside_another() -> None:
    """The penalty of a gradient: what the mask of relu depends on is not walked back through the layers below."""
    t, w = x("t", 2), x("w", 2)
    slope = gradients(ops.relu(ops.tanh(t) * w), t)[0]
    before = len(t.graph.operations)
    by_t, by_w = gradients(ops.reduce_sum(slope * slope), [t, w])
    assert not [op for op in t.graph.operations[before:] if op.kind == "zeros_like"]
    slopes = (1 - np.tanh(0.5) ** 2) * 3.0
    found = values([by_t, by_w], t=[0.5, 0.5], w=[3.0, -3.0])
    np.testing.assert_allclose(found[1], [2 * slopes * slopes / 3.0, 0.0])
    np.testing.assert_allclose(found[0], [-4 * np.tanh(0.5) * slopes * slopes, 0.0])


def test_a_variable_reached_by_zeros_alone_has_zeros_of_its_shape(graph: Graph) -> None:
    w = wb.Variable(np.ones((2, 3)), name="w")
    twice = gradients(gradients(ops.relu(w), w), w)[0]
    assert twice.shape == [2, 3] and twice.dtype == w.dtype


def test_x_may_be_y_or_inside() -> None:
    a = x("a")
    b = a * 3.0
    c = b * b
    assert values(gradients(c, [c, b, a]), a=2.0) == [1.0, 12.0, 36.0]


def test_seeds_and_several_targets() -> None:
    a = x("a", 2)
    grads = gradients([a * 2.0, a * a], a, grad_ys=[[1.0, 10.0], None])
    np.testing.assert_array_equal(values(grads, a=[1.0, 2.0])[0], [4.0, 24.0])
    with pytest.raises(errors.InvalidArgumentError, match=r"gradients: 2 ys but 1 grad_ys"):
        gradients([a, a], a, grad_ys=[None])


def test_stop_gradients_argument() -> None:
    a = x("a")
    b = a * 2.0
    assert values(gradients(a + b, [a, b], stop_gradients=[b]), a=1.0) == [1.0, 1.0]


def test_integers_have_no_gradient() -> None:
    n, a = ops.constant(1), x("a")
    assert gradients(n + 1, [n, a]) == [None, None]
    assert values(gradients([n, a * 2.0], [a]), a=1.0) == [2.0]      # among others they do not count
    with pytest.raises(errors.DtypeError, match=r"gradients: constant_\d:0 is bool; only float tensors have gradients"):
        gradients(ops.constant(True), x())


def test_missing_gradient_names_the_operation() -> None:
    t = x("t", 2)
    y = ops.reduce_sum(ops.identity(t, name="middle"))
    definition = y.op.inputs[0].op.definition
    before, definition.gradient_function = definition.gradient_function, None
    try:
        with pytest.raises(errors.UnimplementedError,
                           match=r"operation 'middle' \(identity\) has no gradient but lies between"):
            gradients(y, t)
    finally:
        definition.gradient_function = before


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpDef]:
    """An operation of a user's, whose gradient each test gives."""
    monkeypatch.setattr("workbench.core.grad._registered", {})
    yield wb.op("x[a,b] -> [a,b]", name="mine")(lambda x: x * 1)
    del registry["mine"]


@pytest.mark.parametrize(("function", "text"), [
    (lambda node, dy: ops.reduce_sum(dy), r"shape \[\] but the input has \[4,3\]; return that shape: .*reduce_to"),
    (lambda node, dy: [ops.reshape(dy, [-1])], r"shape \[12\] but the input has \[4,3\]; "),
    (lambda node, dy: ops.cast(dy, "float32"), "float32 but the input is float64; cast it"),
    (lambda node, dy: np.ones(3), r"shape \[3\] but the input has \[4,3\]; "),
    (lambda node, dy: IndexedSlices(dy[:, :2], convert([0, 1, 2, 3])), r"rows of shape \[2\] but the input has \[3\]; "),
    (lambda node, dy: IndexedSlices(ops.cast(dy, "float32"), convert([0, 1, 2, 3])), "float32 but the input is float64; "),
], ids=["scalar", "rank", "dtype", "array", "rows", "dtype of rows"])
@pytest.mark.parametrize("registered", [False, True])
def test_a_users_gradient_that_does_not_fit_its_input_is_named(function: Any, text: str, registered: bool, mine: OpDef) -> None:
    if registered:
        wb.RegisterGradient("mine")(function)
    else:
        mine.gradient(function)
    t = x("t", 4, 3)
    wanted = f"gradients: the gradient of mine gave for its input t:0 {text}"
    with pytest.raises(errors.InvalidArgumentError, match=wanted) as found:
        gradients(ops.reduce_sum(ops.mine(t) * 3.0), t)
    assert "built at: " in str(found.value)


@pytest.mark.parametrize("function", [
    lambda node, dy: dy * 2.0, lambda node, dy: np.full((4, 3), 6.0), lambda node, dy: [dy + dy],
    lambda node, dy: IndexedSlices(dy * 2.0, convert([0, 1, 2, 3])),
    lambda node, dy: ops.reshape(dy * 2.0, ops.shape(node.inputs[0]))], ids=["tensor", "array", "list", "rows", "unknown"])
@pytest.mark.parametrize("shape", [(4, 3), (None, 3)])
def test_a_users_gradient_that_may_fit_is_taken(function: Any, shape: Any, mine: OpDef) -> None:
    mine.gradient(function)
    t = x("t", *shape)
    found = gradients(ops.reduce_sum(ops.mine(t) * 3.0), t)
    np.testing.assert_array_equal(values([found[0].values if isinstance(found[0], IndexedSlices) else found[0]],
                                         t=np.ones((4, 3)))[0], np.full((4, 3), 6.0))


def test_sparse_and_dense_parts() -> None:
    t = x("t", 3, 2)
    sparse = gradients(ops.reduce_sum(ops.gather(t, [2, 2])), t)[0]
    mixed = gradients(ops.reduce_sum(ops.gather(t, [2, 2])) + ops.reduce_sum(t), t)[0]
    assert isinstance(sparse, IndexedSlices) and isinstance(mixed, Tensor)
    for grad, wanted in zip(values([sparse, mixed], t=np.zeros((3, 2))),
                            ([[0, 0], [0, 0], [2, 2]], [[1, 1], [1, 1], [3, 3]])):
        np.testing.assert_array_equal(grad, wanted)


def test_sparse_gradient_passes_identity_and_becomes_dense_when_computed_with() -> None:
    t = x("t", 3)
    assert isinstance(gradients(ops.gather(ops.identity(t), [1]), t)[0], IndexedSlices)
    assert isinstance(gradients(ops.gather(t * 2.0, [1]), t)[0], Tensor)


def test_gradients_stand_beside_their_operation(graph: Graph) -> None:
    t = x("t")
    y = ops.exp(t, name="e")
    dx = gradients(y, t)[0]
    assert dx.op.name.startswith("gradients/e_grad/") and dx.op.colocation == {"e"}


def test_a_small_network_against_differences() -> None:
    rng = np.random.default_rng(0)
    w, b, data = x("w", 3, 4), x("b", 4), ops.constant(rng.normal(size=(5, 3)))
    labels = ops.constant(np.eye(4)[[0, 1, 2, 3, 0]])
    loss = ops.reduce_mean(ops.softmax_cross_entropy_with_logits(labels=labels, logits=ops.tanh(data @ w + b)))
    at = {"w": rng.normal(size=(3, 4)), "b": rng.normal(size=4)}
    for name, grad in zip("wb", values(gradients(loss, [w, b]), **at)):
        for index in np.ndindex(*at[name].shape):
            low, high = ({**at, name: at[name].copy()} for _ in range(2))
            low[name][index] -= 1e-6
            high[name][index] += 1e-6
            slope = (values([loss], **high)[0] - values([loss], **low)[0]) / 2e-6
            assert abs(slope - grad[index]) < 1e-7


def test_a_gradient_has_the_shape_that_is_known_of_its_tensor() -> None:
    """A rule may know less: what is cut out of a padding's gradient has lengths that only the step computes."""
    x = ops.reshape(wb.placeholder(wb.float32, [None, 6]), [-1, 2, 3])
    [dx] = gradients([ops.pad(x, [[0, 0], [1, 1], [0, 0]])], [x])
    assert isinstance(dx, Tensor) and dx.shape.as_list() == [None, 2, 3]
