"""The whole story, small: build, differentiate, rewrite, run, train, and one error (`make tiny` before each commit)."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench.core.graph.shape import Shape
from workbench.core.graph.text import to_text
from workbench.core.passes.pipeline import DEVICE_PASSES, run_passes
from workbench.core.passes.prune import prune

pytestmark = [pytest.mark.tiny, pytest.mark.usefixtures("graph")]


def test_build():
    x = wb.placeholder("float32", [None, 3], name="x")
    w = wb.constant(np.ones((3, 2)), "float32", name="w")
    y = wb.matmul(x, w, name="y")
    assert repr(y) == "<Tensor y:0 float32[?,2]>" and y.op.inputs == (x, w)
    assert to_text(y.graph) == ("x = placeholder() {shape=(None, 3)} -> float32[?,3]\n"
                                "w = constant() {value=<float32[3, 2]>} -> float32[3,2]\n"
                                "y = matmul(x, w) -> float32[?,2]\n")


def test_differentiate():
    x = wb.placeholder("float64", [])
    slope, = wb.gradients(x * x * x, [x])
    curve, = wb.gradients(slope, [x])
    with wb.Session() as s:
        assert s.run([slope, curve], {x: 2.0}) == [12.0, 12.0]


def test_rewrite(graph):
    x = wb.placeholder("float32", [4, 3], name="x")
    w, b = wb.constant(np.ones((3, 3)), "float32", name="w"), wb.constant([1.0, 2.0, 3.0], name="b")
    y = wb.nn.relu(wb.matmul(x * 1.0, w) + b * (wb.constant(2.0) - 1.0), name="y")
    program = run_passes(run_passes(prune(graph, [y], [], {x: Shape((4, 3))})), stages=DEVICE_PASSES)
    assert [op.type for op in program.graph.operations] == ["argument", "constant", "constant", "fused_matmul"]


def test_run_branches_and_loops():
    n = wb.placeholder("int32", [])
    total = wb.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t + i), [0, 0])[1]
    sign = wb.cond(total > 10, lambda: wb.constant("many"), lambda: wb.constant("few"))
    with wb.Session() as s:
        assert s.run([total, sign], {n: 4}) == [6, b"few"] and s.run([total, sign], {n: 6}) == [15, b"many"]


@pytest.mark.parametrize("devices", [1, 2])
def test_train(devices):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 20))
    kinds = rng.integers(0, 4, 200)
    images, labels = centres[kinds] + 0.3 * rng.normal(size=(200, 20)), np.eye(4)[kinds]
    x, y = wb.placeholder("float32", [None, 20]), wb.placeholder("float32", [None, 4])
    with wb.device(f"/cpu:{devices - 1}"):
        w, b = wb.Variable(wb.zeros([20, 4])), wb.Variable(wb.zeros([4]))
    logits = wb.matmul(x, w) + b
    loss = wb.reduce_mean(wb.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
    step = wb.train.GradientDescentOptimizer(0.5).minimize(loss)
    right = wb.reduce_mean(wb.cast(wb.equal(wb.argmax(logits, 1), wb.argmax(y, 1)), "float32"))
    with wb.Session(devices=devices) as s:
        s.run(wb.global_variables_initializer())
        losses = [s.run([loss, step], {x: images[i::5], y: labels[i::5]})[0] for i in [0, 1, 2, 3, 4] * 4]
        assert losses[0] == pytest.approx(np.log(4), rel=1e-4) and losses[-1] < 0.1
        assert s.run(right, {x: images, y: labels}) > 0.98


def test_error():
    a, b = wb.zeros([2, 3], name="a"), wb.zeros([4, 5], name="b")
    with pytest.raises(wb.errors.ShapeError) as error:
        wb.matmul(a, b, name="product")
    first, operation, inputs, built = str(error.value).splitlines()
    assert first == ("matmul: a axis 1 is 3 but b axis 0 is 4; both are 'k' in 'a[m,k] b[k,n] -> [m,n]' "
                     "(Dimensions must be equal, but are 3 and 4)")
    assert (operation, inputs) == ("  operation: 'product'", "  inputs: a:0 float32[2,3], b:0 float32[4,5]")
    assert built.startswith("  built at: ") and __file__ in built
