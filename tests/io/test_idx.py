"""IDX files: every element type, compressed or not, and one clear error for each way a file can be broken."""
from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from workbench import errors
from workbench.io.idx import read_idx, write_idx

TYPES = [np.uint8, np.int8, np.int16, np.int32, np.float32, np.float64]


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_every_element_type_survives(tmp_path, dtype, compress):
    array = (np.arange(24).reshape(2, 3, 4) - 3).astype(dtype)
    write_idx(tmp_path / "any-name", array, compress)
    read = read_idx(tmp_path / "any-name")
    assert read.dtype == array.dtype and read.dtype.isnative
    np.testing.assert_array_equal(read, array)


@settings(max_examples=60, deadline=None)
@given(array=hnp.arrays(st.sampled_from(TYPES), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)))
def test_any_shape_survives(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("idx") / "x"
    write_idx(path, array)
    np.testing.assert_array_equal(read_idx(path), array)
    assert read_idx(path).shape == array.shape


def test_bytes_are_those_of_the_format(tmp_path):
    write_idx(tmp_path / "x", np.array([[1, -2]], np.int16))
    assert (tmp_path / "x").read_bytes() == bytes.fromhex("00000b02 00000001 00000002 0001 fffe")


def test_result_is_writable_and_its_own(tmp_path):
    write_idx(tmp_path / "x", np.zeros(3, np.float64))
    read_idx(tmp_path / "x")[0] = 1
    assert read_idx(tmp_path / "x")[0] == 0


GOOD = struct.pack(">HBBII", 0, 8, 2, 2, 3) + bytes(range(6))
BROKEN = {
    "empty": (b"", "the header has 0 bytes but the magic number alone takes 4; the file is truncated"),
    "magic": (b"\x00\x00\x07\x01", "the magic number is 0x00000701 but IDX files start with one of 0x000008"),
    "html": (b"<!DOCTYPE html>", "the magic number is 0x3c21444f but IDX files start with one of"),
    "sizes": (GOOD[:9], "the header says rank 2, 8 bytes of sizes, but only 5 follow; the file is truncated"),
    "short": (GOOD[:-2], "the header says shape [2, 3], 6 bytes, but the file holds 4; it is truncated"),
    "long": (GOOD + b"!!", "the header says 6 bytes but 8 follow; 2 of them are garbage"),
    "huge": (struct.pack(">HBBII", 0, 14, 2, 2**32 - 1, 2**32 - 1), "but the file holds 0; it is truncated"),
    "gzip cut": (gzip.compress(GOOD)[:-9], "before its end mark; the file is truncated"),
    "gzip flipped": (gzip.compress(GOOD)[:-8] + bytes(8), "is corrupt (CRC check failed"),
    "gzip deflate": (gzip.compress(GOOD)[:10] + b"\xff" * 20, "is corrupt (Error -3"),
    "gzip garbage": (gzip.compress(GOOD) + b"garbage", "is corrupt (Not a gzipped file"),
    "gzip short": (gzip.compress(GOOD[:-2]), "header says shape [2, 3], 6 bytes, but 4 follow; the file is"),
    "gzip long": (gzip.compress(GOOD + b"!"), "the header says 6 bytes but 7 follow; 1 of them are garbage"),
    "gzip bomb": (gzip.compress(GOOD + bytes(3 << 20)), "but at least 1048582 follow"),
    "gzip huge": (gzip.compress(struct.pack(">HBBII", 0, 14, 2, 2**32 - 1, 2**32 - 1)), "compressed bytes, at most"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_say_what_is_wrong(tmp_path, case):
    content, text = BROKEN[case]
    path = tmp_path / "digits"
    path.write_bytes(content)
    with pytest.raises(errors.DataLossError) as caught:
        read_idx(path)
    message = str(caught.value)
    assert message.startswith(f"read_idx {path}: ") and text in message and message.endswith("get the file again")


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_every_cut_is_found(tmp_path_factory, data):
    content = data.draw(st.sampled_from([GOOD, gzip.compress(GOOD)]))
    path = tmp_path_factory.mktemp("idx") / "x"
    path.write_bytes(content[:data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(errors.DataLossError):
        read_idx(path)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(errors.NotFoundError, match="there is no such file; check the path"):
        read_idx(tmp_path / "none")
    with pytest.raises(errors.NotFoundError, match="it cannot be opened"):
        read_idx(tmp_path)


def test_element_type_without_code_is_refused(tmp_path):
    with pytest.raises(errors.InvalidArgumentError, match="the array is complex64 of rank 1 but IDX holds uint8"):
        write_idx(tmp_path / "x", np.zeros(2, np.complex64))
