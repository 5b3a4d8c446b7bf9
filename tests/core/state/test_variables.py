"""Variables with versions, containers, and what updates may and may not touch."""
from __future__ import annotations

import sys
import threading
import weakref

import numpy as np
import pytest

from tests.interrupts import every_interrupt
from workbench import errors
from workbench.core.graph.dtype import float32
from workbench.core.graph.shape import Shape
from workbench.core.state import variables
from workbench.core.state.container import Container
from workbench.core.state.together import update_together
from workbench.core.state.variables import VariableState


def variable(value, name="v") -> VariableState:
    value = np.asarray(value, np.float32)
    state = VariableState(name, float32, Shape(value.shape))
    state.assign(value)
    return state


def add(old, value, out):
    np.add(old, value, out=out)


def test_reading_before_the_first_value():
    state = VariableState("w", float32, Shape((2,)))
    assert not state.initialized and state.version == 0
    with pytest.raises(errors.FailedPreconditionError) as error:
        state.read()
    assert str(error.value) == ("variable 'w': Attempting to use uninitialized value w: it was never initialised; run "
                                "global_variables_initializer() or restore a checkpoint first")


def test_assigned_values_are_copied():
    value = np.ones(3, np.float32)
    state = variable(value)
    value[:] = 9
    assert state.read().tolist() == [1, 1, 1]


@pytest.mark.parametrize("value,kind,text", [
    (np.zeros(3), errors.DtypeError, "variable 'v': it holds float32 but float64 was assigned; cast the value"),
    (np.zeros(2, np.float32), errors.ShapeError,
     "variable 'v': its shape is [3] but a value of shape [2] was assigned; reshape the value")])
def test_wrong_values_are_refused_and_change_nothing(value, kind, text):
    state = variable([1, 2, 3])
    with pytest.raises(kind) as error:
        state.assign(value)
    assert str(error.value) == text and state.read().tolist() == [1, 2, 3] and state.version == 1


def test_an_update_overwrites_a_buffer_that_nobody_holds():
    state = variable(np.zeros(10))
    places = set()
    for _ in range(5):
        state.update(add, np.float32(1))
        places.add(state.read().ctypes.data)
    assert len(places) == 1 and state.version == 6 and state.read()[0] == 5


def test_an_update_leaves_readers_views_and_snapshots_alone():
    state = variable(np.zeros((2, 5)))
    read, view, (version, snapshot) = state.read(), state.read()[1:, ::2], state.snapshot()
    for _ in range(3):
        state.update(add, np.float32(1))
    assert not read.any() and not view.any() and not snapshot.any()
    assert (version, state.version) == (1, 4) and (state.read() == 3).all()


def test_two_buffers_are_enough_for_a_reader_that_lets_go():
    state = variable(np.zeros(10))
    places = {state.read().ctypes.data}
    for _ in range(6):
        held = state.read()
        state.update(add, np.float32(1))
        places.add(state.read().ctypes.data)
        del held
    assert len(places) == 2


def test_a_failed_update_keeps_the_version():
    state = variable([1, 2, 3])

    def fails(old, out):
        raise ValueError("no")
    with pytest.raises(ValueError):
        state.update(fails)
    assert state.version == 1 and state.read().tolist() == [1, 2, 3]


def test_a_value_of_another_shape_where_the_shape_is_open():
    state = VariableState("v", float32, Shape((None,)))
    for size in (2, 5, 2):
        state.assign(np.full(size, size, np.float32))
        assert state.read().tolist() == [size] * size


def test_updates_of_several_variables_happen_together():
    a, b = variable(np.zeros(4), "a"), variable(np.zeros(4), "b")
    held = b.read()

    def kernel(old_a, old_b, step, new_a, new_b):
        total = old_a + old_b
        np.add(old_a, step, out=new_a)
        np.add(total, step, out=new_b)
    update_together([a, b], kernel, np.float32(2))
    update_together([a, b], kernel, np.float32(2))
    assert a.read().tolist() == [4] * 4 and b.read().tolist() == [6] * 4 and not held.any()
    assert a.version == b.version == 3


@pytest.mark.parametrize("count", [1, 3])
def test_ctrl_c_at_any_moment_of_an_update_leaves_the_variables_to_others(count):
    states = [variable([1, 2], f"v{number}") for number in range(count)]
    read: list[float] = []
    for _ in every_interrupt(lambda: update_together(states, lambda *arrays: None), "core/state/", "/contextlib.py"):
        thread = threading.Thread(target=lambda: read.extend(float(state.read()[0]) for state in states), daemon=True)
        thread.start()
        thread.join(60)
        assert len(read) == count
        read.clear()


def test_opposite_orders_do_not_wait_for_each_other():
    a, b = variable(np.zeros(4), "a"), variable(np.zeros(4), "b")
    threads = [threading.Thread(target=lambda o=order: [update_together(o, lambda *arrays: None) for _ in range(300)],
                                daemon=True) for order in ([a, b], [b, a])]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)      # between any two locks the other thread has its turn
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert not any(thread.is_alive() for thread in threads) and a.version == b.version == 601


def test_a_gather_while_rows_are_written_costs_no_copy_of_the_table():
    state = variable(np.zeros((1000, 8)))
    place = state.read().ctypes.data
    rows = state.gather(np.array([3, 3, 7]))
    state.update(add, np.float32(1), rows=np.array([0]))
    assert state.read().ctypes.data == place and not rows.any() and state.gather(np.array([3]))[0, 0] == 1


def test_a_reader_waits_at_most_once_for_an_update_in_place():
    state = variable(np.zeros(4))
    started, go, read = threading.Event(), threading.Event(), []

    def slow(old, out):
        started.set()
        assert go.wait(60)
        np.add(old, 1, out=out)
    writer = threading.Thread(target=state.update, args=(slow,), daemon=True)
    writer.start()
    assert started.wait(60)
    reader = threading.Thread(target=lambda: read.append(state.read().tolist()), daemon=True)
    reader.start()
    while not state._awaited:
        pass
    assert not read      # the first update overwrites what the reader wants
    go.set()
    writer.join(60), reader.join(60)
    started.clear(), go.clear()
    writer = threading.Thread(target=state.update, args=(slow,), daemon=True)
    writer.start()
    assert started.wait(60)
    assert read == [[1] * 4] and state.read().tolist() == [1] * 4      # during the second the old value is there
    go.set()
    writer.join(60)
    assert state.read().tolist() == [2] * 4 and state.version == 3


def test_a_large_spare_is_freed_after_use(monkeypatch):
    monkeypatch.setattr(variables, "_KEPT_SPARE", 100)
    for size, kept in ((10, True), (100, False)):
        state = variable(np.zeros(size))
        held = weakref.ref(state.read().base if state.read().base is not None else state.read())
        keep = state.read()
        state.update(add, np.float32(1))
        del keep
        assert (held() is not None) == kept and (state.read() == 1).all()


class Sent:
    """Where a task makes what it sends: refers to what is under way until it looks back."""

    def __init__(self) -> None:
        self.made, self.under_way, self.back = [], [], False

    def empty(self, shape, dtype):
        self.made.append(np.empty(shape, dtype))
        return self.made[-1][:]

    def look_back(self) -> None:
        if self.back:
            self.under_way.clear()


def test_a_value_that_is_sent_lies_where_it_can_be_sent_from_and_stays_until_it_came_back():
    state, sent = variable(np.zeros(4)), Sent()
    with pytest.raises(errors.FailedPreconditionError):
        VariableState("w", float32, Shape((2,))).sent(sent)
    before = state.device.memory.used
    sent.under_way.append(state.sent(sent))
    assert sent.under_way[0].base is sent.made[0] and state.version == 1 and state.device.memory.used == before
    state.update(add, np.float32(1))
    assert sent.under_way[0].tolist() == [0] * 4 and state.read().tolist() == [1] * 4
    assert state.sent(sent).base is sent.made[1] and len(sent.made) == 2
    sent.under_way[:], sent.back = [state.sent(sent)], True
    state.update(add, np.float32(1))                  # in place: nobody looks at the value any more
    assert state.sent(sent).base is sent.made[1] and state.read().tolist() == [2] * 4 and len(sent.made) == 2


def test_many_writers_lose_nothing():
    state = variable(np.zeros(100))
    threads = [threading.Thread(target=lambda: [state.update(add, np.float32(1)) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (state.read() == 800).all() and state.version == 801


class Closing:
    closed = False

    def close(self, cancel_pending: bool) -> None:
        self.closed = cancel_pending


def test_a_container_makes_a_resource_once_and_knows_its_kind():
    box = Container("box")
    first = box.get("v", VariableState, lambda: variable([1]))
    assert box.get("v", VariableState, lambda: variable([2])) is first and box.names() == ["v"]
    with pytest.raises(errors.AlreadyExistsError) as error:
        box.get("v", Closing, Closing)
    assert str(error.value) == "container 'box': 'v' is a VariableState, not a Closing; choose another name"
    queue = box.get("q", Closing, Closing)
    assert box.variables() == {"v": first}
    box.close()
    assert queue.closed and box.names() == []
    with pytest.raises(errors.FailedPreconditionError) as late:
        box.get("q", Closing, Closing)
    assert str(late.value) == "container 'box': it is closed, 'q' is gone; make a new session"


def test_a_container_that_is_closed_keeps_no_value_of_its_variables_whoever_refers_to_them():
    container, state = Container(), variable(np.zeros(1000))
    container.get("v", VariableState, lambda: state)
    held = weakref.ref(state.read())
    container.clear(None)
    assert held() is not None                         # a step may still be under way
    container.get("v", VariableState, lambda: state)
    container.close()
    assert held() is None and not state.initialized


def test_a_container_makes_one_resource_for_all_threads():
    box, gate, found = Container(), threading.Barrier(6), []

    def take() -> None:
        gate.wait(60)
        found.append(box.get("v", VariableState, lambda: variable([1])))
    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(v) for v in found}) == 1


def test_what_makes_a_resource_may_ask_its_container_for_a_device():
    container = Container()
    found = container.get("v", VariableState, lambda: VariableState(
        "v", float32, Shape(()), container.device("/job:localhost/task:0/device:CPU:0")))
    assert isinstance(found, VariableState)
