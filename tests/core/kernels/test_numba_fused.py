"""Generated elementwise kernels against the reference kernels: any chain, broadcast pattern and element type."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import workbench.core.ops  # noqa: F401
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph, Operation
from workbench.core.graph.opdef import registry
from workbench.core.kernels.choice import Spec
from workbench.core.kernels.numba_fused import compile_kernel, kernel_source
from workbench.core.passes import fuse as fusing
from workbench.core.passes.prune import prune

FLOATS = {
    "add": 2, "subtract": 2, "multiply": 2, "divide": 2, "maximum": 2, "minimum": 2, "negative": 1, "square": 1,
    "abs": 1, "tanh": 1, "sigmoid": 1, "relu": 1, "relu_grad": 2, "softplus": 1, "sign": 1, "exp": 1, "reciprocal": 1,
    "sqrt": 1, "squared_difference": 2, "tanh_grad": 2, "sigmoid_grad": 2, "softsign": 1}
WHOLE = {"add": 2, "subtract": 2, "multiply": 2, "maximum": 2, "minimum": 2, "negative": 1, "square": 1, "abs": 1,
         "sign": 1, "relu": 1, "relu_grad": 2}
COMPARE = ("less", "greater_equal", "equal", "not_equal")


@st.composite
def chains(draw: Any):
    """(element type, shape of the result, shapes of the inputs, steps)."""
    dtype = draw(st.sampled_from(["float32", "float32", "float64", "int32", "int64"]))
    space = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 5]), max_size=4)))
    table = FLOATS if dtype.startswith("float") else WHOLE
    kinds = draw(st.lists(st.sampled_from([*table, "choose"]), min_size=2, max_size=6))
    shapes = [space]
    for _ in range(draw(st.integers(1, 3))):
        kept = tuple(d if draw(st.booleans()) else 1 for d in space)
        shapes.append(kept[draw(st.integers(0, len(kept))):])
    steps = [(k, draw(st.integers(0, 9)), draw(st.sampled_from(COMPARE))) for k in kinds]
    return dtype, space, shapes, steps


def inputs_for(dtype: str, shapes: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(len(shapes))
    found = []
    for shape in shapes:
        value = rng.integers(-4, 5, shape).astype(dtype)
        if dtype.startswith("float"):
            value = (value + rng.uniform(0.1, 0.9, shape)).astype(dtype)
            special = rng.random(shape) < 0.1
            value = np.where(special, rng.choice([np.nan, np.inf, -np.inf, 0.0], shape), value).astype(dtype)
        value = np.ascontiguousarray(value).reshape(shape)
        value.flags.writeable = len(found) % 2 == 0
        found.append(value)
    return found


def fused_operation(dtype: str, shapes: Any, steps: Any) -> Operation:
    """The one operation that the pass makes of a chain, whatever it would save."""
    table = FLOATS if dtype.startswith("float") else WHOLE
    with Graph().as_default() as graph:
        inputs = [ops.placeholder(dtype, s) for s in shapes]
        x = inputs[0]
        for kind, which, comparison in steps:
            other = inputs[which % len(inputs)]
            if kind == "choose":
                x = ops.where(getattr(ops, comparison)(x, other), x, other)
            else:
                x = getattr(ops, kind)(*([x, other][:table[kind]]))
        program = prune(graph, [x], [], {t: t.shape for t in inputs})
    fused, = (op for op in fusing.fuse(program).graph.operations if op.type == "fused")
    return fused


@pytest.fixture(autouse=True, scope="module")
def everything_is_worth_it():
    before, fusing._WORTH = fusing._WORTH, -1.0
    yield
    fusing._WORTH = before


def run_both(op: Operation, values: dict[str, np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    arguments = [values[t.op.name] for t in op.inputs]
    outputs = [np.empty(t.shape.static, t.dtype.numpy) for t in op.outputs]
    kernel = compile_kernel(kernel_source(op.attrs, [Spec(a.shape, a.dtype) for a in arguments],
                                          [Spec(o.shape, o.dtype) for o in outputs]))
    kernel(*arguments, *outputs)
    with np.errstate(all="ignore"):
        wanted = op.definition.reference(*arguments, **op.attrs)
    return outputs, list(wanted) if isinstance(wanted, tuple) else [wanted]


@settings(max_examples=30, deadline=None)
@given(chains())
def test_chain_computes_what_the_reference_kernels_do(case):
    dtype, space, shapes, steps = case
    used = {name for step in steps for name in step if isinstance(name, str)}
    # one unit in the last place of exp decides what a jump makes of it: such chains have no value to compare
    assume(not (used & {"exp", "log", "tanh", "sigmoid", "log1p"} and used & {"sign", "less", "greater", "equal", "floor"}))
    op = fused_operation(dtype, shapes, steps)
    arrays = inputs_for(dtype, shapes)
    names = ["placeholder"] + [f"placeholder_{i}" for i in range(1, len(arrays))]
    found, wanted = run_both(op, dict(zip(names, arrays)))
    for value, reference in zip(found, wanted, strict=True):
        assert value.shape == space and value.dtype == reference.dtype
        if dtype.startswith("int"):
            np.testing.assert_array_equal(value, reference)
        else:
            np.testing.assert_allclose(value, reference, rtol=2e-5 if dtype == "float32" else 1e-12,
                                       atol=1e-5 if dtype == "float32" else 1e-13)


def test_chains_of_comparisons():
    with Graph().as_default() as graph:
        x, y = ops.placeholder("bool", [3, 4]), ops.placeholder("bool", [4])
        z = ops.not_equal(ops.where(ops.equal(x, y), x, y), y)
        program = prune(graph, [z], [], {x: x.shape, y: y.shape})
    op, = (op for op in fusing.fuse(program).graph.operations if op.type == "fused")
    rng = np.random.default_rng(0)
    found, wanted = run_both(op, {"placeholder": rng.random((3, 4)) < 0.5, "placeholder_1": rng.random(4) < 0.5})
    np.testing.assert_array_equal(found[0], wanted[0])


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4)])
def test_empty_arrays(shape):
    op = fused_operation("float32", [shape, shape], [("add", 1, ""), ("tanh", 0, "")])
    found, _ = run_both(op, {"placeholder": np.zeros(shape, np.float32), "placeholder_1": np.zeros(shape, np.float32)})
    assert found[0].shape == shape


def test_equal_bodies_are_compiled_once():
    steps = [("add", 1, ""), ("tanh", 0, "")]
    one, other = (fused_operation("float32", [(7, 3), (3,)], steps) for _ in range(2))
    specs = [Spec(t.shape.static, t.dtype.numpy) for t in one.inputs]
    out = [Spec(one.outputs[0].shape.static, one.outputs[0].dtype.numpy)]
    first = compile_kernel(kernel_source(one.attrs, specs, out))
    assert compile_kernel(kernel_source(other.attrs, specs, out)) is first


def test_neighbouring_axes_of_one_pattern_become_one_loop():
    op = fused_operation("float32", [(2, 3, 4, 5), (5,)], [("add", 1, ""), ("tanh", 0, "")])
    source = kernel_source(op.attrs, [Spec(t.shape.static, t.dtype.numpy) for t in op.inputs],
                           [Spec((2, 3, 4, 5), np.dtype("float32"))])
    assert source.count("for ") == 2 and "range(24)" in source and "range(5)" in source


def test_every_elementwise_operation_says_what_it_computes():
    """An operation that may be fused has a text in the words that the generator knows."""
    unknown = {"expm1", "floor", "ceil", "erf", "sin", "cos"}      # fuse leaves these alone
    fusible = [d for d in registry.values() if d.elementwise is not None]
    assert len(fusible) > 25
    for d in fusible:
        words = set(re.findall(r"[A-Za-z_]\w*", d.elementwise)) - {"if", "else"}
        assert set(d.inputs) <= words <= {*d.inputs, *fusing.FUSIBLE_CALLS, *unknown}
