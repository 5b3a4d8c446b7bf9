"""How often each executable ran is known whatever was recorded, from any time on, in bounded memory."""
from __future__ import annotations

import numpy as np

import workbench as wb
from workbench.core.counter import _LOOKS, _NAMES, StepCounter
from workbench.core.trace import journal


def test_steps_are_told_from_a_time_on():
    counter = StepCounter()
    one, other = counter.of("one"), counter.of("other")
    assert counter.of("one") is one
    one.steps += 10
    counter.look(1.0)
    one.steps += 3
    other.steps += 2
    counter.look(2.0)
    other.steps += 5                    # nobody has looked since, and they count too
    for _ in range(2):
        assert counter.since(0.0) == {"one": 13, "other": 7}
        assert counter.since(1.0) == {"one": 3, "other": 7}
        assert counter.since(2.0) == {"one": 0, "other": 5}
        counter.look(3.0)
    assert counter.since(1.5) == {"one": 3, "other": 7}


def test_what_ran_last_is_kept():
    counter = StepCounter()
    busy = counter.of("busy")
    for i in range(2 * _NAMES):
        counter.of(str(i))
        busy.steps += 1
        counter.look(float(i))
    assert counter.of("busy") is busy and len(counter.since(0.0)) == _NAMES
    assert counter.since(-1.0)["busy"] == _LOOKS


def test_a_session_counts_each_of_its_executables_recorded_or_not():
    graph = wb.Graph()
    with graph.as_default():
        x = wb.placeholder(wb.float32, [2])
        y, z = x + 1.0, x * 2.0
    before, journal.enabled = journal.enabled, False
    try:
        with wb.Session(graph=graph) as session:
            run = session.make_callable(y, [x])
            for _ in range(7):
                run(np.zeros(2, np.float32))
            session.run([z], {x: [0.0, 0.0]})
            session.run(z, {x: [1.0, 0.0]})
            journal.counter.look(1.0)
            told = {name: steps for name, steps in journal.counter.since(0.0).items() if name.startswith(f"{session.name}_")}
    finally:
        journal.enabled = before
    assert sorted(told.values()) == [2, 7]
