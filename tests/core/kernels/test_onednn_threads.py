"""One number governs every compute library; the environment is prepared only where that helps."""
from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import threadpoolctl

from workbench.core.kernels import threads
from workbench.errors import InvalidArgumentError
from workbench.settings import settings

AVX512 = "flags\t\t: fpu avx2 avx512f avx512bw avx512cd avx512dq avx512vl\n"


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    before = settings.threads
    yield
    settings.threads = before
    threads.set_threads(0)
    threads._current.clear()


def pools() -> dict[str, int]:
    return {pool["user_api"]: pool["num_threads"] for pool in threadpoolctl.threadpool_info()}


def test_one_setting_reaches_blas_openmp_and_numba() -> None:
    import numba
    assert threads.set_threads(1) == 1 == threads.get_threads()
    assert pools()["blas"] == 1 and pools()["openmp"] == 1
    assert numba.get_num_threads() == 1


def test_zero_follows_the_settings() -> None:
    settings.threads = 1
    assert threads.set_threads(0) == 1
    settings.threads = 0
    assert threads.set_threads(0) == threads._cores()


@pytest.mark.parametrize("asked, wanted", [("1", 1), ("1,4", 1), ("4096", None), ("", None), ("all", None)])
def test_openmp_s_own_variable_is_an_upper_bound(asked: str, wanted: int | None,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    threads._cores.cache_clear()
    try:
        assert threads._cores() == (wanted or len(os.sched_getaffinity(0)))
    finally:
        threads._cores.cache_clear()


def test_a_new_thread_adopts_the_number() -> None:
    threads.set_threads(1)
    seen: list[int] = []

    def work() -> None:
        threads.adopt_threads()
        seen.append(pools()["openmp"])
    worker = threading.Thread(target=work)
    worker.start()
    worker.join(30)
    assert seen == [1]


def test_negative_number_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="set_threads: threads is -1, expected 0 or more; 0 means"):
        threads.set_threads(-1)


def prepared(cpuinfo: Path, **environment: str) -> str:
    """What a fresh interpreter makes of the environment."""
    code = ("import sys, os; from pathlib import Path; sys.modules.pop('numpy', None)\n"
            "from workbench.core.kernels import threads\n"
            f"sys.modules.pop('numpy', None); os.environ.pop('OPENBLAS_CORETYPE') if {not environment} and "
            "'OPENBLAS_CORETYPE' in os.environ else None      # importing workbench has prepared this process already\n"
            f"print(threads.prepare_environment(Path({str(cpuinfo)!r})), os.environ.get('OPENBLAS_CORETYPE'))")
    kept = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    return subprocess.run([sys.executable, "-c", code], env={**kept, **environment}, text=True, check=True,
                          capture_output=True, timeout=60).stdout.strip()


def test_the_blas_core_type_is_set_only_where_it_helps(tmp_path: Path) -> None:
    modern, old = tmp_path / "modern", tmp_path / "old"
    modern.write_text(AVX512)
    old.write_text("flags\t\t: fpu avx2\n")
    assert prepared(modern) == "True SkylakeX"
    assert prepared(modern, OPENBLAS_CORETYPE="Zen") == "False Zen"
    assert prepared(old) == "False None"
    assert prepared(tmp_path / "absent") == "False None"


def test_too_late_once_numpy_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy  # noqa: F401
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    modern = tmp_path / "modern"
    modern.write_text(AVX512)
    assert not threads.prepare_environment(modern)
    assert "OPENBLAS_CORETYPE" not in os.environ
