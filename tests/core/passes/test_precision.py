"""Mixed precision: products from 16-bit values, added up in float32; variables and everything else stay float32."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.dtype import bfloat16, float16, float32
from workbench.core.passes.precision import precision
from workbench.core.passes.prune import prune
from workbench.train.config import RunOptions

BOTH = pytest.mark.parametrize("name, dtype", [("bfloat16", bfloat16), ("float16", float16)])


@BOTH
def test_products_get_short_values_and_give_float32(name, dtype):
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [2, 3])
        y = wb.nn.softmax(wb.matmul(x, wb.ones([3, 4]), name="product"))
        program = precision(name)(prune(graph, [y], [], {x: x.shape}))
    kinds = {op.name: op for op in program.graph.operations}
    assert [t.dtype for t in kinds[f"product/{name}"].inputs] == [dtype, dtype]
    assert kinds["product"].type == "cast" and kinds["product"].outputs[0].dtype is float32
    assert [t.dtype for t in program.fetches[0].op.inputs] == [float32]


def test_what_several_products_read_is_cast_once():
    with wb.Graph().as_default() as graph:
        x, w = wb.placeholder("float32", [2, 2], "x"), wb.placeholder("float32", [2, 2], "w")
        gradients = wb.gradients(wb.reduce_sum(wb.tanh(wb.matmul(x, w))), [x, w])
        program = precision("bfloat16")(prune(graph, gradients, [], {x: x.shape, w: w.shape}))
    short = [op.inputs[0].op.name for op in program.graph.operations if op.type == "cast" and op.outputs[0].dtype is bfloat16]
    assert len(short) == len({*short}) == 3 and {"x", "w"} < {*short}


def test_what_is_not_float32_stays():
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float64", [2, 2])
        program = prune(graph, [wb.matmul(x, x)], [], {x: x.shape})
    assert precision("bfloat16")(program) is program


def test_a_product_of_a_product_is_not_rounded_up_and_down_again():
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [2, 2])
        program = precision("bfloat16")(prune(graph, [wb.matmul(wb.matmul(x, x), x)], [], {x: x.shape}))
    second = program.fetches[0].op.inputs[0].op
    assert second.inputs[0].op.type == "matmul"


@BOTH
def test_sums_are_added_up_in_float32(name, dtype):
    """In bfloat16 256 + 1 is 256, in float16 2048 + 1 is 2048."""
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [1, 8192])
        y = wb.matmul(x, wb.ones([8192, 1]))
        image = wb.placeholder("float32", [1, 16, 16, 64])
        filtered = wb.nn.conv2d(image, wb.ones([16, 16, 64, 1]), 1, "VALID")
    graph.precision = name
    with wb.Session(graph=graph) as session:
        found = session.run([y, filtered], {x: np.ones([1, 8192], np.float32), image: np.ones([1, 16, 16, 64], np.float32)})
    assert found[0].dtype == found[1].dtype == np.float32
    assert found[0].item() == 8192 and found[1].item() == 16384


@BOTH
def test_values_are_rounded_as_the_type_rounds(name, dtype):
    a = np.array([[1 + 2.0 ** -12, 3.0]], np.float32)
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [1, 2])
        y = wb.matmul(x, wb.constant([[1.0], [0.0]]))
    with wb.Session(graph=graph) as session:      # what was prepared before the graph was told counts no more
        for told, expected in ((None, a[0, 0]), (name, 1.0), (None, a[0, 0])):
            graph.precision = told
            assert session.run(y, {x: a}).item() == expected


def trained(precision, steps=150):
    """The losses of a small network on a task that it learns."""
    wb.set_random_seed(3)
    random = np.random.default_rng(5)
    points = random.standard_normal([256, 8]).astype(np.float32)
    classes = (points[:, 0] * points[:, 1] > 0).astype(np.int32)
    with wb.Graph().as_default() as graph:
        wb.set_random_seed(3)
        x, y = wb.constant(points), wb.constant(classes)
        hidden = wb.layers.dense(x, 32, activation=wb.tanh)
        logits = wb.layers.dense(hidden, 2)
        loss = wb.reduce_mean(wb.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        step = wb.train.AdamOptimizer(0.02).minimize(loss)
        start = wb.global_variables_initializer()
        kernels = wb.trainable_variables()
    graph.precision = precision
    with wb.Session(graph=graph) as session:
        session.run(start)
        losses = [session.run([loss, step])[0] for _ in range(steps)]
        assert all(value.dtype == np.float32 for value in session.run(kernels))
    return losses


def test_a_network_learns_as_in_float32():
    full, brain, half = trained(None), trained("bfloat16"), trained("float16")
    assert full[0] > 0.6 and full[-1] < 0.2
    for losses in (brain, half):
        assert np.isfinite(losses).all() and losses[-1] < 0.25
        assert abs(losses[0] - full[0]) < 0.02


def test_the_pass_is_a_stage_of_the_step():
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [2, 2])
        y = wb.matmul(x, x)
    graph.precision = "bfloat16"
    with wb.Session(graph=graph) as session:
        session.run(y, {x: np.eye(2, dtype=np.float32)})
        stages = [r.stage for r in wb.journal.graphs_since(0)[2] if r.key.startswith(session.name + "_")]
        assert "precision" in stages and stages.index("stable") < stages.index("precision") < stages.index("cse")
        kinds = [row.type for row in session.explain(y, {x: np.eye(2, dtype=np.float32)}).rows]
    assert "matmul" in kinds and {"bfloat16_of", "rounded_to_bfloat16"} & {*kinds}      # with instructions, or without


@pytest.mark.parametrize("options", [{}, {"lower_all": True}, {"devices": 2}], ids=str)
@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_a_loop_that_multiplies_by_a_constant(name, options, graph):
    """Constants are there in each frame of a loop, what is made of them before it is not: such steps hung."""
    graph.precision = name
    x, weight = wb.placeholder("float32", [2, 2]), np.float32([[1, 2], [3, 4]])
    device = f"/cpu:{options.get('devices', 1) - 1}"

    def turn(i, a):
        with wb.device(device):
            return i + 1, wb.matmul(wb.matmul(a, wb.constant(weight)), wb.ones([2, 2]))
    _, result = wb.while_loop(lambda i, _: i < 2, turn, [0, wb.identity(x)])
    wanted = np.eye(2) @ weight @ np.ones((2, 2)) @ weight @ np.ones((2, 2))
    with wb.Session(**options) as session:
        assert session.run(result, {x: np.eye(2)}, options=RunOptions(timeout_in_ms=60_000)).tolist() == wanted.tolist()


@pytest.mark.parametrize("name", ["float64", "int32", "short"])
def test_another_type_is_refused(name):
    with pytest.raises(errors.InvalidArgumentError, match=f"precision is '{name}'; give 'bfloat16', 'float16', or None"):
        wb.Graph().precision = name
