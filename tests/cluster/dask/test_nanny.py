"""Scripts without a main guard: their cluster's processes must not run them again, at the start and after a restart."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import workbench.cluster.dask.nanny as nanny

ROOT = Path(__file__).resolve().parents[3]
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(200)]

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
before = set(cluster.client.scheduler_info(n_workers=-1)["workers"])
os.kill(cluster.pids["/job:worker/task:0"], signal.SIGKILL)
while len(set(cluster.client.scheduler_info(n_workers=-1)["workers"]) - before) < 1:
    pass
cluster.close()
'''


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
