"""TestCase: unittest with comparisons of arrays and a session at hand, by the names of TensorFlow's test module."""
from __future__ import annotations

import contextlib
import shutil
import tempfile
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.graph import Graph, get_default_graph, reset_default_graph
from workbench.core.run.session import Session

__all__ = ["TestCase", "main"]

main = unittest.main


class TestCase(unittest.TestCase):
    """A test case that begins with an empty default graph."""

    _folder: str | None = None      # here, so that tests whose setUp does not call ours find it

    def setUp(self) -> None:
        super().setUp()
        reset_default_graph()

    def tearDown(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder)
        super().tearDown()

    def get_temp_dir(self) -> str:
        """A folder of this test alone, removed at its end."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp()
        return self._folder

    @contextlib.contextmanager
    def test_session(self, graph: Graph | None = None, config: Any = None, use_gpu: bool = False,
                     force_gpu: bool = False) -> Iterator[Session]:
        """A session on `graph` (default: the default graph), both defaults within; with `use_gpu` on a GPU where there is
        one. With `force_gpu` InvalidArgumentError where there is none."""
        if force_gpu and not any(":GPU:" in device for device in Session(graph=Graph(), config=config).list_devices()):
            raise errors.InvalidArgumentError("test_session: force_gpu is True but there is no GPU device; leave it out")
        chosen = graph or get_default_graph()
        with Session(graph=chosen, config=config) as session, chosen.as_default():
            yield session

    session = cached_session = test_session
    test_session.__test__ = False      # type: ignore[attr-defined]

    def evaluate(self, tensors: Any) -> Any:
        """The values of tensors, in the default session."""
        from workbench.core.graph.graph import default_session
        return default_session().run(tensors)

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:
        """a and b have one shape and |a - b| <= atol + rtol · |b|; also within equal lists, tuples and dictionaries."""
        if isinstance(a, dict) and isinstance(b, dict):
            self.assertEqual(sorted(a), sorted(b), msg)
            for key in a:
                self.assertAllClose(a[key], b[key], rtol, atol, msg)
            return
        np.testing.assert_allclose(self._array(a), self._array(b), rtol, atol, err_msg=msg or "")

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """a and b have one shape and the same values."""
        np.testing.assert_array_equal(self._array(a), self._array(b), err_msg=msg or "", strict=False)
        self.assertEqual(self._array(a).shape, self._array(b).shape, msg)

    def _array(self, value: Any) -> Any:
        if hasattr(value, "__tensor__") or hasattr(value, "consumers"):
            value = self.evaluate(value)
        return np.asarray(value)

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
