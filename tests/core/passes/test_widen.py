"""Products of 16 bits without instructions for them: rounded values in float32, against NumPy's and ml_dtypes' rounding."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import workbench as wb
from tests.core.passes.test_passes import kinds
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import bfloat16, float16
from workbench.core.passes import widen as widening
from workbench.core.passes.precision import precision
from workbench.core.passes.prune import prune
from workbench.core.passes.widen import widen

TYPES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
BOTH = pytest.mark.parametrize("name", TYPES)
RNG = np.random.default_rng(8)


def edges(short):
    """All numbers of the type, what is nearest to them, and what lies in the middle between two."""
    numbers = np.sort(np.arange(1 << 16, dtype=np.uint16).view(short).astype(np.float32))
    numbers = numbers[np.isfinite(numbers)]
    with np.errstate(over="ignore"):
        around = [numbers, (numbers[1:].astype(np.float64) / 2 + numbers[:-1].astype(np.float64) / 2).astype(np.float32),
                  np.nextafter(numbers, np.float32(np.inf)), np.nextafter(numbers, np.float32(-np.inf))]
    random = RNG.integers(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32).view(np.float32)
    found = np.concatenate([*around, random, np.float32([65519.996, 65520, -65520, np.inf, -np.inf, np.nan, -0.0])])
    return found[~((found != 0) & (np.abs(found) < np.finfo(np.float32).tiny))]      # steps know no subnormal float32


@pytest.mark.once
@BOTH
def test_rounding_in_compiled_loops_is_that_of_the_type_bit_for_bit(name, graph):
    values = edges(TYPES[name])
    x = wb.placeholder("float32", [len(values)])
    y = getattr(ops, f"rounded_to_{name}")(x)
    with wb.Session() as session:
        assert session.explain(y, {x: values}).rows[-1].library == "llvm"
        found = session.run(y, {x: values})
    with np.errstate(all="ignore"):
        expected = values.astype(TYPES[name]).astype(np.float32)
    same = (found.view(np.int32) == expected.view(np.int32)) | (np.isnan(found) & np.isnan(expected))
    assert same.all(), (values[~same][:5], found[~same][:5], expected[~same][:5])


@pytest.mark.once
def test_casts_in_compiled_loops_are_those_of_the_type_bit_for_bit(graph):
    values, short = edges(ml_dtypes.bfloat16), np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    values = np.concatenate([values, np.uint32([0x7f800001, 0xff800001, 0x7fc12345, 0xffffffff]).view(np.float32)])
    x, s = wb.placeholder("float32", [len(values)]), wb.placeholder("bfloat16", [len(short)])
    y, z = ops.bfloat16_of(x), ops.float32_of(s)
    with wb.Session() as session:
        assert [row.library for row in session.explain([y, z], {x: values, s: short}).rows] == ["llvm", "llvm"]
        found = session.run([y, z], {x: values, s: short})
    with np.errstate(all="ignore"):
        assert np.array_equal(found[0].view(np.uint16), values.astype(ml_dtypes.bfloat16).view(np.uint16))
    assert np.array_equal(found[1].view(np.uint32), short.astype(np.float32).view(np.uint32))


@pytest.mark.once
def test_casts_join_what_computes_and_what_reads_them(graph):
    """What is cast in a loop of its own passes over memory once more."""
    x = wb.placeholder("float32", [64, 64])
    y = wb.cast(wb.cast(wb.exp(x), "bfloat16"), "float32") * 2.0
    z = wb.cast(wb.cast(x + 1.0, "bfloat16") * wb.constant(2, "bfloat16"), "float32") * 2.0
    with wb.Session() as session:
        assert [row.type for row in session.explain(y, {x: np.ones([64, 64])}).rows] == ["fused"]
        rows = session.explain(z, {x: np.ones([64, 64])}).rows
        assert [row.type for row in rows] == ["fused", "multiply", "fused"]
        assert (session.run(z, {x: np.ones([64, 64])}) == 8).all()


@BOTH
def test_products_of_casts_are_products_of_rounded_values(name, monkeypatch):
    monkeypatch.setattr(widening, "native", lambda name: False)      # also where the processor has instructions
    with wb.Graph().as_default() as graph:
        x, w = wb.placeholder("float32", [2, 3], "x"), wb.placeholder("float32", [3, 3], "w")
        y = wb.matmul(wb.matmul(x, w), w)
        program = widen(precision(name)(prune(graph, [y], [], {x: x.shape, w: w.shape})))
    assert kinds(program) == {"argument": 2, f"rounded_to_{name}": 4, "matmul": 2}


@pytest.mark.parametrize("dtype", [bfloat16, float16], ids=str)
def test_what_was_short_before_stays(dtype):
    with wb.Graph().as_default() as graph:
        x, y = wb.placeholder(dtype, [2, 2]), wb.placeholder("float32", [2, 2])
        mixed = wb.matmul(x, wb.cast(y, dtype))
        program = prune(graph, [mixed], [], {x: x.shape, y: y.shape})
    assert kinds(widen(program)) == {"argument": 2, "matmul": 1, "bfloat16_of" if dtype is bfloat16 else "cast": 1}


@BOTH
def test_values_are_those_of_products_in_the_type(name):
    """To one of the last bits: float32 adds the same products, in another order."""
    with wb.Graph().as_default() as graph:
        wb.set_random_seed(3)
        graph.precision = name
        x = wb.placeholder("float32", [4, 8, 8, 3])
        w = [wb.Variable(RNG.normal(size=shape).astype(np.float32) / 4) for shape in ([3, 3, 3, 8], [512, 16], [16, 16])]
        flat = wb.reshape(wb.nn.relu(wb.nn.conv2d(x, w[0], 1, "SAME")), [4, 512])
        y = wb.matmul(wb.tanh(wb.matmul(flat, w[1])), w[2], transpose_b=True)
        batches = wb.matmul(wb.reshape(x, [4, 8, 24]), wb.reshape(x, [4, 24, 8]))
        fetches = [y, batches, *wb.gradients(wb.reduce_sum(wb.square(y)), [x, *w])]
        image, results = RNG.normal(size=[4, 8, 8, 3]), []
        for off in ((), ("widen",)):
            with wb.Session(disabled_passes=off) as session:
                session.run(wb.global_variables_initializer())
                results.append(session.run(fetches, {x: image}))
    for found, expected in zip(*results, strict=True):
        bit = float(ml_dtypes.finfo(TYPES[name]).eps)
        np.testing.assert_allclose(found, expected, rtol=0, atol=4 * bit * np.abs(expected).max())
        assert found.any() and (found.astype(TYPES[name]).astype(np.float32) == found).all()


def test_a_cast_that_waits_and_values_of_loops_are_left_right(graph):
    graph.precision = "bfloat16"
    x, w = wb.placeholder("float32", [2, 2]), wb.placeholder("float32", [2, 2])
    with wb.control_dependencies([wb.Variable(1.0).assign(2.0).op]):
        late = wb.matmul(wb.cast(x, "bfloat16"), wb.cast(w, "bfloat16"))
    _, turned = wb.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, wb.matmul(v, w)), [0, wb.identity(x)])
    a, b = np.float32([[1, 2], [3, 4]]), np.float32([[0, 1], [1, 0]])
    for lower_all in (False, True):
        with wb.Session(lower_all=lower_all) as session:
            found = session.run([wb.cast(late, "float32"), turned], {x: a, w: b})
        assert [v.tolist() for v in found] == [[[2, 1], [4, 3]], [[2, 1], [4, 3]]]
