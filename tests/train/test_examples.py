"""tf.Example messages and TFRecord files in Python; parsing in the graph is in tests/core/ops/test_ops_files.py."""
from __future__ import annotations

import re

import pytest

from tests.core.state.test_tfrecord import GOLDEN
from workbench import errors
from workbench.train.examples import (
    BytesList,
    Example,
    Feature,
    Features,
    FloatList,
    Int64List,
    TFRecordWriter,
    tf_record_iterator,
)


def example():
    return Example(features=Features(feature={
        "x": Feature(float_list=FloatList(value=[1.5, -2.0])), "y": Feature(int64_list=Int64List(value=[3, -1])),
        "t": Feature(bytes_list=BytesList(value=[b"ab"]))}))


def test_messages_are_tensorflows():
    assert example().SerializeToString() == GOLDEN
    found = Example.FromString(GOLDEN).features.feature
    assert found["x"].float_list.value == [1.5, -2] and found["y"].int64_list.value == [3, -1]
    assert found["t"].bytes_list.value == [b"ab"] and found["t"].float_list.value == []
    assert found["t"].WhichOneof("kind") == "bytes_list" and Feature().WhichOneof() is None
    assert "value=[b'ab']" in repr(found["t"])


def test_files_come_back(tmp_path):
    with TFRecordWriter(tmp_path / "r") as writer:
        writer.write(b"one")
        writer.flush()
        writer.write(GOLDEN)
    writer.close()
    assert list(tf_record_iterator(str(tmp_path / "r"))) == [b"one", GOLDEN]


@pytest.mark.parametrize(("action", "kind", "text"), [
    (lambda: BytesList(value=["text"]), errors.DtypeError, "BytesList: 'text' is a str; encode it to bytes"),
    (lambda: Int64List(value=[1.5]), errors.DtypeError, "Int64List: 1.5 is no integer of 64 bits; convert it"),
    (lambda: Int64List(value=[2**63]), errors.DtypeError, "is no integer of 64 bits"),
    (lambda: Feature(BytesList(), FloatList()), errors.InvalidArgumentError, "Feature: 2 lists were given; give one"),
    (lambda: Example.FromString(b"xyz!"), errors.DataLossError, "tf.Example: 4 bytes are none"),
    (lambda: list(tf_record_iterator("/no/such")), errors.NotFoundError, "'/no/such' does not exist; check the path")])
def test_what_cannot_be(action, kind, text: str):
    with pytest.raises(kind, match=re.escape(text)):
        action()


def test_a_closed_writer_says_so(tmp_path):
    writer = TFRecordWriter(tmp_path / "r")
    writer.close()
    with pytest.raises(errors.FailedPreconditionError, match="TFRecordWriter: it is closed; open another one"):
        writer.write(b"x")
