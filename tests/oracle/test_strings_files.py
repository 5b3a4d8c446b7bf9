"""Text, examples, readers and the producers of input against TensorFlow."""
from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.oracle.harness import same_story

pytestmark = pytest.mark.oracle


def evaluated(*made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def story(tf: Any) -> Any:
        with tf.Session() as session:
            return [session.run(f(tf)) for f in made]
    return story


def parts(sparse: Any) -> list[Any]:
    return [sparse.indices, sparse.values, sparse.dense_shape]


def texts(*values: bytes) -> Any:
    return np.array(values, object)


TEXT: dict[str, Callable[[Any], Any]] = {
    "as_string": evaluated(lambda tf: [
        tf.as_string(np.int32([1, -20])), tf.as_string(np.int64([2**40])), tf.as_string([True, False]),
        tf.as_string(np.float32([1.5, -2.25]), precision=3), tf.as_string([1.5], scientific=True),
        tf.as_string([0.25], shortest=True), tf.as_string([3], width=5, fill="0")]),
    "string_join": evaluated(lambda tf: tf.string_join([["a", "b"], "-", ["c", "d"]]),
                             lambda tf: tf.string_join([["a"], ["b"]], separator="::")),
    "string_split": evaluated(*(lambda tf, a=a: parts(tf.string_split(*a)) for a in (
        (["a b", "c", " d  e "],), (["a,b;c"], ",;"), (["abc", ""], ""), (["a,,b", "", ","], ",", False)))),
    "string_to_number": evaluated(lambda tf: tf.string_to_number(["1.5", "-2", "1e3"]),
                                  lambda tf: [tf.string_to_number(["7", "-8"], t) for t in ("int32", "int64", "float64")]),
    "reduce_join": evaluated(lambda tf: tf.reduce_join([["a", "b"], ["c", "d"]], 1, separator="+")),
    "decode_compressed": evaluated(lambda tf: [
        tf.decode_compressed(texts(b"plain")), tf.decode_compressed(texts(zlib.compress(b"squeezed")), "ZLIB"),
        tf.decode_compressed(texts(gzip.compress(b"zipped")), "GZIP")]),
    "tensors as bytes": evaluated(lambda tf: [
        tf.parse_tensor(tf.serialize_tensor(np.array(x, kind)), kind) for x, kind in (
            ([[1.5, -2.0]], "float32"), (7, "int64"), ([True, False], "bool"), ([], "float64"))],
                                  lambda tf: tf.parse_tensor(tf.serialize_tensor(texts(b"a", b"")), "string")),
    "hashes": evaluated(lambda tf: [
        tf.string_to_hash_bucket_fast(["a", "bc"], 97), tf.string_to_hash_bucket(["a", "bc"], 97),
        tf.strings.to_hash_bucket(["a"], 7), tf.strings.to_hash_bucket_fast(["a"], 7),
        tf.strings.to_hash_bucket_strong(["a"], 7, [1, 2])]),
    "strings": evaluated(lambda tf: tf.strings.strip([" a ", "b"]), lambda tf: tf.strings.as_string([1]),
                         lambda tf: tf.strings.to_number(["4.5"])),
}


@pytest.mark.parametrize("name", TEXT)
def test_text(name: str) -> None:
    same_story(TEXT[name])


# examples

def example(tf: Any, number: int) -> bytes:
    f = tf.train
    return bytes(f.Example(features=f.Features(feature={
        "name": f.Feature(bytes_list=f.BytesList(value=[b"n%d" % number])),
        "size": f.Feature(float_list=f.FloatList(value=[number, 0.5])),
        "tags": f.Feature(int64_list=f.Int64List(value=range(number)))})).SerializeToString())


def parsed(tf: Any) -> Any:
    features = {"name": tf.FixedLenFeature([], "string"), "size": tf.FixedLenFeature([2], "float32"),
                "tags": tf.VarLenFeature("int64"), "none": tf.FixedLenFeature([1], "int64", default_value=[7])}
    many = tf.parse_example([example(tf, n) for n in range(3)], features)
    one = tf.parse_single_example(example(tf, 2), features)
    with tf.Session() as session:
        found = [session.run(made) for made in (many, one)]
    return [v for f in found for key in sorted(f) for v in (parts(f[key]) if key == "tags" else [f[key]])]


def sparse_parts(tf: Any) -> Any:
    given = tf.SparseTensorValue([[0, 1], [2, 0]], np.float32([3, 4]), [3, 2])
    x = tf.sparse_placeholder("float32", [3, 2])
    same = tf.convert_to_tensor_or_sparse_tensor(given)
    plain = tf.convert_to_tensor_or_sparse_tensor([1.0, 2.0])
    rows = tf.convert_to_tensor_or_indexed_slices(tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([1])))
    with tf.Session() as session:
        return [*session.run([tf.sparse_tensor_to_dense(x), tf.sparse_tensor_to_dense(same), plain], {x: given}),
                *session.run([rows.values, rows.indices])]


@pytest.mark.parametrize("story", [parsed, sparse_parts], ids=lambda s: s.__name__)
def test_examples(story: Callable[[Any], Any]) -> None:
    same_story(story)


# files

def queued(make: Callable[[Any], Any], count: int) -> Callable[[Any], Any]:
    """What the tensors of `make(tf)` are in `count` steps with queue runners."""
    def story(tf: Any) -> Any:
        made = make(tf)
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            coordinator = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(session, coordinator)
            told = [session.run(made) for _ in range(count)]
            try:
                session.run(made)
                told.append(b"more")
            except tf.errors.OutOfRangeError:
                told.append(b"ended")
            coordinator.request_stop()
            coordinator.join(threads, stop_grace_period_secs=20)
        return told
    return story


PRODUCERS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "string_input_producer": (lambda tf: tf.train.string_input_producer(["a", "b"], 2, shuffle=False).dequeue(), 4),
    "range_input_producer": (lambda tf: tf.train.range_input_producer(3, 2, shuffle=False).dequeue(), 6),
    "slice_input_producer": (lambda tf: tf.train.slice_input_producer([[1, 2], ["x", "y"]], 2, shuffle=False), 4),
    "input_producer": (lambda tf: tf.train.input_producer([[1, 2], [3, 4]], num_epochs=1, shuffle=False).dequeue(), 2),
    "limit_epochs": (lambda tf: tf.train.limit_epochs(tf.constant([1, 2]), 3), 3),
    "batch": (lambda tf: tf.train.batch(tf.train.slice_input_producer([[1, 2, 3]], 1, shuffle=False), 2,
                                        allow_smaller_final_batch=True), 2),
    "batch_join": (lambda tf: tf.train.batch_join([tf.train.slice_input_producer([[1, 2, 3, 4]], 1, shuffle=False)], 2), 2),
    "shuffle_batch of all": (lambda tf: tf.reduce_sum(tf.train.shuffle_batch(
        tf.train.slice_input_producer([[1, 2, 3, 4]], 1, shuffle=False), 4, 8, 3)), 1),
    "shuffle_batch_join of all": (lambda tf: tf.reduce_sum(tf.train.shuffle_batch_join(
        [tf.train.slice_input_producer([[1, 2, 3, 4]], 1, shuffle=False)], 4, 8, 3)), 1),
}


@pytest.mark.parametrize("name", PRODUCERS)
def test_producers(name: str) -> None:
    same_story(queued(*PRODUCERS[name]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("first\nsecond\nthird\n")
    (tmp_path / "b.txt").write_text("fourth\n")
    (tmp_path / "c.bin").write_bytes(b"HEAD" + bytes(range(12)) + b"F")
    return tmp_path


READERS: dict[str, Callable[[Any, Any], Any]] = {
    "TextLineReader": lambda tf, queue: tf.TextLineReader(skip_header_lines=0).read(queue),
    "WholeFileReader": lambda tf, queue: tf.WholeFileReader().read(queue),
    "TextLineReader up to": lambda tf, queue: tf.TextLineReader().read_up_to(queue, 3),
}


@pytest.mark.parametrize("name", READERS)
def test_readers(name: str, folder: Path) -> None:
    names = [str(folder / "a.txt"), str(folder / "b.txt")]

    def make(tf: Any) -> Any:
        assert issubclass(tf.TextLineReader, tf.ReaderBase)
        return list(READERS[name](tf, tf.train.string_input_producer(names, 1, shuffle=False)))
    same_story(queued(make, {"TextLineReader": 4, "WholeFileReader": 2, "TextLineReader up to": 2}[name]))


def test_records_of_fixed_length_and_framed_ones(folder: Path) -> None:
    def fixed(tf: Any) -> Any:
        queue = tf.train.string_input_producer([str(folder / "c.bin")], 1, shuffle=False)
        return list(tf.FixedLengthRecordReader(4, header_bytes=4, footer_bytes=1).read(queue))
    same_story(queued(fixed, 3))
    path = str(folder / "records")

    def framed(tf: Any) -> Any:
        with tf.python_io.TFRecordWriter(path) as writer:
            for number in range(3):
                writer.write(example(tf, number))
        assert list(tf.python_io.tf_record_iterator(path)) == [example(tf, n) for n in range(3)]
        return list(tf.TFRecordReader().read(tf.train.string_input_producer([path], 1, shuffle=False)))
    same_story(queued(framed, 3))


def test_whole_files(folder: Path) -> None:
    def story(tf: Any) -> Any:
        made = str(folder / "made" / "new.txt")
        with tf.Session() as session:
            session.run(tf.local_variables_initializer())
            session.run(tf.write_file(made, "written"))
            found = tf.train.match_filenames_once(str(folder / "*.txt"))
            session.run(tf.local_variables_initializer())
            return [session.run(tf.read_file(made)), *session.run([tf.matching_files(str(folder / "*.bin")), found])]
    same_story(story)
    assert os.listdir(folder / "made") == ["new.txt"]
