"""TensorFlow's checkpoints as files: written and read again, a file of its own, and every kind of damage by name."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workbench import errors
from workbench.core.state import checkpoint
from workbench.formats import bundle, table

VALUES = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3), "b/c": np.float64(3.5), "t": np.array([True, False]),
    "s": np.array([b"x", b"", b"y" * 300], object), "h": np.float16([1, 2.5]), "z": np.zeros((0, 2), np.int64)}


def test_what_is_written_is_read(tmp_path):
    path = bundle.write(tmp_path / "new" / "model.ckpt-7", VALUES)
    reader = bundle.open_checkpoint(path)
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "model.ckpt-7.data-00000-of-00001", "model.ckpt-7.index"]
    assert reader.get_variable_to_shape_map()["a"] == [2, 3] and reader.has_tensor("b/c") and not reader.has_tensor("b")
    for name, value in VALUES.items():
        found = reader.get_tensor(name)
        assert found.dtype == value.dtype and found.tolist() == value.tolist()
    assert b"a (DT_FLOAT) [2,3]" in reader.debug_string()
    with pytest.raises(errors.NotFoundError, match="Key q not found in checkpoint, which holds 'a', 'b/c'"):
        reader.get_tensor("q")


def test_the_older_format_is_one_file(tmp_path):
    values = {**VALUES, "c": np.complex64([1 + 2j, -1j]), "i": np.int8([[-3]]), "u": np.uint8([255])}
    path = bundle.write_old(tmp_path / "new" / "old.ckpt", values)
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["old.ckpt"] and bundle.is_tensorflow(path)
    reader = bundle.open_checkpoint(path)
    for name, value in values.items():
        found = reader.get_tensor(name)
        assert found.dtype == value.dtype and found.shape == value.shape and found.tolist() == value.tolist()
    bundle.remove(path)
    assert not list((tmp_path / "new").iterdir())


def test_checkpoints_of_ours_are_read_by_the_same_reader(tmp_path):
    path = checkpoint.write(tmp_path / "ours", 3, {"w": np.float32([1, 2])})
    reader = bundle.open_checkpoint(path)
    assert reader.get_tensor("w").tolist() == [1, 2] and not bundle.is_tensorflow(path) and bundle.exists(path)
    assert not bundle.exists(tmp_path / "nothing")


def damage(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(("suffix", "change", "text"), [
    (".data-00000-of-00001", lambda p: damage(p, 3), r"data-00000-of-00001: tensor 'a' is damaged \(checksum 0x"),
    (".data-00000-of-00001", lambda p: p.write_bytes(p.read_bytes()[:5]), "tensor 'a' should have 24 bytes at byte 0 but 5"),
    (".data-00000-of-00001", lambda p: p.unlink(), "its file .*data-00000-of-00001 is missing; copy all files"),
    (".index", lambda p: damage(p, 20), r"index: the block of \d+ bytes at byte 0 is damaged"),
    (".index", lambda p: damage(p, -1), "index: its .* bytes do not end as a table does"),
    (".index", lambda p: p.write_bytes(b""), "index: its 0 bytes do not end as a table does"),
])
def test_damage_is_named(tmp_path, suffix, change, text):
    path = bundle.write(tmp_path / "m", VALUES)
    change(Path(path + suffix))
    with pytest.raises((errors.DataLossError, errors.NotFoundError), match=text):
        bundle.open_checkpoint(path).get_tensor("a")


def test_a_table_of_many_blocks():
    rows = [(f"key{i:05d}".encode(), bytes([i % 251]) * 200) for i in range(5000)]
    data = table.write_table(rows)
    assert list(table.read_table(data, "table").items()) == rows


def test_rows_share_the_beginnings_of_keys_and_blocks_may_be_packed():
    block = b"\0\3\1abc1" + b"\2\1\1d2"      # "abc" -> 1, "abd" -> 2
    assert list(table._rows(block + (0).to_bytes(4, "little") + (1).to_bytes(4, "little"))) == [(b"abc", b"1"), (b"abd", b"2")]
    assert table._unpacked(b"\x0a" + b"\x08abc" + b"\x0d\x03") == b"abcabcabca"
    with pytest.raises(ValueError, match="a copy reaches before the beginning"):
        table._unpacked(b"\x05" + b"\x05\x09")


def test_keys_of_slices_keep_the_order_of_numbers():
    numbers = [-5000, -65, -64, -1, 0, 1, 63, 64, 5000, 2**31]
    assert [bundle._signed(n) for n in numbers] == sorted(bundle._signed(n) for n in numbers)
    assert bundle._signed(0) == b"\x80" and bundle._signed(64) == b"\xc0\x40" and bundle._signed(-1) == b"\x7f"
