"""Functions of datasets: filtered, opened to several, padded, from generators, in windows; what fails inside them."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench as wb
from tests.train.test_data import X, Y, drain
from workbench import errors
from workbench.train.input import contrib_data
from workbench.train.input.data import Dataset, Iterator

pytestmark = pytest.mark.usefixtures("graph")
SEED = 2


def test_elements_are_chosen_and_opened():
    assert drain(Dataset.range(10).filter(lambda v: wb.equal(v % 3, 1))) == [1, 4, 7]
    assert drain(Dataset.range(4).flat_map(lambda v: Dataset.range(v).map(lambda w: v * 10 + w))) == [10, 20, 21, 30, 31, 32]
    nested = Dataset.range(3).flat_map(lambda v: Dataset.range(v).flat_map(
        lambda w: Dataset.from_tensors((v, w)).repeat(w + 1)))
    assert drain(nested) == [(1, 0), (2, 0), (2, 1), (2, 1)]
    assert drain(Dataset.from_tensors(X).flat_map(Dataset.from_tensor_slices)) == X.tolist()


@pytest.mark.parametrize(("cycle", "block", "expected"), [
    (1, 1, [4, 4, 4, 4, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6]),
    (2, 1, [4, 5, 4, 5, 4, 5, 4, 5, 5, 6, 6, 6, 6, 6, 6]),
    (2, 3, [4, 4, 4, 5, 5, 5, 4, 5, 5, 6, 6, 6, 6, 6, 6]),
    (7, 2, [4, 4, 5, 5, 6, 6, 4, 4, 5, 5, 6, 6, 5, 6, 6])])
def test_datasets_take_turns(cycle, block, expected):
    """The sequences are those of TensorFlow's own test of interleave."""
    dataset = Dataset.from_tensor_slices([4, 5, 6]).interleave(
        lambda v: Dataset.from_tensors(v).repeat(wb.cast(v, "int64")), cycle, block)
    assert drain(dataset) == expected


def test_batches_are_padded():
    rows = Dataset.range(1, 5).map(lambda n: (wb.fill([n], n), wb.as_string(n)))
    values = drain(rows.padded_batch(2, ([None], [])))
    assert values == [([[1, 0], [2, 2]], [b"1", b"2"]), ([[3, 3, 3, 0], [4, 4, 4, 4]], [b"3", b"4"])]
    filled = rows.padded_batch(3, ([6], []), (np.int64(-1), ""))
    assert filled.output_shapes[0] == [None, 6]
    assert drain(filled)[0][0] == [[1, -1, -1, -1, -1, -1], [2, 2, -1, -1, -1, -1], [3, 3, 3, -1, -1, -1]]
    with pytest.raises(errors.DataLossError, match=re.escape("smaller size than the input element: [4] does not fit into [3]")):
        drain(rows.padded_batch(2, ([3], [])))


def test_functions_read_variables_when_they_are_called():
    scale = wb.Variable(2.0, name="scale")
    iterator = Dataset.from_tensor_slices(X).map(lambda row: row * scale).make_initializable_iterator()
    element = iterator.get_next()
    with wb.Session() as session:
        session.run([scale.initializer, iterator.initializer])
        assert session.run(element).tolist() == [0, 2]
        session.run(scale.assign(10.0))
        assert session.run(element).tolist() == [20, 30]


def test_random_functions_draw_for_each_element():
    draws = Dataset.range(50).map(lambda v: wb.random_uniform([]))
    found = drain(draws)
    assert len(set(found)) == 50
    both = drain(draws.cache().repeat(2))
    assert both[:50] == both[50:] and len(set(both)) == 50


def test_mapped_datasets_are_exchanged_and_joined():
    train = Dataset.range(3).map(lambda v: v * 2)
    test = Dataset.range(3).map(lambda v: v + 100)
    assert drain(train.concatenate(test)) == [0, 2, 4, 100, 101, 102]
    iterator = Iterator.from_structure(train.output_types, train.output_shapes)
    element, starts = iterator.get_next(), [iterator.make_initializer(d) for d in (train, test)]
    with wb.Session() as session:
        for start, first in zip(starts, (0, 100)):
            session.run(start)
            assert session.run(element) == first


def test_iterators_are_chosen_by_their_handles():
    once, other = (Dataset.range(n, n + 3).map(lambda v: v) for n in (0, 10))
    first, second = once.make_one_shot_iterator(), other.make_initializable_iterator()
    handle = wb.placeholder(wb.string, [])
    element = Iterator.from_string_handle(handle, once.output_types, once.output_shapes).get_next()
    with wb.Session() as session:
        names = session.run([first.string_handle(), second.string_handle()])
        session.run(second.initializer)
        assert [int(session.run(element, {handle: names[i]})) for i in (0, 1, 0, 1)] == [0, 10, 1, 11]
        with pytest.raises(errors.NotFoundError, match="there is no iterator 'nobody' in this task; feed what string_handle"):
            session.run(element, {handle: "nobody"})


def test_generators_begin_anew_at_each_pass():
    def rows(count):
        for n in range(count):
            yield {"n": n, "text": "x" * n}, [n, n + 1]
    shapes = ({"n": [], "text": []}, [2])
    dataset = Dataset.from_generator(rows, ({"n": wb.int64, "text": wb.string}, wb.float32), shapes, args=(2,))
    assert dataset.output_shapes[1] == [2]
    once = [({"n": 0, "text": b""}, [0, 1]), ({"n": 1, "text": b"x"}, [1, 2])]
    assert drain(dataset.repeat(2)) == once * 2
    assert drain(Dataset.from_generator(lambda: iter([[1], [2, 3]]), wb.int32)) == [[1], [2, 3]]


@pytest.mark.parametrize(("rows", "kind", "text"), [
    ([(1, 2, 3)], errors.InvalidArgumentError, "did not match the expected structure"),
    ([("a", 2)], errors.InvalidArgumentError, "could not be converted to the expected type"),
    ([(1, np.ma.masked)], errors.InvalidArgumentError, "from_generator: an element: 1 of 1 elements are masked"),
    ([(1, [2, 3])], errors.InvalidArgumentError, "yielded an element of shape (2,) where an element of shape [] was expected")])
def test_what_generators_may_not_yield(rows, kind, text: str):
    dataset = Dataset.from_generator(lambda: iter(rows), (wb.int64, wb.int64), ([], []))
    with pytest.raises(kind, match=re.escape(text)):
        drain(dataset)


def test_sparse_tensors_are_elements():
    def sparse(n):
        return wb.SparseTensor(wb.reshape(n, [1, 1]), wb.reshape(n * 10, [1]), [4])
    rows = Dataset.range(3).map(lambda n: {"n": n, "s": sparse(n)})
    assert rows.output_classes == {"n": wb.Tensor, "s": wb.SparseTensor} and rows.output_types["s"] is wb.int64
    element = rows.map(lambda e: {**e, "dense": wb.sparse_tensor_to_dense(e["s"])}).make_one_shot_iterator().get_next()
    batch = rows.batch(3).make_one_shot_iterator().get_next()
    with wb.Session() as session:
        session.run(element)
        assert session.run(element["dense"]).tolist() == [0, 10, 0, 0]
        assert session.run(wb.sparse_tensor_to_dense(batch["s"])).tolist() == [[0, 0, 0, 0], [0, 10, 0, 0], [0, 0, 20, 0]]


def test_one_bad_element_does_not_end_the_data():
    dataset = Dataset.from_tensor_slices([1.0, 0.0, 4.0]).map(lambda v: wb.check_numerics(1.0 / v, "inverse"))
    element = dataset.batch(1).make_one_shot_iterator().get_next()
    with wb.Session() as session:
        assert session.run(element).tolist() == [1]
        with pytest.raises(errors.InvalidArgumentError, match="inverse"):
            session.run(element)
        assert session.run(element).tolist() == [0.25]
    assert drain(dataset.apply(contrib_data.ignore_errors())) == [1, 0.25]


def test_what_contrib_adds():
    ten = Dataset.range(10)
    assert drain(ten.apply(contrib_data.batch_and_drop_remainder(4))) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert drain(ten.apply(contrib_data.map_and_batch(lambda v: v * v, 5)))[1] == [25, 36, 49, 64, 81]
    assert drain(ten.batch(4).apply(contrib_data.unbatch())) == list(range(10))
    assert drain(Dataset.from_tensor_slices(["a", "b"]).apply(contrib_data.enumerate_dataset(5))) == [(5, b"a"), (6, b"b")]
    assert sorted(drain(ten.apply(contrib_data.shuffle_and_repeat(10, 2)))) == sorted([*range(10)] * 2)
    assert drain(contrib_data.Counter(3, -2), most=3) == [3, 1, -1]
    assert drain(ten.take(5).apply(contrib_data.scan(np.int64(0), lambda s, v: (s + v, (s, v))))) == [
        (0, 0), (0, 1), (1, 2), (3, 3), (6, 4)]
    assert drain(ten.apply(contrib_data.parallel_interleave(lambda v: Dataset.from_tensors(v), 3))) == list(range(10))
    padded = Dataset.range(1, 4).map(lambda n: wb.fill([n], n)).apply(contrib_data.padded_batch_and_drop_remainder(2, [None]))
    assert drain(padded) == [[[1, 0], [2, 2]]]


def test_the_shape_of_a_state_is_known_as_far_as_it_stays():
    three = Dataset.range(3)
    stays = three.apply(contrib_data.scan(np.zeros((1, 2)), lambda s, v: (s + 1.0, s)))
    grows = three.apply(contrib_data.scan(np.zeros((1, 2)), lambda s, v: (wb.concat([s, s], 0), s)))
    nothing = three.apply(contrib_data.scan(np.zeros((1, 2)), lambda s, v: (wb.expand_dims(s, 0), wb.rank(s))))
    assert stays.output_shapes == [1, 2] and grows.output_shapes == [None, 2] and nothing.output_shapes == []
    assert [len(rows) for rows in drain(grows)] == [1, 2, 4] and drain(nothing) == [2, 3, 4]


def test_windows_gather_by_key():
    windows = Dataset.range(11).apply(contrib_data.group_by_window(
        lambda v: v % 2, lambda key, window: Dataset.zip((Dataset.from_tensors(key), window.batch(4))), 4))
    assert drain(windows) == [(0, [0, 2, 4, 6]), (1, [1, 3, 5, 7]), (0, [8, 10]), (1, [9])]
    sizes = Dataset.range(8).apply(contrib_data.group_by_window(
        lambda v: v % 2, lambda key, window: window.batch(10), window_size_func=lambda key: key + 2))
    assert drain(sizes) == [[0, 2], [1, 3, 5], [4, 6], [7]]
    with pytest.raises(errors.InvalidArgumentError, match="Must pass either window_size or window_size_func"):
        contrib_data.group_by_window(lambda v: v, lambda k, w: w)


def test_lengths_find_their_buckets():
    rows = Dataset.from_tensor_slices(np.array([1, 5, 2, 6, 1], np.int64)).map(lambda n: wb.fill([n], n))
    found = drain(rows.apply(contrib_data.bucket_by_sequence_length(lambda row: wb.size(row), [3], [2, 2])))
    assert found == [[[1, 0], [2, 2]], [[5, 5, 5, 5, 5, 0], [6, 6, 6, 6, 6, 6]], [[1]]]
    whole = contrib_data.bucket_by_sequence_length(lambda row: wb.size(row), [3, 7], [2, 2, 2], pad_to_bucket_boundary=True)
    assert drain(rows.apply(whole)) == [[[1, 0], [2, 2]], [[5] * 5 + [0], [6] * 6], [[1, 0]]]
    short = contrib_data.bucket_by_sequence_length(lambda row: wb.size(row), [3, 6], [2, 2, 2], pad_to_bucket_boundary=True)
    with pytest.raises(errors.InvalidArgumentError, match=r"length < max\(bucket_boundaries\), which is 6"):
        drain(rows.apply(short))
    with pytest.raises(errors.InvalidArgumentError, match="they are 1 and 1"):
        contrib_data.bucket_by_sequence_length(lambda row: 1, [3], [2])


def test_files_by_pattern(tmp_path):
    for name in ("b.txt", "a.txt", "c.csv"):
        (tmp_path / name).write_text(f"{name}\n", encoding="utf-8")
    lines = Dataset.list_files(str(tmp_path / "*.txt")).flat_map(wb.data.TextLineDataset)
    assert drain(lines) == [b"a.txt", b"b.txt"]


def test_what_may_wait_is_no_function_of_data():
    queue = wb.FIFOQueue(3, "int64", [()])
    element = Dataset.range(3).map(lambda v: v + queue.dequeue()).make_one_shot_iterator().get_next()
    with wb.Session() as session, pytest.raises(errors.UnimplementedError, match="may wait, which a function of a dataset"):
        session.run(element)


def test_labels_stay_with_their_features():
    order = Dataset.from_tensor_slices((X, Y)).map(lambda x, y: (x + 1, y)).filter(lambda x, y: y > 0).shuffle(9).batch(4)
    [(x, y)] = drain(order)
    assert all(row == (X[label] + 1).tolist() for row, label in zip(x, y)) and sorted(y) == [1, 2, 3, 4]
