"""Files that are compressed as a whole: records of one length, and a compression that is fed."""
from __future__ import annotations

import gzip
import zlib

import pytest

import workbench.tf1 as tf
from workbench import errors

RECORDS = [bytes([65 + i]) * 4 for i in range(6)]


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize(("encoding", "pack"), [("ZLIB", zlib.compress), ("GZIP", gzip.compress), (None, bytes)])
def test_records_of_one_length_of_a_compressed_file(tmp_path, encoding, pack):
    path = tmp_path / "records"
    path.write_bytes(pack(b"HEAD" + b"".join(RECORDS) + b"FT"))
    queue = tf.FIFOQueue(2, [tf.string], [()])
    hopping = tf.FixedLengthRecordReader(4, header_bytes=4, footer_bytes=2, hop_bytes=8, encoding=encoding)
    key, value = hopping.read(queue)
    with tf.Session() as session:
        session.run([queue.enqueue([str(path)]), queue.close()])
        found = [session.run([key, value]) for _ in range(3)]
        assert [v for _, v in found] == RECORDS[::2] and found[1][0] == f"{path}:1".encode()
        with pytest.raises(errors.OutOfRangeError):
            session.run(value)
    with pytest.raises(errors.InvalidArgumentError, match="compression type 'LZMA' is none of"):
        tf.FixedLengthRecordReader(4, encoding="LZMA")


def test_the_compression_of_a_dataset_may_be_fed(tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(b"one\ntwo\n"))
    (tmp_path / "b").write_bytes(b"three\n")
    name, kind = tf.placeholder(tf.string, []), tf.placeholder_with_default("", [])
    for dataset in (tf.data.TextLineDataset(name, kind),):
        iterator = dataset.make_initializable_iterator()
        line = iterator.get_next()
        with tf.Session() as session:
            session.run(iterator.initializer, {name: str(tmp_path / "a"), kind: "GZIP"})
            assert [session.run(line) for _ in range(2)] == [b"one", b"two"]
            session.run(iterator.initializer, {name: str(tmp_path / "b")})
            assert session.run(line) == b"three"
            session.run(iterator.initializer, {name: str(tmp_path / "b"), kind: "LZMA"})
            with pytest.raises(errors.InvalidArgumentError, match="compression type 'LZMA' is none of"):
                session.run(line)
