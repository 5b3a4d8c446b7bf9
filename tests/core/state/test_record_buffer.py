"""Records of many files in random order: each once in a pass, whatever the size of the buffer."""
from __future__ import annotations

from pathlib import Path

import pytest

import workbench as wb
from workbench import errors
from workbench.core.state.record_buffer import RecordBuffer
from workbench.core.state.tfrecord import frame


def files(folder: Path, count: int, records: int) -> str:
    for number in range(count):
        (folder / f"part.{number}").write_bytes(b"".join(frame(f"{number}/{k}".encode()) for k in range(records)))
    return str(folder / "part.*")


@pytest.mark.parametrize("capacity, together, shift", [(1, 1, 0.0), (7, 3, 0.34), (100, 20, 0.5)])
def test_each_record_comes_once_in_a_pass(tmp_path: Path, capacity: int, together: int, shift: float):
    buffer = RecordBuffer("r", files(tmp_path, 6, 5), capacity, together, shift, seed=3)
    passes = [buffer.take(30) for _ in range(3)]
    assert all(len(set(one)) == 30 for one in passes) and buffer.passes == 3
    assert passes[0] != passes[1] != passes[2]
    again = RecordBuffer("r", str(tmp_path / "part.*"), capacity, together, shift, seed=3)
    assert [again.take(30) for _ in range(3)] == passes


def test_files_without_records_and_missing_files_are_said(tmp_path: Path):
    (tmp_path / "part.0").write_bytes(b"")
    with pytest.raises(errors.OutOfRangeError, match="hold no record; write some, or name other files"):
        RecordBuffer("r", str(tmp_path / "part.*"), 1, 1, 0, 0).take(1)
    with pytest.raises(errors.NotFoundError, match=r"no file matches .*; check the pattern"):
        RecordBuffer("r", str(tmp_path / "none.*"), 1, 1, 0, 0).take(1)


def test_steps_take_batches_of_records(tmp_path: Path):
    pattern = files(tmp_path, 4, 3)
    with wb.Graph().as_default(), wb.Session() as session:
        whole = wb.RecordInput(pattern, batch_size=4, buffer_size=5, parallelism=2).get_yield_op()
        apart = wb.RecordInput(pattern, batch_size=3, batches=2, seed=1, name="input").get_yield_op()
        assert whole.shape.as_list() == [4] and len(apart) == 2 and all(len(batch) == 3 for batch in apart)
        assert len({record for _ in range(3) for record in session.run(whole)}) == 12
        found = [record for _ in range(2) for batch in session.run(apart) for record in batch]
        assert len(set(found)) == 12 and b"3/2" in found
    with pytest.raises(errors.InvalidArgumentError, match="parallelism and batches are 1, 0, 1 and None"):
        wb.RecordInput(pattern, buffer_size=0)
