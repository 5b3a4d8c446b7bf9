"""Dimensions: known ones are ints with `.value`, the unknown one spreads through arithmetic."""
from __future__ import annotations

import json

import numpy as np
import pytest

import workbench as wb
from workbench.core.graph.dimension import Dimension
from workbench.core.graph.shape import Shape

SHAPE = Shape([None, 28, 3])


def test_known_dimensions_are_ints():
    size = SHAPE[1]
    assert size == 28 and size.value == 28 and type(size.value) is int and isinstance(size, int)
    assert np.zeros(size).shape == (28,) and json.dumps(size) == "28" and f"{size}" == str(size) == "28"
    assert repr(size) == "Dimension(28)" and list(range(SHAPE[2])) == [0, 1, 2] and hash(size) == hash(28)


def test_the_unknown_dimension_equals_none():
    unknown = SHAPE[0]
    assert unknown.value is None and unknown == None and not unknown and (unknown != 3) is None and {unknown} - {None} == set()      # noqa: E711
    assert str(unknown) == "?" and repr(unknown) == "Dimension(None)" and Dimension(None) is unknown is Dimension(unknown)
    assert not unknown == 3 and (SHAPE[1] != unknown) is None and unknown != "text"      # noqa: SIM201
    with pytest.raises(TypeError):
        int(unknown)
    for wrong, kind, text in ((2.5, ValueError, "Ambiguous dimension: 2.5"), ("3", TypeError, "'3' is a str"),
                              (-1, ValueError, ">= 0")):
        with pytest.raises(kind, match=text):
            Dimension(wrong)


@pytest.mark.parametrize(("found", "value"), [
    (SHAPE[1] * SHAPE[2], 84), (SHAPE[1] * 2, 56), (2 * SHAPE[1], 56), (SHAPE[1] // 3, 9),
    (30 // SHAPE[1], 1), (SHAPE[1] - 1, 27),
    (30 - SHAPE[1], 2), (SHAPE[1] % 5, 3), (SHAPE[1] + SHAPE[2], 31), (SHAPE[0] * 2, None), (2 + SHAPE[0], None),
    (SHAPE[1] * SHAPE[0], None), (SHAPE[0] // SHAPE[1], None), (SHAPE[1] * None, None)])
def test_arithmetic_gives_dimensions(found, value):
    assert found.value == value


def test_tensors_and_floats_decide_themselves():
    with wb.Graph().as_default(), wb.Session() as session:
        assert session.run(SHAPE[1] * wb.constant(2)) == 56 and session.run(wb.constant(2.0) * SHAPE[1]) == 56
        assert session.run(wb.reshape(wb.zeros([56]), [-1, SHAPE[1]])).shape == (2, 28)
    assert SHAPE[1] * 0.5 == 14.0 and SHAPE[1] / 8 == 3.5


def test_merging():
    assert SHAPE[0].merge_with(4) == 4 and SHAPE[1].merge_with(None) == 28 and SHAPE[1].is_compatible_with(28)
    with pytest.raises(ValueError, match="28 and 3 differ"):
        SHAPE[1].merge_with(SHAPE[2])


def test_shapes_of_dimensions():
    assert Shape([SHAPE[0], SHAPE[1] * 2]).as_list() == [None, 56] and type(Shape([SHAPE[1]]).sizes[0]) is int
    assert [d.value for d in SHAPE] == [None, 28, 3]


def test_checks_of_rank_and_compatibility():
    assert SHAPE.with_rank(3) == SHAPE and Shape(None).with_rank(2) == [None, None]
    assert SHAPE.merge_with([5, None, 3]) == [5, 28, 3] and SHAPE.concatenate([1]) == [None, 28, 3, 1]
    assert SHAPE.is_compatible_with([7, 28, 3]) and bool(Shape(())) and not Shape(None)
    SHAPE.assert_has_rank(3)
    SHAPE.assert_same_rank(None)
    SHAPE.assert_is_compatible_with([1, None, None])
    Shape([1]).assert_is_fully_defined()
    for wrong in (lambda: SHAPE.with_rank(2), lambda: SHAPE.with_rank_at_least(4), lambda: SHAPE.with_rank_at_most(2),
                  lambda: SHAPE.assert_has_rank(1), lambda: SHAPE.assert_same_rank([1]), SHAPE.assert_is_fully_defined,
                  lambda: SHAPE.assert_is_compatible_with([1, 29, 3])):
        with pytest.raises(ValueError, match=r"\[\?,28,3\]"):
            wrong()
