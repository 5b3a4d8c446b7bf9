"""What a process without a CUDA device, or without CuPy, says and does; and events, which need neither."""
from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.device import cuda
from workbench.core.device.interface import make_device, missing
from workbench.core.run.session import Session
from workbench.train.config import ConfigProto

pytestmark = pytest.mark.usefixtures("graph")
NAME = "/job:localhost/task:0/device:GPU:0"


@pytest.fixture(params=[("no driver", "there is no CUDA device: the driver has none"),
                        ("no CuPy", "CuPy is not installed; pip install 'workbench[gpu]'")], ids=lambda pair: pair[0])
def lacking(request, monkeypatch):
    monkeypatch.setattr(cuda, "_driver", lambda: (0, "the driver has none") if request.param[0] == "no driver" else (2, ""))
    monkeypatch.setattr(cuda, "_has_cupy", lambda: False)
    return request.param[1]


def test_what_is_missing_is_said_where_a_gpu_is_asked_for(lacking):
    assert missing("GPU") == lacking
    with pytest.raises(errors.NotFoundError) as error:
        make_device(NAME)
    assert str(error.value) == f"device: {NAME!r} is of type GPU but {lacking}"
    with wb.device("/gpu:0"):
        y = wb.exp(wb.placeholder("float32", [2], name="x"), name="y")
    with Session(config=ConfigProto(device_count={"GPU": 1})) as s:
        assert [str(d) for d in s.list_devices()] == ["/job:localhost/task:0/device:CPU:0"]
        with pytest.raises(errors.PlacementError) as error:
            s.run(y, {"x:0": [0.0, 1.0]})
    assert f"allow_soft_placement=True) (GPU: {lacking})" in str(error.value)


def test_with_soft_placement_the_cpu_serves(lacking):
    with wb.device("/gpu:0"):
        y = wb.exp(wb.placeholder("float32", [2], name="x"))
    with Session(config=ConfigProto(device_count={"GPU": 1}, allow_soft_placement=True)) as s:
        assert s.run(y, {"x:0": [0.0, 0.0]}).tolist() == [1.0, 1.0]


def test_a_type_that_nobody_registered():
    assert missing("TPU").startswith("this process knows CPU, GPU") and missing("CPU") == ""


def test_cupy_is_not_loaded_by_workbench_nor_by_a_session_on_the_cpu():
    program = ("import sys\nimport workbench as wb\nwith wb.Session() as s:\n    s.run(wb.exp(wb.constant([1.0])))\n"
               "print('cupy' in sys.modules, 'workbench.core.kernels.cuda' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["False", "False"], done.stderr


# events

class Mark:
    """An event of CUDA that comes when the test says so."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.come, self.error = threading.Event(), error

    def synchronize(self) -> None:
        assert self.come.wait(30)
        if self.error is not None:
            raise self.error


@pytest.fixture
def waiting():
    given: cuda.queue.SimpleQueue = cuda.queue.SimpleQueue()
    thread = threading.Thread(target=cuda._serve, args=(given,), daemon=True)
    thread.start()
    yield given
    given.put(None)
    thread.join(30)
    assert not thread.is_alive()


def test_an_event_calls_back_from_a_thread_that_waited(waiting):
    mark, heard, told = Mark(), [], threading.Event()
    event = cuda._Marked(mark, waiting.put)
    event.then(lambda error: (heard.append((error, threading.current_thread())), told.set()))
    assert not event.over and heard == []
    mark.come.set()
    assert told.wait(30) and event.well
    assert heard[0][0] is None and heard[0][1] is not threading.current_thread()


def test_an_event_that_nobody_asks_for_costs_no_thread():
    asked: list[object] = []
    mark = Mark()
    event = cuda._Marked(mark, asked.append)
    mark.come.set()
    event.wait()
    assert event.well and asked == []


def test_what_cuda_says_reaches_who_waits(waiting):
    mark = Mark(RuntimeError("cudaErrorIllegalAddress"))
    event, heard, told = cuda._Marked(mark, waiting.put), [], threading.Event()
    event.then(lambda error: (heard.append(error), told.set()))
    mark.come.set()
    assert told.wait(30) and isinstance(heard[0], errors.InternalError) and "cudaErrorIllegalAddress" in str(heard[0])
    with pytest.raises(errors.InternalError, match="start it again, with CUDA_LAUNCH_BLOCKING=1"):
        event.wait()


def test_memory_of_a_pool_is_counted_while_something_refers_to_it():
    memory = cuda.Memory("d", 100)
    memory.take(60, "a")
    lent = cuda._Lent(object(), memory, 60, "a")
    assert memory.used == 60
    del lent
    assert memory.used == 0


@pytest.mark.parametrize("cards, cupy, row", [
    ([], False, ("optional", "none", "everything runs on the CPU")),
    (["H"], False, ("optional", "H, but CuPy is not installed", "pip install 'workbench[gpu]'")),
    (["H", "H"], True, ("ok", "H, H, CuPy ", "ask with ConfigProto(device_count={'GPU': 1}) and wb.device('/gpu:0')"))])
def test_doctor_says_which_gpu_there_is_and_what_is_missing(cards, cupy, row, monkeypatch):
    from workbench.commands.doctor import _gpu
    monkeypatch.setattr(cuda, "cards", lambda: cards)
    monkeypatch.setattr(cuda, "_driver", lambda: (len(cards), "the driver has none"))
    monkeypatch.setattr(cuda, "_has_cupy", lambda: cupy)
    found = _gpu()
    assert (found.state, found.advice) == (row[0], row[2]) and found.detail.startswith(row[1])


@pytest.mark.parametrize("value, there", [
    (np.zeros(3, np.float32), True), (np.zeros((), np.float64), True), (np.zeros(3, np.int32), False),
    (np.zeros(70_000, bool), True),
    (np.zeros(20_000, np.int32), True), (np.array(["a"], object), False), (np.zeros(3, "S1"), False),
    (np.zeros(3, bool), False)])
def test_what_goes_to_the_device_and_what_stays_with_the_host(value, there):
    assert cuda.stays(value) is not there
