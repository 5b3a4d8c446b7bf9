"""tf.Example messages and TFRecord files in Python; parsing in the graph is in tests/core/ops/test_ops_examples.py."""
from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path

import pytest

import workbench as wb
from workbench import errors
from workbench.train.input.examples import TFRecordCompressionType, TFRecordOptions, TFRecordWriter, tf_record_iterator

# what TensorFlow 2.21 writes for this example, deterministically
GOLDEN = bytes.fromhex("0a360a0b0a017412060a040a0261620a110a0178120c120a0a080000c03f000000c00a140a0179120f1a0d0a0b03"
                       "ffffffffffffffffff01")
KINDS = {"": TFRecordCompressionType.NONE, "ZLIB": TFRecordCompressionType.ZLIB, "GZIP": TFRecordCompressionType.GZIP}


def test_messages_are_tensorflows():
    made = wb.train.Example()
    made.features.feature["x"].float_list.value.extend([1.5, -2.0])
    made.features.feature["y"].int64_list.value.extend([3, -1])
    made.features.feature["t"].bytes_list.value.append(b"ab")
    assert made.SerializeToString(deterministic=True) == GOLDEN and wb.train.Example.FromString(GOLDEN) == made
    assert made.features.feature["t"].WhichOneof("kind") == "bytes_list"
    with pytest.raises(TypeError, match="str"):
        wb.train.Int64List(value=["text"])


@pytest.mark.parametrize("kind", KINDS)
def test_files_come_back(tmp_path: Path, kind: str):
    path, options = str(tmp_path / "r"), TFRecordOptions(KINDS[kind])
    with TFRecordWriter(path, options) as writer:
        writer.write(b"one")
        writer.flush()
        writer.write(GOLDEN)
    writer.close()
    assert list(tf_record_iterator(path, options)) == [b"one", GOLDEN]
    plain = {"": bytes, "ZLIB": zlib.decompress, "GZIP": gzip.decompress}[kind](Path(path).read_bytes())
    assert plain.endswith(GOLDEN + plain[-4:]) and TFRecordOptions.get_compression_type_string(options) == kind
    with wb.Graph().as_default(), wb.Session() as session:
        queue = wb.FIFOQueue(1, wb.string, [()])
        _, value = wb.TFRecordReader(options=options).read(queue)
        following = wb.data.TFRecordDataset(path, compression_type=kind).make_one_shot_iterator().get_next()
        session.run(queue.enqueue(path))
        assert [session.run([value, following]) for _ in range(2)] == [[b"one"] * 2, [GOLDEN] * 2]


def test_lines_of_compressed_files(tmp_path: Path):
    (tmp_path / "l.gz").write_bytes(gzip.compress(b"one\r\ntwo"))
    with wb.Graph().as_default(), wb.Session() as session:
        line = wb.data.TextLineDataset(str(tmp_path / "l.gz"), "GZIP").make_one_shot_iterator().get_next()
        assert [session.run(line), session.run(line)] == [b"one", b"two"]


@pytest.mark.parametrize(("action", "kind", "text"), [
    (lambda: list(tf_record_iterator("/no/such")), errors.NotFoundError, "'/no/such' does not exist; check the path"),
    (lambda: TFRecordWriter("x", TFRecordOptions(7)), errors.InvalidArgumentError,
     "TFRecordWriter: compression type 7 is none of '', 'ZLIB' and 'GZIP'"),
    (lambda: wb.data.TFRecordDataset("x", "zip"), errors.InvalidArgumentError,
     "TFRecordDataset: compression type 'zip' is none of '', 'ZLIB' and 'GZIP'")])
def test_what_cannot_be(action, kind, text: str):
    with wb.Graph().as_default(), pytest.raises(kind, match=re.escape(text)):
        action()


def test_a_compressed_file_read_as_a_plain_one(tmp_path: Path):
    with TFRecordWriter(tmp_path / "r", TFRecordOptions(TFRecordCompressionType.GZIP)) as writer:
        writer.write(b"x")
    with pytest.raises(errors.DataLossError, match="no record begins at byte 0"):
        list(tf_record_iterator(tmp_path / "r"))


def test_a_closed_writer_says_so(tmp_path: Path):
    writer = TFRecordWriter(tmp_path / "r")
    writer.close()
    with pytest.raises(errors.FailedPreconditionError, match="TFRecordWriter: it is closed; open another one"):
        writer.write(b"x")
