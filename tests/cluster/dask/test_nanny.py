"""Scripts without a main guard: their cluster's processes must not run them again, at the start and after a restart."""
from __future__ import annotations

import atexit
import logging
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cloudpickle
import psutil
import pytest

import workbench.cluster.dask.nanny as nanny
from workbench.cluster.dask.launch import embedded

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.cluster

SCRIPT = '''
import os, signal
print("begins")
import workbench as wb

cluster = wb.Cluster(None, ps=1, worker=1)
with wb.device("/job:ps/task:0"):
    v = wb.Variable([1.0, 2.0])
with wb.device("/job:worker/task:0"):
    y = v.read_value() * 2.0
session = wb.Session(cluster)
session.run(wb.global_variables_initializer())
print(*session.run(y), os.path.basename(__file__))
{then}
print("ends")
'''
RESTART = '''
def workers():
    return set(cluster.client.sync(cluster.client.scheduler.identity, n_workers=-1)["workers"])
before = workers()
os.kill(cluster.pids["/job:worker/task:0"], signal.SIGKILL)
while not workers() - before:
    pass
cluster.close()
'''

LOADED = '''
import os
import psutil
import workbench as wb

def seen():
    from workbench.settings import settings
    parent = psutil.Process().parent()
    return {parent.pid: "alone", parent.parent().pid: f"forked by a process of {parent.num_threads()}"}, settings.threads

for threads in ("3", "4"):
    os.environ["WB_THREADS"] = threads
    with wb.Cluster(None, ps=1, worker=1) as cluster:
        for parents, found in cluster.client.run(seen).values():
            print(parents[os.getpid()], found)
'''


def test_workers_have_the_environment_of_their_start(tmp_path: Path) -> None:
    """Those of the first cluster are forked by a process of one thread that has loaded all; it does not know of changes."""
    script = tmp_path / "loaded.py"
    script.write_text(LOADED)
    done = subprocess.run([sys.executable, script], cwd=ROOT, env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
                          capture_output=True, text=True, timeout=150)
    assert done.stdout.splitlines() == 2 * ["forked by a process of 1 3"] + 2 * ["alone 4"], done.stderr


@pytest.mark.parametrize("then", ["", RESTART], ids=["start", "restart"])
def test_a_script_without_a_guard_runs_once(tmp_path: Path, then: str) -> None:
    script = tmp_path / "plain.py"
    script.write_text(SCRIPT.format(then=then))
    done = subprocess.run([sys.executable, script], cwd=ROOT, env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
                          capture_output=True, text=True, timeout=150)
    assert done.stdout.split("\n") == ["begins", "2.0 4.0 plain.py", "ends", ""], done.stderr
    assert done.returncode == 0
    assert "bootstrapping" not in done.stderr


def test_the_main_module_is_only_hidden_while_a_process_starts() -> None:
    main = sys.modules["__main__"]
    with nanny._without_script(), nanny._without_script():
        shown = sys.modules["__main__"]
        assert shown is not main and shown.__spec__ is None and not hasattr(shown, "__file__")
        assert {name for name in vars(main) if not name.startswith("__")} <= {n for n in dir(main) if hasattr(shown, n)}
    assert sys.modules["__main__"] is main


def test_what_other_threads_pickle_meanwhile_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions and classes of a notebook live in the main module, and Dask sends them from its threads."""
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "offset", 5, raising=False)
    for name in ("shifted", "Box"):
        monkeypatch.setattr(main, name, None, raising=False)
    exec("def shifted(x):\n    return x + offset\nclass Box:\n    pass\n", vars(main))
    plain = cloudpickle.dumps([main.shifted, main.Box])
    with nanny._without_script(), ThreadPoolExecutor(1) as other:
        assert other.submit(cloudpickle.dumps, [main.shifted, main.Box]).result() == plain
        assert other.submit(lambda: cloudpickle.loads(plain)[0](2)).result() == 7
        by_name = other.submit(lambda: pickle.loads(pickle.dumps([main.shifted, main.Box]))).result()
    assert by_name == [main.shifted, main.Box]


def _needs_long_to_end() -> None:
    atexit.register(threading.Event().wait, 6.0)


def test_a_worker_that_needs_long_to_end_is_nothing_to_warn_of(caplog: pytest.LogCaptureFixture) -> None:
    """On a loaded machine each of them does; Dask would kill it after 4 s and say so in the notebook."""
    client, cluster = embedded(1, None)
    client.run(_needs_long_to_end)
    [process] = [psutil.Process(nanny.pid) for nanny in cluster.workers.values()]
    with caplog.at_level(logging.WARNING):
        client.close()
        cluster.close()
    assert "still alive" not in caplog.text and not process.is_running()
