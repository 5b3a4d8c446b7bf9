"""Critical sections: one at a time runs, and one that fails leaves the mutex free."""
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.state.mutexes import Mutex
from workbench.nn.critical_section import CriticalSection

pytestmark = pytest.mark.usefixtures("graph")


def test_reads_and_writes_of_many_steps_do_not_mix() -> None:
    section, count = CriticalSection("section"), wb.Variable(0, name="count")

    def more() -> Any:
        seen = count.read_value()
        with wb.control_dependencies([seen]):
            return wb.assign(count, wb.py_func(lambda x: x + 1, [seen], wb.int32))
    found = section.execute(more)
    with wb.Session() as session, ThreadPoolExecutor(4) as pool:
        session.run(wb.global_variables_initializer())
        values = [future.result(60) for future in [pool.submit(session.run, found) for _ in range(40)]]
        assert sorted(values) == list(range(1, 41)) and session.run(count) == 40


def test_in_one_step_one_comes_after_the_other_whatever_they_return() -> None:
    section, v = CriticalSection(), wb.Variable(1.0)
    x = wb.placeholder("float32", [])
    first = section.execute(lambda a, b: {"sum": a + b, "two": [a, 2.0]}, x, b=3.0)
    after = section.execute(lambda: wb.group(wb.assign(v, first["sum"])))
    nothing = section.execute(lambda: None)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        assert session.run(first, {x: 1.0}) == {"sum": 4, "two": [1, 2]}
        session.run([after, nothing], {x: 5.0})
        assert session.run(v) == 8


def test_a_step_that_fails_leaves_the_mutex_free() -> None:
    section, x = CriticalSection(), wb.placeholder("float32", [])
    found = section.execute(lambda: ops.check_numerics(x, "bad"))
    with wb.Session() as session:
        for _ in range(2):
            with pytest.raises(errors.InvalidArgumentError, match="bad"):
                session.run(found, {x: float("nan")})
        assert session.run(found, {x: 2.0}) == 2


def test_calls_in_calls_and_shared_state_are_refused() -> None:
    one, two, v = CriticalSection("one"), CriticalSection("two"), wb.Variable(1.0, name="v")
    with pytest.raises(errors.InvalidArgumentError, match="one: a call of execute within another one would wait"):
        one.execute(lambda: one.execute(lambda: ops.constant(1)))
    one.execute(lambda: wb.assign_add(v, 1.0))
    with pytest.raises(ValueError, match=r"two: This execution would access resources \['/v'\], which one uses"):
        two.execute(lambda: wb.assign_add(v, 1.0))
    with pytest.raises(ValueError, match="exclusive_resource_access=False"):      # the first asked for it
        two.execute(lambda: wb.assign_add(v, 1.0), exclusive_resource_access=False)


def test_a_mutex_goes_to_who_waits_first_and_is_unlocked_by_its_holder_alone() -> None:
    mutex, told = Mutex("m"), list[Any]()
    ends = []
    for who in "abc":
        ends.append(mutex.lock(who, lambda who=who: told.append(who), told.append, lambda call: None))      # type: ignore[misc]
    with pytest.raises(errors.FailedPreconditionError, match="mutex 'm': who unlocks it does not hold it"):
        mutex.unlock("b")
    mutex.unlock("a")
    assert told == ["a", "b"]
    ends[1]()
    assert told == ["a", "b", "c"]
    mutex.lock("d", lambda: None, told.append, lambda call: None)
    mutex.abandon()
    assert isinstance(told.pop(), errors.CancelledError) and told == ["a", "b", "c"]
    mutex.lock("e", lambda: None, told.append, lambda call: None)
    assert isinstance(told.pop(), errors.CancelledError)
