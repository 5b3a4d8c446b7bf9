"""Memory of a device is counted, and a limit holds: what does not fit is refused by name, and nothing is harmed."""
from __future__ import annotations

import gc
import re
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.compile import explain
from workbench.core.compile.instance import Arena
from workbench.core.device.interface import Event, Memory, make_device, type_of
from workbench.core.run.session import Session
from workbench.train.config import ConfigProto

pytestmark = pytest.mark.usefixtures("graph")
CPU = "/job:localhost/task:0/device:CPU:0"


def limited(nbytes: int, **options: Any) -> Session:
    return Session(config=ConfigProto(device_memory_limit={"CPU": nbytes}), **options)


def used(session: Session) -> int:
    return session.backend.container.device(CPU).memory.used


def test_a_variable_that_does_not_fit_is_refused_and_the_others_stay():
    small, large = wb.Variable(np.ones(100, np.float32), name="small"), wb.Variable(np.ones(1000, np.float32), name="large")
    with limited(2000) as s:
        s.run(small.initializer)
        with pytest.raises(errors.ResourceExhaustedError) as error:
            s.run(large.initializer)
        assert str(error.value).startswith(
            f"variable 'large': 4000 bytes are needed but 400 of the 2000 bytes of {CPU} are in use (variable 'small' of 400 "
            "bytes); make batches or variables smaller, close other sessions, or raise the device's memory limit\n"
            "  operation: 'large/")
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
        assert re.match(r"plan '\S+' \(.*product:0 of 4096 bytes \(matmul float32\[32,32\], built at \S*memory.py:\d+", text)
        assert "bytes are needed but 4 of the 3000 bytes" in text and "are in use (variable 'Variable' of 4 bytes)" in text
        assert s.run(v * 2.0) == 6.0 and used(s) < 3000


def test_a_step_of_training_that_does_not_fit_says_what_computing_again_can_save():
    def trained(layer, **options):
        with wb.Graph().as_default():
            h = first = wb.placeholder("float32", [64, 64], name="first")
            for _ in range(8):
                h = layer(h)
            slope = wb.gradients(wb.reduce_sum(h), first)
            with limited(200_000, **options) as s:
                return s.run(slope, {first: np.ones((64, 64))})[0]

    def layer(h):
        return wb.nn.softmax(wb.sin(wb.matmul(h, h)))
    text = (r"matmul\S* of 16384 bytes \(.*; \d+ of \d+ bytes wait for gradients: Session\(memory_budget=\d+\) computes some "
            r"of them again and saves \d+ of the step's \d+ bytes, or wb.recompute of what makes them\): \d+ bytes are needed "
            r"but 0 of the 200000 bytes of")
    with pytest.raises(errors.ResourceExhaustedError, match=text) as error:
        trained(layer)
    budget, saved, step = map(int, re.findall(r"budget=(\d+).* saves (\d+) of the step's (\d+)", str(error.value))[0])
    assert budget + saved == step and step > 200_000 > budget
    assert trained(wb.recompute(layer)).shape == trained(layer, memory_budget=budget).shape == (64, 64)


def test_what_is_smaller_than_the_graph_allows_to_search_for_is_not_promised(monkeypatch):
    """A graph of many operations: the error comes at once, without a number."""
    monkeypatch.setattr(explain, "_SEARCHED", 5)
    x = y = wb.placeholder("float32", [64, 64])
    for _ in range(4):      # at the busiest moment some wait, in whatever order a processor's kernels are run
        y = wb.sin(wb.matmul(y, x))
    with limited(20_000) as s, pytest.raises(errors.ResourceExhaustedError, match=r" bytes wait for gradients, and "
                                             r"Session\(memory_budget=\) or wb.recompute of what makes them saves some\): "):
        s.run(wb.gradients(wb.reduce_sum(wb.nn.softmax(y)), x), {x: np.ones((64, 64))})


def test_a_variable_that_the_system_has_no_memory_for_says_what_there_is_beside_it():
    small = wb.Variable(np.ones(100, np.float32), name="small")
    with Session() as s:
        s.run(small.initializer)
        device = s.backend.container.device(CPU)
        with pytest.raises(errors.ResourceExhaustedError, match=f"^variable 'huge': {4 << 60} bytes are needed but the system "
                           rf"of {CPU} has no such memory beside the 400 bytes in use \(variable 'small' of 400 bytes\); make"):
            device.empty((1 << 60,), np.dtype(np.float32), "variable 'huge'")
        assert used(s) == 400


def test_memory_that_the_system_does_not_have():
    memory = Memory("/job:ps/task:0/device:CPU:0")
    with pytest.raises(errors.ResourceExhaustedError, match=f"^plan 'p': {2 ** 60} bytes are needed but the system of "
                       "/job:ps/task:0/device:CPU:0 has no such memory; make batches or variables smaller, or give it more"):
        Arena(2 ** 60, memory, "plan 'p'")
    assert memory.used == 0


def test_a_kernel_that_the_system_has_no_memory_for_says_what_there_is_beside_it():
    n, x = wb.placeholder("int32", []), wb.placeholder("float32", [1024, 1024])
    y = wb.reduce_sum(wb.fill([n, n], 1.0)) + wb.reduce_sum(wb.matmul(x, x, name="product"))
    with Session() as s, pytest.raises(errors.ResourceExhaustedError, match=r"^fill: Unable to allocate 4.00 EiB .* beside the "
                                       r"values of plan '\S+' \(.*product:0 of 4194304 bytes \(matmul float32"):
        s.run(y, {n: 2 ** 30, x: np.ones((1024, 1024))})


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
    memory.give(6, "a")
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
