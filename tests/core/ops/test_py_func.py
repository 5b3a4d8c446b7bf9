"""Python functions as operations: values, dtypes and errors that do not fit, state, names across processes, gradients."""
from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import workbench as wb
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")


def run(*fetches):
    with wb.Session() as session:
        return session.run(fetches if len(fetches) > 1 else fetches[0])


def test_arrays_go_in_and_come_out():
    x = wb.constant([1.0, 2.0])
    doubled = wb.py_func(lambda a: a * 2, [x], wb.float32)
    total, count = wb.py_func(lambda a, b: (a + b, np.int64(a.size)), [x, 1.0], [wb.float32, wb.int64])
    assert doubled.shape.rank is None and doubled.op.name == "PyFunc"
    found = run(doubled, total, count)
    assert found[0].tolist() == [2, 4] and found[1].tolist() == [2, 3] and found[2] == 2
    assert isinstance(wb.py_func(lambda: np.float32(1), [], [wb.float32]), list)
    assert run(wb.py_func(lambda: [1.0, 2.0], [], wb.float32)).tolist() == [1, 2]
    assert run(wb.py_func(lambda: [b"a", "ü"], [], wb.string)).tolist() == [b"a", "ü".encode()]


def test_one_number_comes_as_a_scalar_and_one_string_as_bytes():
    lengths, seen = {3: 30}, []

    def look_up(key, name, row):
        seen.append((type(key), type(name), type(row)))
        return np.int64(lengths[key] + len(name.decode()))

    with wb.Graph().as_default(), wb.Session() as session:
        found = session.run(wb.py_func(look_up, [wb.constant(3), wb.constant("four"), wb.constant([1.0])], wb.int64))
    assert found == 34 and seen == [(np.int32, bytes, np.ndarray)]


def test_a_function_without_results_is_an_operation():
    seen = []
    step = wb.py_func(lambda a: seen.append(a.tolist()), [wb.constant([3])], [])
    assert isinstance(step, wb.Operation)
    run(step)
    assert seen == [[3]]


@pytest.mark.parametrize(("function", "dtypes", "kind", "text"), [
    (lambda: np.float64(1), wb.float32, errors.InvalidArgumentError, r"0-th value returned by pyfunc_.* is float64, but"),
    (lambda: (1.0, 2.0), [wb.float32] * 3, errors.InvalidArgumentError, "returns 2 values, but expects to see 3 values"),
    (lambda: [][0], wb.float32, errors.UnknownError, "raised IndexError: list index out of range"),
    (lambda: int("x"), wb.int32, errors.InvalidArgumentError, "raised ValueError: invalid literal"),
    (lambda: next(iter(())), wb.float32, errors.OutOfRangeError, "raised StopIteration"),
    (lambda: 1 + "", wb.float32, errors.InvalidArgumentError, "raised TypeError"),
    (lambda: np.ma.array([1.0], mask=[True]), wb.float64, errors.InvalidArgumentError,
     "returned by pyfunc_.*: 1 of 1 elements"),
    (lambda: {"a": 1}, wb.int64, errors.UnimplementedError, "Unsupported object type dict: 0-th value returned by pyfunc_"),
    (lambda: np.zeros(2, [("a", np.float32)]), wb.float32, errors.UnimplementedError, "Unsupported numpy type: 0-th value")])
def test_what_does_not_fit_says_so(function, dtypes, kind, text):
    with pytest.raises(kind, match=text):
        run(wb.py_func(function, [], dtypes))


def test_a_function_with_state_runs_in_each_step_and_one_without_may_be_merged():
    calls = {"stateful": 0, "once": 0}

    def count(key):
        def function(a):
            calls[key] += 1
            return np.float32(calls[key])
        return function
    counting, once = count("stateful"), count("once")
    x = wb.constant(1.0)
    fetches = [wb.py_func(counting, [x], wb.float32), wb.py_func(counting, [x], wb.float32),
               wb.py_func(once, [x], wb.float32, stateful=False), wb.py_func(once, [x], wb.float32, stateful=False)]
    with wb.Session() as session:
        session.run(fetches)
        session.run(fetches)
    assert calls["stateful"] == 4 and calls["once"] <= 2


def test_a_function_is_forgotten_with_the_graph_that_calls_it():
    def known():
        def function(a):
            return a + 1
        x = wb.py_func(function, [1.0], wb.float32)
        wb.cond(x > 0.0, lambda: wb.py_func(function, [1.0], wb.float32), lambda: 0.0)
        return weakref.ref(function), x
    with wb.Graph().as_default() as graph:
        function, x = known()
        gc.collect()
        with wb.Session() as session:
            assert session.run(x) == 2
    del graph, session, x
    gc.collect()
    assert function() is None


def test_steps_of_several_threads_may_call_at_once():
    barrier = threading.Barrier(2, timeout=60)
    y = wb.py_func(lambda: np.int64(barrier.wait() >= 0), [], wb.int64)
    with wb.Session() as session:
        threads = [threading.Thread(target=session.run, args=(y,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not barrier.broken


def test_the_function_cannot_change_what_it_is_given():
    x = wb.constant([1.0])

    def spoil(a):
        a += 1
        return a
    assert [v.tolist() for v in run(wb.py_func(spoil, [x], wb.float32), x)] == [[2], [1]]


def test_registered_names_are_found_and_others_refused():
    def double(a):
        return a * 2
    wb.register_py_func("test_py_func/double", double)
    wb.register_py_func("test_py_func/double", double)
    assert run(wb.py_func("test_py_func/double", [wb.constant(2.0)], wb.float32)) == 4
    with pytest.raises(errors.AlreadyExistsError, match="'test_py_func/double' stands for another function"):
        wb.register_py_func("test_py_func/double", lambda a: a)
    with pytest.raises(errors.NotFoundError, match="'nobody' is neither a function nor a registered name; call"):
        wb.py_func("nobody", [], wb.float32)


def test_another_process_says_that_it_does_not_know_the_function():
    code = """
import workbench as wb
y = wb.ops.call_python([], token="pyfunc_7@1", dtypes=[wb.float32])
try:
    wb.Session().run(y)
except wb.errors.FailedPreconditionError as error:
    print(error.message.splitlines()[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "'pyfunc_7' is a function of another process" in done.stdout and "call register_py_func in every" in done.stdout


def test_a_gradient_can_be_given():
    @wb.RegisterGradient("test_py_func/Cube")
    def _(op, dy):
        return dy * 3.0 * wb.ops.square(op.inputs[0])
    x = wb.constant([1.0, 2.0])
    with wb.get_default_graph().gradient_override_map({"PyFunc": "test_py_func/Cube"}):
        y = wb.py_func(lambda a: a ** 3, [x], wb.float32)
    y.set_shape([2])
    assert run(wb.gradients(y, x)[0]).tolist() == [3, 12]
    assert wb.gradients(wb.py_func(lambda a: a, [x], wb.float32), x) == [None]


class Left(BaseException):
    """Neither an error nor a request: what asyncio's cancellations and pytest's outcomes are."""


@pytest.mark.parametrize(("raised", "text"), [(SystemExit(3), "raised SystemExit: 3"),
                                              (Left("no more"), "raised Left: no more")])
def test_a_function_that_would_end_the_process_ends_its_step(raised, text):
    def leave() -> None:
        raise raised
    with pytest.raises(errors.UnknownError, match=f"{text}(.|\n)*operation: 'PyFunc'") as caught:
        run(wb.py_func(leave, [], wb.float32))
    assert caught.value.__cause__ is not None
