"""Pins: the value of one moment, whatever rows are written while it is read, and no table is copied for it."""
from __future__ import annotations

import itertools
import json
import random
import sys
import threading
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.interrupts import every_interrupt
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import float32
from workbench.core.graph.shape import Shape
from workbench.core.state import changes, checkpoint, pins
from workbench.core.state.pins import Pin, snapshot_together
from workbench.core.state.together import update_together
from workbench.core.state.variables import VariableState

ROW, ROWS = 16, 43      # bytes of a row; the last three rows fill no unit


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(changes, "BLOCK_BYTES", 8 * ROW)
    monkeypatch.setattr(pins, "UNIT_BYTES", 4 * ROW)
    monkeypatch.setattr(pins, "PIECE_BYTES", 8 * ROW)


def table(rows: int = ROWS) -> VariableState:
    state = VariableState("table", float32, Shape([rows, 4]))
    state.assign(np.arange(rows * 4, dtype=np.float32).reshape(rows, 4))
    return state


def add(*given: Any) -> None:
    """kernel(*olds, rows, *outs)"""
    count = len(given) // 2
    for old, out in zip(given[:count], given[count + 1:]):
        if out is not old:
            np.copyto(out, old)
        out[given[count]] += 1


def touch(state: VariableState, *rows: int) -> None:
    state.update(add, np.array(rows), rows=np.array(rows))


def pin_of(state: VariableState) -> Pin:
    [pinned] = snapshot_together([state])
    assert isinstance(pinned.value, Pin)
    return pinned.value


def read(pin: Pin, first: int = 0, end: int = ROWS) -> np.ndarray:
    return np.concatenate([piece.copy() for piece in pin.rows(first, end).pieces()])


def place(state: VariableState) -> int:
    return state.read().ctypes.data


def held(state: VariableState) -> int:
    return state.device.memory.used


def test_rows_of_a_pinned_table_are_overwritten_in_place_and_only_their_units_are_saved():
    state = table()
    before, where, nbytes = state.read().copy(), place(state), held(state)
    pin = pin_of(state)
    touch(state, 5, 6, 30)
    touch(state, 7, 42)
    assert place(state) == where and held(state) == nbytes + 8 * ROW
    assert state.read()[7, 0] == before[7, 0] + 1 and state.version == 3
    np.testing.assert_array_equal(read(pin), before)
    touch(state, 1, 20)
    assert place(state) == where and held(state) == nbytes + 8 * ROW      # what was read need not be saved any more
    del pin
    assert held(state) == nbytes


def test_who_lets_a_pin_go_without_reading_it_costs_nothing_more():
    state = table()
    where, nbytes = place(state), held(state)
    pin = pin_of(state)
    touch(state, 5)
    del pin
    touch(state, 9)
    assert place(state) == where and held(state) == nbytes


def test_each_of_several_pins_has_its_own_moment():
    state = table()
    expected, found = [], []
    for row in (3, 3, 4, 40):
        expected.append(state.read().copy())
        found.append(pin_of(state))
        touch(state, row, row - 3)
    where = place(state)
    pieces = found[0].rows(0, ROWS).pieces()
    parts = [next(pieces).copy()]
    found.append(pin_of(state))      # while the first is being read
    expected.append(state.read().copy())
    touch(state, 0, 20, 42)
    parts += [piece.copy() for piece in pieces]
    np.testing.assert_array_equal(np.concatenate(parts), expected[0])
    for pin, value in zip(found[1:], expected[1:]):
        np.testing.assert_array_equal(read(pin), value)
    assert place(state) == where


@pytest.mark.parametrize("whole", ["update", "assign", "restored", "closed"])
def test_what_writes_the_whole_variable_leaves_the_pin_the_buffer(whole):
    state = table()
    before, pin = state.read().copy(), pin_of(state)
    touch(state, 5)
    match whole:
        case "update":
            state.update(lambda old, out: np.multiply(old, 2, out=out))
        case "assign":
            state.assign(np.zeros((ROWS, 4), np.float32))
        case "restored":
            state.assign(np.zeros((ROWS, 4), np.float32), copied=False)
        case "closed":
            state.release()
    if state.initialized:
        touch(state, 5, 9)
        for _ in range(3):
            state.update(lambda old, out: np.add(old, 1, out=out))
    np.testing.assert_array_equal(read(pin), before)


def test_who_holds_the_value_beside_a_pin_makes_the_next_update_copy():
    state = table()
    before, pin, fetched = state.read().copy(), pin_of(state), state.read()
    touch(state, 5)
    np.testing.assert_array_equal(fetched, before)
    np.testing.assert_array_equal(read(pin), before)
    assert state.read()[5, 0] == before[5, 0] + 1


def test_a_table_and_its_slot_are_updated_together_in_place():
    states = [table(), table()]
    before, places = states[0].read().copy(), [place(state) for state in states]
    pinned = snapshot_together(states)
    rows = np.array([2, 11, 42])
    update_together(states, add, rows, rows=rows)
    update_together(states, add, rows, rows=rows)
    assert [place(state) for state in states] == places
    for one in pinned:
        np.testing.assert_array_equal(read(one.value), before)
    assert all((state.read() - before)[:, 0].sum() == 6 for state in states)


@pytest.mark.parametrize("count", [1, 2])
def test_ctrl_c_at_any_moment_of_an_update_leaves_the_pin_as_it_was(count):
    states = [table() for _ in range(count)]
    rows = np.array([2, 11, 42])
    before, found = [state.read().copy() for state in states], snapshot_together(states)
    for _ in every_interrupt(lambda: update_together(states, add, rows, rows=rows), "core/state/", __file__):
        for one, value in zip(found, before):
            np.testing.assert_array_equal(read(one.value), value)
        touched = [state.read() - value for state, value in zip(states, before)]
        assert all(np.isin(one, (0, 1)).all() for one in touched)
        before, found = [state.read().copy() for state in states], snapshot_together(states)
        del touched


def test_an_update_that_fails_leaves_the_pin_and_the_version():
    state = table()
    before, pin = state.read().copy(), pin_of(state)

    def fails(old, out):
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        state.update(fails, rows=np.array([5]))
    touch(state, 5)
    assert state.version == 2
    np.testing.assert_array_equal(read(pin), before)


def test_rows_that_were_read_are_not_read_again():
    state = table()
    pin = pin_of(state)
    read(pin, 8, 24)
    with pytest.raises(errors.InternalError, match="pin of variable 'table': rows 16 to 24 were read before"):
        read(pin, 16, 32)


def test_any_updates_and_pins_in_any_order_give_each_pin_its_moment():
    for seed in range(40):
        chance = random.Random(seed)
        rows = chance.randint(20, 60)
        state, known = table(rows), []
        for _ in range(60):
            match chance.choice(("rows", "rows", "rows", "pin", "whole", "some", "let go")):
                case "rows":
                    touch(state, *(chance.randrange(rows) for _ in range(chance.randint(1, 4))))
                case "whole":
                    state.update(lambda old, out: np.add(old, 100, out=out))
                case "pin":
                    cuts = sorted({0, rows, *(chance.randrange(rows) for _ in range(3))})
                    known.append((pin_of(state), state.read().copy(), list(itertools.pairwise(cuts))))
                case "some" if known:
                    pin, value, parts = chance.choice(known)
                    if parts:
                        first, end = parts.pop(chance.randrange(len(parts)))
                        np.testing.assert_array_equal(read(pin, first, end), value[first:end], f"seed {seed}")
                case "let go" if known:
                    known.pop(chance.randrange(len(known)))


def test_rows_may_be_written_at_any_moment_of_a_read():
    for first in range(0, ROWS, 4):
        state, rows = table(), itertools.cycle([*range(first, ROWS), *range(first)])
        before, where, pin = state.read().copy(), place(state), pin_of(state)

        def door(frame, event, argument, state=state, rows=rows):
            if frame.f_code.co_filename == pins.__file__:
                sys.setprofile(None)
                touch(state, next(rows))
                sys.setprofile(door)
        sys.setprofile(door)
        try:
            found = read(pin)
        finally:
            sys.setprofile(None)
        np.testing.assert_array_equal(found, before)
        assert place(state) == where and state.version > 20


def test_a_pin_that_is_read_while_others_write_is_of_one_moment():
    state = table(4000)
    over = threading.Event()

    def train(number: int) -> None:
        chance = np.random.default_rng(number)
        while not over.is_set():
            touch(state, *chance.choice(4000, 5, replace=False))
    threads = [threading.Thread(target=train, args=(number,), daemon=True) for number in range(2)]
    for thread in threads:
        thread.start()
    first = 4 * np.arange(4000, dtype=np.float32)
    try:
        for _ in range(4):
            [pinned] = snapshot_together([state])
            found = read(pinned.value, 0, 4000)
            assert (found[:, 0] - first).sum() == 5 * (pinned.version - 1)
    finally:
        over.set()
        for thread in threads:
            thread.join(60)


def test_a_checkpoint_of_a_table_that_is_trained_meanwhile_copies_what_changes(tmp_path, monkeypatch):
    monkeypatch.undo()
    height, base = 1 << 15, checkpoint.base_of(tmp_path / "m", 1)
    with wb.Graph().as_default(), wb.Session() as session:
        variable = wb.Variable(np.ones((height, 128), np.float32), name="table")      # 16 MiB
        rows = wb.placeholder("int64", [None])
        train = wb.scatter_sub(variable, rows, wb.ones([wb.size(rows), 128])).op
        pin = ops.take_snapshot(variable.handle, shared_name="now")
        save = ops.save(str(base), variable.handle, parts=(("table",),), snapshot="now")
        session.run(wb.global_variables_initializer())
        memory = session._backend.container.device("/job:localhost/task:0/device:CPU:0").memory
        session.run(train, {rows: [0, 9]})
        before, used = session.run(variable), memory.used
        session.run(pin)
        for row in range(0, height, height // 32):
            session.run(train, {rows: [row, row + 1]})      # two rows are a unit
        assert memory.used - used == pins.PIECE_BYTES and memory.peak < 1.5 * used
        checkpoint.publish(base, 1, [json.loads(session.run(save))])
        after = session.run(variable)
        assert memory.used == used
    np.testing.assert_array_equal(checkpoint.read(base).tensors["table"], before)
    assert (before - after).sum() == 64 * 128
