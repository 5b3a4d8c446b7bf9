"""Datasets in a graph: structures, mapped functions, static shapes, the kinds of iterators, files; errors."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.train.input.data import Dataset, FixedLengthRecordDataset, Iterator, TextLineDataset, TFRecordDataset
from workbench.train.input.examples import TFRecordWriter

pytestmark = pytest.mark.usefixtures("graph")
SEED = 2
X, Y = np.arange(10, dtype=np.float32).reshape(5, 2), np.arange(5)


def drain(dataset, most=100):
    """All elements, as nested lists."""
    element = dataset.make_one_shot_iterator().get_next() if isinstance(dataset, Dataset) else dataset
    found = []
    with wb.Session() as session:
        try:
            while len(found) < most:
                found.append(_plain(session.run(element)))
        except errors.OutOfRangeError:
            pass
    return found


def _plain(value):
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    return value if isinstance(value, bytes) else value.tolist()


def test_slices_in_structures_with_static_shapes():
    dataset = Dataset.from_tensor_slices(({"x": X, "n": Y}, Y)).batch(2)
    (features, label), = [dataset.make_one_shot_iterator().get_next()]
    assert features["x"].shape == [None, 2] and label.shape == [None] and label.dtype is wb.int64
    assert dataset.output_types == ({"n": wb.int64, "x": wb.float32}, wb.int64)
    assert dataset.output_shapes[0]["x"] == [None, 2] and dataset.output_classes[1] is wb.Tensor
    assert drain((features, label))[2] == ({"x": [[8, 9]], "n": [4]}, [4])
    assert Dataset.from_tensor_slices(X).batch(2, drop_remainder=True).output_shapes == [2, 2]


def test_functions_before_and_after_batches():
    scale = wb.constant(10.0)      # functions may use tensors of the graph
    dataset = Dataset.from_tensor_slices((X, Y)).map(lambda x, y: {"sum": wb.reduce_sum(x) * scale, "y": y})
    expected = [{"sum": float(s), "y": int(y)} for s, y in zip(X.sum(1) * 10, Y)]
    assert drain(dataset) == expected
    batched = drain(dataset.batch(2))
    assert [b["y"] for b in batched] == [[0, 1], [2, 3], [4]]
    np.testing.assert_allclose(np.concatenate([b["sum"] for b in batched]), X.sum(1) * 10)
    again = dataset.batch(2).map(lambda e: wb.reduce_sum(e["sum"]))
    assert again.output_types is wb.float32 and drain(again) == [60, 220, 170]
    twice = drain(Dataset.range(4).map(lambda v: v * 2).batch(2).map(lambda v: v + 1).batch(2))
    assert twice == [[[1, 3], [5, 7]]]


def test_order_and_number_with_functions():
    dataset = Dataset.range(6).map(lambda v: (v, wb.as_string(v))).shuffle(6).repeat(2).skip(1).take(10).batch(5)
    found = drain(dataset)
    assert [len(numbers) for numbers, _ in found] == [5, 5]
    assert all([b"%d" % n for n in numbers] == texts for numbers, texts in found)
    assert drain(Dataset.range(10).shard(3, 1)) == [1, 4, 7]
    assert drain(Dataset.range(3).cache().prefetch(1).apply(lambda d: d.repeat())), "endless"
    assert drain(Dataset.range(3).repeat(), most=7) == [0, 1, 2, 0, 1, 2, 0]


def test_side_by_side_and_one_after_the_other():
    words = Dataset.from_tensor_slices(["a", "b", "c"])
    dataset = Dataset.zip({"n": Dataset.range(5, 9).map(lambda v: -v), "w": words})
    assert drain(dataset) == [{"n": -5, "w": b"a"}, {"n": -6, "w": b"b"}, {"n": -7, "w": b"c"}]
    assert drain(Dataset.range(2).concatenate(Dataset.from_tensor_slices(Y).skip(4))) == [0, 1, 4]
    assert drain(Dataset.zip((Dataset.from_tensors(X), Dataset.range(3)))) == [(X.tolist(), 0)]


def test_initializable_iterators_are_fed_and_begin_again():
    data, size = wb.placeholder("float32", [None, 2]), wb.placeholder("int64", [])
    iterator = Dataset.from_tensor_slices(data).batch(size).make_initializable_iterator()
    element = iterator.get_next()
    assert element.shape == [None, 2]
    with wb.Session() as session:
        with pytest.raises(errors.FailedPreconditionError, match="it was not initialised; run its initializer first"):
            session.run(element)
        for rows in (2, 4):
            session.run(iterator.initializer, {data: X[:rows], size: 3})
            assert session.run(element).tolist() == X[:min(rows, 3)].tolist()


def test_one_iterator_over_several_datasets():
    train, valid = Dataset.from_tensor_slices((X, Y)), Dataset.from_tensor_slices((X[:2] + 100, Y[:2]))
    iterator = Iterator.from_structure(train.output_types, train.output_shapes)
    x, y = iterator.get_next()
    starts = [iterator.make_initializer(d) for d in (train, valid)]
    with wb.Session() as session:
        for start, first in zip(starts, (0, 100)):
            session.run(start)
            assert session.run([x, y])[0][0] == first
    with pytest.raises(errors.DtypeError, match="the dataset gives int64 but the iterator float32, int64; make them agree"):
        iterator.make_initializer(Dataset.range(3))
    with pytest.raises(errors.InvalidArgumentError, match="one from a structure by make_initializer"):
        _ = iterator.initializer


def test_files(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,0.5\n2,1.5\n", encoding="utf-8")
    names = wb.placeholder(wb.string, [None])
    lines = TextLineDataset([str(tmp_path / "a.csv")] * 2).skip(1)
    assert drain(lines)[2] == b"x,y"
    parsed = TextLineDataset(str(tmp_path / "a.csv")).skip(1).map(lambda line: tuple(wb.decode_csv(line, [[0], [0.0]])))
    assert drain(parsed.batch(2)) == [([1, 2], [0.5, 1.5])]
    with TFRecordWriter(tmp_path / "r") as writer:
        for text in (b"abcd", b"efgh"):
            writer.write(text)
    iterator = TFRecordDataset(names).map(lambda r: wb.decode_raw(r, wb.uint8)).make_initializable_iterator()
    element = iterator.get_next()
    with wb.Session() as session:
        session.run(iterator.initializer, {names: [str(tmp_path / "r")]})
        assert bytes(session.run(element).tolist()) == b"abcd"
    assert drain(FixedLengthRecordDataset(str(tmp_path / "a.csv"), 2, header_bytes=4)) == [b"1,", b"0.", b"5\n", b"2,", b"1.",
                                                                                          b"5\n"]


def test_two_threads_share_an_iterator():
    import threading
    element = Dataset.range(200).make_one_shot_iterator().get_next()
    found: list[list[int]] = [[], []]
    with wb.Session() as session:
        def work(mine):
            with pytest.raises(errors.OutOfRangeError):
                while True:
                    mine.append(int(session.run(element)))
        threads = [threading.Thread(target=work, args=(mine,)) for mine in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert sorted(found[0] + found[1]) == list(range(200))


@pytest.mark.parametrize(("action", "kind", "text"), [
    (lambda: Dataset.from_tensor_slices(3), errors.ShapeError, "is a scalar; pass tensors with rows"),
    (lambda: Dataset.from_tensor_slices((X, Y[:2])), errors.ShapeError, "the tensors have 2, 5 rows; give each the same"),
    (lambda: Dataset.range(), errors.InvalidArgumentError, "Dataset.range: 0 arguments were given; pass stop, (start, stop)"),
    (lambda: Dataset.range(3).concatenate(Dataset.from_tensor_slices(X)), errors.DtypeError, "int64 and float32 do not fit"),
    (lambda: Dataset.range(3).filter(lambda v: v), errors.InvalidArgumentError,
     "`predicate` must return a scalar boolean tensor, not int64[]; reduce it"),
    (lambda: Dataset.range(3).flat_map(lambda v: v), TypeError, "`map_func` must return a `Dataset` object."),
    (lambda: Dataset.range(3).apply(lambda d: 3), TypeError, "`transformation_func` must return a Dataset."),
    (lambda: Dataset.range(3).padded_batch(2, [], np.float32(1)), errors.DtypeError, "is float32 but int64 was wanted"),
    (lambda: Dataset.zip([3]), TypeError, "must be a nested structure of `Dataset` objects"),
    (lambda: Dataset.range(3).cache(3), errors.DtypeError, "is a int but string was wanted; pass str"),
    (lambda: Dataset.from_generator(3, wb.int64), TypeError, "`generator` must be callable."),
    (lambda: TextLineDataset("x", compression_type="LZ4"), errors.InvalidArgumentError,
     "TextLineDataset: compression type 'LZ4' is none of '', 'ZLIB' and 'GZIP'; use one of these"),
    (lambda: FixedLengthRecordDataset("x", 0), errors.InvalidArgumentError, "record_bytes is 0; use 1 or more")])
def test_what_cannot_be(action, kind, text: str):
    with pytest.raises(kind, match=re.escape(text)):
        action()


def test_elements_that_were_not_announced_are_refused():
    iterator = Iterator.from_structure((wb.float32,), ([3],))
    element = iterator.get_next()
    data = wb.placeholder("float32", None)
    with wb.Session() as session:
        session.run(iterator.make_initializer(Dataset.from_tensor_slices((data,))), {data: X})
        with pytest.raises(errors.InvalidArgumentError, match=re.escape("an element is float32[2] but float32[3] was")):
            session.run(element)
