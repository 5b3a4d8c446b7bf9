"""Operations with several results hand them out by name, fetch under these names, and still unpack."""
from __future__ import annotations

import pytest

import workbench as wb
from workbench import errors, nn
from workbench.core.graph.build import ops

pytestmark = pytest.mark.usefixtures("graph")


def test_results_have_names():
    x, k = wb.placeholder("float32", [3]), wb.placeholder("int32", [])
    best, late = nn.top_k(x, k=2), nn.top_k(x, k=k)
    values, indices = best
    assert best.values is values and best.indices is indices
    with wb.Session() as session:
        found, later = session.run([best, late], {x: [1, 3, 2], k: 1})
        assert found.values.tolist() == [3, 2] and found.indices.tolist() == [1, 2]
        assert later.values.tolist() == [3] and later.indices.tolist() == [1]
        counted = session.run(wb.unique_with_counts(["b", "a", "b"]))
        assert counted.y.tolist() == [b"b", b"a"] and counted.idx.tolist() == [0, 1, 0] and counted.count.tolist() == [2, 1]
        assert session.run(wb.unique([7, 7, 8], out_idx="int64").idx).dtype == "int64"
        rest = session.run(wb.setdiff1d(["a", "b"], ["a"]))
        assert rest.out.tolist() == [b"b"] and rest.idx.tolist() == [1]
        assert session.run(wb.setdiff1d([1, 2], [1, 2])).out.tolist() == []


@pytest.mark.parametrize("shape", [None, [None], [3]])
def test_the_largest_of_an_axis_of_unknown_length(shape):
    x, k = wb.placeholder("float32", shape), wb.placeholder("int32", [])
    best = nn.top_k(x, k)
    slope, = wb.gradients(wb.reduce_sum(best.values * [1.0, 10.0]), x)
    with wb.Session() as session:
        found, slopes = session.run([best, slope], {x: [1, 3, 2], k: 2})
        assert found.values.tolist() == [3, 2] and found.indices.tolist() == [1, 2] and slopes.tolist() == [0, 1, 10]
        assert session.run(best.values, {x: [1, 3, 2], k: 3}).tolist() == [3, 2, 1]
        with pytest.raises(errors.InvalidArgumentError):
            session.run(best.values, {x: [1, 3, 2], k: 4})


def test_what_is_wrong_is_refused():
    with pytest.raises(errors.DtypeError, match="list_diff: x is int32 but y is float32; both must have one dtype"):
        wb.setdiff1d(wb.constant([1]), wb.constant([1.0]))
    with pytest.raises(errors.ShapeError, match=r"list_diff: x has rank 2 \(shape \[1,1\]\) but rank 1 is needed"):
        wb.setdiff1d([[1]], [1])


def test_a_function_of_several_results_names_them_or_their_scope_as_is_wanted():
    x = wb.placeholder("float32", [2, 3])
    assert [t.op.name for t in ops.identity_n([x, x], name="same")] == ["same", "same_1"]
    assert [t.op.name for t in ops.shape_n([x], name="size")] == ["size"]
    assert all(t.op.name.startswith("stats/") for t in nn.moments(x, [0], name="stats"))
