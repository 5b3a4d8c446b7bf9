"""Checkpoints on a disk that may lose power at any moment: one that was published is there, whole, and so is all of it."""
from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sim.disk import Disk
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.shape import Shape
from workbench.core.state import changes, checkpoint, storage
from workbench.core.state.increments import Increments, Value
from workbench.core.state.pins import snapshot_together
from workbench.core.state.variables import VariableState

SEEDS = 8
SERVERS = 3


class Violation(AssertionError):
    """What must hold did not."""


ROWS = 40           # of which each checkpoint finds a few changed


def values(step: int, server: int) -> dict[str, np.ndarray]:
    """What a parameter server holds after so many updates: integers, so that sums are exact."""
    table = np.zeros((ROWS, 4), np.float32)
    for row in range(step):
        table[row * (server + 1) % ROWS] = row
    return {f"w{server}": np.full(300 + 50 * server, step * (server + 1), np.float32), f"step{server}": np.int64(step),
            f"table{server}": table}


class Server:
    """A parameter server whose checkpoints name the blocks of rows that did not change since those before."""

    def __init__(self, number: int) -> None:
        self.number, self.increments = number, Increments()
        self.states = {name: VariableState(name, as_dtype(value.dtype), Shape(value.shape))
                       for name, value in values(0, number).items()}
        self.train(0)

    def train(self, step: int) -> None:
        """Up to that step."""
        for name, value in values(step, self.number).items():
            state = self.states[name]
            rows = (state.read() != value).any(-1).nonzero()[0] if state.initialized and value.ndim == 2 else None
            if rows is None:
                state.assign(np.asarray(value))
            else:
                state.update(lambda old, out, value=value: np.copyto(out, value), rows=rows)

    def write(self, base: Any) -> dict[str, Any]:
        pinned = snapshot_together([*self.states.values()])
        found = [Value(name, one, one.value) for name, one in zip(self.states, pinned)]
        return self.increments.write(base, found, self.number, SERVERS, 2)


def train(folder: Path, seed: object, syncs: bool = True, publish: Any = checkpoint.publish) -> int:
    """Publish checkpoints while the power goes at moments that the seed chooses; how often it went."""
    chance = random.Random(str(seed))
    disk, cuts, published = Disk(folder / "disk", chance), itertools.count(), [-1]

    def moment() -> None:
        if chance.random() < 0.15:
            check(disk.power_cut(folder / f"after {next(cuts)}"), published[-1])
    disk.moments = moment
    servers = [Server(number) for number in range(SERVERS)]
    with disk.watched(syncs):
        for step in sorted(chance.sample(range(40), 5)):
            for _ in range(chance.choice((1, 1, 2))):        # a step that is saved again replaces its checkpoint
                base = checkpoint.base_of(disk.path / "model", step)
                for server in servers:
                    server.train(step)
                if chance.random() < 0.2:                    # of one of them it fails; the next names what the others wrote
                    for server in servers[1:]:
                        server.write(base)
                publish(base, step, [server.write(base) for server in servers])
                published.append(step)
                moment()
            checkpoint.prune(disk.path, 2)
    return next(cuts)


def check(found: Path, published: int) -> None:
    """The newest checkpoint is one that was published or is being published, and every server's part of it is of one step."""
    newest = checkpoint.latest(found, verified=True)
    if newest is None:
        if published >= 0:
            raise Violation(f"checkpoint {published} was published and is lost")
        return
    read = checkpoint.read(newest)
    if read.step < published:
        raise Violation(f"checkpoint {published} was published but the newest that is whole is {read.step}")
    for server in range(SERVERS):
        for name, value in values(read.step, server).items():
            if not np.array_equal(read.tensors[name], value):
                raise Violation(f"{name} of checkpoint {read.step} is not what was saved")


@pytest.fixture(autouse=True)
def silence(caplog):
    """Damaged checkpoints are passed over, which is said."""
    caplog.set_level("CRITICAL")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(changes, "BLOCK_BYTES", 64)      # four rows of four float32


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_was_published_survives_every_loss_of_power(tmp_path, seed):
    train(tmp_path, seed)


def found_by(tmp_path: Path, **mutation: Any) -> bool:
    for seed in range(200):
        try:
            train(tmp_path / str(seed), seed, **mutation)
        except Violation:
            return True
    return False


def test_files_that_are_not_synced_are_found(tmp_path):
    assert found_by(tmp_path, syncs=False)


def test_a_folder_that_is_not_synced_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_sync_folder", lambda folder: None)
    assert found_by(tmp_path)


def test_a_manifest_that_is_no_rename_is_found(tmp_path, monkeypatch):
    """Written in place it is torn for a moment, and with it the checkpoint that it replaces."""
    def in_place(path: Path, content: bytes, observe: Any = None) -> None:
        with storage.new_file(path) as file:
            file.write(content)
        storage._sync_folder(path.parent)
    monkeypatch.setattr(checkpoint, "replace", in_place)
    assert found_by(tmp_path)


def test_shards_that_are_published_before_they_are_checked_in_are_found(tmp_path):
    """A manifest that names what a slower writer is still to write."""
    def early(base: Any, step: int, records: Any) -> Any:
        path = base.with_name(records[-1]["file"])
        content = path.read_bytes()
        checkpoint.publish(base, step, records)
        path.write_bytes(content[:-8] + bytes(8))      # the last bytes were not there yet
        return base
    assert found_by(tmp_path, publish=early)


def test_files_that_go_with_the_checkpoint_that_wrote_them_are_found(tmp_path, monkeypatch):
    """Later ones may need them."""
    needed = checkpoint._shards_of
    monkeypatch.setattr(checkpoint, "_shards_of", lambda base: {name for name in needed(base) if name.startswith(base.name)})
    assert found_by(tmp_path)


def test_blocks_that_are_not_noted_when_they_change_are_found(tmp_path, monkeypatch):
    note = changes.Changes.note
    monkeypatch.setattr(changes.Changes, "note",
                        lambda self, version, value, rows=None: note(self, version, value, rows if rows is None else rows[:1]))
    assert found_by(tmp_path)
