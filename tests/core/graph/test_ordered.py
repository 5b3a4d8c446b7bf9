"""Products of one order: the values of NumPy's, and bits that depend on the number of terms alone."""
from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import workbench.core.ops
from workbench.core.graph import ordered
from workbench.core.graph.ordered import contracted, product
from workbench.settings import settings

EXACT = {"images_files.py", "sparse_parts.py", "quantized.py", "conv_quantized.py"}
"""Modules of operations that multiply whole numbers by BLAS, or floats that stand for such and stay exact."""
BLAS = {"matmul", "dot", "vdot", "inner", "tensordot", "einsum", "linalg", "correlate", "convolve"}


@pytest.fixture(params=["compiled", "NumPy"])
def of_one_order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(settings, "deterministic", True)
    if request.param == "NumPy":
        monkeypatch.setattr(ordered, "compiled", [])
    return str(request.param)


def random(*shape: int, dtype: str = "d") -> np.ndarray:
    numbers = np.random.default_rng(len(shape) + sum(shape)).standard_normal((2, *shape))
    return (numbers[0] + 1j * numbers[1] if np.dtype(dtype).kind == "c" else 4 * numbers[0]).astype(dtype)


@pytest.mark.usefixtures("of_one_order")
@pytest.mark.parametrize("dtype", ["f", "d", "F", "D", "i"])
def test_values_are_those_of_numpy(dtype: str) -> None:
    for a, b in (((3, 5), (5, 7)), ((1, 1000), (1000, 1)), ((70, 130), (130, 40)), ((4, 40, 90), (4, 90, 20)), ((0, 3), (3, 2)),
                 ((3, 0), (0, 2)), ((2, 1, 8, 3), (5, 3, 2)), ((2, 3, 20, 30), (30, 16)), ((300, 2, 3), (300, 3, 2))):
        x, y = random(*a, dtype=dtype), random(*b, dtype=dtype)
        found, wanted = product(x, y), x @ y
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=0, atol=0.03 if dtype in "fF" else 1e-10)
        out = np.empty_like(wanted)
        assert product(x.swapaxes(-1, -2).copy().swapaxes(-1, -2), y, out) is out and np.array_equal(out, found)


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_bits_depend_on_the_number_of_terms_alone(of_one_order: str, dtype: str) -> None:
    if of_one_order == "NumPy":
        pytest.skip("its loops are told the shapes, which the same program has everywhere")
    a, b = random(67, 700, dtype=dtype), random(700, 90, dtype=dtype)
    whole = product(a, b)
    assert np.array_equal(product(a[5:9], b), whole[5:9])
    assert np.array_equal(product(a, b[:, 30:33]), whole[:, 30:33])
    assert np.array_equal(product(np.stack([a, a]), np.stack([b, b]))[1], whole)


@pytest.mark.usefixtures("of_one_order")
def test_sums_of_products_by_letters() -> None:
    for equation, *shapes in (("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk->ki", (3, 4), (4, 5)), ("i,i->", (9,), (9,)),
                              ("bij,bkj->bik", (3, 20, 90), (3, 30, 90)), ("ij,kl->", (2, 3), (4, 5)),
                              ("ij,jk,kl->li", (3, 9), (9, 4), (4, 5)), ("ijk,im,->k", (3, 4, 5), (3, 6), ()),
                              ("ij,ij->ij", (3, 4), (3, 4)), ("i,j->ij", (3,), (4,)), ("ij->i", (3, 4)), (",->", (), ())):
        arrays = [random(*shape) for shape in shapes]
        found, wanted = contracted(equation, *arrays), np.einsum(equation, *arrays)
        assert found.shape == wanted.shape and found.flags.c_contiguous
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_operations_leave_no_sum_of_floats_to_blas() -> None:
    """They multiply by `product` and `contracted`, and solve and factor by `algebra`."""
    faults = []
    for path in sorted(Path(workbench.core.ops.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np"
            if (named and node.attr in BLAS) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)):
                faults.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    errors = "np.linalg", "LinAlgError"
    assert not [fault for fault in faults if fault.split(":")[0] not in EXACT and errors[0] not in fault], faults
    for path in sorted(Path(workbench.core.ops.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == errors[0]:
                assert node.attr == errors[1], f"{path.name}:{node.lineno}: {ast.unparse(node)}"
