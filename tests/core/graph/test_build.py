"""The ops namespace: arguments, conversion of Python values, operators, values known while building."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.core.ops  # noqa: F401
from tests.evaluate import evaluate
from workbench import errors
from workbench.core.graph.build import IndexedSlices, constant_shape, constant_value, convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape

pytestmark = pytest.mark.usefixtures("graph")


def x(*shape: Any, dtype: str = "float32") -> Tensor:
    return ops.placeholder(dtype, list(shape), name="x")


def test_constants() -> None:
    c = ops.constant([[1, 2], [3, 4]])
    assert c.dtype.name == "int32" and c.shape == [2, 2] and not c.op.attrs["value"].flags.writeable
    assert ops.constant(1, "float64", [2, 2]).shape == [2, 2] and ops.constant([1, 2, 3, 4],
                                                                               shape=[2, 2]).shape == [2, 2]
    source = np.zeros(2)
    held = ops.constant(source)
    source[0] = 1
    assert constant_value(held)[0] == 0      # type: ignore[index]
    with pytest.raises(errors.ShapeError, match=r"constant: 3 values do not fill shape \[2\]; Too many .* at most 2.* 3"):
        ops.constant([1, 2, 3], shape=[2])
    with pytest.raises(errors.ShapeError, match=r"constant: 0 values do not fill shape \[2\]; give one value"):
        ops.constant([], shape=[2])


def test_a_constant_of_fewer_values_repeats_the_last() -> None:
    assert constant_value(ops.constant([1, 2, 3], shape=[2, 2])).tolist() == [[1, 2], [3, 3]]      # type: ignore[union-attr]
    assert constant_value(ops.constant(["a", "b"], shape=[3])).tolist() == [b"a", b"b", b"b"]      # type: ignore[union-attr]


def test_shapes_become_integers() -> None:
    known = convert(Shape([2, 3]))
    assert known.dtype.name == "int32" and constant_value(known).tolist() == [2, 3]      # type: ignore[union-attr]
    assert convert(Shape([2, 3]), "int64").dtype.name == convert(Shape([2**31, 3])).dtype.name == "int64"
    for value, dtype, kind, text in ((Shape(None), None, errors.ShapeError, "partially known shape"),
                                     (Shape([1, None]), None, errors.ShapeError, r"partially known shape \[1,\?\]"),
                                     (Shape([None])[0], None, errors.ShapeError, "an unknown Dimension"),
                                     (Shape([2]), "float32", TypeError, "integers but float32 is needed"),
                                     (Shape([2**31]), "int32", errors.DtypeError, r"a dimension is too large \(2147483648\)")):
        with pytest.raises(kind, match=text):
            convert(value, dtype)


def test_python_values_take_the_dtype_of_the_tensor() -> None:
    for dtype in ("float16", "float64", "bfloat16", "int64"):
        assert (x(2, dtype=dtype) * 2).dtype.name == (2 - x(2, dtype=dtype)).dtype.name == dtype
    assert ops.exp(1).dtype.name == "float32"
    with pytest.raises(errors.DtypeError, match=r"0.5 is float64 but int32 was wanted"):
        x(2, dtype="int32") * 0.5
    with pytest.raises(errors.DtypeError, match=r"add: x is float32 but y is float64; both must have one dtype"):
        x(2) + x(2, dtype="float64")


def test_lists_of_tensors_become_a_stack() -> None:
    t = x(None, 6)
    y = ops.reshape(t, [ops.shape(t)[0], 2, -1])
    assert y.shape == [None, 2, None] and evaluate([y], {t: np.zeros((5, 6))})[0].shape == (5, 2, 3)


def test_operators() -> None:
    a, b = ops.constant([7.0, -7.0]), ops.constant([2.0, 2.0])
    i, j = ops.constant([7, -7]), ops.constant([2, 2])
    m = ops.constant([[1.0, 2.0], [3.0, 4.0]])
    true, false = ops.constant([True]), ops.constant([False])
    rows = [
        (a + b, [9, -5]), (a - 1, [6, -8]), (1 - a, [-6, 8]), (a * b, [14, -14]), (a / b, [3.5, -3.5]),
        (i / j, [3.5, -3.5]), (a // b, [3, -4]), (i // j, [3, -4]), (i % 3, [1, 2]), (b ** 3, [8, 8]),
        (2.0 ** b, [4, 4]), (-a, [-7, 7]), (abs(a), [7, 7]), (m @ m, [[7, 10], [15, 22]]), (a > b, [True, False]),
        (a <= b, [False, True]), (true & false, [False]), (true | false, [True]), (true ^ true, [False]),
        (~true, [False]), (np.array([1.0, 2.0], np.float32) + a, [8, -5])]
    for tensor, wanted in rows:
        assert isinstance(tensor, Tensor)
        np.testing.assert_array_equal(evaluate([tensor])[0], wanted, str(tensor))
    assert (i / j).dtype.name == "float64" and a == a and a != b and len({a, b}) == 2


def test_arguments_are_checked() -> None:
    for build, text in (
            (lambda: ops.matmul(x(2, 2)), "missing"), (lambda: ops.exp(),
                                                       "exp: input 'x' is missing; call exp(x, …)"),
            (lambda: ops.concat([x(2)]), "concat: attribute 'axis' is missing; pass axis=…"),
            (lambda: ops.exp(x(2), 3), "exp: unknown arguments 3; it takes x"),
            (lambda: ops.softmax(x(2), wrong=1), "softmax: unknown arguments wrong; it takes x, axis")):
        with pytest.raises((errors.InvalidArgumentError, TypeError)) as caught:
            build()
        assert text in str(caught.value)


def test_attributes_may_be_constants_of_the_graph() -> None:
    assert ops.reduce_sum(x(2, 3), ops.constant(1)).shape == [2]
    assert ops.transpose(x(2, 3), np.array([1, 0])).op.attrs["perm"] == (1, 0)


def test_lists_of_one_stay_lists() -> None:
    assert isinstance(ops.split(x(3), 1), list) and isinstance(ops.unstack(x(1, 2)), list)


def test_convert() -> None:
    t = x(2)
    assert convert(t) is t and convert(t.shape).dtype.name == "int32"
    with pytest.raises(errors.DtypeError, match=r"convert: x:0 is float32 but int32 is needed; cast it"):
        convert(t, "int32")
    slices = IndexedSlices(x(2, 3), ops.constant([0, 0]), ops.constant([4, 3]))
    assert convert(slices).shape == [4, 3] and slices.dtype.name == "float32" and slices.graph is slices.op.graph
    with pytest.raises(errors.InvalidArgumentError, match="has no dense_shape"):
        convert(IndexedSlices(t, ops.constant([0])))


def test_values_known_while_building() -> None:
    t = x(None, 3)
    assert constant_value(ops.constant(2) * 3 + 1) == 7
    assert constant_value(t) is None and constant_value(ops.shape(t)) is None
    assert constant_value(ops.shape(t)[:1]) is None and constant_value(ops.rank(t)) == 2
    assert constant_value(ops.shape(t)[1]) == 3 and constant_value(ops.shape(t)[0]) is None
    assert constant_value(ops.size(x(2, 3))) == 6 and constant_value(ops.random_uniform([2])) is None
    np.testing.assert_array_equal(constant_value(ops.shape(x(2, 3))), [2, 3])      # type: ignore[arg-type]


def test_shapes_known_while_building() -> None:
    t = x(None, 3)
    n = ops.shape(t)[0]
    assert constant_shape(ops.shape(t)) == [None, 3] and constant_shape(ops.stack([n, 4])) == [None, 4]
    assert constant_shape(ops.concat([ops.shape(t), [5]], 0)) == [None, 3, 5]
    assert constant_shape(ops.constant([2, -1])) == [2, None]
    assert constant_shape(ops.shape(t)[1:]) == [3] and constant_shape(ops.shape(t)[:1]) == [None]
    assert constant_shape(ops.stack([ops.shape(t)[0], ops.shape(t)[1] * 2])) == [None, 6]
    assert constant_shape(ops.gather(ops.shape(t), [1, 0, 1])) == [3, None, 3]
    assert constant_shape(ops.gather(ops.shape(t), [7])) == [None]
    assert constant_shape(ops.shape(ops.placeholder("float32"))[1:]).rank is None
    assert constant_shape(ops.cast(ops.shape(t), "int64")) == [None, 3]
    assert constant_shape(ops.placeholder("int32", [2])) == [None, None]
    assert constant_shape(ops.placeholder("int32", [None])).rank is None
    assert ops.fill(ops.stack([n, 4]), 0.0).shape == [None, 4]


def test_lengths_that_are_known_outside_are_known_in_loops_and_branches():
    rows = ops.placeholder("float32", [2, 5])
    length = ops.shape(rows)[1]
    mask = ops.while_loop(lambda i, m: i < 3, lambda i, m: (i + 1, ops.range(length) < i), [0, ops.fill([5], False)])[1]
    assert mask.shape == [5]
    assert ops.cond(ops.placeholder("bool", []), lambda: ops.range(length), lambda: ops.range(length) + 1).shape == [5]
