"""A graph as stable text."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench.core.graph.text import attributes, to_text
from workbench.core.passes.prune import prune

pytestmark = pytest.mark.usefixtures("graph")


def test_a_line_per_operation_in_execution_order(graph):
    x = wb.placeholder("float32", [None, 3], name="x")
    w = wb.constant([[1.0], [2.0], [3.0]], name="w")
    with wb.control_dependencies([w.op]), wb.device("/cpu:0"):
        y = wb.matmul(x, w, name="y")
    wb.reduce_sum(y, axis=1, keepdims=True, name="s")
    assert to_text(graph) == ("x = placeholder() {shape=(None, 3)} -> float32[?,3]\n"
                              "w = constant() {value=<float32[3, 1]>} -> float32[3,1]\n"
                              "y = matmul(x, w, ^w) -> float32[?,1]\n"
                              "s = reduce_sum(y) {axis=1, keepdims=True} -> float32[?,1]\n")
    assert "y = matmul(x, w, ^w) -> float32[?,1] @/device:CPU:0\n" in to_text(graph, device=True)


def test_programs_end_with_what_is_fetched(graph):
    x = wb.placeholder("float32", [2], name="x")
    y, n = wb.exp(x, name="y"), wb.no_op(name="n")
    assert to_text(prune(graph, [y, x], [n], {x: x.shape})).splitlines()[-1] == "fetch y:0, x:0, ^n"


def test_outputs_beyond_the_first_are_numbered(graph):
    left, right = wb.split(wb.placeholder("float32", [4], name="x"), 2, name="halves")
    wb.add(left, right, name="sum")
    assert to_text(graph).splitlines()[-1] == "sum = add(halves, halves:1) -> float32[2]"


def test_bodies_stand_below_their_operation(graph):
    n = wb.placeholder("int32", [], name="n")
    wb.while_loop(lambda i: i < n, lambda i: i + 1, [n], name="loop")
    text = to_text(graph)
    assert "    cond_graph:\n" in text and "    body_graph:\n" in text and text.count("less(") == text.count("add(") == 1


def test_equal_graphs_have_equal_text():
    def build():
        with wb.Graph().as_default() as graph:
            wb.exp(wb.placeholder("float32", [2]) * 2.0)
        return to_text(graph)
    assert build() == build()


def test_attributes_are_told_shortly_and_what_is_made_for_kernels_alone_is_not(graph):
    x = wb.placeholder("float32", [None, 4, 4, 1], name="x")
    conv = wb.nn.conv2d(x, wb.constant(np.ones((2, 2, 1, 3), np.float32), name="w"), [1, 2, 2, 1], "SAME", name="conv")
    wb.matmul(wb.reshape(conv, [-1, 3]), wb.constant(np.ones((2, 3), np.float32)), transpose_b=True, name="product")
    wb.while_loop(lambda i: i < 3, lambda i: i + 1, [0], name="loop")
    wb.py_func(lambda a: a, [x], "float32", name="python")
    wb.constant("a" * 100, name="long"), wb.constant(list(range(50)), name="many"), wb.constant(2.5, name="one")
    told = {op.name: attributes(op) for op in graph.operations}
    assert told["x"] == "dtype float32, shape [?, 4, 4, 1]" and told["product"] == "transpose_a false, transpose_b true"
    assert told["conv"] == "strides [2, 2], padding SAME, data_format NHWC, dilations [1, 1]"
    assert told["w"] == "value float32[2, 2, 1, 3], dtype float32" and told["loop"].startswith("parallel_iterations 10")
    assert told["python"] == "dtypes [float32]"
    assert told["long"] == f"value {'a' * 59}…, dtype string"
    assert told["many"] == "value int32[50], dtype int32" and told["one"] == "value 2.5, dtype float32"
