"""Static shapes: what is known, what can agree, what broadcasts."""
from __future__ import annotations

from typing import Any

import pytest

from workbench import errors
from workbench.core.graph.shape import Shape, as_shape, broadcast


def test_known_and_unknown() -> None:
    shape = Shape([None, 3])
    assert shape.rank == shape.ndims == 2 and not shape.known and shape.num_elements() is None
    assert shape.as_list() == [None, 3] and list(shape) == [None, 3] and len(shape) == 2 and repr(shape) == "[?,3]"
    assert Shape([2, 3]).static == (2, 3) and Shape([2, 3]).num_elements() == 6 and Shape(()).num_elements() == 1
    assert Shape(None).rank is None and repr(Shape(None)) == "[unknown]" and Shape([-1, 2]) == [None, 2]
    assert Shape([2, 3])[1:] == [3] and Shape([2, 3])[0] == 2
    assert Shape([2]) != [object()]
    assert Shape(None)[0].value is None and Shape(None)[1:] == Shape(None)
    joined = Shape([1]) + Shape([2])
    assert joined == [1, 2] and Shape(None) + Shape([2]) == Shape(None) and hash(joined) == hash(Shape([1, 2]))


@pytest.mark.parametrize(("given", "dims"),
                         [(None, None), (3, (3,)), ([2, None], (2, None)), ((), ()), (Shape([4]), (4,))])
def test_as_shape(given: Any, dims: Any) -> None:
    assert as_shape(given).sizes == dims


def test_merge_and_common() -> None:
    assert Shape([None, 3]).merge(Shape([2, None])) == [2, 3] and Shape(None).merge(Shape([2])) == [2]
    assert Shape([2, 3]).common(Shape([2, 4])) == [2, None] and Shape([2]).common(Shape([2, 2])) == Shape(None)
    with pytest.raises(errors.ShapeError, match=r"here: \[2\] and \[3\] cannot be the same shape"):
        Shape([2]).merge(Shape([3]), "here")


def test_unknown_shapes_say_so() -> None:
    with pytest.raises(errors.ShapeError, match=r"\[\?\] is not fully known"):
        _ = Shape([None]).static
    for use in (lambda: Shape(None).as_list(), lambda: len(Shape(None))):
        with pytest.raises(errors.ShapeError, match="the rank is unknown; set it with set_shape"):
            use()
    with pytest.raises(errors.ShapeError, match="dimension -2 is negative"):
        Shape([-2])


@pytest.mark.parametrize(("left", "right", "result"), [
    ([2, 3], [3], [2, 3]), ([2, 1], [1, 4], [2, 4]), ([None, 3], [1], [None, 3]), ([None], [5], [5]), ([None], [1],
                                                                                                       [None]),
    ([0], [1], [0]), (None, [2], None), ([], [2], [2])])
def test_broadcast(left: Any, right: Any, result: Any) -> None:
    assert broadcast([as_shape(left), as_shape(right)]) == as_shape(result)
    assert broadcast([as_shape(right), as_shape(left)]) == as_shape(result)


def test_broadcast_names_both_dimensions() -> None:
    with pytest.raises(errors.ShapeError,
                       match=r"add: shapes \[2,3\] and \[2,4\] do not broadcast: axis -1 is 3 and 4;"):
        broadcast([Shape([2, 3]), Shape([2, 4])], "add")
