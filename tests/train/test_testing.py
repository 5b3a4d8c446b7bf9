"""TestCase: what its comparisons accept and refuse, and its sessions."""
from __future__ import annotations

import os
import shutil
import unittest

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.train import testing
from workbench.train.config import ConfigProto
from workbench.train.testing import TestCase


class Sums(TestCase):
    """A test case as users write it; run below."""

    __test__ = False

    def runTest(self):
        self.assertEqual(wb.get_default_graph().operations, [])
        x = wb.constant([1.0, 2.0])
        with self.test_session() as session:
            self.assertIs(wb.get_default_session(), session)
            self.assertAllClose(x + 1.0, [2.0, 3.0])
            self.assertAllClose({"a": x}, {"a": [1.0, 2.0 + 1e-7]})
            self.assertAllEqual((x * 2.0).eval(), [2, 4])
            self.assertShapeEqual(np.zeros(2), x)
            self.assertNear(self.evaluate(wb.reduce_sum(x)), 3.01, 0.1)
            self.assertArrayNear([1.0, 2.0], [1.01, 2.0], 0.1)
            with self.assertRaisesOpError("shape"):
                session.run(x, {x: [1.0]})
            with self.assertRaisesOpError(lambda error: isinstance(error, errors.ShapeError)):
                session.run(x, {x: [1.0]})
        self.folder = self.get_temp_dir()
        assert os.path.isdir(self.folder) and self.get_temp_dir() == self.folder


class Absent(TestCase):
    """A graph for a device that no machine has."""

    __test__ = False

    def runTest(self):
        for graph in (None, wb.Graph()):
            with self.test_session(graph=graph), wb.device("/gpu:77"):
                self.assertAllEqual(wb.constant(2.0) + 1.0, 3.0)
        with self.test_session(config=ConfigProto(), graph=wb.Graph()), wb.device("/gpu:77"):
            self.assertRaises(errors.PlacementError, (wb.constant(2.0) + 1.0).eval)


def test_sessions_of_a_case_take_another_device_for_one_that_is_not_there():
    """As TensorFlow's: a model for GPUs is tested without one."""
    result = unittest.TestResult()
    Absent().run(result)
    assert not result.errors and not result.failures, result


def test_a_case_runs_and_cleans_up():
    case, result = Sums(), unittest.TestResult()
    case.run(result)
    assert result.wasSuccessful(), result
    assert not os.path.exists(case.folder)


@pytest.mark.parametrize("check", [
    lambda case: case.assertAllClose([1.0], [1.1]), lambda case: case.assertAllClose({"a": 1}, {"b": 1}),
    lambda case: case.assertAllEqual([1, 1], [1]), lambda case: case.assertAllEqual(1, [1]),
    lambda case: case.assertNear(1, 2, 0.5), lambda case: case.assertArrayNear([1], [1, 1], 1),
    lambda case: case.assertShapeEqual(np.zeros(2), wb.constant([1]))])
def test_differences_are_found(check):
    with pytest.raises(AssertionError):
        check(Sums())


def test_a_case_whose_set_up_replaces_ours_still_ends_cleanly():
    class Case(TestCase):
        def setUp(self):
            self.value = 1

        def test(self):
            self.assertEqual(self.value, 1)

    found = unittest.TestResult()
    Case("test").run(found)
    assert found.wasSuccessful(), found.errors


def test_a_test_may_remove_its_folder_itself():
    class Case(TestCase):
        def test(self):
            self.addCleanup(shutil.rmtree, self.get_temp_dir())

    found = unittest.TestResult()
    case = Case("test")
    case.run(found)
    assert found.wasSuccessful() and not os.path.exists(case.get_temp_dir()), found.errors


def test_files_that_a_test_brings_lie_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("TEST_SRCDIR", str(tmp_path))
    assert testing.test_src_dir_path("data/words.txt") == str(tmp_path / "data" / "words.txt")
    monkeypatch.delenv("TEST_SRCDIR")
    monkeypatch.chdir(tmp_path)
    assert testing.test_src_dir_path("words.txt") == str(tmp_path / "words.txt")


def test_tests_of_both_modes_run_once_in_a_session_of_their_case():
    from workbench.tf1.contrib.eager.python import tfe

    import workbench.tf1 as tf

    seen = []

    @tfe.run_all_tests_in_graph_and_eager_modes
    class All(tf.test.TestCase):
        __test__ = False

        def test_one(self):
            seen.append(float(self.evaluate(tf.constant(1.0) + 1.0)))

    class Some(tf.test.TestCase):
        __test__ = False

        @tfe.run_test_in_graph_and_eager_modes()
        def test_two(self):
            seen.append(float(self.evaluate(tf.constant(3.0))))
    for case in (All("test_one"), Some("test_two")):
        result = unittest.TestResult()
        case.run(result)
        assert result.wasSuccessful(), result.errors
    assert seen == [2.0, 3.0] and not tfe.in_eager_mode()
