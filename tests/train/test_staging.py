"""Staging areas: tuples wait between steps, in their order or by key."""
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.dtype import as_dtype
from workbench.core.state.staging import Staged
from workbench.train.input.staging import MapStagingArea, StagingArea

pytestmark = pytest.mark.usefixtures("graph")


def test_tuples_come_out_in_their_order_by_position_or_name():
    plain, named = StagingArea([wb.float32], shapes=[[2]]), StagingArea([wb.float32, wb.int32], names=["x", "n"])
    put, get, size = plain.put([[1.0, 2.0]]), plain.get(), plain.size()
    stage, found = named.put({"x": 1.5, "n": 3}), named.get()
    with wb.Session() as session:
        session.run(put)
        assert session.run(size) == 1 and [v.tolist() for v in session.run(get)] == [[1, 2]] and session.run(size) == 0
        session.run(stage)
        assert session.run(found) == {"x": 1.5, "n": 3}
    assert plain.dtypes == [wb.float32] and named.names == ["x", "n"] and [s.as_list() for s in plain.shapes] == [[2]]


def test_peek_looks_at_any_place_and_clear_forgets_all():
    area = StagingArea([wb.int32])
    x, place = wb.placeholder(wb.int32, []), wb.placeholder(wb.int32, [])
    put, [look], [get], size, clear = area.put([x]), area.peek(place), area.get(), area.size(), area.clear()
    with wb.Session() as session:
        for value in (10, 20, 30):
            session.run(put, {x: value})
        assert [session.run(look, {place: i}) for i in (2, 0, 1)] == [30, 10, 20]
        assert session.run(get) == 10 and session.run(look, {place: 0}) == 20
        session.run(clear)
        assert session.run(size) == 0


@pytest.mark.parametrize("limit", [{"capacity": 2}, {"memory_limit": 8}])
def test_a_full_area_lets_puts_wait_until_something_is_taken(limit):
    area = StagingArea([wb.float32], **limit)
    put, [get], size = area.put([1.0]), area.get(), area.size()
    with wb.Session() as session, ThreadPoolExecutor(1) as pool:
        session.run(put)
        session.run(put)
        third = pool.submit(session.run, put)
        session.run(get)
        third.result(60)
        assert session.run(size) == 2
    assert (area.capacity, area.memory_limit) == (limit.get("capacity", 0), limit.get("memory_limit", 0))


def test_tuples_are_found_by_key_whatever_came_before():
    area = MapStagingArea([wb.float32, wb.int32], shapes=[[], [2]])
    key, x = wb.placeholder(wb.int64, []), wb.placeholder(wb.float32, [])
    put = area.put(key, [x, [1, 2]], indices=[0, 1])
    _, values = area.get(key)
    seen, size = area.peek(key), area.size()
    assert [v.shape.as_list() for v in values] == [[], [2]]
    with wb.Session() as session:
        for k in (3, 1, 2):
            session.run(put, {key: k, x: k * 10.0})
        assert session.run(seen, {key: 1})[0] == 10 and session.run(size) == 3
        assert [session.run(values, {key: k})[0] for k in (1, 3)] == [10, 30] and session.run(size) == 1


@pytest.mark.parametrize(("ordered", "keys"), [(True, [1, 2, 5]), (False, [5, 1, 2])])
def test_without_a_key_the_smallest_or_the_oldest_comes(ordered, keys):
    area = MapStagingArea([wb.float32], ordered=ordered)
    key = wb.placeholder(wb.int64, [])
    put, (found, [value]) = area.put(key, [wb.cast(key, "float32")], indices=[0]), area.get()
    with wb.Session() as session:
        for k in (5, 1, 2):
            session.run(put, {key: k})
        assert [session.run([found, value]) for _ in keys] == [[k, float(k)] for k in keys]


def test_parts_make_a_tuple_and_are_taken_in_parts():
    area = MapStagingArea([wb.float32, wb.float32, wb.int32], names=["x", "v", "f"])
    first, second = area.put(0, {"x": 1.0, "f": 3}), area.put(0, {"v": 2.0})
    _, part = area.get(0, ["x", "f"])
    _, rest = area.get(0, [1])
    size, incomplete = area.size(), area.incomplete_size()
    with wb.Session() as session:
        session.run(first)
        assert session.run([size, incomplete]) == [0, 1]
        session.run(second)
        assert session.run([size, incomplete]) == [1, 0]
        assert session.run(part) == {"x": 1, "f": 3} and session.run(size) == 1
        with pytest.raises(errors.InvalidArgumentError, match="Tensor at index '0' for key '0' has already been removed"):
            session.run(part)
        assert session.run(rest) == {"v": 2} and session.run(size) == 0


def test_what_waits_for_a_key_is_cancelled_with_its_session_and_goes_on_when_the_key_comes():
    area = MapStagingArea([wb.float32])
    _, [late] = area.get(7)
    _, [never] = area.get(8)
    put = area.put(7, [4.0], indices=[0])
    with ThreadPoolExecutor(2) as pool:
        with wb.Session() as session:
            waiting, lost = pool.submit(session.run, late), pool.submit(session.run, never)
            session.run(put)
            assert waiting.result(60) == 4
        with pytest.raises((errors.CancelledError, errors.FailedPreconditionError)):
            lost.result(60)


def test_misuse_is_told_when_the_graph_is_built_or_in_the_step():
    area, named = MapStagingArea([wb.float32, wb.int32], memory_limit=8), StagingArea([wb.float32], names=["x"])
    for wrong, text in ((lambda: area.put(1, [1.0, 2]), "Indices must be supplied"),
                        (lambda: area.get(1, [2]), r"indices are \[2\] but there are 2 components"),
                        (lambda: area.get(1, []), r"indices are \[\]"),
                        (lambda: named.put([1.0]), "You must enqueue a dictionary"),
                        (lambda: named.put({"y": 1.0}), "do not match names of staging area"),
                        (lambda: StagingArea([wb.float32], names=["a", "b"]), "1 dtypes but 2 names"),
                        (lambda: StagingArea([wb.float32], capacity=-1), "capacity is -1"),
                        (lambda: StagingArea([wb.float32, wb.int32]).put([1.0]), "1 values but 2 components"),
                        (lambda: StagingArea([wb.float32], shapes=[[2]]).put([1.0]), "component 0 has")):
        with pytest.raises(ValueError, match=text):
            wrong()
    put, large = area.put(1, [1.0], indices=[0]), area.put(2, [[1.0, 2.0, 3.0]], indices=[0])
    with wb.Session() as session:
        session.run(put)
        with pytest.raises(errors.InvalidArgumentError, match="index '0' for key '1' was already initialized"):
            session.run(put)
        with pytest.raises(errors.ResourceExhaustedError, match=r"combined size of '12' bytes .* memory limit of '8'"):
            session.run(large)


@pytest.mark.parametrize(("indices", "text"), [((1, 0), "not strictly ordered"), ((), "not strictly ordered"),
                                               ((2,), "Index '2' for key '5' was out of"), ((0, 1), "1 values but 2")])
def test_indices_of_a_put_are_in_order_and_within(indices, text):
    area = Staged("s", [as_dtype("float32")] * 2)
    with pytest.raises(errors.InvalidArgumentError, match=text):
        area.put(5, indices, [0.0], lambda: None, print)
