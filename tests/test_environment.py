"""What numeric libraries read when they load is set before they do, and OpenBLAS is told where NumPy came first."""
from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench import environment
from workbench.core.kernels.openmp import runtime
from workbench.heap import DASK_TRIMS

AVX512 = "flags\t\t: fpu avx2 avx512f avx512bw avx512cd avx512dq avx512vl\n"
LOOKS = """
import {first}
import {second}
from threadpoolctl import ThreadpoolController
for found in ThreadpoolController().select(internal_api="openblas").lib_controllers:
    print("OpenBLAS")
    if hasattr(found.dynlib, "openblas_thread_timeout"):
        print(found.dynlib.openblas_thread_timeout())
import numpy
numpy.ones((500, 500)) @ numpy.ones((500, 500))
"""

LOADS = """
import {first}, ctypes
ctypes.CDLL("libgomp.so.1")
from workbench.environment import limit_spinning, spins_long
print(spins_long())
limit_spinning()
print(spins_long())
"""

KEEPS = """
import resource, workbench, numpy
def step():
    return [numpy.ones(12_500) for _ in range(100)]
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


@pytest.mark.once
def test_the_blas_core_type_is_set_only_where_it_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepared(cpuinfo: Path, core: str = "") -> tuple[bool, str | None]:
        """What a process makes of its environment before it loads NumPy."""
        with monkeypatch.context() as fresh:
            fresh.delitem(sys.modules, "numpy")
            fresh.setenv("OPENBLAS_CORETYPE", core)      # what it was comes back, also where that is nothing
            if not core:
                fresh.delenv("OPENBLAS_CORETYPE")
            return environment.prepare_environment(cpuinfo), os.environ.get("OPENBLAS_CORETYPE")
    modern, old = tmp_path / "modern", tmp_path / "old"
    modern.write_text(AVX512)
    old.write_text("flags\t\t: fpu avx2\n")
    assert prepared(modern) == (True, "SkylakeX")
    assert prepared(modern, "Zen") == (False, "Zen")
    assert prepared(old) == (False, None)
    assert prepared(tmp_path / "absent") == (False, None)


def test_too_late_once_numpy_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy  # noqa: F401
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    modern = tmp_path / "modern"
    modern.write_text(AVX512)
    assert not environment.prepare_environment(modern)
    assert "OPENBLAS_CORETYPE" not in os.environ


@pytest.mark.once
@pytest.mark.parametrize(("first", "second"), [("workbench", "numpy"), ("numpy", "workbench")])
@pytest.mark.parametrize("asked", [None, "10"])
def test_blas_threads_stop_looking_for_work_soon(asked: str | None, first: str, second: str) -> None:
    """By default a thread of OpenBLAS takes a core for 30 ms after each product, from oneDNN's threads as well; what the user
    asks for holds. Whoever is imported first, the library itself has read it."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    done = subprocess.run([sys.executable, "-c", LOOKS.format(first=first, second=second)],
                          env={**variables, **({"OPENBLAS_THREAD_TIMEOUT": asked} if asked else {})}, text=True,
                          check=True, capture_output=True, timeout=120)
    if not done.stdout:
        pytest.skip("NumPy has another BLAS")
    assert set(done.stdout.split()) == {"OpenBLAS", asked or environment.BLAS_SPINS}


@pytest.mark.once
@pytest.mark.skipif(not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "mallopt"), reason="no glibc")
@pytest.mark.parametrize("said, kept", [({}, True), ({"MALLOC_TRIM_THRESHOLD_": DASK_TRIMS}, True),
                                        ({"MALLOC_TRIM_THRESHOLD_": "131072"}, False)], ids=["nothing", "Dask", "the user"])
def test_what_a_step_frees_serves_the_next_one(said: dict[str, str], kept: bool) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run([sys.executable, "-c", KEEPS], env={**variables, **said}, text=True, check=True, capture_output=True,
                          timeout=120)
    pages = 10 * 100 * 100_000 // os.sysconf("SC_PAGE_SIZE")
    assert (int(done.stdout) < pages // 20) == kept, (int(done.stdout), pages)


def test_waiting_threads_may_not_hold_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert not environment.limit_spinning() and "GOMP_SPINCOUNT" not in os.environ
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert environment.limit_spinning() and os.environ["GOMP_SPINCOUNT"] == environment.SPINS
    assert not environment.limit_spinning()


@pytest.mark.once
@pytest.mark.parametrize(("first", "said", "long"), [
    ("workbench", {}, False), ("ctypes", {}, True), ("ctypes", {"GOMP_SPINCOUNT": "1000"}, False),
    ("ctypes", {"OMP_WAIT_POLICY": "passive"}, False)])
def test_a_runtime_that_was_loaded_before_did_not_hear_of_it(first: str, said: dict[str, str], long: bool) -> None:
    """How often its threads look for work is read when it loads: torch brings it under the same name."""
    if not runtime():
        pytest.skip("no GNU OpenMP runtime")
    variables = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", LOADS.format(first=first)], env={**variables, **said}, text=True, check=True,
                          capture_output=True, timeout=120)
    assert done.stdout.split() == [str(long)] * 2
