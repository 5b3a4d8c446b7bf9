"""Generated elementwise kernels against the reference kernels: any chain, broadcast pattern and element type."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import workbench.core.ops  # noqa: F401
from workbench import Session
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Graph, Operation
from workbench.core.graph.opdef import registry
from workbench.core.graph.rules import infer_dtypes
from workbench.core.kernels import fused_loops, llvm, llvm_fused, load_libraries, openmp, team
from workbench.core.kernels.choice import Spec, selectors
from workbench.core.kernels.llvm_fused import kernel_source, make_kernel, translatable
from workbench.core.passes import fuse as fusing
from workbench.core.passes.prune import prune

pytestmark = pytest.mark.once

load_libraries()
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
    before, fusing._COMPILE = fusing._COMPILE, (-1.0, 0.0, 0.0)
    yield
    fusing._COMPILE = before


def run_both(op: Operation, values: dict[str, np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    arguments = [values[t.op.name] for t in op.inputs]
    outputs = [np.empty(t.shape.static, t.dtype.numpy) for t in op.outputs]
    kernel = make_kernel(*kernel_source(op.attrs, [Spec(a.shape, a.dtype) for a in arguments],
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


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("elements", [640, 700, 1301])
def test_loops_over_more_than_a_cache_holds_give_the_bits_of_others(dtype, elements, monkeypatch):
    steps = [("multiply", 1, ""), ("add", 0, ""), ("choose", 1, "less"), ("square", 0, "")]
    op = fused_operation(dtype, [(elements,)] * 2, steps)
    arrays = dict(zip(("placeholder", "placeholder_1"), inputs_for(dtype, [(elements,)] * 2)))
    [wanted], _ = run_both(op, arrays)
    monkeypatch.setattr(fused_loops, "CACHED", 0)
    specs = [Spec((elements,), np.dtype(dtype))] * 3
    assert "streamed(first, n0)" in kernel_source(op.attrs, specs[:2], specs[:1])[0]
    [found], _ = run_both(op, arrays)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("shape,other", [((1301,), (1301,)), ((6, 1031), (1031,)), ((6, 256), (6, 1)), ((5, 2, 300), (2, 1))])
def test_results_that_pass_the_caches_by_have_the_bits_of_others(shape, other, monkeypatch):
    steps = [("multiply", 1, ""), ("add", 0, ""), ("choose", 1, "less"), ("square", 0, "")]
    op = fused_operation("float32", [shape, other], steps)
    arrays = dict(zip(("placeholder", "placeholder_1"), inputs_for("float32", [shape, other])))
    [wanted], _ = run_both(op, arrays)
    for name in ("PAST", "CACHED"):
        monkeypatch.setattr(fused_loops, name, 0)
    monkeypatch.setattr(fused_loops, "last_cache", lambda: 0)
    specs = [Spec(s, np.dtype("float32")) for s in (shape, other, shape)]
    assert "past=True" in kernel_source(op.attrs, specs[:2], specs[2:])[0]
    [found], _ = run_both(op, arrays)
    np.testing.assert_array_equal(found, wanted)


def test_rows_that_pass_the_caches_by_have_the_bits_of_others(monkeypatch):
    rows = np.random.default_rng(0).standard_normal((5, 1031), np.float32)

    def normalised() -> tuple[np.ndarray, str]:
        with Graph().as_default() as graph:
            x = ops.placeholder("float32", rows.shape)
            centred = ops.subtract(x, ops.reduce_mean(x, axis=1, keepdims=True))
            y = ops.multiply(centred, ops.rsqrt(ops.add(ops.reduce_mean(ops.square(centred), axis=1, keepdims=True), 1e-5)))
            with Session(graph=graph) as session:
                rows_of_it = session.explain(y, {x: rows}).rows
                return session.run(y, {x: rows}), "".join(row.source for row in rows_of_it)
    wanted, kept = normalised()
    monkeypatch.setattr(fused_loops, "PAST", 0)
    monkeypatch.setattr(fused_loops, "last_cache", lambda: 0)
    found, past = normalised()
    assert (kept.count("past=True"), past.count("past=True")) == (0, 1)
    np.testing.assert_array_equal(found, wanted)


def test_what_the_last_cache_holds_is_known_or_nothing():
    assert 0 <= fused_loops.last_cache() < 1 << 36


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


def specs_of(op, shape=None):
    """Specs of the inputs and outputs, with `shape` for inputs of the output's shape and for outputs."""
    full = op.outputs[0].shape.static
    return [[Spec(shape if shape and t.shape.static == full else t.shape.static, t.dtype.numpy) for t in tensors]
            for tensors in (op.inputs, op.outputs)]


@pytest.mark.parametrize("shape", [(2, 3), (7, 3), (1000, 3), (0, 3)])
def test_sizes_are_arguments(shape):
    """A new batch size compiles nothing: the text, which is the key of the machine code, stays the same."""
    op = fused_operation("float32", [(128, 3), (3,)], [("add", 1, ""), ("tanh", 0, "")])
    first = kernel_source(op.attrs, *specs_of(op))
    make_kernel(*first)
    before = llvm.compiled
    other = kernel_source(op.attrs, *specs_of(op, shape))
    kernel = make_kernel(*other)
    assert (llvm.compiled, other[0], other[1]) == (before, first[0], [*shape])
    x, y = np.linspace(-3, 3, shape[0] * 3, dtype=np.float32).reshape(shape), np.array([0, 1, 2], np.float32)
    out = np.full(shape, np.nan, np.float32)
    kernel(x, y, out)
    np.testing.assert_allclose(out, np.tanh(x + y), rtol=2e-6)


def test_neighbouring_axes_of_one_pattern_become_one_loop():
    op = fused_operation("float32", [(2, 3, 4, 5), (5,)], [("add", 1, ""), ("tanh", 0, "")])
    source, extents = kernel_source(op.attrs, *specs_of(op))
    assert source.count("for ") == 2 and extents == [24, 5]


def test_every_elementwise_operation_says_what_it_computes():
    """An operation that may be fused has a text that the language of kernels understands, with a few known exceptions."""
    unknown = {"sin", "cos", "pow"}
    texts = [d for d in registry.values() if d.elementwise is not None]
    assert len(texts) > 35
    for d in texts:
        dtypes = [{"condition": "bool"}.get(n, "bfloat16" if d.name == "float32_of" else "float32") for n in d.inputs]
        result = infer_dtypes(d, [as_dtype(t) for t in dtypes], {}, 1)[0].name
        assert translatable(d.name, tuple(dtypes), result) == (d.name not in unknown), d.name


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 63, 257, 5003])
def test_every_operation_at_every_tail(count, dtype):
    """One element short of a vector, one more, none, one: to the bit where NumPy computes by the same arithmetic."""
    rng = np.random.default_rng(count)
    kinds = FLOATS if dtype.startswith("float") else WHOLE
    x = (rng.normal(size=count) * 8).astype(dtype)
    y = (rng.normal(size=count) * 8).astype(dtype)
    for kind, arity in kinds.items():
        attrs = one_step(kind, arity)
        arguments = [x, y][:arity]
        out = np.empty(count, dtype)
        specs = [Spec(a.shape, a.dtype) for a in arguments]
        make_kernel(*kernel_source(attrs, specs, [Spec(out.shape, out.dtype)]))(*arguments, out)
        with np.errstate(all="ignore"):
            if kind in APPROXIMATE:
                exact = [a.astype(np.float64) for a in arguments]
                wanted = EXACT.get(kind, registry[kind].reference)(*exact).astype(dtype)
                np.testing.assert_allclose(out, wanted, rtol=2e-6 if dtype == "float32" else 1e-13, err_msg=kind)
            else:
                np.testing.assert_array_equal(out, registry[kind].reference(*arguments), err_msg=kind)


APPROXIMATE = {"exp", "tanh", "sigmoid", "softplus"}
EXACT = {"sigmoid": lambda x: np.where(x > 0, 1, np.exp(-np.abs(x))) / (1 + np.exp(-np.abs(x)))}


def one_step(kind, arity):
    return {"steps": ((kind, tuple(("input", i) for i in range(arity)), ()),), "results": ((0,),)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", [*FLOATS, "erf", "expm1", "log", "log1p", "floor", "ceil", "elu", "selu", "rsqrt"])
def test_infinity_and_nan_come_through_as_in_the_reference(kind, dtype):
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e30, -1e30, 1e-30], dtype)
    arity = FLOATS.get(kind, 1)
    arguments = [a.ravel().copy() for a in np.meshgrid(values, values)] if arity == 2 else [np.tile(values, 5)]
    out = np.empty_like(arguments[0])
    specs = [Spec(a.shape, a.dtype) for a in arguments]
    make_kernel(*kernel_source(one_step(kind, arity), specs, [Spec(out.shape, out.dtype)]))(*arguments, out)
    with np.errstate(all="ignore"):
        wanted = registry[kind].reference(*arguments)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(wanted))
    np.testing.assert_allclose(out, wanted, rtol=1e-6 if dtype == "float32" else 1e-13)


def test_a_small_sigmoid_keeps_its_digits():
    """log(sigmoid(-20)) is -20, however many elements there are."""
    op = fused_operation("float32", [(5000,)], [("sigmoid", 0, ""), ("negative", 0, ""), ("negative", 0, "")])
    x = np.linspace(-80, 20, 5000, dtype=np.float32)
    out = np.empty_like(x)
    make_kernel(*kernel_source(op.attrs, *specs_of(op)))(x, out)
    np.testing.assert_allclose(out, 1 / (1 + np.exp(-x.astype(np.float64))), rtol=1e-6)


@pytest.mark.parametrize("kind", ["erf", "softplus", "elu", "selu"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_operation_alone_is_served_from_a_size_on(kind, dtype):
    select = dict(selectors[kind, "CPU"])["llvm"]
    for count, serves in ((10, False), (5000, True)):
        x = np.linspace(-6, 6, count, dtype=dtype)
        spec = Spec(x.shape, x.dtype)
        choice = select({}, [spec], [spec], [False])
        assert (choice is not None) == serves
        if choice is not None:
            out = np.empty_like(x)
            choice.make((False, False))(x, out)
            np.testing.assert_allclose(out, registry[kind].reference(x), rtol=2e-6 if dtype == "float32" else 1e-13, atol=1e-7)


def test_the_library_serves_operations_that_exist():
    assert [kind for (kind, _), offers in selectors.items() if "llvm" in dict(offers) and kind not in registry] == []


@pytest.mark.parametrize("given", ["turned", "fewer", "a list"])
def test_a_kernel_refuses_what_is_not_a_plain_array(given):
    op = fused_operation("float32", [(8, 8), (8, 8)], [("add", 1, ""), ("tanh", 0, "")])
    kernel = make_kernel(*kernel_source(op.attrs, *specs_of(op)))
    x = np.zeros((8, 8), np.float32)
    arguments = {"turned": (x, x.T, x), "fewer": (x, x), "a list": (x, [0.0], x)}[given]
    with pytest.raises(TypeError, match=r"^kernel: kernel takes 3 C-contiguous arrays, got something else"):
        kernel(*arguments)


@pytest.mark.skipif(openmp.runtime() is None, reason="no GNU OpenMP here")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape,other", [((1_000_003,), (1_000_003,)), ((333, 3001), (3001,)), ((3001, 333), (3001, 1)),
                                         ((17, 3, 20_011), (17, 1, 1))])
def test_however_many_threads_share_a_loop_bits_are_the_same(shape, other, dtype, monkeypatch):
    kinds = [("add", 1, ""), ("multiply", 0, ""), ("maximum", 1, ""), ("choose", 1, "less")]
    if dtype != "int32":
        kinds += [("tanh", 0, ""), ("divide", 1, ""), ("exp", 0, "")]
    op = fused_operation(dtype, [shape, other], kinds)
    x, y = inputs_for(dtype, [shape, other])
    specs = [[Spec(t.shape.static, t.dtype.numpy) for t in tensors] for tensors in (op.inputs, op.outputs)]
    choice = dict(selectors["fused", "CPU"])["llvm"](op.attrs, *specs, [False])
    alone = np.empty(shape, dtype)
    make_kernel(*kernel_source(op.attrs, *specs))(x, y, alone)
    for threads in (1, 2, 3):
        monkeypatch.setattr(team, "threads_now", lambda threads=threads: threads)
        monkeypatch.setattr(llvm_fused, "bind", None)      # it is the shared kernel that answers
        found = np.full(shape, 7, dtype)
        choice.make(())(x, y, found)
        np.testing.assert_array_equal(found.view(np.uint8), alone.view(np.uint8))


@pytest.mark.parametrize("shape", [(1, 128), (3, 129), (2, 5, 191), (0, 300), (9, 4097), (2000, 256)])
@pytest.mark.parametrize("kind", ["softmax", "log_softmax"])
def test_softmax_of_long_rows(kind, shape):
    x = (np.random.default_rng(0).standard_normal(shape) * 20).astype(np.float32)
    if len(x) > 2:
        x[1, 3], x[2, 5] = np.nan, -np.inf
    spec, y = Spec(x.shape, x.dtype), np.full_like(x, 7)
    serving = [select({"axis": -1}, [spec], [spec], [False]) for library, select in selectors[kind, "CPU"] if library == "llvm"]
    choice = next(choice for choice in serving if choice is not None)
    assert choice.source and "row" not in choice.note
    choice.make(())(x, y)
    np.testing.assert_allclose(y, registry[kind].reference(x.astype(np.float64), axis=-1), rtol=2e-6, atol=1e-6)


def test_the_ends_of_the_exponential():
    """The last float32 below infinity and the first above 0, and what lies beyond them."""
    x = np.concatenate([np.arange(-110, -85, 0.01), np.arange(88, 92, 0.001), [np.nan, np.inf, -np.inf]]).astype(np.float32)
    out, spec = np.empty_like(x), Spec(x.shape, x.dtype)
    make_kernel(*kernel_source(one_step("exp", 1), [spec], [spec]))(x, out)
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(out, exact, rtol=2e-7, atol=1.5e-45)
