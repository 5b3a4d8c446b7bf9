"""TestCase: unittest with comparisons of arrays and a session at hand, by the names of TensorFlow's test module."""
from __future__ import annotations

import atexit
import contextlib
import os
import random
import re
import shutil
import tempfile
import threading
import time
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.grad import gradients
from workbench.core.graph.build import convert, ops
from workbench.core.graph.device import parse
from workbench.core.graph.entered import default_session
from workbench.core.graph.graph import Graph, get_default_graph, reset_default_graph
from workbench.core.run.session import Session
from workbench.train.config import ConfigProto

__all__ = ["Benchmark", "StubOutForTesting", "TestCase", "compute_gradient", "compute_gradient_error", "get_temp_dir",
           "gpu_device_name", "is_gpu_available", "main", "test_src_dir_path"]

main = unittest.main

_SEED = 87654321      # TensorFlow's seed of graphs in tests


class TestCase(unittest.TestCase):
    """A test case that begins with an empty default graph."""

    _folder: str | None = None      # here, so that tests whose setUp does not call ours find it
    _cached: Session | None = None

    assertItemsEqual = unittest.TestCase.assertCountEqual      # as Python 2 calls it

    def setUp(self) -> None:
        super().setUp()
        self._close_cached()
        random.seed(_SEED)
        np.random.seed(_SEED)
        reset_default_graph(type(get_default_graph()))
        get_default_graph().seed = _SEED

    def _close_cached(self) -> None:
        if self._cached is not None:
            self._cached.close()
            self._cached = None

    def tearDown(self) -> None:
        self._close_cached()
        super().tearDown()

    def get_temp_dir(self) -> str:
        """A folder of this test alone, removed at its end, after what the test itself cleans up."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp()
            self.addCleanup(shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    @contextlib.contextmanager
    def test_session(self, graph: Graph | None = None, config: Any = None, use_gpu: bool = False,
                     force_gpu: bool = False) -> Iterator[Session]:
        """A session, the default within; with `use_gpu` on a GPU where there is one. With `force_gpu` InvalidArgumentError
        where there is none; without it and without a `config` of its own, what asks for a device that is not there runs on
        another.

        Without a graph it is on the default graph, and the same for a whole test, however often it is asked for: variables
        keep their values in between. With one it is new, and closed at the end.
        """
        if force_gpu and not any(":GPU:" in device for device in Session(graph=Graph(), config=config).list_devices()):
            raise errors.InvalidArgumentError("test_session: force_gpu is True but there is no GPU device; leave it out")
        if config is None and not force_gpu:
            config = ConfigProto(allow_soft_placement=True)
        if graph is not None:
            with Session(graph=graph, config=config) as session, graph.as_default():
                yield session
            return
        if self._cached is not None and self._cached.graph is not get_default_graph():
            self._close_cached()
        if self._cached is None:
            self._cached = Session(graph=get_default_graph(), config=config)
        with self._cached.graph.as_default(), self._cached.as_default():
            yield self._cached

    session = cached_session = test_session
    test_session.__test__ = False      # type: ignore[attr-defined]

    def evaluate(self, tensors: Any) -> Any:
        """The values of tensors, in the default session."""
        return default_session().run(tensors)

    def assertAllClose(self, a: Any, b: Any, rtol: Any = 1e-6, atol: Any = 1e-6, msg: str | None = None) -> None:
        """a and b have one shape and |a - b| <= atol + rtol · |b|; also within equal lists, tuples and dictionaries.

        The tolerances may be arrays that broadcast with a; NaN equals NaN.
        """
        if isinstance(a, dict) and isinstance(b, dict):
            self.assertEqual(sorted(a), sorted(b), msg)
            for key in a:
                self.assertAllClose(a[key], b[key], rtol, atol, msg)
            return
        left, right = self._array(a), self._array(b)
        self.assertEqual(left.shape, right.shape, f"Shape mismatch: expected {left.shape}, got {right.shape}. {msg or ''}")
        wrong = ~np.isclose(left, right, rtol, atol, equal_nan=True)
        if wrong.any():
            place = tuple(np.argwhere(wrong)[0].tolist())
            self.fail(f"Not equal to tolerance rtol={rtol}, atol={atol}: {wrong.sum()} of {wrong.size} elements, the first at "
                      f"{place}: {left[place]} and {right[place]}. {msg or ''}")

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """a and b have one shape and the same values."""
        np.testing.assert_array_equal(self._array(a), self._array(b), err_msg=msg or "", strict=False)
        self.assertEqual(self._array(a).shape, self._array(b).shape, msg)

    def _array(self, value: Any) -> Any:
        if hasattr(value, "__tensor__") or hasattr(value, "consumers"):
            value = self.evaluate(value)
        return np.asarray(value)

    def assertAllCloseAccordingToType(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, float_rtol: float = 1e-6,
                                      float_atol: float = 1e-6, half_rtol: float = 1e-3, half_atol: float = 1e-3) -> None:
        """assertAllClose with the tolerances of the narrower dtype: `half` for float16, `float` for float32."""
        a, b = self._array(a), self._array(b)
        kinds = {a.dtype, b.dtype}
        if np.dtype(np.float16) in kinds:
            rtol, atol = max(rtol, half_rtol), max(atol, half_atol)
        elif kinds & {np.dtype(np.float32), np.dtype(np.complex64)}:
            rtol, atol = max(rtol, float_rtol), max(atol, float_atol)
        self.assertAllClose(a, b, rtol, atol)

    def assertNDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float) -> None:
        """The Euclidean norm of the difference is below err."""
        distance = float(np.linalg.norm(np.asarray(ndarray1) - np.asarray(ndarray2)))
        self.assertTrue(distance < err, f"the arrays are {distance} apart, not less than {err}")

    def assertStartsWith(self, actual: str, expected_start: str, msg: str | None = None) -> None:
        """The text begins so."""
        self.assertTrue(actual.startswith(expected_start), msg or f"{actual!r} does not start with {expected_start!r}")

    def assertDeviceEqual(self, device1: Any, device2: Any) -> None:
        """Two names of one device."""
        one, other = (str(parse("" if device is None else str(device))) for device in (device1, device2))
        self.assertEqual(one, other, f"Devices {device1} and {device2} are not equal")

    def assertProtoEquals(self, expected_message_maybe_ascii: Any, message: Any) -> None:
        """Two messages of one content; the expected one may be text."""
        wanted = expected_message_maybe_ascii
        if isinstance(wanted, (str, bytes)):
            from google.protobuf import text_format
            wanted = text_format.Merge(wanted, type(message)())
        self.assertEqual(wanted, message)

    def assertProtoEqualsVersion(self, expected: str, actual: Any, producer: int | None = None, min_consumer: int | None = None,
                                 ) -> None:
        """The GraphDef is that of the text with these versions, by default those of all graphs that are made here."""
        ours = actual.versions
        producer, min_consumer = (ours.producer if producer is None else producer,
                                  ours.min_consumer if min_consumer is None else min_consumer)
        self.assertProtoEquals(f"versions {{ producer: {producer} min_consumer: {min_consumer} }}\n{expected}", actual)

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(self, exception_type: Any, expected_err_re_or_predicate: Any) -> Iterator[None]:
        """The body raises such an exception, whose text (of errors of the library with that of their operation) matches."""
        with self.assertRaises(exception_type) as caught:
            yield
        wanted, error = expected_err_re_or_predicate, caught.exception
        text = error.message if isinstance(error, errors.Error) else str(error)
        self.assertTrue(wanted(error) if callable(wanted) else re.search(wanted, text), f"{error!r} does not match {wanted!r}")

    def checkedThread(self, target: Callable[..., Any], args: Any = None, kwargs: Any = None) -> _CheckedThread:
        """A thread whose exception fails the test where it is joined."""
        return _CheckedThread(self, target, args or (), kwargs or {})

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:
        """|f1 - f2| <= err."""
        self.assertTrue(f1 == f2 or abs(f1 - f2) <= err, msg or f"{f1} and {f2} differ by more than {err}")

    def assertArrayNear(self, farray1: Any, farray2: Any, err: float, msg: str | None = None) -> None:
        """Arrays of one length whose elements differ by at most err."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for a, b in zip(farray1, farray2):
            self.assertNear(float(a), float(b), err, msg)

    def assertShapeEqual(self, np_array: Any, tf_tensor: Any, msg: str | None = None) -> None:
        """The tensor's static shape is the array's."""
        self.assertEqual(list(np_array.shape), tf_tensor.get_shape().as_list(), msg)

    @contextlib.contextmanager
    def assertRaisesOpError(self, expected_err_re_or_predicate: str | Callable[[BaseException], bool]) -> Iterator[None]:
        """The body raises an error of the library whose text matches."""
        with self.assertRaises(errors.Error) as caught:
            yield
        wanted = expected_err_re_or_predicate
        if callable(wanted):
            self.assertTrue(wanted(caught.exception), str(caught.exception))
        else:
            self.assertRegex(str(caught.exception), wanted)


class _CheckedThread(threading.Thread):
    """A thread that remembers what it raised, for the test that joins it."""

    def __init__(self, case: TestCase, target: Callable[..., Any], args: Any, kwargs: Any) -> None:
        super().__init__(daemon=True)
        self._case, self._call = case, lambda: target(*args, **kwargs)
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            self._call()
        except Exception as error:
            self._error = error

    def join(self, timeout: float | None = None) -> None:
        """Wait for it; the test fails with what it raised."""
        super().join(timeout)
        if self._error is not None:
            self._case.fail(f"Error in checkedThread: {self._error}")


# numerical gradients

def compute_gradient(x: Any, x_shape: Any, y: Any, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3,
                     init_targets: Any = None, extra_feed_dict: Any = None) -> Any:
    """(Jacobian dy/dx by gradients(), the same by differences of ±delta), each [elements of x, elements of y], where a complex
    number is two elements; lists of such pairs for lists of x. In the default session; x starts at `x_init_value`, by default
    at random in 0 … 1."""
    xs = list(x) if isinstance(x, (list, tuple)) else [x]
    shapes = x_shape if isinstance(x, (list, tuple)) else [x_shape]
    starts = x_init_value if isinstance(x_init_value, list) else [x_init_value] * len(xs)
    for target in [init_targets] if init_targets is not None and not isinstance(init_targets, list) else init_targets or []:
        target.run()
    pairs = [_jacobians(one, tuple(shape), y, tuple(y_shape), start, delta, dict(extra_feed_dict or {}))
             for one, shape, start in zip(xs, shapes, starts)]
    return pairs if isinstance(x, (list, tuple)) else pairs[0]


def _jacobians(x: Any, x_shape: Any, y: Any, y_shape: Any, start: Any, delta: float, feeds: Any) -> tuple[Any, Any]:
    session = default_session()
    value = np.asarray(np.random.random_sample(x_shape) if start is None else start).astype(x.dtype.as_numpy_dtype)
    seed = ops.placeholder(y.dtype, y_shape)
    [slope] = gradients(y, [x], grad_ys=seed)
    like = np.zeros(y_shape, y.dtype.as_numpy_dtype)
    count, outputs = _reals(value).size, _reals(like).size
    exact, numeric = (np.zeros((count, outputs), _reals(value).dtype) for _ in range(2))
    for column in range(outputs if slope is not None else 0):
        wanted = like.copy()
        _reals(wanted)[column] = 1
        exact[:, column] = _reals(session.run(convert(slope), {**feeds, x: value, seed: wanted}))
    for row in range(count):
        ends = []
        for sign in (1, -1):
            moved = value.copy()
            _reals(moved)[row] += sign * delta
            ends.append(_reals(np.asarray(session.run(y, {**feeds, x: moved}))))
        numeric[row] = (ends[0] - ends[1]) / (2 * delta)
    return exact, numeric


def _reals(array: Any) -> Any:
    """The elements of an array as a vector of real numbers, two for a complex one; a view where the array lies in order."""
    flat = np.asarray(array, order="C").reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def compute_gradient_error(x: Any, x_shape: Any, y: Any, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3,
                           init_targets: Any = None, extra_feed_dict: Any = None) -> float:
    """The largest difference between the two Jacobians of compute_gradient."""
    found = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict)
    pairs = found if isinstance(found, list) else [found]
    return max((float(np.abs(a - b).max()) for a, b in pairs if a.size), default=0.0)


def get_temp_dir() -> str:
    """A folder for files of tests, one in each process, removed at its end."""
    if not _folders:
        _folders.append(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, _folders[0], ignore_errors=True)
    return _folders[0]


_folders: list[str] = []


def test_src_dir_path(relative_path: str) -> str:
    """The path of a file that a test brings: below the folder TEST_SRCDIR of the environment, else where the test runs."""
    return os.path.abspath(os.path.join(os.environ.get("TEST_SRCDIR", ""), relative_path))


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """Has a session of this process a GPU? Its kind does not matter."""
    return bool(gpu_device_name())


def gpu_device_name() -> str:
    """The first GPU of a session of this process, "" without one."""
    with Session(graph=Graph()) as session:
        return next((name for name in map(str, session.list_devices()) if ":GPU:" in name), "")


class Benchmark:
    """A base of benchmarks: `run_op_benchmark` times a fetch, `report_benchmark` prints what a program timed itself."""

    def run_op_benchmark(self, sess: Any, op_or_tensor: Any, feed_dict: Any = None, burn_iters: int = 2, min_iters: int = 10,
                         name: str | None = None) -> dict[str, Any]:
        """Run it `burn_iters` times, then `min_iters` times by the clock; seconds each took, and their median."""
        for _ in range(burn_iters):
            sess.run(op_or_tensor, feed_dict)
        seconds = []
        for _ in range(min_iters):
            began = time.perf_counter()
            sess.run(op_or_tensor, feed_dict)
            seconds.append(time.perf_counter() - began)
        return self._report({"iters": min_iters, "wall_time": float(np.median(seconds)), "name": name})

    def report_benchmark(self, iters: int | None = None, cpu_time: float | None = None, wall_time: float | None = None,
                         throughput: float | None = None, extras: dict[str, Any] | None = None,
                         name: str | None = None) -> None:
        """Print what a benchmark of the program's own measured: the values that are given, times in seconds."""
        told = {"iters": iters, "cpu_time": cpu_time, "wall_time": wall_time, "throughput": throughput, "extras": extras}
        self._report({**{key: value for key, value in told.items() if value is not None}, "name": name})

    def _report(self, found: dict[str, Any]) -> dict[str, Any]:
        found["name"] = found["name"] or type(self).__name__
        print("entry", found)
        return found


class StubOutForTesting:
    """Replaces attributes for as long as a test runs: `Set` one, `UnsetAll` to have them back."""

    def __init__(self) -> None:
        self._kept: list[tuple[Any, str, Any]] = []

    def Set(self, parent: Any, child_name: str, new_child: Any) -> None:
        """Let parent.child_name be `new_child` until UnsetAll."""
        self._kept.append((parent, child_name, getattr(parent, child_name)))
        setattr(parent, child_name, new_child)

    SmartSet = Set

    def UnsetAll(self) -> None:
        """Put everything back, the last first."""
        while self._kept:
            setattr(*self._kept.pop())

    CleanUp = SmartUnsetAll = UnsetAll

    def __enter__(self) -> StubOutForTesting:
        return self

    def __exit__(self, *details: Any) -> None:
        self.UnsetAll()
