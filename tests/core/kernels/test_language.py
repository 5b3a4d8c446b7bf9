"""The kernel language: what it translates means what Python means, and what it cannot say is refused by name."""
from __future__ import annotations

import numpy as np
import pytest

from workbench.core.kernels import program_rows
from workbench.core.kernels.language import LanguageError, library_source, translate
from workbench.core.kernels.llvm import Program, bind

pytestmark = pytest.mark.once


def run(body, *arrays, numbers=(), parameters="x: floats64, y: floats64", more=""):
    source = f"{more}\ndef kernel({parameters}):\n" + "\n".join(f"    {line}" for line in body.splitlines()) + "\n"
    bind(Program((source,), "kernel"), numbers, False)(*arrays)


@pytest.mark.parametrize("expression", [
    "a + b", "a - b * 2", "(a + 1) / b", "-a", "a if a < b else b", "1 if a > 0 else (-1 if a < 0 else 0)", "abs(a) - abs(b)",
    "floor(a) + ceil(b)", "sqrt(a * a)", "1 if 0 < a <= b else 2", "1 if a < 0 or not b < 0 else 0",
    "1 if a == b and a != 3 else 0", "3 - 2 * 4", "float64(int64(a)) + 0.5", "float64(float32(0.1))"])
def test_expressions_mean_what_they_mean_in_python(expression):
    values = [-2.5, -1.0, 0.0, 1.0, 3.0, 7.25]
    x = np.array([(a, b) for a in values for b in values if b != 0])
    y = np.empty(len(x))
    run(f"for i in range(n):\n    a = x[2 * i]\n    b = x[2 * i + 1]\n    y[i] = {expression}", x, y, numbers=(len(x),),
        parameters="x: floats64, y: floats64, n: int64")
    words = {"floor": np.floor, "ceil": np.ceil, "sqrt": np.sqrt, "float64": float, "int64": int,
             "float32": lambda v: float(np.float32(v))}
    wanted = [eval(expression, {**words, "a": float(a), "b": float(b)}) for a, b in x]
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("expression", ["a // b", "a % b", "a << 3", "a >> 1", "a & b", "a | b", "a * b - a"])
def test_whole_numbers(expression):
    x = np.array([(a, b) for a in (0, 1, 5, 12, 1000) for b in (1, 3, 7)])
    y = np.empty(len(x), np.int64)
    run(f"for i in range(n):\n    a = x[2 * i]\n    b = x[2 * i + 1]\n    y[i] = {expression}", x, y, numbers=(len(x),),
        parameters="x: ints64, y: ints64, n: int64")
    np.testing.assert_array_equal(y, [eval(expression, {"a": int(a), "b": int(b)}) for a, b in x])


def test_a_literal_beside_memory_alone_is_the_number_that_it_is():
    """Of a function's parameters: nothing else says what type it takes."""
    x, y = np.array([3, 4]), np.empty(1, np.int64)
    run("y[0] = part(x, 1)", x, y, parameters="x: ints64, y: ints64",
        more="def part(given: ints64, more: int) -> int:\n    return given[0] * (given[1] + more) // 2\n")
    assert y[0] == 7


def test_statements():
    x, y = np.arange(10.0), np.zeros(10)
    run("""total = 0.0
for i in range(2, 10, 3):
    if x[i] > 4:
        total += x[i]
        y[i] = total
    else:
        y[i] = -1
y[0] = twice(total)""", x, y, more="def twice(v):\n    w = v + v\n    return w")
    assert y.tolist() == [26.0, 0, -1, 0, 0, 5, 0, 0, 13, 0]


def test_types_of_memory():
    marks, small, out = np.array([True, False, True]), np.array([1, 2, 2**31 - 1], np.int32), np.empty(3, np.int64)
    run("for i in independent(3):\n    out[i] = int64(small[i]) + 1 if marks[i] else 0", marks, small, out,
        parameters="marks: bools, small: ints32, out: ints64")
    assert out.tolist() == [2, 0, 2**31]
    run("for i in independent(3):\n    marks[i] = small[i] > 1", marks, small, parameters="marks: bools, small: ints32")
    assert marks.tolist() == [False, True, True]


@pytest.mark.parametrize("first,end", [(0, 0), (0, 1), (5, 3), (0, 63), (0, 64), (3, 67), (7, 72), (0, 575), (0, 577),
                                       (1, 1300)])
def test_loops_that_fetch_ahead_make_each_pass_once(first, end):
    x = np.arange(1300.0)
    y, wanted = np.ones(1300), np.ones(1300)
    wanted[first:end] = x[first:end] * 2 + np.arange(first, end) + 1
    run("for i in streamed(first, end):\n    a = x[i] * 2\n    y[i] = a + float64(i) + y[i]", x, y, numbers=(first, end),
        parameters="x: floats64, y: floats64, first: int64, end: int64")
    np.testing.assert_array_equal(y, wanted)


def test_loops_that_fetch_ahead_in_others_and_of_no_fixed_first():
    x, y = np.arange(400.0), np.zeros(4)
    run("""for r in range(4):
    total = 0.0
    for c in streamed(100):
        total += x[r * 100 + c]
    y[r] = total""", x, y)
    np.testing.assert_array_equal(y, x.reshape(4, 100).sum(1))


@pytest.mark.parametrize("first,end", [(0, 0), (5, 3), (0, 63), (0, 64), (3, 67), (4, 700), (7, 1300)])
@pytest.mark.parametrize("kind", ["independent", "streamed"])
@pytest.mark.parametrize("shift", [0, 1, 4])
def test_what_passes_the_caches_by_arrives(first, end, kind, shift):
    x = np.arange(1300, dtype=np.float32)
    y, z, wanted = np.ones(1310, np.float32)[shift:1300 + shift], x.copy(), np.ones(1300, np.float32)
    wanted[first:end] = x[first:end] * 2
    run(f"for i in {kind}(first, end, past=True):\n    y[i] = x[i] + z[i]", x, y, z, numbers=(first, end),
        parameters="x: floats32, y: floats32, z: floats32, first: int64, end: int64")
    np.testing.assert_array_equal(y, wanted)
    run(f"for i in {kind}(first, end, past=True):\n    y[i] = x[i] + z[i]", x, z, z, numbers=(first, end),
        parameters="x: floats32, y: floats32, z: floats32, first: int64, end: int64")
    np.testing.assert_array_equal(z[first:end], wanted[first:end])


@pytest.mark.parametrize("body,expected", [
    ("y[i] = x[i]", True), ("y[r * 64 + i] = x[i]", True), ("y[2 * i] = x[i]", False), ("y[i + 1] = x[i]", False),
    ("y[i] = y[i] + x[i]", False), ("y[i] += x[i]", False), ("if x[i] > 5.0:\n      y[i] = x[i]", False),
    ("y[i] = x[i]\n    y[64 + i] = 1.0", False)])
def test_only_what_is_written_in_order_passes_the_caches_by(body, expected):
    source = ("def kernel(x: floats32, y: floats32, r: int64):\n  for i in independent(64, past=True):\n    " + body,)
    text, _ = translate(source, "kernel")
    assert ("!nontemporal" in text, "fence" in text) == (expected, expected)
    x, y = np.arange(64, dtype=np.float32), np.zeros(200, np.float32)
    run("for i in independent(64, past=True):\n    " + body, x, y, numbers=(1,),
        parameters="x: floats32, y: floats32, r: int64")
    wanted = np.zeros(200, np.float32)
    for i in range(64):
        exec(body.replace("\n    ", "\n"), {"i": i, "r": 1, "x": x, "y": wanted})
    np.testing.assert_array_equal(y, wanted)


def test_what_will_be_needed_may_lie_behind_the_end():
    y = np.zeros(3)
    run("soon(y, 2)\nsoon(y, 1 << 40)\nsoon(y, -5)\ny[0] = 1", y, parameters="y: floats64")
    assert y.tolist() == [1, 0, 0]


@pytest.mark.parametrize("body,error", [
    ("y[0] = x[0] ** 2", "kernel: the kernel language has no meaning for this operator on float64: 'x[0] ** 2'"),
    ("y[0] = x[0] // 2", "this operator on float64"),
    ("y[0] = 5 / 2 + int64(1)", "this operator on int64"),
    ("y[0] = z", "the name z"),
    ("y[0] = sin(x[0])", "the function sin: 'sin(x[0])'"),
    ("y[0] = x", "floats64 for float64"),
    ("y[0] = int64(1)", "int64 for float64"),
    ("y[0] = x[0] + int64(x[0])", "float64 beside int64"),
    ("a = 1\na = 0.5", "0.5 as int64"),
    ("y[x[0]] = 1", "float64 for int64"),
    ("while True:\n    y[0] = 1", "this statement"),
    ("for i in x:\n    y[0] = 1", "this statement"),
    ("for i in enumerate(3):\n    y[0] = 1", "a loop over this"),
    ("for i in streamed(0, 9, 3):\n    y[i] = 1", "a loop over this"),
    ("y[0] = 'text'", "this constant"),
    ("y[0] = [1]", "this expression"),
    ("x.y = 1.0", "this target of an assignment"),
    ("y[0] = 1 if x[0] else 2", "float64 as a condition"),
    ("if x[0]:\n    y[0] = 1", "float64 for bool")])
def test_what_cannot_be_said_is_refused(body, error):
    source = "def kernel(x: floats64, y: floats64):\n" + "\n".join(f"    {line}" for line in body.splitlines())
    with pytest.raises(LanguageError) as caught:
        translate((source,), "kernel")
    assert error in str(caught.value)


def test_parameters_need_types():
    with pytest.raises(LanguageError, match=r"^kernel: parameter x has no type of the language, but ''$"):
        translate(("def kernel(x):\n    y = 1",), "kernel")


def test_programs_are_python():
    """A program of the house computes the same when Python runs it: its words mean what they say."""
    x = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    labels = np.eye(7, dtype=np.float32)[:5]
    found = [np.zeros(5, np.float32), np.zeros((5, 7), np.float32)]
    sources = (library_source("program_math.py"), library_source("program_rows.py"))
    bind(Program(sources, "softmax_xent"), (0, 5, 7), False)(x, labels, *found)
    wanted = [a.copy().reshape(-1) for a in found]
    program_rows.softmax_xent(x.reshape(-1), labels.reshape(-1), *wanted, 0, 5, 7)
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one.reshape(-1), other, rtol=2e-6, atol=1e-7)
