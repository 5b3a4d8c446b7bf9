"""Elements that are read ahead: bounded, in order, with their errors; the thread ends with the iterator and the session."""
from __future__ import annotations

import threading

import numpy as np
import pytest

import workbench as wb
from tests.eventually import eventually
from workbench import errors
from workbench.core.state.datasets import DatasetIterator
from workbench.train.input.data import Dataset

RANGE = ("prefetch", ("range", 0, 10, 1), 3)


class Source:
    """A generator's numbers, and how many of them were asked for."""

    def __init__(self, count: int, broken_at: int | None = None) -> None:
        self.count, self.broken_at, self.made = count, broken_at, 0

    def __call__(self):
        for number in range(self.count):
            if number == self.broken_at:
                raise ValueError("no more of these")
            self.made += 1
            yield np.int64(number)


def reading() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "wb-prefetch"]


@pytest.fixture(autouse=True)
def graph():
    with wb.Graph().as_default() as graph:
        yield graph
    eventually(lambda: not reading())


def numbers(source: Source) -> Dataset:
    return Dataset.from_generator(source, wb.int64, [])


def test_elements_come_in_order_and_the_thread_is_done_at_the_end():
    iterator = DatasetIterator("numbers")
    iterator.initialize(RANGE, [])
    assert [int(iterator.take()[0]) for _ in range(10)] == list(range(10))
    with pytest.raises(errors.OutOfRangeError):
        iterator.take()
    eventually(lambda: not reading())


def test_reads_on_while_nobody_asks_and_no_further_than_there_is_room():
    source = Source(100)
    element = numbers(source).prefetch(3).make_one_shot_iterator().get_next()
    with wb.Session() as session:
        for taken in range(1, 6):
            assert session.run(element) == taken - 1
            assert source.made <= taken + 3
            eventually(lambda most=taken + 3: source.made == most)


def test_an_error_comes_where_its_element_would_have():
    dataset = Dataset.from_tensor_slices(np.array([1.0, 2.0, 0.0, 4.0], np.float32))
    checked = dataset.map(lambda x: wb.check_numerics(1.0 / x, "an element")).prefetch(4)
    element = checked.make_one_shot_iterator().get_next()
    with wb.Session() as session:
        assert [session.run(element), session.run(element)] == [1.0, 0.5]
        with pytest.raises(errors.InvalidArgumentError, match="an element"):
            session.run(element)
        assert session.run(element) == 0.25
        with pytest.raises(errors.OutOfRangeError):
            session.run(element)


def test_what_ends_the_source_is_raised_behind_what_it_gave():
    element = numbers(Source(5, broken_at=2)).prefetch(5).make_one_shot_iterator().get_next()
    with wb.Session() as session:
        assert [session.run(element), session.run(element)] == [0, 1]
        with pytest.raises(errors.InvalidArgumentError, match="no more of these"):
            session.run(element)


def test_a_file_that_is_missing_is_told_to_whoever_takes():
    iterator = DatasetIterator("files")
    iterator.initialize(("prefetch", ("lines", ("source", 0)), 2), [np.array([b"/nowhere/at/all"], object)])
    with pytest.raises(errors.NotFoundError, match="cannot be read"):
        iterator.take()


def test_threads_end_when_the_iterator_begins_anew_and_with_the_session():
    iterator = numbers(Source(50)).prefetch(2).make_initializable_iterator()
    element = iterator.get_next()
    session = wb.Session()
    for _ in range(3):
        session.run(iterator.initializer)
        assert session.run(element) == 0
    eventually(lambda: len(reading()) == 1)
    session.close()
    eventually(lambda: not reading())


def test_who_waits_for_an_element_is_told_that_the_iterator_is_gone():
    hold, asked = threading.Event(), threading.Event()

    def slow():
        yield np.int64(0)
        asked.set()
        hold.wait(60)
        yield np.int64(1)
    element = numbers(slow).prefetch(1).make_one_shot_iterator().get_next()
    session, found = wb.Session(), []

    def take():
        try:
            found.append(session.run(element))
        except errors.Error as error:
            found.append(error)
    try:
        assert session.run(element) == 0
        waiting = threading.Thread(target=take, daemon=True)
        waiting.start()
        assert asked.wait(60)
        session.close()
        waiting.join(60)
    finally:
        hold.set()
    assert isinstance(found[0], (errors.CancelledError, errors.FailedPreconditionError))


def test_two_that_read_one_dataset_ahead_do_not_mix_their_values():
    squares = Dataset.range(200).map(lambda v: v * v + v).prefetch(4)
    element = Dataset.zip((squares, squares)).make_one_shot_iterator().get_next()
    with wb.Session() as session:
        for number in range(200):
            assert session.run(element) == (number * number + number,) * 2


def test_goes_on_after_a_restart_where_it_was():
    first = DatasetIterator("numbers")
    first.initialize(RANGE, [])
    for _ in range(4):
        first.take()
    again = DatasetIterator("numbers")
    again.resume(first.position())
    again.initialize(RANGE, [])
    assert int(again.take()[0]) == 4
    for iterator in (first, again):
        iterator.abandon()


def test_there_must_be_room_for_one():
    element = Dataset.range(3).prefetch(0).make_one_shot_iterator().get_next()
    with wb.Session() as session, pytest.raises(errors.InvalidArgumentError, match="buffer_size is 0; buffer_size must be > 0"):
        session.run(element)
