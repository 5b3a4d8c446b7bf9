"""Steps in several calls: values, each operation once, and what is refused."""
from __future__ import annotations

import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph

pytestmark = pytest.mark.usefixtures("graph")


def three():
    return [ops.placeholder("float32", [], name=name) for name in "abc"]


def test_a_later_call_is_fed_what_an_earlier_one_gave():
    a, b, c = three()
    first = a + b
    second = first * c
    with wb.Session() as session:
        handle = session.partial_run_setup([first, second], [a, b, c])
        value = session.partial_run(handle, first, {a: 1, b: 2})
        assert (value, session.partial_run(handle, second, {c: value})) == (3, 9)
        with pytest.raises(errors.InvalidArgumentError, match=r"'partial_0' is not a step under way; Must run 'setup'"):
            session.partial_run(handle, second, {c: 1})


def test_what_is_random_or_changes_state_runs_once():
    _, _, c = three()
    drawn = ops.random_uniform([], seed=1)
    count = wb.Variable(0.0)
    more = count.assign_add(1.0)
    end = drawn * c + more
    with wb.Session() as session:
        session.run(count.initializer)
        handle = session.partial_run_setup([drawn, more, end], [c])
        value, counted = session.partial_run(handle, [drawn, more])
        assert counted == 1
        assert session.partial_run(handle, end, {c: 2}) == pytest.approx(2 * value + 1)
        assert session.run(count) == 1


def test_operations_run_as_soon_as_their_feeds_are_known():
    a, b, c = three()
    count = wb.Variable(0.0)
    add = wb.group(count.assign_add(a))
    late = b * c
    with wb.Session() as session:
        session.run(count.initializer)
        handle = session.partial_run_setup([add, late, a], [a, b, c])
        assert session.partial_run(handle, a, {a: 5}) == 5
        assert session.run(count) == 5
        assert session.partial_run(handle, [late, add], {b: 2, c: 3}) == [6, None]
        assert session.run(count) == 5


@pytest.mark.parametrize(("feeds", "fetch", "text"), [
    ({"a:0": 1}, "end:0", "'end:0' needs b:0, which no call of this step has fed"),
    ({"c:0": 1}, "sum:0", "feed each tensor of the setup once; 'c:0' was not specified in partial_run_setup."),
    ({}, "c:0", "'c:0' was not specified in partial_run_setup."),
])
def test_misuse_is_named(feeds, fetch, text):
    a, b, _ = three()
    first = ops.add(a, 1.0, name="sum")
    end = ops.multiply(first, b, name="end")
    with wb.Session() as session:
        handle = session.partial_run_setup([first, end], [a, b])
        with pytest.raises(errors.InvalidArgumentError) as caught:
            session.partial_run(handle, fetch, feeds)
        assert text in caught.value.message


def test_a_feed_twice_and_an_effect_that_would_come_twice():
    a, b, _ = three()
    count = wb.Variable(0.0)
    with Graph.control_dependencies(count.graph, [count.assign_add(a)]):
        late = ops.identity(b)
    with wb.Session() as session:
        with pytest.raises(errors.UnimplementedError, match="which can run before all feeds are known"):
            session.partial_run_setup([late], [a, b])
        end = a * b
        handle = session.partial_run_setup([a, end], [a, b])
        session.partial_run(handle, a, {a: 1})
        with pytest.raises(errors.InvalidArgumentError, match=r"'a:0' has already been fed\."):
            session.partial_run(handle, end, {a: 1, b: 1})
