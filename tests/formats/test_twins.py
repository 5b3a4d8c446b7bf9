"""Every operation in the table of cases: written as GraphDef and read again it computes the same."""
from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from tests.evaluate import evaluate
from tests.opcases import CASES, Case
from workbench.core.grad import gradients
from workbench.core.graph.build import constant, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Graph
from workbench.formats.reader import import_graph_def
from workbench.formats.writer import graph_def

NARROW = ("resize", "resize-area", "resize-bicubic", "resize_grad")      # TensorFlow resizes float64 images in float32


def written(case: Case, order: int) -> tuple[Any, list[str], dict[str, Any], list[Any]]:
    """(GraphDef, names of what is compared, feeds by name, the values that they have here) with gradients of `order`."""
    with Graph().as_default() as graph:
        xs = [ops.placeholder(x.dtype, x.shape) if x.dtype == np.float64 or case.fed else constant(x) for x in case.inputs]
        ys = case.build(*xs)
        floats = [t for t in ys if t.dtype.is_differentiable]
        sources = [x for x in xs if x.dtype.is_differentiable]
        if order and floats and sources:
            ys = ys + [ops.densify(g) if not hasattr(g, "index") else g for g in gradients(floats, sources) if g is not None]
        feeds = {x.name: v for x, v in zip(xs, case.inputs) if x.op.type == "placeholder"}
        values = evaluate(ys, {graph.tensor(name): v for name, v in feeds.items()})
        named = [ops.identity(y, name=f"result{i}") for i, y in enumerate(ys)]
        return graph_def(graph), [t.name for t in named], feeds, values


def test_a_shape_that_the_step_computes_does_not_give_a_convolution_its_type() -> None:
    case = next(case for case in CASES if str(case) == "conv2d_backprop_filters")
    node = next(n for n in written(case, 0)[0].node if n.op == "Conv2DBackpropFilter")
    assert node.attr["T"].type == as_dtype("float64").as_datatype_enum


@pytest.mark.parametrize("case", CASES, ids=str)
def test_written_and_read_again_it_computes_the_same(case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        proto, names, feeds, values = written(case, min(case.order, 1))
    with Graph().as_default() as graph:
        import_graph_def(proto, name="")
        found = evaluate([graph.tensor(name) for name in names], {graph.tensor(name): v for name, v in feeds.items()})
    for got, exact in zip(found, values):
        assert got.dtype == exact.dtype and got.shape == exact.shape
        if exact.dtype == object:
            assert got.tolist() == exact.tolist()
        else:
            exactly = exact.dtype.itemsize == 8 and str(case) not in NARROW
            np.testing.assert_allclose(got, exact, *([1e-9] * 2 if exactly else [1e-5] * 2))
