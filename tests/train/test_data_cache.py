"""Datasets kept in files between passes and between programs; orders whose seed only the step knows."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.train.test_data import drain
from workbench import errors
from workbench.train.input.data import Dataset

pytestmark = pytest.mark.usefixtures("graph")
TEXTS = np.array([[b"a", b""], [b"bcd", b"\xff"]], object)


def begun(session, dataset, feeds=None):
    """The element of an iterator that has been started."""
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    session.run(iterator.initializer, feeds)
    return element


def rest(session, element):
    found = []
    with pytest.raises(errors.OutOfRangeError):
        while True:
            found.append(session.run(element))
    return found


def test_a_file_gives_what_was_read_once(tmp_path):
    """Of every kind, in another graph too; what the data are made of is not looked at again."""
    name, count = wb.placeholder("string", []), wb.placeholder("int64", [])
    source = Dataset.range(count).map(lambda v: {"x": wb.cast(v, "float64") * [1.0, 0.5], "s": wb.gather(TEXTS, v), "t": v > 0,
                                                 "c": wb.complex(1.0, 2.0), "h": wb.cast(v, "float16")})
    with wb.Session() as session:
        first = rest(session, begun(session, source.cache(name), {name: str(tmp_path / "kept"), count: 2}))
        again = rest(session, begun(session, source.cache(name).repeat(2), {name: str(tmp_path / "kept"), count: 0}))
        other = rest(session, begun(session, source.cache(name), {name: str(tmp_path / "other"), count: 0}))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.tfrecord", "other.tfrecord"] and other == []
    assert len(first) == 2 and len(again) == 4
    for wanted, found in zip(first * 2, again):
        for key, value in wanted.items():
            assert found[key].dtype == value.dtype and found[key].tolist() == value.tolist()


def test_a_cache_that_was_not_read_to_its_end_is_no_cache(tmp_path):
    dataset, name = Dataset.range(4), str(tmp_path / "kept")
    with wb.Session() as session:
        iterator = dataset.cache(name).make_initializable_iterator()
        element = iterator.get_next()
        session.run(iterator.initializer)
        assert session.run(element) == 0
        with pytest.raises(errors.AlreadyExistsError, match="another iterator writes this cache"):
            session.run(begun(session, dataset.cache(name)))
        assert session.run(element) == 1
        session.run(iterator.initializer)
        assert list(tmp_path.iterdir()) == []
        assert rest(session, element) == [0, 1, 2, 3]
        two = [begun(session, dataset.cache(name)) for _ in range(2)]
        assert session.run(two + two) and rest(session, two[0])[-1] == 3


def test_damaged_caches_and_folders_that_are_not_there(tmp_path):
    drain(Dataset.range(2).cache(str(tmp_path / "kept")))
    file = tmp_path / "kept.tfrecord"
    whole = file.read_bytes()
    with wb.Session() as session:
        for damaged in (whole[:-3], whole.replace(b"int64", b"int63"), whole[:30] + b"?" + whole[31:]):
            file.write_bytes(damaged)
            with pytest.raises(errors.DataLossError, match=r"kept\.tfrecord"):
                rest(session, begun(session, Dataset.range(2).cache(str(tmp_path / "kept"))))
        from workbench.core.state.tfrecord import frame
        file.write_bytes(frame(b'[["int64", [3], 8]]\n12345678'))
        with pytest.raises(errors.DataLossError, match="byte 0 is no element"):
            session.run(begun(session, Dataset.range(2).cache(str(tmp_path / "kept"))))
        with pytest.raises(errors.NotFoundError, match="name a file in a folder that exists"):
            session.run(begun(session, Dataset.range(2).cache(str(tmp_path / "none" / "kept"))))


def test_a_seed_that_only_the_step_knows():
    seed = wb.placeholder("int64", [])
    iterator = Dataset.range(30).shuffle(30, seed).make_initializable_iterator()
    element = iterator.get_next()
    orders = []
    with wb.Session() as session:
        for value in (37, 37, 38):
            session.run(iterator.initializer, {seed: value})
            orders.append([int(v) for v in rest(session, element)])
        written = [int(v) for v in rest(session, begun(session, Dataset.range(30).shuffle(30, 37)))]
    assert orders[0] == orders[1] == written != orders[2] and sorted(orders[2]) == list(range(30))


def test_rows_of_sparse_tensors_are_one_or_their_three_parts():
    """As one from TensorFlow 1.5 on, as three in 1.4, whose programs put them together."""
    whole = wb.SparseTensor([[0, 1], [2, 0]], [5, 6], [3, 2])
    row = Dataset.from_sparse_tensor_slices(whole).make_one_shot_iterator().get_next()
    indices, values, shape = row
    with wb.Session() as session:
        assert session.run(wb.SparseTensor(*row)).values.tolist() == [5]
        _, dense_shape = session.run([indices, shape])
        assert dense_shape.tolist() == [2] and session.run(values).tolist() == [6]


def test_a_function_of_three_gets_the_parts_of_a_sparse_element():
    """As in TensorFlow 1.4, whose elements were these three; a function of one gets the tensor, as since."""
    whole = wb.SparseTensor([[0, 1], [1, 0], [1, 2]], [5.0, 6.0, 7.0], [2, 3])
    rows = Dataset.from_sparse_tensor_slices(whole)
    parts = rows.map(lambda i, v, s: (wb.reduce_sum(i), v * 2.0, s[0]))
    one = rows.map(lambda row, scale=3.0: row.values * scale)
    def total(*row):
        return wb.reduce_sum(row[0].values)
    kept = rows.filter(lambda i, v, s: wb.reduce_sum(v) > 6.0).map(total)
    with wb.Session() as session:
        first = parts.make_one_shot_iterator().get_next()
        found = [session.run(first) for _ in range(2)]
        assert [(i, v.tolist(), s) for i, v, s in found] == [(1, [10], 3), (2, [12, 14], 3)]
        assert session.run(one.make_one_shot_iterator().get_next()).tolist() == [15]
        assert session.run(kept.make_one_shot_iterator().get_next()) == 13


@pytest.mark.parametrize(("make", "text"), [
    (lambda n: Dataset.range(4).batch(n).map(lambda v: v).repeat(2), "batch_size is 0; use 1 or more"),
    (lambda n: Dataset.range(4).padded_batch(n, []), "batch_size is 0; use 1 or more"),
    (lambda n: Dataset.zip((Dataset.range(4), Dataset.range(4).shuffle(n))), "buffer_size is 0; use 1 or more"),
    (lambda n: Dataset.range(2).concatenate(Dataset.range(0, 4, n)), "step must be a non-zero integer; it is 0")])
def test_numbers_that_cannot_be_are_errors_of_the_start(make, text):
    count = wb.placeholder("int64", [])
    iterator = make(count).make_initializable_iterator()
    with wb.Session() as session:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            session.run(iterator.initializer, {count: 0})
        session.run(iterator.initializer, {count: 1})
        session.run(iterator.get_next())
    inner = Dataset.range(2).flat_map(lambda v: Dataset.range(3).batch(v)).make_initializable_iterator()
    element = inner.get_next()
    with wb.Session() as session:
        session.run(inner.initializer)
        with pytest.raises(errors.InvalidArgumentError, match="batch_size is 0"):
            session.run(element)
