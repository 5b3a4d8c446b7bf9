"""Which rows changed when: never fewer than did, whatever fails or overtakes."""
from __future__ import annotations

import numpy as np
import pytest

from workbench.core.graph.dtype import float32
from workbench.core.graph.shape import Shape
from workbench.core.state import changes
from workbench.core.state.pins import Pinned, snapshot_together
from workbench.core.state.together import update_together
from workbench.core.state.variables import VariableState


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(changes, "BLOCK_BYTES", 64)      # four rows of four float32


def table(rows: int = 10) -> VariableState:
    state = VariableState("table", float32, Shape([rows, 4]))
    state.assign(np.zeros((rows, 4), np.float32))
    return state


def touch(state: VariableState, *rows: int) -> None:
    places = np.array(rows)
    state.update(lambda old, out: (np.copyto(out, old), out.__setitem__(places, old[places] + 1)), rows=places)


def blocks(state: VariableState) -> list[tuple[int, int, int]]:
    return snapshot_together([state])[0].blocks


def value_of(pinned: Pinned) -> np.ndarray:
    return np.concatenate([piece.copy() for piece in pinned.value.rows(0, 10).pieces()])


def test_nothing_is_told_apart_before_rows_are_updated_alone():
    state = table()
    assert blocks(state) == [(0, 10, 1)]
    state.update(lambda old, out: np.add(old, 1, out=out))
    assert blocks(state) == [(0, 10, 2)]


def test_each_block_has_the_version_of_its_last_change():
    state = table()
    touch(state, 1, 9)
    touch(state, 2)
    assert blocks(state) == [(0, 4, 3), (4, 8, 1), (8, 10, 2)]
    state.assign(np.ones((10, 4), np.float32))
    assert {version for *_, version in blocks(state)} == {4}


def test_a_small_or_reshaped_variable_is_one_block():
    small = table(7)
    touch(small, 1)
    assert blocks(small) == [(0, 7, 2)]
    state = VariableState("any", float32, Shape([None, 4]))
    state.assign(np.zeros((10, 4), np.float32))
    touch(state, 1)
    state.assign(np.zeros((20, 4), np.float32))
    assert blocks(state) == [(0, 20, 3)]
    touch(state, 19)
    assert blocks(state)[0] == (0, 4, 3) and blocks(state)[-1] == (16, 20, 4)


def test_an_update_that_fails_may_count_but_none_is_missed():
    state = table()
    touch(state, 0)

    def fails(old, out):
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        state.update(fails, rows=np.array([5]))
    before = state.version
    touch(state, 5)
    assert blocks(state)[1][2] > before


def test_what_is_pinned_while_rows_are_written_elsewhere_does_not_have_their_change():
    """The reader holds the buffer, so the update goes to another one; a snapshot in the middle is of the time before."""
    state = table()
    touch(state, 0)
    held, seen = state.read(), []

    def kernel(old, out):
        seen.extend(snapshot_together([state]))
        np.copyto(out, old)
        out[5] += 1
    state.update(kernel, rows=np.array([5]))
    [pinned] = seen
    assert pinned.version == 2 and held[5, 0] == value_of(pinned)[5, 0] == 0
    after = snapshot_together([state])[0]
    assert after.blocks[1][2] > pinned.version and value_of(after)[5, 0] == 1


def test_variables_updated_together_note_the_same_rows():
    one, other = table(), table()

    def kernel(a, b, out_a, out_b):
        for old, out in ((a, out_a), (b, out_b)):
            np.copyto(out, old)
            out[9] += 1
    update_together([one, other], kernel, rows=np.array([9]))
    assert blocks(one) == blocks(other) == [(0, 4, 1), (4, 8, 1), (8, 10, 2)]
