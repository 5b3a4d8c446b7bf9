"""Input pipelines of queues: producers, epochs, batches of every kind, summaries of how full they are; errors."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench as wb
from workbench import errors, train
from workbench.train.input import inputs

pytestmark = pytest.mark.usefixtures("graph")
SEED = 3


def drain(fetches, most=1000):
    """Values to the end of the input, with the queue runners of the graph."""
    found = []
    with wb.Session() as session:
        session.run(wb.local_variables_initializer())
        coordinator = train.Coordinator()
        threads = train.start_queue_runners(session, coordinator)
        try:
            while len(found) < most:
                found.append(session.run(fetches))
        except errors.OutOfRangeError:
            pass
        coordinator.request_stop()
        coordinator.join(threads)
    return found


# producers

def test_strings_in_order_and_shuffled():
    names = ["a", "b", "c", "d"]
    plain = train.string_input_producer(names, num_epochs=2, shuffle=False).dequeue()
    assert [v.decode() for v in drain(plain)] == names * 2
    mixed = [v.decode() for v in drain(train.string_input_producer(names, num_epochs=6).dequeue())]
    epochs = [mixed[i:i + 4] for i in range(0, 24, 4)]
    assert all(sorted(epoch) == names for epoch in epochs) and len({tuple(epoch) for epoch in epochs}) > 1


def test_without_epochs_it_never_ends():
    assert [int(v) for v in drain(train.range_input_producer(3, shuffle=False).dequeue(), most=7)] == [0, 1, 2, 0, 1, 2, 0]


def test_slices_of_several_tensors_belong_together():
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    row, label = train.slice_input_producer([x, np.arange(6)], num_epochs=1)
    found = drain([row, label])
    texts = train.slice_input_producer([["a", "b"]], num_epochs=1, shuffle=False)
    assert [v for v, in drain(texts)] == [b"a", b"b"]
    assert sorted(int(n) for _, n in found) == list(range(6))
    assert all((r == x[n]).all() for r, n in found)


def test_file_names_are_matched_when_initialised(tmp_path):
    names = train.match_filenames_once(str(tmp_path / "*.txt"))
    for name in ("b.txt", "a.txt", "c.bin"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    found = drain(train.string_input_producer(names, num_epochs=1, shuffle=False).dequeue())
    assert [v.decode().rpartition("/")[2] for v in found] == ["a.txt", "b.txt"]


def test_epochs_are_counted_in_a_local_variable():
    value = train.limit_epochs([1, 2], 2)
    counter, = wb.local_variables()
    with wb.Session() as session:
        session.run(wb.local_variables_initializer())
        assert [session.run(value).tolist() for _ in range(2)] == [[1, 2]] * 2 and session.run(counter) == 2
        with pytest.raises(errors.OutOfRangeError, match=r"count_up_to: Reached limit of 2 in variable '.*epochs'; stop"):
            session.run(value)
    assert train.limit_epochs([1]).op.type == "constant"


# batches

def numbers(count, epochs=1):
    return train.range_input_producer(count, num_epochs=epochs, shuffle=False).dequeue()


def test_batches_in_order_and_what_is_left():
    n = numbers(7)
    full = train.batch([n, n * 2], 3)
    assert full[0].shape == [3]
    assert [part.tolist() for part in drain(full)[1]] == [[3, 4, 5], [6, 8, 10]]
    rest = train.batch(numbers(7), 3, allow_smaller_final_batch=True)
    assert rest.shape == [None] and [v.tolist() for v in drain(rest)] == [[0, 1, 2], [3, 4, 5], [6]]


def test_batches_by_name_of_many_and_padded():
    assert drain(train.batch({"n": numbers(4)}, 2))[1]["n"].tolist() == [2, 3]
    many = train.batch([wb.range(3) + numbers(2)], 3, enqueue_many=True)
    assert [v.tolist() for v in drain(many)] == [[0, 1, 2], [1, 2, 3]]
    padded = train.batch(wb.range(numbers(3) + 1), 3, dynamic_pad=True)
    assert drain(padded)[0].tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 2]]


def test_shuffled_batches_hold_everything_once():
    found = drain(train.shuffle_batch([numbers(40)], 10, capacity=30, min_after_dequeue=10, num_threads=2, seed=1))
    assert sorted(np.concatenate(found).tolist()) == list(range(40)) and found[0].tolist() != list(range(10))


@pytest.mark.parametrize("join", [train.batch_join, lambda *args: train.shuffle_batch_join(*args, 20, 2)])
def test_several_sources_are_joined(join):
    found = drain(join([[numbers(6)], [numbers(6) + 100]], 4))
    assert sorted(np.concatenate(found).tolist()) == [*range(6), *range(100, 106)]


def test_fullness_is_summarised():
    train.shuffle_batch([numbers(5)], 2, capacity=30, min_after_dequeue=10)
    tags = [t.op.attrs["tag"] for t in wb.get_collection(wb.GraphKeys.SUMMARIES)]
    assert [tag.rpartition("/")[2] for tag in tags] == ["fraction_of_32_full", "fraction_over_10_of_20_full"]


@pytest.mark.parametrize(("action", "kind", "text"), [
    (lambda: train.string_input_producer([]), errors.InvalidArgumentError, "there are 0 strings; pass at least one file name"),
    (lambda: drain(train.string_input_producer(wb.matching_files("/no/such*")).dequeue()), errors.InvalidArgumentError,
     "string_input_producer: there are 0 strings"),
    (lambda: train.input_producer(wb.placeholder("float32", [None, None])), errors.ShapeError,
     "has shape [?,?], but a row must have a fully defined shape: set_shape it, or pass element_shape"),
    (lambda: train.slice_input_producer([]), errors.InvalidArgumentError, "there are 0 tensors; pass at least one"),
    (lambda: train.limit_epochs([1], 0), errors.InvalidArgumentError, "num_epochs is 0; use 1 or more, or None"),
    (lambda: train.batch([wb.placeholder("float32", [None])], 2), errors.ShapeError,
     "batch: placeholder:0 has shape [?], but the shape of an example must be known: set_shape it, or pass shapes or "
     "dynamic_pad=True"),
    (lambda: train.batch([], 2), errors.InvalidArgumentError, "batch: there are 0 tensors; pass at least one"),
    (lambda: train.batch([1], 2, num_threads=0), errors.InvalidArgumentError, "there are 0 sources; use num_threads of 1"),
    (lambda: train.batch_join([[wb.SparseTensor([[0]], [1.0], [1])], [1.0]], 2), errors.DtypeError,
     "batch_join: one source gives float32 sparse and another float32; all must give the same"),
    (lambda: train.batch_join([{"a": 1}, {"b": 1}], 2), errors.InvalidArgumentError,
     "one source has the keys ['a'] and another ['b']; all must have the same keys"),
    (lambda: train.batch_join([[1], [1.0]], 2), errors.DtypeError, "one source gives int32 and another float32; all must")])
def test_what_cannot_be(action, kind, text: str):
    with pytest.raises(kind, match=re.escape(text)):
        action()


def _counted(number):
    """A row of as many values as its number."""
    at = wb.expand_dims(wb.cast(wb.range(number), "int64"), 1)
    return wb.SparseTensor(at, wb.fill([number], number), wb.cast(wb.stack([number]), "int64"))


@pytest.mark.parametrize("make", [train.batch, lambda parts, size, **more: train.shuffle_batch(parts, size, 8, 2, **more)])
def test_sparse_examples_wait_and_come_as_one_sparse_tensor(make):
    number = train.range_input_producer(5, num_epochs=1, shuffle=False).dequeue()
    rows, numbers = make([_counted(number), number], 2, allow_smaller_final_batch=True)
    assert rows.dense_shape.shape.as_list() == [2] and rows.indices.shape.as_list() == [None, 2]
    found = drain([rows, numbers])
    assert sorted(int(n) for _, numbers in found for n in numbers) == [0, 1, 2, 3, 4]
    for sparse, numbers in found:
        assert sparse.dense_shape.tolist() == [len(numbers), max(numbers)]
        assert sparse.values.tolist() == [n for n in numbers for _ in range(n)]


def test_sparse_rows_wait_each_for_itself_where_they_are_wanted():
    table = wb.SparseTensor([[0, 0], [1, 1], [3, 0]], ["a", "b", "c"], [4, 2])
    batch = inputs.maybe_batch({"rows": table}, [False, True, True, True], 3, enqueue_many=True)
    [found, *_] = drain(batch, most=1)
    assert found["rows"].indices.tolist() == [[0, 1], [2, 0]] and found["rows"].values.tolist() == [b"b", b"c"]
    assert found["rows"].dense_shape.tolist() == [3, 2] and batch["rows"].dense_shape.shape.as_list() == [2]


def _every_second(make, steps=2):
    with wb.Graph().as_default():
        count = wb.Variable(0, trainable=False)
        number = count.count_up_to(40)
        found = make(number)
        with wb.Session() as session:
            session.run(wb.global_variables_initializer())
            coord = wb.train.Coordinator()
            threads = wb.train.start_queue_runners(session, coord)
            values = [session.run(found).tolist() for _ in range(steps)]
            coord.request_stop()
            coord.join(threads)
    return values


def _even(number):
    return wb.equal(wb.mod(number, 2), 0)


def test_examples_are_kept_where_they_are_wanted():
    assert _every_second(lambda n: inputs.maybe_batch(n, _even(n), 2)) == [[0, 2], [4, 6]]
    assert _every_second(lambda n: inputs.maybe_batch_join([[n]], _even(n), 3), 1) == [[0, 2, 4]]

    def rows(number):
        both = wb.stack([number * 2, number * 2 + 1])
        return inputs.maybe_batch([both], _even(both), 2, enqueue_many=True)
    assert _every_second(rows) == [[0, 2], [4, 6]]
    shuffled = _every_second(lambda n: inputs.maybe_shuffle_batch(n, 5, 10, 1, _even(n), seed=1))
    joined = _every_second(lambda n: inputs.maybe_shuffle_batch_join([[n]], 5, 10, 1, _even(n), seed=1))
    for found in (shuffled, joined):
        assert len({n for batch in found for n in batch}) == 10 and all(n % 2 == 0 for batch in found for n in batch)


def test_what_keeps_must_be_truth_values_of_a_fitting_shape():
    with wb.Graph().as_default():
        with pytest.raises(errors.DtypeError, match="maybe_batch: keep_input is int32; give bool"):
            inputs.maybe_batch(wb.constant(1), 1, 2)
        with pytest.raises(errors.ShapeError, match="`keep_input` cannot be a vector when `enqueue_many=False`; give a scalar"):
            inputs.maybe_batch(wb.constant(1), [True], 2)


def test_rows_of_a_sparse_tensor_of_unknown_rank_make_batches():
    parts = wb.placeholder("int64", [None, None]), wb.placeholder("float32", [None]), wb.placeholder("int64")
    rows = train.batch([wb.SparseTensor(*parts)], 2, enqueue_many=True)
    filled = wb.get_collection(wb.GraphKeys.QUEUE_RUNNERS)[0].enqueue_ops[0]
    with wb.Session() as session:
        session.run(filled, dict(zip(parts, ([[0, 1], [1, 0]], [2.0, 3.0], [2, 2]))))
        assert session.run(wb.sparse_tensor_to_dense(rows)).tolist() == [[0, 2], [3, 0]]
