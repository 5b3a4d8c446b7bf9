"""`python -m workbench.tf1 run`: what Python and NumPy had when programs of TensorFlow 1.x were written."""
from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

HELPER = """
import numpy as np
import own_six as _six
def steps(a):
    return int(a) + int("3") + int("11", base=2)
def ragged(a):
    return np.array(a)
def waiting(a, async=False, **more):  # \u00e4
    more["b"] = "async"; self = more.get("self", more); return async, more, {"async": 1}["async"]
def pairs(d):
    return sorted(d.iteritems()) + sorted(_six.iteritems(d))
"""
SCRIPT = """
from __future__ import print_function
import collections, fractions, inspect, sys, time, unittest
import numpy as np
import tensorflow as tf
from tensorflow.python.ops import rnn_cell_impl
import helper
def f(a, b=2, *c, **d): pass
assert inspect.getargspec(f) == (["a", "b"], "c", "d", (2,)) and inspect.getargspec(f).defaults == (2,)
assert np.zeros(2, np.int).dtype == np.int64 and np.float is float and np.object is object
assert rnn_cell_impl.GRUCell is tf.nn.rnn_cell.GRUCell
assert sys.modules["tensorflow.python"] is tf.python and tf.python.__name__ == "workbench.tf1.python"
assert np.asscalar(np.float32(1.5)) == 1.5 and np.product([2, 3]) == 6
assert 1 <= np.random.random_integers(3) <= 3 and 7 == np.random.random_integers(7, 7)
assert type(np.meshgrid([1, 2], [3])) is list
stored, parts = np.zeros(3, np.float32), {}
stored[0] = np.array([2.5])
stored[1] += np.array([[1.5]])
stored[2:], parts["a"] = np.ones(1), np.ones(1)
assert stored.tolist() == [2.5, 1.5, 1.0] and parts["a"].shape == (1,)
try:
    stored[0] = np.ones(2)
except ValueError:
    pass
else:
    raise SystemExit("two numbers stood in one element")
assert np.vstack(x for x in [[1], [2]]).shape == np.reshape([1, 2], newshape=[2, 1]).shape
rows = [np.array([[1, 2], [3]]), np.asarray([np.zeros(2), np.ones(3)]), helper.ragged(["a", ["b"]])]
assert [(r.dtype, r.shape) for r in rows] == [(object, (2,))] * 3 and rows[0].tolist() == [[1, 2], [3]]
assert np.array([[1, 2], [3, 4]]).dtype == np.int64 and np.array([1, 2], np.float32).dtype == np.float32
try:
    np.array([[1, 2], [3]], dtype=np.float32)
except ValueError as error:
    assert "sequence" in str(error)
assert np.issubdtype(np.float32, np.float) and np.issubdtype(rows[1][0].dtype, float) and np.issubdtype(np.int32, np.int)
assert not np.issubdtype(np.int32, float) and np.issubdtype(np.uint8, np.integer) and not np.issubdtype("f4", np.float64)
whole = [slice(None)] * 2
whole[1] = slice(0, 1)
part = np.arange(6).reshape(2, 3)
assert part[whole].tolist() == [[0], [3]] and part[[0]].tolist() == [[0, 1, 2]] and part[[slice(None)] + [1]].tolist() == [1, 4]
part[whole] += 10
assert part.tolist() == [[10, 1, 2], [13, 4, 5]] and {"a": 1}["".join(["a"])] == 1
assert helper.waiting(1, async=2) == (2, {"b": "async"}, 1) == helper.waiting(1, **{"async": 2})
assert np.percentile([1.0, 2.0, 4.0], 40, interpolation="higher") == 2.0 and np.percentile([1, 2], 50) == 1.5
assert issubclass(dict, collections.Mapping) and fractions.gcd(6, 4) == 2 and time.clock() >= 0
with tf.Session() as session:
    one = session.run(tf.constant([4]))
    print(int(one), float(one), helper.steps(one), helper.pairs({1: 2}), one.tostring() == one.tobytes())
    print([session.run(tf.constant(0.5))], np.array([0.5, -1.]))
class Case(tf.test.TestCase):
    def test(self):
        self.assertItemsEqual([1, 2], [2, 1])
assert unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(Case)).wasSuccessful()
class Kept(object):
    a = 1
import __main__
assert __name__ == "__main__" and __main__.Kept is Kept and __file__.endswith("program.py")
raise SystemExit(helper.steps(one))
"""


def test_a_program_of_then_runs_as_it_stands(tmp_path):
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "own_six.py").write_text("def iteritems(d):\n    return d.items()\n")
    (tmp_path / "program.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "-m", "workbench.tf1", "run", str(tmp_path / "program.py")], capture_output=True,
                          text=True, check=False)
    assert done.stdout == "4 4.0 10 [(1, 2), (1, 2)] True\n[0.5] [ 0.5 -1. ]\n", done.stderr
    assert done.returncode == 10 and "OK" in done.stderr
    assert not list(tmp_path.rglob("*.pyc"))      # what was read as it was then is not kept for others


def test_an_error_names_the_line_of_the_program(tmp_path):
    (tmp_path / "program.py").write_text("import tensorflow as tf\nint([1,\n     2])\n")
    done = subprocess.run([sys.executable, "-m", "workbench.tf1", "run", str(tmp_path / "program.py")], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 1 and 'program.py", line 2, in <module>' in done.stderr and "TypeError" in done.stderr


@pytest.mark.parametrize("gone", ["int", "asscalar", "product"])
def test_who_only_imports_the_language_has_numpy_as_it_is(gone):
    import workbench.tf1  # noqa: F401
    assert not hasattr(np, gone)
