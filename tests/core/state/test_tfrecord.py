"""TFRecord framing and tf.Example messages, byte for byte, and what is said about damaged ones."""
from __future__ import annotations

import io

import pytest

from workbench import errors
from workbench.core.state import tfrecord as records

EXAMPLE = {"t": ("bytes", [b"ab", b""]), "x": ("float", [1.5, -2.0]), "y": ("int64", [3, -1, 2**40]), "none": ("int64", [])}
# what TensorFlow 2.21 writes for PLAIN, deterministically
PLAIN = {"t": ("bytes", [b"ab"]), "x": ("float", [1.5, -2.0]), "y": ("int64", [3, -1])}
GOLDEN = bytes.fromhex("0a360a0b0a017412060a040a0261620a110a0178120c120a0a080000c03f000000c00a140a0179120f1a0d0a0b03"
                       "ffffffffffffffffff01")


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


def test_examples_are_written_as_tensorflow_does():
    assert records.encode_example(PLAIN) == GOLDEN and records.decode_example(GOLDEN) == PLAIN


def test_examples_come_back():
    assert records.decode_example(records.encode_example(EXAMPLE)) == EXAMPLE
    assert records.decode_example(b"") == {}


def test_numbers_written_one_by_one_are_read_too():
    entry = b"\x0a\x01y\x12\x06\x1a\x04\x08\x03\x08\x04"      # int64_list { value: 3 value: 4 }, not packed
    message = b"\x0a\x0d\x0a\x0b" + entry
    assert records.decode_example(message) == {"y": ("int64", [3, 4])}


@pytest.mark.parametrize("raw", [b"\x0a\xff", b"no example", b"\x0a\x05\x0a\x09abc", b"\xff" * 12])
def test_other_bytes_are_refused(raw: bytes):
    with pytest.raises(errors.DataLossError, match=r"tf.Example: \d+ bytes are none .*; pass what SerializeToString"):
        records.decode_example(raw)
