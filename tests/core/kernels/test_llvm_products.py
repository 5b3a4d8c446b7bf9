"""Compiled products of any sizes: against float64, and the same bits whoever computes them, and however they are compiled."""
from __future__ import annotations

import itertools

import numpy as np
import pytest

import workbench as wb
from tests.core.kernels.test_llvm_rows import rows
from workbench.core.kernels import llvm_products, onednn_matmul, threads
from workbench.core.kernels.choice import Spec
from workbench.core.kernels.llvm import Machine, Program, bind, usable
from workbench.core.kernels.llvm_products import Sizes, compiled, usual
from workbench.core.kernels.options import KernelOptions, using
from workbench.core.kernels.product_source import DEPTH, Form, source

pytestmark = [pytest.mark.once, pytest.mark.skipif(not usable(), reason="no LLVM here")]
BLOCKS = [(1, 4), (4, 1), (8, 2)]
SIZES = [(1, 1, 1), (1, 300, 70), (3, 5, 7), (4, DEPTH, 16), (7, DEPTH + 1, 17), (20, 2 * DEPTH + 1, 33), (133, 30, 31),
         (129, 12, 64), (300, 260, 40)]


def sides(sizes, turn_a=False, turn_b=False):
    m, k, n = sizes
    return rows(*((k, m) if turn_a else (m, k))), rows(*((n, k) if turn_b else (k, n)), seed=1)


def computed(form, sizes, *arrays, out=None):
    m, k, n = sizes
    out = np.full((m, n), np.nan, np.float32) if out is None else out
    bind(Program((source(form),), "product"), (0, -(-n // form.width), 0, m, k, n), False)(*arrays, out)
    return out


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("turn_a,turn_b", [*itertools.product((False, True), repeat=2)])
def test_products(turn_a, turn_b, block):
    for sizes in SIZES:
        a, b = sides(sizes, turn_a, turn_b)
        wanted = (a.T if turn_a else a).astype(np.float64) @ (b.T if turn_b else b)
        found = computed(Form(turn_a, turn_b, rows=block[0], lanes=block[1]), sizes, a, b)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6 * sizes[1])


@pytest.mark.parametrize("block", BLOCKS[1:])
def test_what_is_added_and_what_follows(block):
    size = dict(zip(("rows", "lanes"), block))
    for sizes in SIZES:
        (a, b), bias, start = sides(sizes), rows(1, sizes[2], seed=2)[0], rows(sizes[0], sizes[2], seed=3)
        wanted, close = a.astype(np.float64) @ b, {"rtol": 1e-5, "atol": 2e-6 * sizes[1]}
        np.testing.assert_allclose(computed(Form(begin="bias", **size), sizes, a, b, bias), wanted + bias, **close)
        found = computed(Form(begin="bias", relu=True, **size), sizes, a, b, bias)
        np.testing.assert_allclose(found, np.maximum(wanted + bias, 0), **close)
        np.testing.assert_allclose(computed(Form(begin="start", **size), sizes, a, b, start), wanted + start, **close)
        update, weight = Form(sign=-1.0, **size), start.copy()
        apart = computed(update, sizes, weight, a, b, np.float32([0.5]))
        np.testing.assert_allclose(apart, start - 0.5 * wanted, **close)
        assert np.array_equal(computed(update, sizes, weight, a, b, np.float32([0.5]), out=weight), apart)


def test_special_values_reach_what_they_belong_to_and_no_more():
    a, b = sides((21, 2 * DEPTH + 9, 40))
    a[20, 3], b[DEPTH + 4, 39], b[5, 2] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        wanted = a.astype(np.float64) @ b
    for block in BLOCKS:
        found = computed(Form(rows=block[0], lanes=block[1]), (21, 2 * DEPTH + 9, 40), a, b)
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wanted))
    nothing = computed(Form(begin="bias", relu=True), (21, 2 * DEPTH + 9, 40), a, b, np.zeros(40, np.float32))
    np.testing.assert_array_equal(np.isnan(nothing), np.isnan(wanted))


def test_bits_depend_on_no_block_and_on_no_part():
    """A wider instruction set has other blocks, another number of threads other parts."""
    sizes = m, k, n = 45, 3 * DEPTH + 7, 100
    a, b = sides(sizes)
    alone = computed(Form(), sizes, a, b)
    for block in BLOCKS:
        assert np.array_equal(computed(Form(rows=block[0], lanes=block[1]), sizes, a, b), alone)
    for by_rows, cuts in ((1, (0, 2, 7, 12)), (0, (0, 1, 3, 7))):
        parts = np.full((m, n), np.nan, np.float32)
        for first, last in itertools.pairwise(cuts):
            bind(Program((source(Form()),), "product"), (first, last, by_rows, m, k, n), False)(a, b, parts)
        assert np.array_equal(parts, alone)


def test_models_of_an_instruction_set_have_the_same_bits(monkeypatch):
    """Told the name of another model, LLVM schedules otherwise, and would cut a sum into other vectors, if it might."""
    from llvmlite import binding

    from workbench.core.kernels import llvm
    sizes = 13, 2 * DEPTH + 5, 50
    a, b = sides(sizes, turn_a=True)
    found, codes = [], set()
    for model in (binding.get_host_cpu_name(), "znver4", "x86-64"):
        monkeypatch.setattr(binding, "get_host_cpu_name", lambda model=model: model)
        other = Machine()
        codes.add(other.compile(Program((source(Form(turn_a=True)),), "product"), "kernel"))
        monkeypatch.setattr(llvm, "_machines", [other])
        monkeypatch.setattr(llvm, "_addresses", {})
        found.append(computed(Form(turn_a=True), sizes, a, b))
    assert len(codes) > 1 and all(np.array_equal(one, found[0]) for one in found)


@pytest.mark.parametrize("sizes,turn_a", [((400, 300, 330), False), ((400, 300, 20), False), ((330, 400, 300), True)])
def test_threads_that_share_change_no_bit(monkeypatch, sizes, turn_a):
    a, b = sides(sizes, turn_a)
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "_current", [count])
        with using(KernelOptions(libraries=("llvm", "onednn"))):
            choice = compiled(Sizes({"transpose_a": turn_a}, a.shape, b.shape))
        found.append(np.full((sizes[0], sizes[2]), np.nan, np.float32))
        choice.make((False,) * 3)(a, b, found[-1])
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_they_serve_deterministic_sessions_alone_also_where_a_batch_of_matrices_is_multiplied():
    one, two = rows(6, 600).reshape(1, 6, 20, 30), rows(90, 9).reshape(3, 1, 30, 9)
    single, narrow = rows(300, 40), rows(1, 40)
    with wb.Graph().as_default():
        given = [wb.placeholder(wb.float32, array.shape) for array in (one, two, single, narrow)]
        feeds = dict(zip(given, (one, two, single, narrow), strict=True))
        fetches = [wb.matmul(*given[:2]), wb.matmul(*given[2:], transpose_b=True)]
        for deterministic in (True, False):
            with wb.Session(kernels=KernelOptions(deterministic=deterministic)) as session:
                served = {row.type for row in session.explain(fetches, feeds).rows if "compiled product" in row.kernel}
                assert served == ({"matmul", "batch_matmul"} if deterministic else set())
                many, outer = session.run(fetches, feeds)
            np.testing.assert_allclose(many, one.astype(np.float64) @ two, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(outer, single.astype(np.float64) @ narrow.T, rtol=1e-5, atol=1e-5)


def test_what_is_left_to_others():
    with using(KernelOptions(libraries=("llvm",))):
        assert compiled(Sizes({}, (3, 0), (0, 4))) is None
    with using(KernelOptions(libraries=("onednn",))):
        assert compiled(Sizes({}, (3, 2), (2, 4))) is None


@pytest.mark.parametrize("wide", [False, True])
def test_the_instruction_set_decides_for_which_sizes_they_are_usual(monkeypatch, wide):
    monkeypatch.setattr(llvm_products, "wide", lambda: wide)
    assert llvm_products.block(20) == ((8, 2) if wide else (4, 1)) and llvm_products.block(1) == (1, 4)
    for a, b, turned in (((128, 784), (784, 512), {}), ((128, 512), (128, 512), {"transpose_a": True})):
        assert usual(Sizes(turned, a, b)) is not wide
    for a, b, turned in (((20, 784), (784, 512), {}), ((600, 784), (784, 512), {}), ((128, 784), (784, 500), {}),
                         ((128, 784), (512, 784), {"transpose_b": True}), ((100, 512), (100, 512), {"transpose_a": True}),
                         ((128, 784), (128, 512), {"transpose_a": True})):
        assert not usual(Sizes(turned, a, b))


@pytest.mark.parametrize("wide, threads, most", [(False, 1, 512 * 512), (True, 1, 256 * 256), (True, 2, 784 * 512)])
def test_updates_of_weights_are_usual_up_to_a_size(monkeypatch, wide, threads, most):
    monkeypatch.setattr(llvm_products, "wide", lambda: wide)
    monkeypatch.setattr(llvm_products, "get_threads", lambda: threads)
    for height, width in ((256, 256), (512, 512), (784, 512), (1024, 512)):
        product = Sizes({"transpose_a": True}, (128, height), (128, width))
        assert usual(product, update=True) is (height * width <= most)
    assert not usual(Sizes({"transpose_a": True}, (20, 256), (20, 256)), update=True)


@pytest.mark.parametrize("op,shapes", [("matmul", [(40, 30), (30, 50)]), ("matmul_update", [(40, 50), (40, 30), (30, 50), ()])])
def test_plans_make_compiled_products_only_where_they_serve(op, shapes, monkeypatch):
    """As those of convolutions: a plan of other ways asks neither for a form of a product nor for its text."""
    if not onednn_matmul.servable():
        pytest.skip("oneDNN is not installed")
    made = []

    def counted(*given, **named):
        made.append(given)
        return compiled(*given, **named)
    monkeypatch.setattr(onednn_matmul, "compiled", counted)
    monkeypatch.setattr(onednn_matmul, "compiled_usual", lambda *given: False)
    inputs, outputs = [Spec(shape, np.dtype(np.float32)) for shape in shapes], [Spec((40, 50), np.dtype(np.float32))]
    for deterministic in (False, True):
        with using(KernelOptions(libraries=("llvm", "onednn"), deterministic=deterministic)):
            choice = getattr(onednn_matmul, op)({"transpose_a": False, "transpose_b": False}, inputs, outputs, [False])
        assert choice is not None and (choice.decision.way == "compiled") == deterministic == bool(made)
