"""Partitions as columns of rows: what is converted, what is refused, and what errors say."""
from __future__ import annotations

import numpy as np
import pytest

from workbench import errors
from workbench.cluster.task.columns import Column, Table, columns_of

ARRAY = Table("collection 0", "array", (Column(None, "float32", (2,)),))
FRAME = Table("collection 1", "frame", (Column("age", "int64", ()), Column("name", "string", ())))
BAG = Table("the bag", "bag", (Column(None, "int32", (None,)), Column(None, "string", ())), ("int32", "string"))


def test_columns_of_several_collections_stand_side_by_side():
    rows = np.ones((2, 2), np.float32)
    frame = {"age": np.array([3, 4]), "name": np.array(["a", b"\xff"], object)}
    found = columns_of([ARRAY, FRAME], [rows, frame], 0)
    assert found[0] is rows and found[1] is frame["age"]
    assert found[2].tolist() == [b"a", b"\xff"]


def test_elements_of_a_bag_may_differ_in_shape_and_partitions_may_be_empty():
    numbers, texts = columns_of([BAG], [[([1], "x"), ([1, 2], "y")]], 0)
    assert [n.tolist() for n in numbers] == [[1], [1, 2]] and {n.dtype.name for n in numbers} == {"int32"}
    assert [t.item() for t in texts] == [b"x", b"y"]
    assert columns_of([BAG], [[]], 0) == ([], [])


@pytest.mark.parametrize(("table", "piece", "kind", "text"), [
    (ARRAY, np.ones((2, 2)), errors.DtypeError,
     "partition 7 of collection 0 holds float64 but float32 was announced; convert it with astype"),
    (ARRAY, np.ones((2, 3), np.float32), errors.ShapeError,
     r"partition 7 of collection 0 has rows of shape \[3\] but \[2\] was announced; reshape them"),
    (FRAME, {"age": np.ones(2, int), "name": np.array(["a", None], object)}, errors.DtypeError,
     "partition 7 of collection 1, column 'name', holds None among its text; fill it, or convert the column"),
    (BAG, [("x", "y")], errors.InvalidArgumentError, "of the bag has the element 'x', which is not int32; map it to one"),
    (BAG, [([1], "y", 2)], errors.InvalidArgumentError,
     "has the element .* which is not like .'int32', 'string'.; map it to one"),
    (BAG, [3], errors.InvalidArgumentError, "has the element 3, which is not like .'int32', 'string'.; map it to one"),
    (BAG, [(1, "y")], errors.ShapeError, r"has rows of shape \[\] but \[\?\] was announced"),
])
def test_what_was_not_announced_is_refused_by_place(table, piece, kind, text):
    with pytest.raises(kind, match=text):
        columns_of([table], [piece], 7)


def test_partitions_that_differ_in_rows_do_not_belong_together():
    with pytest.raises(errors.InvalidArgumentError, match="partition 7 of collection 0 has 3 rows but that of the bag 1; "
                                                          "partition them alike"):
        columns_of([BAG, ARRAY], [[([1], "x")], np.ones((3, 2), np.float32)], 7)
