"""TFRecord framing byte for byte, compressed files, and what is said about damaged ones."""
from __future__ import annotations

import io
import zlib

import pytest

from workbench import errors
from workbench.core.state import tfrecord as records


def test_the_checksum_is_crc_32c():
    assert records.crc32c(b"123456789") == 0xE3069283      # the check value of the algorithm's definition
    assert records.crc32c(bytes(32)) == 0x8A9136AA and records.crc32c(b"\xff" * 32) == 0x62A8AB43      # RFC 3720, B.4
    assert records.crc32c(b"") == 0


@pytest.mark.parametrize("length", [1, 63, 64, 80, 81, 82, 100, 1000, 4097])
def test_the_checksum_in_lanes_is_that_of_single_bytes(length: int):
    data = bytes(i * 7 % 251 for i in range(length))
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    assert records.crc32c(data) == register ^ 0xFFFFFFFF


def test_frames_come_back_with_their_offsets():
    file = io.BytesIO(records.frame(b"one") + records.frame(b"") + records.frame(b"three" * 100))
    assert list(records.frames(file, "f")) == [(0, b"one"), (19, b""), (35, b"three" * 100)]


@pytest.mark.parametrize(("damage", "text"), [
    (lambda raw: raw[:-3], "TFRecord 'f': the record at byte 19 should have 5 bytes but is cut short; get the file again"),
    (lambda raw: raw[:-6] + b"x" + raw[-5:], "TFRecord 'f': the record at byte 19 should have 5 bytes but is damaged; get "
                                             "the file again"),
    (lambda raw: raw[:20] + b"\1" + raw[21:], "TFRecord 'f': no record begins at byte 19; get the file again"),
    (lambda raw: raw[:22], "TFRecord 'f': no record begins at byte 19; get the file again")])
def test_damage_is_found_and_named(damage, text: str):
    raw = damage(records.frame(b"one") + records.frame(b"three"))
    with pytest.raises(errors.DataLossError) as caught:
        list(records.frames(io.BytesIO(raw), "f"))
    assert caught.value.message == text


# compressed files

@pytest.mark.parametrize("kind", ["ZLIB", "GZIP"])
@pytest.mark.parametrize("count", [0, 1, 5000])
def test_compressed_files_hold_the_same(kind: str, count: int):
    whole = b"".join(records.frame(b"%d" % i * 50) for i in range(count))
    packer = zlib.compressobj(wbits=records.WINDOWS[kind])
    raw = packer.compress(whole) + packer.flush()
    found = list(records.frames(records.expanded(io.BytesIO(raw), kind, "f"), "f"))
    assert [record for _, record in found] == [b"%d" % i * 50 for i in range(count)]
    assert records.expanded(io.BytesIO(raw * 2), kind, "f").read() == whole * 2


@pytest.mark.parametrize(("raw", "text"), [
    (zlib.compress(b"x" * 100, wbits=31)[:-9], "GZIP file 'f': it is cut short; get the file again"),
    (b"plain text", "GZIP file 'f': it is not such a file or is damaged (Error -3 while decompressing data: incorrect header "
                    "check); name its compression, or get the file again")], ids=["short", "plain"])
def test_damaged_compressed_files_are_named(raw: bytes, text: str):
    with pytest.raises(errors.DataLossError) as caught:
        records.expanded(io.BytesIO(raw), "GZIP", "f").read()
    assert caught.value.message == text
