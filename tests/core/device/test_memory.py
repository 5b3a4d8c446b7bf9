"""Memory of a device is counted, and a limit holds: what does not fit is refused by name, and nothing is harmed."""
from __future__ import annotations

import gc

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.compile.instance import Arena
from workbench.core.device.interface import Event, Memory, make_device, type_of
from workbench.core.run.session import Session
from workbench.train.config import ConfigProto

pytestmark = pytest.mark.usefixtures("graph")
CPU = "/job:localhost/task:0/device:CPU:0"


def limited(nbytes: int) -> Session:
    return Session(config=ConfigProto(device_memory_limit={"CPU": nbytes}))


def used(session: Session) -> int:
    return session.backend.container.device(CPU).memory.used


def test_a_variable_that_does_not_fit_is_refused_and_the_others_stay():
    small, large = wb.Variable(np.ones(100, np.float32), name="small"), wb.Variable(np.ones(1000, np.float32), name="large")
    with limited(2000) as s:
        s.run(small.initializer)
        with pytest.raises(errors.ResourceExhaustedError) as error:
            s.run(large.initializer)
        assert str(error.value).startswith(
            f"variable 'large': 4000 bytes are needed but 400 of the 2000 bytes of {CPU} are in use; make batches or variables "
            "smaller, close other sessions, or raise the device's memory limit\n  operation: 'large/")
        assert s.run(small).sum() == 100 and used(s) == 400


def test_a_plan_that_does_not_fit_names_its_largest_buffers():
    x = wb.placeholder("float32", [32, 32])
    y = wb.reduce_sum(wb.matmul(wb.matmul(x, x, name="product"), x))
    v = wb.Variable(3.0)
    with limited(3000) as s:
        s.run(v.initializer)
        with pytest.raises(errors.ResourceExhaustedError) as error:
            s.run(y, {x: np.ones((32, 32))})
        text = str(error.value)
        assert "bytes are needed but 4 of the 3000 bytes" in text and "product:0 of 4096 bytes" in text
        assert s.run(v * 2.0) == 6.0 and used(s) < 3000


def test_a_step_of_training_that_does_not_fit_says_what_computing_again_can_save():
    def trained(layer):
        with wb.Graph().as_default():
            h = first = wb.placeholder("float32", [64, 64], name="first")
            for _ in range(8):
                h = layer(h)
            slope = wb.gradients(wb.reduce_sum(h), first)
            with limited(200_000) as s:
                return s.run(slope, {first: np.ones((64, 64))})[0]

    def layer(h):
        return wb.nn.softmax(wb.sin(wb.matmul(h, h)))
    with pytest.raises(errors.ResourceExhaustedError, match=r"matmul\S* of 16384 bytes.*; \d+ of \d+ bytes wait for gradients, "
                       r"and Session\(memory_budget=\) or wb.recompute of what makes them saves some\): \d+ bytes are "
                       r"needed but 0 of the 200000 bytes of"):
        trained(layer)
    assert trained(wb.recompute(layer)).shape == (64, 64)


def test_memory_that_the_system_does_not_have():
    memory = Memory("/job:ps/task:0/device:CPU:0")
    with pytest.raises(errors.ResourceExhaustedError, match=f"^plan 'p': {2 ** 60} bytes are needed but the system of "
                       "/job:ps/task:0/device:CPU:0 has no such memory; make batches or variables smaller, or give it more"):
        Arena(2 ** 60, memory, lambda: "plan 'p'")
    assert memory.used == 0


def test_what_is_dropped_is_given_back():
    v = wb.Variable(np.ones(1000, np.float32))
    with limited(100_000) as s:
        memory = s.backend.container.device(CPU).memory
        s.run(v.initializer)
        held = s.run(v)
        s.run(wb.assign_add(v, held))
        assert memory.used >= 4000
    del s, held
    gc.collect()
    assert memory.used == 0


def test_memory_counts_nothing_that_it_refused():
    memory = Memory("d", 10)
    memory.take(6, "a")
    with pytest.raises(errors.ResourceExhaustedError, match=r"^b: 5 bytes are needed but 6 of the 10 "):
        memory.take(5, "b")
    memory.give(6)
    memory.take(10, "c")
    assert memory.used == 10


def test_an_event_calls_back_once_before_and_after_it_comes():
    event, heard = Event(), []
    event.then(heard.append)
    assert heard == [] and not event.over
    fault = ValueError("broken")
    event.complete(fault)
    event.then(heard.append)
    assert heard == [fault, fault] and event.over
    with pytest.raises(ValueError, match="broken"):
        event.wait()


def test_a_type_that_nobody_registered_is_named():
    assert type_of("/job:a/task:0/device:gpu:3") == "GPU" and type_of("/job:a/task:0") == "CPU"
    with pytest.raises(errors.NotFoundError) as error:
        make_device("/job:a/task:0/device:TPU:0")
    assert str(error.value).startswith("device: '/job:a/task:0/device:TPU:0' is of type TPU but this process knows CPU")
