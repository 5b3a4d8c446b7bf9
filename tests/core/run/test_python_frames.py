"""Looking at all threads' frames while they come and go and the collector runs finalizers: nobody waits for ever."""
from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.cluster.chief.server import Server
from workbench.cluster.task.host import WorkbenchWorker
from workbench.core.run.python_frames import current_frames

COME_AND_GO = """
import faulthandler, gc, sys, threading, time
faulthandler.dump_traceback_later(60, exit=True)
if {guarded}:
    from workbench.core.run.python_frames import guard_profilers
    guard_profilers()

class Slow:
    def __del__(self):
        time.sleep(0.002)

def come_and_go():
    while not over:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

over = []
thread = threading.Thread(target=come_and_go)
thread.start()
gc.set_threshold(1)
for _ in range(200):
    circle = Slow()
    circle.itself = circle
    del circle
    assert threading.get_ident() in sys._current_frames()
assert gc.isenabled()
over.append(True)
thread.join()
print("done")
"""


def run(guarded: bool, seconds: float) -> str:
    return subprocess.run([sys.executable, "-c", COME_AND_GO.format(guarded=guarded)], capture_output=True, text=True,
                          timeout=seconds).stdout


def test_threads_start_and_end_while_all_frames_are_looked_at():
    assert run(True, 100) == "done\n"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the interpreter's own look is safe from 3.12 on")
def test_without_the_guard_python_3_11_stands_still():
    """When this fails the interpreter was mended and the guard can go."""
    with pytest.raises(subprocess.TimeoutExpired):
        run(False, 5)


def test_a_worker_that_hosts_tasks_has_the_guard(monkeypatch: pytest.MonkeyPatch):
    worker = SimpleNamespace(handlers={}, loop=SimpleNamespace(asyncio_loop=None))
    monkeypatch.setattr(sys, "_current_frames", None)
    WorkbenchWorker().setup(worker)
    assert sys._current_frames is current_frames


def test_a_process_that_drives_tasks_has_the_guard(monkeypatch: pytest.MonkeyPatch):
    """It may hold a scheduler, as a notebook with a LocalCluster does, whose loop Dask looks at 100 times a second."""
    monkeypatch.setattr(sys, "_current_frames", None)
    with pytest.raises(errors.UnavailableError):
        Cluster("tcp://127.0.0.1:1", connect_timeout=0.2)
    assert sys._current_frames is current_frames


def test_a_process_that_is_a_task_has_the_guard(monkeypatch: pytest.MonkeyPatch):
    """Dask may have started it: a task of Dask's that is a parameter server runs in a worker with a profiler."""
    monkeypatch.setattr(sys, "_current_frames", None)
    Server.create_local_server().close()
    assert sys._current_frames is current_frames
