"""Where another package loaded the OpenMP runtime first, our kernels have one of their own, whose threads soon sleep."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.core.kernels import openmp
from workbench.core.kernels.onednn_api import find
from workbench.environment import SPINS

pytestmark = [
    pytest.mark.once, pytest.mark.skipif(openmp.runtime() is None, reason="no GNU OpenMP here"),
    pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no files in memory here")]

FIRST = """
import ctypes, sys
other = ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)      # as torch loads its own
other.omp_set_num_threads(7)
"""
LOADS = """
import numpy as np
import workbench as wb
from workbench.core.kernels import onednn_api, openmp
def address(function):
    return ctypes.cast(function, ctypes.c_void_p).value
shared, ours = address(ctypes.CDLL("libgomp.so.1").omp_set_num_threads), address(openmp.runtime().library.omp_set_num_threads)
library = onednn_api.load()
assert library is None or address(library.openmp) == ours
x = np.random.default_rng(0).random((300, 784), np.float32)
with wb.Session() as session:
    got = session.run(wb.nn.relu(wb.matmul(x, x.T) - 190.0))
assert np.allclose(got, np.maximum(x @ x.T - 190, 0), atol=1e-2)
print("own" if ours != shared else "shared", openmp.runtime().library.omp_get_max_threads() == 7)
"""
FORKS = """
import os
pid = os.fork()
if not pid:
    with wb.Session() as session:
        assert np.allclose(session.run(wb.matmul(x, x.T)), x @ x.T, rtol=1e-4)
    os._exit(0)
print(os.waitpid(pid, 0)[1])
"""


def told(program: str, **said: str) -> tuple[str, str]:
    """What a process of its own prints, and its errors: what each OpenMP runtime that loads goes by among them."""
    variables = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120,
                          env={**variables, "OMP_DISPLAY_ENV": "VERBOSE", **said})
    return done.stdout.strip(), done.stderr


def spins(errors: str) -> list[str]:
    return [line.partition("'")[2].rstrip("'") for line in errors.splitlines() if "GOMP_SPINCOUNT" in line]


def test_kernels_have_a_runtime_of_their_own_where_another_package_came_first() -> None:
    printed, errors = told(FIRST + LOADS)
    assert printed == "own False"      # what the other package sets is not ours either
    unbounded, bounded = spins(errors)
    assert bounded == SPINS != unbounded


@pytest.mark.parametrize("said", [{"GOMP_SPINCOUNT": "1000"}, {"OMP_WAIT_POLICY": "passive"}])
def test_they_share_the_one_whose_user_said_how_it_waits(said: dict[str, str]) -> None:
    printed, errors = told(FIRST + LOADS, **said)
    assert printed.startswith("shared") and len(spins(errors)) == 1


def test_they_share_the_one_that_they_bounded_themselves() -> None:
    printed, errors = told("import workbench" + FIRST + LOADS)
    assert printed.startswith("shared") and spins(errors) == [SPINS]


def test_who_forked_computes_with_a_runtime_of_its_own() -> None:
    printed, _ = told(FIRST + LOADS + FORKS)
    assert printed.split()[-1] == "0"


REFUSED = """
import errno, os
def refused(name):
    raise OSError(errno.ENOSYS, "Function not implemented")
os.memfd_create = refused
"""


@pytest.mark.parametrize("before", [REFUSED, "import os\ndel os.memfd_create"], ids=["refused", "absent"])
def test_where_there_can_be_no_other_they_share_it_and_say_what_that_costs(before: str) -> None:
    printed, errors = told(before + FIRST + LOADS)
    assert printed.startswith("shared")
    assert all(word in errors for word in ("OpenMP", "Import workbench first", f"GOMP_SPINCOUNT={SPINS}"))


def test_a_library_for_another_runtime_is_loaded_as_it_is() -> None:
    other = "import _ctypes, pathlib\nprint(bool(openmp.load_with_runtime(pathlib.Path(_ctypes.__file__)).PyInit__ctypes))"
    assert told(FIRST + LOADS + other)[0].split() == ["own", "False", "True"]


@pytest.mark.skipif(find() is None, reason="needs oneDNN")
def test_another_name_fits_into_the_library() -> None:
    assert len(openmp.NAME) == len(openmp.OWN_NAME)
    assert Path(find() or "").read_bytes().count(openmp.NAME.encode() + b"\0") == 1
