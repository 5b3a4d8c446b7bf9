"""Positions: generators and iterators go on, in another process, as if they had never stopped."""
from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from workbench import errors
from workbench.core.state.container import Container
from workbench.core.state.datasets import DatasetIterator
from workbench.core.state.snapshots import Snapshot, positions, set_positions

ROWS = [np.arange(10)]
SHUFFLED = ("repeat", ("shuffle", ("slices", (("source", 0),)), 4, 0, 0, True), -1)      # another order in every session


def rest(iterator: DatasetIterator, count: int) -> list[int]:
    return [int(iterator.take()[0]) for _ in range(count)]


def iterator_of(container: Container) -> DatasetIterator:
    return container.get("rows", DatasetIterator, lambda: DatasetIterator("rows"))


def generator_of(container: Container) -> np.random.Generator:
    return container.get("noise", np.random.Generator, lambda: np.random.Generator(np.random.Philox()))


@pytest.mark.parametrize("begun", [True, False])
def test_all_go_on_from_where_they_were(begun: bool):
    one, other = Container("a"), Container("b")
    iterator_of(one).initialize(SHUFFLED, ROWS)
    rest(iterator_of(one), 23)
    generator_of(one).standard_normal(7, np.float32)
    found = json.loads(json.dumps(positions(one)))
    if begun:
        iterator_of(other).initialize(SHUFFLED, ROWS)
        rest(iterator_of(other), 3)
    set_positions(other, found)
    if not begun:
        iterator_of(other).initialize(SHUFFLED, ROWS)
    assert rest(iterator_of(other), 40) == rest(iterator_of(one), 40)
    for dtype in (np.float32, np.float64):
        assert generator_of(other).random(9, dtype).tolist() == generator_of(one).random(9, dtype).tolist()
    assert positions(other) == positions(one)


def test_only_the_first_start_goes_on(caplog: Any):
    container = Container("a")
    iterator_of(container).resume({"taken": 4, "generators": []})
    for expected in (4, 0):
        iterator_of(container).initialize(("slices", (("source", 0),)), ROWS)
        assert rest(iterator_of(container), 1) == [expected]


def test_what_was_never_started_has_no_position_and_another_name_is_refused():
    container = Container("a")
    iterator_of(container)
    assert positions(container) == {}
    with pytest.raises(errors.AlreadyExistsError, match="'rows' is a DatasetIterator, not a Generator"):
        set_positions(container, {"rows": {"bits": "Philox"}})
    with pytest.raises(errors.DataLossError, match=r"random generator: .*'MT19937'.* is not the state of one .*; the check"):
        set_positions(container, {"noise": {"bits": "MT19937", "buffer_pos": 1, "has_uint32": 0, "uinteger": 0, "buffer": [],
                                            "counter": [], "key": []}})


def test_what_was_pinned_is_written_once():
    snapshot = Snapshot("save")
    snapshot.put([np.ones(2)])
    assert len(snapshot.take()) == 1
    with pytest.raises(errors.FailedPreconditionError, match="snapshot 'save': nothing is pinned; run take_snapshot first"):
        snapshot.take()
