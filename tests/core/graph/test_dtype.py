"""Element types: names, twins, conversion without silent loss."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from workbench import errors
from workbench.core.graph import dtype as types
from workbench.core.graph.dtype import as_dtype, dtype_of, feed_array, to_array


@pytest.mark.parametrize(("given", "name"), [
    ("float32", "float32"), (np.float64, "float64"), (np.dtype("int8"), "int8"), (float, "float32"), (int, "int32"),
    (bool, "bool"), (str, "string"), (ml_dtypes.bfloat16, "bfloat16"), (types.uint16, "uint16"), ("S3", "string"),
    (complex, "complex128")])
def test_as_dtype(given: Any, name: str) -> None:
    assert as_dtype(given).name == name
    assert as_dtype(given) is as_dtype(name)


@pytest.mark.parametrize("given", ["float31", object(), None, "M8[s]"])
def test_as_dtype_names_what_it_does_not_know(given: Any) -> None:
    with pytest.raises(errors.DtypeError, match=r"as_dtype: .* is not an element type; use one of float16, bfloat16"):
        as_dtype(given)


def test_a_dtype_is_found_by_its_number() -> None:
    assert types.DType(1) is types.float32 is as_dtype(101)      # a hundred more is a reference to one
    for dtype in (types.bfloat16, types.string, types.quint8, types.variant, types.uint64):
        assert types.DType(dtype.as_datatype_enum) is dtype
    for number in (0, 24, 99):
        with pytest.raises(errors.DtypeError, match=f"as_dtype: {number} is not an element type"):
            types.DType(number)


def test_properties() -> None:
    assert types.float32.is_floating and types.bfloat16.is_floating and not types.int32.is_floating
    assert types.int64.is_integer and types.uint8.max == 255 and types.int8.min == -128
    assert types.float16.size == 2 and types.bfloat16.size == 2 and types.bfloat16.max > 1e38
    assert types.float64.is_differentiable
    assert types.complex64.is_differentiable and not types.int32.is_differentiable
    assert repr(types.bool_) == "wb.bool" and types.float32.as_numpy_dtype is np.float32
    assert types.string.as_numpy_dtype is object and types.resource.as_numpy_dtype is object
    for unordered in (types.complex64, types.bool_, types.string):
        with pytest.raises(TypeError, match="Cannot find minimum or maximum value of"):
            _ = unordered.max


@pytest.mark.parametrize(("value", "name"), [
    (1.5, "float32"), (3, "int32"), (2**40, "int64"), (True, "bool"), ([1, 2.5], "float32"), (np.float64(2),
                                                                                              "float64"),
    (np.arange(3), "int64"), ([], "float32"), (1j, "complex128"),
    (np.array(["a", b"b"], object), "string")])
def test_default_widths(value: Any, name: str) -> None:
    assert dtype_of(to_array(value)).name == name


@pytest.mark.parametrize("name", ["int64", "float64", "int16"])
def test_what_says_its_own_type_keeps_it(name: str) -> None:
    class Column:      # of a table
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            return np.asarray([1, 2], dtype or name)

    assert dtype_of(to_array(Column())).name == name


def test_text_becomes_bytes() -> None:
    array = to_array([["a", b"b"], ["é", "d"]])
    assert array.dtype == object and array.shape == (2, 2) and array[0, 0] == b"a" and array[1, 0] == "é".encode()
    assert to_array("abc").shape == () and dtype_of(to_array("abc")) is types.string


@pytest.mark.parametrize(("value", "wanted", "text"), [
    (1.5, types.int32, r"convert: 1.5 is float64 but int32 was wanted; cast it"),
    (300, types.uint8, r"convert: 300 does not fit uint8 \(0 … 255\)"),
    (-1, types.uint8, r"does not fit uint8"),
    (True, types.float32, r"convert: True is bool but float32 was wanted"),
    (1, types.bool_, r"is int64 but bool was wanted"),
    ("a", types.float32, r"convert: 'a' is not a number but float32 was wanted"),
    ([object()], None, r"is not a number but a tensor was wanted")])
def test_no_silent_loss(value: Any, wanted: Any, text: str) -> None:
    with pytest.raises(errors.DtypeError, match=text):
        to_array(value, wanted)


def test_conversions_that_lose_nothing_of_interest() -> None:
    assert to_array(1, types.float32).dtype == np.float32
    assert to_array(0.1, types.bfloat16).dtype == ml_dtypes.bfloat16
    assert to_array(np.float64(1e300), types.float32) == np.inf
    same = np.ones(3, np.float32)
    assert to_array(same, types.float32) is same


@pytest.mark.parametrize(("value", "wanted", "expected"), [
    ([True, False], types.float32, [1, 0]), (True, types.int64, 1), ([2, 0], types.bool_, [True, False]),
    (0.5, types.bool_, True), (np.float64(1.25), types.float32, 1.25), (np.arange(3), types.float16, [0, 1, 2]),
    (7, types.uint8, 7), ([], types.int64, [])])
def test_feeds_are_cast_as_numpy_casts_them(value: Any, wanted: Any, expected: Any) -> None:
    found = feed_array(value, wanted, "feed")
    assert found.dtype == wanted.numpy and found.tolist() == expected


def test_a_feed_that_loses_its_fraction_says_so() -> None:
    with pytest.warns(UserWarning, match=r"feed of 'n:0': float64 values lose their fraction in int32; cast them before"):
        assert feed_array([1.5, -1.5], types.int32, "feed of 'n:0'").tolist() == [1, -1]


@pytest.mark.parametrize(("value", "wanted", "text"), [
    (1j, types.float32, "feed: 1j is complex128 but float32 was wanted"), ("1", types.float32, "'1' is not a number"),
    (300, types.uint8, "feed: 300 does not fit uint8"), ([[1], [1, 2]], types.int32, "rows of different lengths")])
def test_feeds_lose_nothing_else(value: Any, wanted: Any, text: str) -> None:
    with pytest.raises(errors.Error, match=text):
        feed_array(value, wanted, "feed")


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_a_feed_that_no_integer_stands_for_is_refused(value: float) -> None:
    with pytest.warns(UserWarning), pytest.raises(errors.DtypeError, match="does not fit int32"):
        feed_array(value, types.int32, "feed")


def test_types_equal_what_they_are_made_from() -> None:
    assert types.float32 == np.float32 and types.float32 == "float32" and types.float32 == np.dtype("float32")
    assert np.dtype("float32") == types.float32 and np.float32 == types.float32
    assert types.float32 != np.float64 and types.float32 != None and types.float32 != "floating" and types.float32 != 3      # noqa: E711
    assert [types.int32.__eq__(int), types.int64.__eq__(int), types.float32.__eq__(float), types.bool_.__eq__(bool)] == [
        False, False, True, True]
    assert len({types.float32, types.as_dtype("float32"), types.int32}) == 2 and types.float32.is_compatible_with("float32")


def test_more_properties() -> None:
    assert types.complex64.real_dtype is types.float32 and types.int8.real_dtype is types.int8
    assert types.uint8.is_unsigned and not types.int8.is_unsigned and types.bool_.is_bool and not types.uint8.is_bool


@pytest.mark.parametrize("value", [1e-300, [1e300, 1.0], np.float64(1e-300), np.float64([1e300, np.nan])])
@pytest.mark.parametrize("dtype", [None, "float16", "float32", "float64"])
def test_what_numpy_raises_for_the_caller_changes_no_constant(value: Any, dtype: str | None):
    wanted = None if dtype is None else as_dtype(dtype)
    with np.errstate(all="ignore"):
        expected = to_array(value, wanted)
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(to_array(value, wanted), expected)


class Metres(np.ndarray):
    """An array as units come with them."""

    unit = "m"


MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])


@pytest.mark.parametrize(("value", "text"), [
    (MASKED, r"1 of 3 elements are masked but a tensor has no mask; give them a value with .filled\(...\)"),
    ([[1.0, 2.0, 3.0], MASKED], "1 of 3 elements are masked"), (np.ma.masked, "1 of 1 elements are masked"),
    (np.zeros(2).view(Metres), "a Metres has the unit m but a tensor has none; pass np.asarray"),
], ids=["masked", "a masked row", "a masked number", "unit"])
@pytest.mark.parametrize("convert", [lambda value: to_array(value, None, "x"),
                                     lambda value: feed_array(value, types.float32, "x")], ids=["constant", "feed"])
def test_an_array_that_says_more_than_its_numbers_is_refused(value: Any, text: str, convert: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"x: {text}"):
        convert(value)


@pytest.mark.parametrize("value", [np.ma.array([1.0, 2.0]), np.ones([1, 2]).view(np.matrix), np.zeros(2).view(np.recarray)],
                         ids=["nothing masked", "matrix", "records"])
def test_other_arrays_that_numpy_s_own_are_made_from_are_as_good(value: Any) -> None:
    assert to_array(value).tolist() == np.asarray(value).tolist()


@pytest.mark.parametrize(("name", "most"), [
    ("float32", 1), ("float64", 1), ("bool", True), ("uint8", 255), ("int8", 127), ("uint16", 65535), ("int64", 2 ** 63 - 1)])
def test_limits_are_those_of_images(name: str, most: Any) -> None:
    """As TensorFlow's `limits`, which cuts off what is negative."""
    assert as_dtype(name).limits == (0, most) and as_dtype(name)._is_ref_dtype is False


@pytest.mark.parametrize("name", ["float16", "bfloat16", "complex64", "string", "qint8", "resource"])
def test_other_types_have_no_limits(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} does not have defined limits"):
        _ = as_dtype(name).limits
