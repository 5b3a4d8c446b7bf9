"""Assertions: what holds passes, what is known fails while building, the rest in the step, with message and values."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")


PAIRS = [      # function, x, y that hold, y that does not
    (wb.assert_equal, [1.0, 2.0], [1.0, 2.0], [1.0, 3.0], "x == y"),
    (wb.assert_none_equal, [1.0, 2.0], [2.0, 1.0], [2.0, 2.0], "x != y"),
    (wb.assert_less, [1.0, 2.0], [2.0, 3.0], [2.0, 2.0], "x < y"),
    (wb.assert_less_equal, [1.0, 2.0], [1.0, 2.0], [1.0, 1.0], "x <= y"),
    (wb.assert_greater, [1.0, 2.0], [0.0, 1.0], [0.0, 2.0], "x > y"),
    (wb.assert_greater_equal, [1.0, 2.0], [1.0, 2.0], [1.0, 3.0], "x >= y"),
    (wb.assert_near, [1.0, 2.0], [1.0, 2.0 + 1e-6], [1.0, 2.01], "|x - y| < atol + rtol * |y|")]


@pytest.mark.parametrize(("check", "x", "good", "bad", "rule"), PAIRS, ids=[p[0].__name__ for p in PAIRS])
def test_comparisons(check, x, good, bad, rule):
    fed = wb.placeholder("float32", [None], name="fed")
    inside = check(fed, good, message="looked at")
    assert run(inside, {fed: x}) is None
    assert run(check(x, good)) is None                                    # known to hold
    assert run(check(np.zeros(0, np.float32), good[:1])) is None          # nothing to compare
    with pytest.raises(errors.InvalidArgumentError, match=r"looked at\] \[Condition .* did not hold .*:\] \[x \(fed:0\)"):
        run(check(fed, bad, message="looked at"), {fed: x})
    with pytest.raises(errors.InvalidArgumentError) as known:
        check(x, bad, message="known")
    assert str(known.value).startswith(
        f"{check.__name__}: known: Condition {rule} did not hold element-wise: x = [1.0, 2.0] (")
    with pytest.raises(errors.InvalidArgumentError, match=r"own data\] \[7\]"):
        run(check(fed, bad, data=["own data", 7]), {fed: x})


SIGNS = [(wb.assert_positive, [1, 2], [0, 1]), (wb.assert_negative, [-1, -2], [0, -1]),
         (wb.assert_non_negative, [0, 1], [-1, 1]), (wb.assert_non_positive, [0, -1], [0, 1])]


@pytest.mark.parametrize(("check", "good", "bad"), SIGNS, ids=[s[0].__name__ for s in SIGNS])
def test_signs(check, good, bad):
    fed = wb.placeholder("int32", None)
    with wb.control_dependencies([check(fed, name="mine")]):
        y = wb.identity(fed)
    assert run(y, {fed: good}).tolist() == good and "mine/Assert" in {op.name for op in wb.get_default_graph().operations}
    with pytest.raises(errors.InvalidArgumentError, match=r"Condition x .*0 did not hold element-wise"):
        run(y, {fed: bad})
    with pytest.raises(errors.InvalidArgumentError, match=f"{check.__name__}: why: Condition"):
        check(bad, message="why")


def test_long_values_are_cut():
    fed = wb.placeholder("int32", [5])
    with pytest.raises(errors.InvalidArgumentError, match=re.escape("[x (placeholder:0) = ] [0 1 2...]")):
        run(wb.assert_positive(fed), {fed: np.arange(5)})
    with pytest.raises(errors.InvalidArgumentError, match=re.escape("[0 1 2 3...]")):
        run(wb.assert_positive(fed, summarize=4), {fed: np.arange(5)})
    with pytest.raises(errors.InvalidArgumentError, match=re.escape("x = [0, 1, … of 5]")):
        wb.assert_positive(np.arange(5), summarize=2)
    with pytest.raises(errors.InvalidArgumentError, match=re.escape("[0 1 2 3 4]")):
        run(wb.Assert(wb.reduce_all(fed > 0), [fed], summarize=-1), {fed: np.arange(5)})


def test_comparisons_need_what_can_be_compared():
    with pytest.raises(errors.ShapeError, match="do not broadcast"):
        wb.assert_equal([1, 2], [1, 2, 3])
    with pytest.raises(errors.DtypeError, match="int32 but"):
        wb.assert_less(wb.constant([1]), wb.constant([1.0]))


def test_tolerances():
    assert run(wb.assert_near([1.0], [1.4], rtol=0.0, atol=0.5)) is None
    assert run(wb.assert_near([10.0], [11.0], rtol=0.1, atol=0.01)) is None
    with pytest.raises(errors.InvalidArgumentError, match="assert_near"):
        wb.assert_near(np.float64([1]), np.float64([1 + 1e-6]))


def test_ranks():
    x, any_ = wb.placeholder("float32", [None, 3]), wb.placeholder("float32", None, name="any")
    for check, good, bad in ((wb.assert_rank, 2, 1), (wb.assert_rank_at_least, 2, 3), (wb.assert_rank_in, (0, 2), (0, 1))):
        assert check(x, good).type == "no_op"
        with pytest.raises(ValueError, match=rf"{check.__name__}: sorry: .* has rank 2 \(shape \[\?,3\]\) but"):
            check(x, bad, message="sorry")
        assert run(check(any_, good), {any_: np.zeros((1, 3))}) is None
        with pytest.raises(errors.InvalidArgumentError, match=r"\[late\] \[Tensor any:0 must have (a )?rank.*\]"):
            run(check(any_, bad, message="late"), {any_: np.zeros((1, 3))})
    with pytest.raises(TypeError, match="assert_rank: rank is float32 but an integer type is needed"):
        wb.assert_rank(x, 1.0)
    with pytest.raises(ValueError, match=r"assert_rank: rank has shape \[1\] but a scalar is needed"):
        wb.assert_rank(x, [1])
    assert wb.assert_scalar(wb.constant(3)).shape.rank == 0
    with pytest.raises(ValueError, match=r"assert_scalar: .* has shape \[\?,3\] but a scalar is needed"):
        wb.assert_scalar(x)


def test_types():
    x = wb.placeholder("float32", [2], name="x")
    assert wb.assert_type(x, wb.float32).type == wb.assert_integer(wb.constant(1)).type == "no_op"
    with pytest.raises(TypeError, match="assert_type: why: x:0 is float32 but must be int32; cast it"):
        wb.assert_type(x, wb.int32, message="why")
    with pytest.raises(TypeError, match="assert_integer: why: x:0 is float32 but must be an integer type"):
        wb.assert_integer(x, message="why")
    assert wb.is_numeric_tensor(x) and not wb.is_numeric_tensor(wb.constant("a")) and not wb.is_numeric_tensor(1.0)
    assert not wb.is_numeric_tensor(wb.constant(True))
    assert wb.assert_same_float_dtype() is wb.float32
    assert wb.assert_same_float_dtype([x, None]) is wb.float32
    with pytest.raises(ValueError, match="x:0 is float32 but float64 is needed"):
        wb.assert_same_float_dtype([x], wb.float64)
    with pytest.raises(ValueError, match="the dtype is int32; use a floating type"):
        wb.assert_same_float_dtype([wb.constant(1)])
    assert wb.assert_proper_iterable([1, 2]) is None
    for wrong in (x, np.zeros(2), "text", 3):
        with pytest.raises(TypeError, match="is not a list of values; put it in a list"):
            wb.assert_proper_iterable(wrong)


@pytest.mark.parametrize(("x", "rising", "strict"), [
    ([1, 2, 3], True, True), ([1, 1, 3], True, False), ([3, 2], False, False), ([], True, True), ([5], True, True),
    ([[1, 2], [2, 3]], True, False)])
def test_order(x, rising, strict):
    x = np.asarray(x, np.uint8)      # differences of unsigned numbers would wrap
    assert run([wb.is_non_decreasing(x), wb.is_strictly_increasing(x)]) == [rising, strict]


def test_variables_are_initialized():
    assert wb.assert_variables_initialized() is None
    v = wb.Variable(1.0, name="v")
    check = wb.assert_variables_initialized()
    with wb.Session() as session:
        with pytest.raises(errors.FailedPreconditionError, match="v"):
            session.run(check)
        session.run(v.initializer)
        session.run(check)


def test_finite_values():
    x = wb.placeholder("float32", [2], name="x")
    y = wb.verify_tensor_all_finite(x, "weights")
    assert run(y, {x: [1, 2]}).tolist() == [1, 2] and run(wb.gradients(y, x)[0], {x: [1, 2]}).tolist() == [1, 1]
    with pytest.raises(errors.InvalidArgumentError, match="weights : Tensor had NaN values: 1 of 2 elements"):
        run(y, {x: [1, np.nan]})
    with pytest.raises(errors.InvalidArgumentError, match="the tensor or the message is missing"):
        wb.verify_tensor_all_finite(x)


def test_every_tensor_is_checked_in_the_order_it_was_built():
    x = wb.placeholder("float32", [2], name="x")
    y = wb.log(x, name="logarithm") * 2.0
    counts = wb.cast(y, "int32")
    check = wb.add_check_numerics_ops()
    assert run([counts, check], {x: [1, 1]})[0].tolist() == [0, 0]
    with pytest.raises(errors.InvalidArgumentError, match="logarithm:0 : Tensor had Inf values: 1 of 2 elements"):
        run(check, {x: [0, 1]})


def test_print(capfd):
    x = wb.placeholder("float32", [2, 2], name="x")
    y = wb.Print(x, [x, wb.shape(x), wb.constant("text"), wb.constant([True, False]), 1.5], "seen: ", first_n=2)
    every = wb.Print(x, [x], summarize=-1)
    [slope] = wb.gradients(y, x)
    with wb.Session() as session:
        for _ in range(3):
            assert session.run(y, {x: [[1, 2], [3, 0.1]]}).tolist() == np.float32([[1, 2], [3, 0.1]]).tolist()
        assert capfd.readouterr().err.splitlines() == ["seen: [[1 2][3]...][2 2][text][1 0][1.5]"] * 2
        session.run(every, {x: [[1, 2], [3, 0.1]]})
        assert capfd.readouterr().err == "[[1 2][3 0.1]]\n"
        assert session.run(slope, {x: np.zeros((2, 2))}).tolist() == [[1, 1], [1, 1]]
