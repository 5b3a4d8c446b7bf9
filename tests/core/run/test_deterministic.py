"""`settings.deterministic`: the same bits with 1, 2 and 4 threads and under other kernels of the libraries, of kernels that
share their work and of training steps."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.core.kernels import threads
from workbench.core.kernels.llvm import Machine
from workbench.core.kernels.onednn_desc import contiguous
from workbench.core.kernels.onednn_format import available, primitive
from workbench.core.kernels.options import KernelOptions, using
from workbench.settings import settings

OTHERS = {"OPENBLAS_CORETYPE": "Prescott", "ONEDNN_MAX_CPU_ISA": "SSE41"}


def digests(count: int, **variables: str) -> dict[str, str]:
    """name -> digest, in a process of `count` threads with some variables of its environment."""
    environment = {**os.environ, "WB_DETERMINISTIC": "1", "WB_THREADS": str(count), **variables}
    done = subprocess.run([sys.executable, "-m", "tests.deterministic"], capture_output=True, text=True, timeout=300,
                          cwd=Path(__file__).parents[3], env=environment)
    assert done.returncode == 0, done.stderr
    return dict(line.rsplit(": ", 1) for line in done.stdout.splitlines())


def audited(*kinds: str, growths: str = "", **variables: str) -> dict[str, str]:
    """What `tests.audited` prints of kinds of numbers, in a deterministic process with some variables of its environment."""
    environment = {**os.environ, "WB_DETERMINISTIC": "1", **variables}
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", "tests.audited", growths, *kinds], capture_output=True,
                          text=True, timeout=1500, cwd=Path(__file__).parents[3], env=environment)
    assert done.returncode == 0, done.stderr
    return dict(line.rsplit(": ", 1) for line in done.stdout.splitlines() if ": " in line)


@pytest.mark.parametrize("kinds", [("float32", "float64"), ("float16", "complex")])
def test_no_operation_depends_on_the_model_of_the_processor(kinds: tuple[str, ...]) -> None:
    """Products, sums of products, convolutions of all kinds, systems of equations and factors: OpenBLAS takes the kernels of
    another family of processors, and there is another number of threads."""
    alone = audited(*kinds, WB_THREADS="1")
    assert {f"{kinds[1]} einsum ij,jk,kl->il", f"{kinds[0]} matmul 3 x 20000 x 2"} < set(alone)
    assert audited(*kinds, WB_THREADS="3", OPENBLAS_CORETYPE="Prescott") == alone


def test_results_have_the_same_bits_whatever_the_number_of_threads() -> None:
    """OpenBLAS goes by the family of the processor, oneDNN by its caches: at last both take other kernels altogether,
    those of oneDNN of another instruction set, by which means of pools are rounded otherwise."""
    alone = digests(1)
    assert {"half a square", "convolution 14, 32 to 64", "softmax", "dense", "lenet", "mlp", "lstm"} < set(alone)
    assert "not finite" not in alone.values()
    for count, others in ((2, {}), (4, OTHERS)):
        found = digests(count, **others)
        if others:
            found["avg_pool"] = alone["avg_pool"]
        assert found == alone, f"{count} threads, {others}"


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_current", [2])


@pytest.mark.skipif(not available(), reason="oneDNN is not installed")
@pytest.mark.usefixtures("two_threads")
def test_products_work_on_one_thread_where_sessions_are_deterministic_and_on_all_else() -> None:
    square = contiguous((512, 512), (0, 1))
    for deterministic, count in ((True, 1), (False, 2)):
        with using(KernelOptions(deterministic=deterministic)):
            made = primitive("matmul", square, square, None, square)
            assert made is not None and made.threads == count


@pytest.mark.usefixtures("two_threads")
def test_blas_works_on_one_thread_where_the_process_is_deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int] = []
    monkeypatch.setattr(threads, "_limit_blas", limits.append)
    monkeypatch.setattr(threads, "_adopted", type(threads._adopted)())
    for deterministic in (False, True, False):
        monkeypatch.setattr(settings, "deterministic", deterministic)
        threads.adopt_threads()
        threads.adopt_threads()
    assert limits == [2, 1, 2]


def test_compiled_loops_do_not_depend_on_the_model_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """One model of an instruction set has half the vectors of another, and a sum as many parts fewer."""
    binding = pytest.importorskip("llvmlite.binding")
    for deterministic in (True, False):
        monkeypatch.setattr(settings, "deterministic", deterministic)
        keys = set()
        for model in ("skylake-avx512", "znver4"):
            monkeypatch.setattr(binding, "get_host_cpu_name", lambda model=model: model)
            keys.add(Machine().identity)
        assert len(keys) == (1 if deterministic else 2)
