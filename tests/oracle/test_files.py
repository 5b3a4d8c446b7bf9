"""Summaries, event files, records and examples: what one library writes, the other reads, and both say the same."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.oracle.harness import compared, tensorflow

pytestmark = pytest.mark.oracle
RANDOM = np.random.default_rng(7)
IMAGES = RANDOM.uniform(-1, 1, (2, 3, 4, 3)).astype(np.float32)


def both(program: Any) -> tuple[Any, Any]:
    """What `program(tf)` gives, by TensorFlow and by us."""
    found = []
    for tf in (tensorflow(), ours):
        with tf.Graph().as_default(), tf.Session() as session:
            found.append(session.run(program(tf)))
    compared("values")
    return found[0], found[1]


SUMMARIES = {
    "scalar": lambda tf: tf.summary.scalar("a", 2.5), "scalar of ints": lambda tf: tf.summary.scalar("a", tf.constant(3)),
    "family": lambda tf: tf.summary.scalar("a b", 2.5, family="f g"),
    "histogram": lambda tf: tf.summary.histogram("h", RANDOM_VALUES),
    "histogram of ints": lambda tf: tf.summary.histogram("h", tf.constant([1, 1, 5, -7, 0])),
    "histogram of nothing": lambda tf: tf.summary.histogram("h", np.zeros([0], np.float32)),
    "histogram of odd numbers": lambda tf: tf.summary.histogram("h", np.array([1e-13, -1e-13, 1e21, -1e25, 1e-12, 1.1e-12])),
    "text": lambda tf: tf.summary.text("t", tf.constant(["one", "two"])),
    "tensor": lambda tf: tf.summary.tensor_summary("t", tf.constant([[1.0, 2.0]]), display_name="T", summary_description="d"),
    "audio": lambda tf: tf.summary.audio("s", SOUND, 8000.0),
    "audio of one": lambda tf: tf.summary.audio("s", SOUND[..., 0], 44100, max_outputs=1),
    "merged": lambda tf: tf.summary.merge([tf.summary.scalar("a", 1.0), tf.summary.scalar("a", 2.0)]),
}
RANDOM_VALUES = RANDOM.normal(size=1000)
SOUND = RANDOM.uniform(-1.2, 1.2, (4, 10, 2)).astype(np.float32)


@pytest.mark.parametrize("name", SUMMARIES)
def test_summaries_are_tensorflows(name: str):
    theirs, mine = (tensorflow().Summary.FromString(raw) for raw in both(SUMMARIES[name]))
    for a, b in zip(theirs.value, mine.value, strict=True):
        for field in ("sum", "sum_squares") if a.HasField("histo") else ():      # added up in another order
            assert getattr(b.histo, field) == pytest.approx(getattr(a.histo, field), rel=1e-12)
            setattr(b.histo, field, getattr(a.histo, field))
        if a.HasField("metadata"):      # newer TensorFlows tell more
            a.metadata.ClearField("data_class")
            if a.metadata.HasField("plugin_data"):
                a.metadata.plugin_data.ClearField("content")
    assert mine == theirs


@pytest.mark.parametrize("images", [IMAGES, IMAGES[..., :1] ** 2, (IMAGES * 100).astype(np.uint8)],
                         ids=["both signs", "one", "bytes"])
def test_pictures_are_tensorflows(images: np.ndarray):
    tf = tensorflow()
    theirs, mine = (tf.Summary.FromString(raw) for raw in both(lambda tf: tf.summary.image("i", images)))
    with tf.Graph().as_default(), tf.Session() as session:
        for a, b in zip(theirs.value, mine.value, strict=True):
            assert a.tag == b.tag
            pixels = [session.run(tf.image.decode_png(v.image.encoded_image_string)) for v in (a, b)]
            np.testing.assert_array_equal(*pixels)
            a.image.ClearField("encoded_image_string")
            b.image.ClearField("encoded_image_string")
            assert a == b


def written(tf: Any, folder: Path) -> list[Any]:
    """The events that TensorFlow reads from what `tf` wrote."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32, [None], name="x")
        tf.summary.scalar("average", tf.reduce_mean(x))
        tf.summary.histogram("values", x)
        tf.summary.text("note", tf.constant("text"))
        merged = tf.summary.merge_all()
        with tf.summary.FileWriter(str(folder)) as writer:
            for step in range(3):
                writer.add_summary(session.run(merged, {x: [1.0, 2.0, step]}), step)
            writer.add_graph(graph, 5)
            writer.add_session_log(tf.SessionLog(status=tf.SessionLog.STOP, msg="done"), 6)
            writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="t", simple_value=1.5)]))
    [path] = folder.iterdir()
    return list(tensorflow().train.summary_iterator(str(path))), list(ours.train.summary_iterator(str(path)))


def test_event_files_travel_both_ways(tmp_path: Path):
    tf = tensorflow()
    theirs, read_by_us = written(tf, tmp_path / "theirs")
    mine, also_by_us = written(ours, tmp_path / "ours")
    assert len(theirs) == len(mine) == len(read_by_us) == len(also_by_us) == 7
    for a, b, c, d in zip(theirs, mine, read_by_us, also_by_us):
        assert tf.Event.FromString(c.SerializeToString()) == a and tf.Event.FromString(d.SerializeToString()) == b
        assert (a.step, a.WhichOneof("what")) == (b.step, b.WhichOneof("what"))
        assert [(v.tag, v.WhichOneof("value"), v.HasField("metadata")) for v in a.summary.value] == [
            (v.tag, v.WhichOneof("value"), v.HasField("metadata")) for v in b.summary.value]
        assert a.session_log == b.session_log and a.file_version == b.file_version
    names = [{n.name: n.op for n in tf.GraphDef.FromString(e.graph_def).node} for e in (theirs[4], mine[4])]
    assert names[1].items() >= {"x": "Placeholder", "average": "ScalarSummary", "values": "HistogramSummary"}.items()
    assert names[0]["average"] == names[1]["average"]


# records and examples

@pytest.mark.parametrize("kind", ["NONE", "ZLIB", "GZIP"])
def test_records_travel_both_ways(tmp_path: Path, kind: str):
    for writer, reader in ((tensorflow(), ours), (ours, tensorflow())):
        def options(tf: Any) -> Any:
            return tf.python_io.TFRecordOptions(getattr(tf.python_io.TFRecordCompressionType, kind))
        path = str(tmp_path / f"{writer.__name__}.{kind}")
        with writer.python_io.TFRecordWriter(path, options(writer)) as file:
            for number in range(100):
                file.write(b"record %d" % number * number)
        assert list(reader.python_io.tf_record_iterator(path, options(reader))) == [b"record %d" % n * n for n in range(100)]


def message_of(tf: Any, **features: Any) -> Any:
    def one(values: Any) -> Any:
        kinds = {bytes: ("bytes_list", tf.train.BytesList), float: ("float_list", tf.train.FloatList)}
        name, kind = kinds.get(type(values[0]) if values else bytes, ("int64_list", tf.train.Int64List))
        return tf.train.Feature(**{name: kind(value=values)})
    return tf.train.Features(feature={key: one(values) for key, values in features.items()})


ASKED = {
    "dense": lambda tf: {"x": tf.FixedLenFeature([2], tf.float32), "t": tf.FixedLenFeature([], tf.string, default_value="none"),
                         "y": tf.FixedLenFeature([2, 1], tf.int64, [[7], [8]])},
    "variable": lambda tf: {"x": tf.VarLenFeature(tf.float32), "n": tf.VarLenFeature(tf.int64),
                            "t": tf.VarLenFeature(tf.string)},
    "padded": lambda tf: {"n": tf.FixedLenSequenceFeature([], tf.int64, True),
                          "x": tf.FixedLenSequenceFeature([2], tf.float32, True, -1.0)},
    "sparse": lambda tf: {"s": tf.SparseFeature("n", "x", tf.float32, 9),
                          "again": tf.SparseFeature(["n", "x_at"], "x", tf.float32, [9, 4])},
}
MESSAGES = [dict(x=[1.0, 2.0], n=[5, 3], x_at=[0, 1], t=[b"a"]), dict(x=[3.0, 4.0], n=[8, 1], x_at=[3, 2])]


def plain(found: Any) -> Any:
    """Arrays and sparse triples as lists."""
    if isinstance(found, dict):
        return {key: plain(value) for key, value in found.items()}
    return [np.asarray(part).tolist() for part in found] if isinstance(found, tuple) else np.asarray(found).tolist()


@pytest.mark.parametrize("asked", ASKED)
def test_examples_become_the_same_tensors(asked: str):
    found = []
    for tf in (tensorflow(), ours):
        batch = [tf.train.Example(features=message_of(tf, **named)).SerializeToString() for named in MESSAGES]
        with tf.Graph().as_default(), tf.Session() as session:
            many = session.run(tf.parse_example(tf.constant(batch), ASKED[asked](tf)))
            single = session.run(tf.parse_single_example(tf.constant(batch[0]), ASKED[asked](tf)))
        found.append((plain(many), plain(single)))
    assert found[0] == found[1]


def test_sequences_become_the_same_tensors():
    found = []
    for tf in (tensorflow(), ours):
        steps = {"a": [[1], [2], [3]], "b": [[b"x", b"y"], [b"z"], []]}
        lists = {key: tf.train.FeatureList(feature=[message_of(tf, f=values).feature["f"] for values in listed])
                 for key, listed in steps.items()}
        raw = tf.train.SequenceExample(context=message_of(tf, n=[3, 4]), feature_lists=tf.train.FeatureLists(
            feature_list=lists)).SerializeToString()
        with tf.Graph().as_default(), tf.Session() as session:
            found.append([plain(part) for part in session.run(tf.parse_single_sequence_example(
                raw, {"n": tf.VarLenFeature(tf.int64), "d": tf.FixedLenFeature([], tf.float32, 0.5)},
                {"a": tf.FixedLenSequenceFeature([1], tf.int64), "b": tf.VarLenFeature(tf.string),
                 "c": tf.FixedLenSequenceFeature([2], tf.float32, allow_missing=True)}))])
    assert found[0] == found[1]
