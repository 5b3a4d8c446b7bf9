"""Increments: a checkpoint names what did not change, is whole whatever is removed, and no damage spoils all that are kept."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbench.core.graph.dtype import float32
from workbench.core.graph.shape import Shape
from workbench.core.state import changes
from workbench.core.state.checkpoint import base_of, latest, list_checkpoints, prune, publish, read, read_part, remove, verify
from workbench.core.state.increments import Increments, Value
from workbench.core.state.pins import snapshot_together
from workbench.core.state.variables import VariableState

ROWS, MOST = 40, 3


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(changes, "BLOCK_BYTES", 64)      # four rows of four float32


class Server:
    """A table and a bias, `rows` of a table of ROWS that begin at `start`."""

    def __init__(self, folder: Path, start: int = 0, rows: int = ROWS, index: int = 0, count: int = 1) -> None:
        self.folder, self.start, self.index, self.count = folder, start, index, count
        self.table, self.bias = VariableState("table", float32, Shape([rows, 4])), VariableState("b", float32, Shape([2]))
        self.table.assign(np.zeros((rows, 4), np.float32))
        self.bias.assign(np.zeros(2, np.float32))
        self.increments = Increments()

    def touch(self, *rows: int) -> None:
        places = np.array(rows)
        self.table.update(lambda old, out: (np.copyto(out, old), out.__setitem__(places, old[places] + 1)), rows=places)

    def record(self, step: int, most: int = MOST) -> dict[str, Any]:
        table, bias = snapshot_together([self.table, self.bias])
        values = [Value("table", table, table.value, (self.start, 0), (ROWS, 4)), Value(f"b{self.index}", bias, bias.value)]
        return self.increments.write(base_of(self.folder / "m", step), values, self.index, self.count, most)

    def save(self, step: int, most: int = MOST) -> dict[str, Any]:
        record = self.record(step, most)
        publish(base_of(self.folder / "m", step), step, [record])
        return record


def written(record: dict[str, Any]) -> list[tuple[str, int]]:
    """(name, first row) of what a record's own file holds."""
    return [(piece["name"], piece["start"][0]) for piece in record["pieces"] if piece["file"] == record["file"]]


def test_only_blocks_that_changed_are_written(tmp_path):
    server = Server(tmp_path)
    server.touch(0)
    assert len(written(server.save(1))) == 11
    server.touch(5, 39)
    assert written(server.save(2)) == [("table", 4), ("table", 36)]
    server.bias.assign(np.ones(2, np.float32))
    assert written(server.save(3)) == [("b0", 0)]
    assert written(server.save(4)) == []
    for step, row in ((1, 0), (2, 1), (3, 1), (4, 1)):
        found = read(tmp_path / f"m-{step}").tensors
        assert found["table"][0, 0] == 1 and found["table"][5, 0] == found["table"][39, 3] == row
        assert found["b0"][0] == (step > 2) and verify(tmp_path / f"m-{step}") == ""


def test_what_is_named_often_enough_is_written_again(tmp_path):
    server = Server(tmp_path)
    server.touch(0)
    counts = [len(written(server.save(step))) for step in range(9)]
    assert counts == [11, 0, 0, 0, 11, 0, 0, 0, 11]
    assert [len(written(Server(tmp_path).save(step, 0))) for step in (20, 21)] == [2, 2]


def test_what_is_needed_stays_when_its_checkpoint_goes_and_goes_when_nobody_needs_it(tmp_path):
    server = Server(tmp_path)
    server.touch(0)
    for step in range(12):
        server.touch(step)
        server.save(step)
        prune(tmp_path, 2)
        for info in list_checkpoints(tmp_path):
            assert not info.problem and verify(info.path) == ""
        needed = {file for info in list_checkpoints(tmp_path) for file in files_of(info.path)}
        assert {path.name for path in tmp_path.glob("*.safetensors")} == needed
    for info in list_checkpoints(tmp_path):
        remove(info.path)
    server.save(12)
    assert verify(tmp_path / "m-12") == "" and read(tmp_path / "m-12").tensors["table"][11, 0] == 1


def files_of(path: Any) -> set[str]:
    from workbench.core.state.manifest import read_manifest
    return set(read_manifest(path)["shards"])


def test_a_file_that_is_gone_is_written_again(tmp_path):
    server = Server(tmp_path)
    server.touch(0)
    (tmp_path / server.save(1)["file"]).unlink()
    assert len(written(server.save(2))) == 11 and verify(tmp_path / "m-2") == ""
    assert latest(tmp_path).name == "m-2"


def test_another_folder_gets_all_of_it(tmp_path):
    server = Server(tmp_path / "one")
    server.touch(0)
    server.save(1)
    server.folder = tmp_path / "other"
    assert len(written(server.save(2))) == 11


def test_a_variable_that_was_made_anew_is_written_whatever_its_versions_are(tmp_path):
    server = Server(tmp_path)
    server.touch(0)
    server.save(1)
    before, server.table = server.table, Server(tmp_path).table
    server.touch(7)
    assert server.table.version == before.version
    server.save(2)
    found = read(tmp_path / "m-2").tensors["table"]
    assert found[7, 0] == 1 and found[0, 0] == 0


def test_a_damaged_increment_is_passed_over_by_name_and_one_damaged_file_never_spoils_all(tmp_path, caplog):
    server = Server(tmp_path)
    for step in range(MOST + 6):
        server.touch(step)
        server.save(step)
        prune(tmp_path, MOST + 2)
    kept = list_checkpoints(tmp_path)
    last = max(files_of(kept[-1].path) - files_of(kept[-2].path))
    _flip(tmp_path / last)
    assert latest(tmp_path, verified=True) == kept[-2].path and last in caplog.text
    assert not files_of(kept[0].path) & files_of(kept[-1].path)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_parts_of_several_servers_are_read_as_any_other_parts(tmp_path):
    servers = [Server(tmp_path, 0, 24, 0, 2), Server(tmp_path, 24, 16, 1, 2)]
    expected = np.zeros((ROWS, 4), np.float32)
    for step in range(6):
        row = (7 * step) % ROWS
        servers[row >= 24].touch(row - 24 * (row >= 24))
        expected[row] += 1
        publish(base_of(tmp_path / "m", step), step, [server.record(step) for server in servers])
        found = [read_part(tmp_path / f"m-{step}", "table", (first, 0), (end - first, 4))
                 for first, end in ((0, 13), (13, 27), (27, ROWS))]
        np.testing.assert_array_equal(np.concatenate(found), expected)


def test_parts_without_rows_need_no_file(tmp_path):
    servers = [Server(tmp_path, 0, ROWS, 0, 2), Server(tmp_path, ROWS, 0, 1, 2)]
    publish(base_of(tmp_path / "m", 1), 1, [server.record(1) for server in servers])
    assert read(tmp_path / "m-1").tensors["table"].shape == (ROWS, 4)
