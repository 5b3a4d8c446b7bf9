"""Steps without control flow: the executor that only counts does what the one for all steps does, action by action."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.run.test_executor import ROOT, Machine
from workbench import errors
from workbench.core.run.events import Finish, RunSegment, SegmentFailed, SegmentFinished, StepCancelled, StepStarted
from workbench.core.run.executor import Executor
from workbench.core.run.straight import Nodes, Straight


@st.composite
def plans(draw: Callable) -> tuple[Machine, list[bool]]:
    """Computations, sends and receives, joined by data and control edges; whether what each receives is dead."""
    m, dead = Machine(), []
    for index in range(draw(st.integers(1, 12))):
        before = [f"n{i}" for i in range(index)]
        ports = [(name, port) for name in before for port in range(m.options[m.names.index(name)].get("outputs", 1))]
        inputs = draw(st.lists(st.sampled_from(ports), max_size=4)) if ports else []
        after = draw(st.lists(st.sampled_from(before), max_size=2)) if before else []
        role = draw(st.sampled_from(["", "", "send"])) if inputs else ""
        m.node(f"n{index}", *inputs, after=tuple(after), role=role, outputs=draw(st.integers(1, 3)))
        dead.append(not inputs and draw(st.booleans()))
    return m, dead


def kinds(actions: list[Any]) -> list[tuple[type, Any]]:
    return [(type(action), action) for action in actions]


@given(plans(), st.randoms(use_true_random=False))
def test_it_gives_the_actions_of_the_executor_for_all_steps(case, chance):
    m, dead = case
    nodes = Nodes(m.nodes())
    straight, usual = nodes.executor(), Executor(nodes)
    assert isinstance(straight, Straight)
    pending, event = [], StepStarted()
    while event is not None:
        found = straight.handle(event)
        assert kinds(found) == kinds(usual.handle(event))
        pending += [action for action in found if isinstance(action, RunSegment)]
        ran = pending.pop(chance.randrange(len(pending))) if pending else None
        event = ran and SegmentFinished(ran.segment, ROOT, (True,) * nodes[ran.segment].outputs if dead[ran.segment] else ())
    assert straight.finished and usual.finished


def test_the_second_step_finds_nothing_of_the_first():
    m = Machine()
    m.node("a")
    m.node("b", "a", role="send")
    nodes = Nodes(m.nodes())
    for dead in (True, False):
        step = nodes.executor()
        step.handle(StepStarted())
        assert step.handle(SegmentFinished(0, ROOT, (dead,))) == [RunSegment(1, ROOT, dead=dead)]


@pytest.mark.parametrize("event", [StepCancelled(errors.CancelledError("stop")),
                                   SegmentFailed(0, ROOT, errors.CancelledError("stop"))])
def test_it_ends_once_with_what_failed(event):
    m = Machine()
    m.node("a")
    m.node("b", "a")
    step = Nodes(m.nodes()).executor()
    assert step.handle(StepStarted()) == [RunSegment(0, ROOT)]
    assert step.handle(event) == [Finish(event.error)]
    assert step.handle(SegmentFinished(0, ROOT)) == [] and step.finished


@pytest.mark.parametrize("role", ["switch", "merge", "enter", "exit", "next_iteration", "control_trigger"])
def test_who_chooses_or_repeats_needs_the_other_one(role):
    m = Machine()
    m.node("a")
    m.node("b", "a", role=role, frame="f")
    assert type(Nodes(m.nodes()).executor()) is Executor
