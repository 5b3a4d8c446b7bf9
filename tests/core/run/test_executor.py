"""The step's state machine alone: events in, actions out; no arrays, no threads, no graph."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import errors
from workbench.core.run.events import (
    Action,
    Finish,
    Forget,
    Move,
    RunSegment,
    SegmentFailed,
    SegmentFinished,
    StepCancelled,
    StepStarted,
    Tag,
)
from workbench.core.run.executor import Executor, Node

ROOT = Tag()


class Machine:
    """Collects nodes by name, and numbers them and their edges."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.options: list[dict] = []

    def node(self, name: str, *inputs: str | tuple[str, int], after: tuple[str, ...] = (), **options) -> str:
        """`inputs` are names (output 0) or (name, output); a name may be given before its node exists."""
        self.names.append(name)
        self.options.append({**options, "inputs": inputs, "after": after})
        return name

    def nodes(self) -> list[Node]:
        feeds: list[list[tuple[int, int, int]]] = [[] for _ in self.names]
        for index, options in enumerate(self.options):
            for slot, item in enumerate(options["inputs"]):
                name, port = item if isinstance(item, tuple) else (item, 0)
                feeds[self.names.index(name)].append((port, index, slot))
            for name in options["after"]:
                feeds[self.names.index(name)].append((-1, index, -1))
        return [Node(i, self.names[i], len(o["inputs"]), len(o["after"]), tuple(feeds[i]),
                     **{k: v for k, v in o.items() if k not in ("inputs", "after")})
                for i, o in enumerate(self.options)]

    def executor(self) -> Executor:
        return Executor(self.nodes())


class Drive:
    """An executor with its actions: what runs, and where values went."""

    def __init__(self, machine: Machine) -> None:
        self.names, self.executor = machine.names, machine.executor()
        self.actions: list[Action] = []
        self.last: list[Action] = []

    def handle(self, event) -> list[Action]:
        self.last = self.executor.handle(event)
        self.actions += self.last
        return self.last

    def start(self) -> list[str]:
        self.handle(StepStarted())
        return self.running()

    def running(self) -> list[str]:
        return [self.names[a.segment] for a in self.last if isinstance(a, RunSegment)]

    def finish(self, name: str, tag: Tag = ROOT, dead: tuple[bool, ...] = ()) -> list[str]:
        self.handle(SegmentFinished(self.names.index(name), tag, dead))
        return self.running()

    @property
    def ended(self) -> list[Finish]:
        return [a for a in self.actions if isinstance(a, Finish)]

    def ran(self) -> Counter[str]:
        return Counter(self.names[a.segment] for a in self.actions if isinstance(a, RunSegment))

    def complete(self, decide: Callable[[str, Tag], tuple[bool, ...]] = lambda name, tag: (), pick: int = 0) -> None:
        """Finish everything that runs, oldest first (`pick` = -1: newest first); `decide` answers for switches."""
        pending = [a for a in self.handle(StepStarted()) if isinstance(a, RunSegment)]
        for _ in range(10_000):
            if not pending:
                return
            action = pending.pop(pick)
            self.handle(SegmentFinished(action.segment, action.tag, decide(self.names[action.segment], action.tag)))
            pending += [a for a in self.last if isinstance(a, RunSegment)]
        raise AssertionError("the step does not end")


def test_order_follows_data_and_control():
    m = Machine()
    m.node("a")
    m.node("b", "a")
    m.node("c", "a", after=("b",))
    d = Drive(m)
    assert d.start() == ["a"]
    assert d.finish("a") == ["b"]
    assert d.finish("b") == ["c"]
    assert d.finish("c") == [] and d.last == [Finish(None)]


def test_several_inputs_from_one_node_count_each():
    m = Machine()
    m.node("a", outputs=2)
    m.node("b", ("a", 0), ("a", 1), ("a", 0))
    d = Drive(m)
    d.start()
    assert d.finish("a") == ["b"]


def test_a_graph_of_nothing_ends_at_once():
    d = Drive(Machine())
    assert d.start() == [] and d.last == [Finish(None)]


def test_failure_ends_the_step_and_later_events_change_nothing():
    m = Machine()
    m.node("a")
    m.node("b")
    d = Drive(m)
    d.start()
    fault = ValueError("b broke")
    assert d.handle(SegmentFailed(1, ROOT, fault)) == [Finish(fault)]
    assert d.finish("a") == [] and d.handle(StepCancelled(fault)) == []
    assert d.handle(SegmentFailed(0, ROOT, fault)) == []
    assert d.ended == [Finish(fault)]


def test_cancelling_ends_the_step_once():
    m = Machine()
    m.node("a")
    d = Drive(m)
    d.start()
    stop = errors.CancelledError("stop")
    assert d.handle(StepCancelled(stop)) == [Finish(stop)]
    assert d.handle(StepCancelled(stop)) == [] and d.finish("a") == []


def conditional() -> Machine:
    m = Machine()
    m.node("data")
    m.node("pred")
    m.node("switch", "data", "pred", role="switch", outputs=2)
    m.node("no", ("switch", 0))
    m.node("yes", ("switch", 1))
    m.node("more", "yes")
    m.node("merge", "no", "more", role="merge", outputs=2)
    m.node("end", "merge")
    return m


@pytest.mark.parametrize("taken,ran", [("no", ["no"]), ("yes", ["yes", "more"])])
def test_only_the_live_side_runs_and_merge_says_which(taken, ran):
    d = Drive(conditional())
    d.complete(lambda name, tag: (taken == "yes", taken == "no") if name == "switch" else ())
    assert sorted(d.ran()) == sorted(["data", "pred", "switch", *ran, "merge", "end"])
    chosen = next(a for a in d.actions if isinstance(a, RunSegment) and d.names[a.segment] == "merge")
    assert chosen.choice == (0 if taken == "no" else 1)
    assert d.ended == [Finish(None)]


def test_merge_runs_when_the_first_live_input_arrives():
    m = Machine()
    m.node("a")
    m.node("pred")
    m.node("slow")
    m.node("switch", "slow", "pred", role="switch", outputs=2)
    m.node("merge", "a", ("switch", 0), role="merge", outputs=2)
    d = Drive(m)
    d.start()
    assert d.finish("a") == ["merge"]


def test_merge_with_two_live_inputs_is_an_error_that_names_both():
    m = Machine()
    m.node("a")
    m.node("b")
    m.node("both", "a", "b", role="merge", outputs=2)
    d = Drive(m)
    d.start()
    d.finish("a")
    with pytest.raises(errors.InvalidArgumentError) as error:
        d.finish("b")
    assert str(error.value) == "merge 'both': inputs 0 and 1 are both alive; only one branch may be taken"


def test_merge_waits_for_its_control_inputs():
    m = Machine()
    m.node("x")
    m.node("first")
    m.node("switch", "x", "x", role="switch", outputs=2)
    m.node("merge", ("switch", 0), ("switch", 1), after=("first",), role="merge", outputs=2)
    d = Drive(m)
    d.start()
    d.finish("x")
    assert d.finish("switch", dead=(False, True)) == []
    assert d.finish("first") == ["merge"]


def test_merge_of_dead_inputs_is_dead():
    m = Machine()
    m.node("x")
    m.node("switch", "x", "x", role="switch", outputs=2)
    m.node("left", ("switch", 1))
    m.node("right", ("switch", 1))
    m.node("merge", "left", "right", role="merge", outputs=2)
    m.node("after", "merge")
    d = Drive(m)
    d.complete(lambda name, tag: (False, True) if name == "switch" else ())
    assert sorted(d.ran()) == ["switch", "x"] and d.ended == [Finish(None)]


def test_death_flows_along_control_edges():
    m = Machine()
    m.node("x")
    m.node("switch", "x", "x", role="switch", outputs=2)
    m.node("dead", ("switch", 1))
    m.node("waits", after=("dead",))
    m.node("beside", after=("switch",))
    d = Drive(m)
    d.complete(lambda name, tag: (False, True) if name == "switch" else ())
    assert sorted(d.ran()) == ["beside", "switch", "x"]


def test_what_waits_for_a_dead_switch_is_dead():
    m = Machine()
    m.node("x")
    m.node("outer", "x", "x", role="switch", outputs=2)
    m.node("inner", ("outer", 1), ("outer", 1), role="switch", outputs=2)
    m.node("waits", after=("inner",))
    d = Drive(m)
    d.complete(lambda name, tag: (False, True) if name == "outer" else ())
    assert sorted(d.ran()) == ["outer", "x"]


def test_control_trigger_lives_whatever_it_waits_for():
    m = Machine()
    m.node("x")
    m.node("switch", "x", "x", role="switch", outputs=2)
    m.node("dead", ("switch", 1))
    m.node("trigger", after=("dead", "x"), role="control_trigger")
    m.node("end", after=("trigger",))
    d = Drive(m)
    d.complete(lambda name, tag: (False, True) if name == "switch" else ())
    assert d.ran()["trigger"] == d.ran()["end"] == 1


def test_a_dead_send_still_runs_and_says_so():
    m = Machine()
    m.node("x")
    m.node("switch", "x", "x", role="switch", outputs=2)
    m.node("send", ("switch", 1), role="send")
    d = Drive(m)
    d.complete(lambda name, tag: (False, True) if name == "switch" else ())
    assert RunSegment(2, ROOT, -1, True) in d.actions


def test_a_long_dead_chain_does_not_nest():
    m = Machine()
    m.node("x")
    m.node("switch", "x", "x", role="switch", outputs=2)
    before: str | tuple[str, int] = ("switch", 1)
    for i in range(2000):
        before = m.node(f"n{i}", before)
    d = Drive(m)
    d.complete(lambda name, tag: (False, True) if name == "switch" else ())
    assert sorted(d.ran()) == ["switch", "x"] and d.ended == [Finish(None)]


# frames

def loop(parallel: int = 10, constant: bool = False) -> Machine:
    """i = start; while test(i, limit): i = body(i)."""
    m = Machine()
    m.node("start")
    m.node("limit")
    m.node("enter", "start", role="enter", frame="loop", parallel=parallel)
    m.node("bound", "limit", role="enter", frame="loop", constant=True, parallel=parallel)
    m.node("merge", "enter", "next", role="merge", outputs=2, back_edges=(1,))
    m.node("test", "merge", "bound")
    m.node("switch", "merge", "test", role="switch", outputs=2)
    m.node("body", ("switch", 1))
    m.node("next", "body", role="next_iteration")
    m.node("exit", ("switch", 0), role="exit")
    m.node("end", "exit")
    return m


def rounds(count: int) -> Callable[[str, Tag], tuple[bool, ...]]:
    def decide(name: str, tag: Tag) -> tuple[bool, ...]:
        goes_on = tag.iteration < count
        return (goes_on, not goes_on) if name == "switch" else ()
    return decide


@pytest.mark.parametrize("pick", [0, -1])
@pytest.mark.parametrize("parallel", [1, 2, 10])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_loop_runs_its_body_count_times(count, parallel, pick):
    d = Drive(loop(parallel))
    d.complete(rounds(count), pick)
    assert d.ran()["body"] == count and d.ran()["test"] == count + 1
    assert d.ran()["exit"] == d.ran()["end"] == 1 and d.ended == [Finish(None)]


def test_values_move_into_and_out_of_the_frame():
    d = Drive(loop())
    d.complete(rounds(2))
    moves = [(d.names[a.segment], a.source, a.target) for a in d.actions if isinstance(a, Move)]
    inside = [Tag(1, i) for i in range(3)]
    assert [m for m in moves if m[0] == "enter"] == [("enter", ROOT, inside[0])]
    assert [m for m in moves if m[0] == "next"] == [("next", *inside[:2]), ("next", *inside[1:])]
    assert [m for m in moves if m[0] == "exit"] == [("exit", inside[2], ROOT)]


def test_constants_are_replayed_into_every_iteration():
    d = Drive(loop())
    d.complete(rounds(3))
    targets = [a.target.iteration for a in d.actions if isinstance(a, Move) and d.names[a.segment] == "bound"]
    assert targets == [0, 1, 2, 3]


def test_a_late_constant_reaches_the_iterations_that_run_already():
    m = Machine()
    m.node("start")
    m.node("slow")
    m.node("enter", "start", role="enter", frame="f")
    m.node("bound", "slow", role="enter", frame="f", constant=True)
    m.node("merge", "enter", "next", role="merge", outputs=2, back_edges=(1,))
    m.node("switch", "merge", "merge", role="switch", outputs=2)
    m.node("next", ("switch", 1), role="next_iteration")
    m.node("use", ("switch", 1), "bound")
    d = Drive(m)
    d.start()
    d.finish("start")
    d.finish("enter")
    for iteration in range(2):
        d.finish("merge", Tag(1, iteration))
        assert "use" not in d.finish("switch", Tag(1, iteration), (True, False))
        d.finish("next", Tag(1, iteration))
    d.finish("slow")
    d.finish("bound")
    started = [(d.names[a.segment], a.tag.iteration) for a in d.last if isinstance(a, RunSegment)]
    assert sorted(started) == [("use", 0), ("use", 1)]


def test_iterations_are_forgotten_when_no_token_can_reach_them():
    d = Drive(loop(parallel=1))
    d.complete(rounds(4))
    assert [a.tag for a in d.actions if isinstance(a, Forget)] == [Tag(1, i) for i in range(5)]
    assert d.executor._frames.keys() == {0} and d.executor._children == {}


def with_slow_work() -> Machine:
    """A loop whose body also starts work that nobody waits for in the next iteration."""
    m = loop(parallel=2)
    m.node("slow", ("switch", 1))
    return m


def test_no_more_iterations_than_allowed_are_in_flight():
    d = Drive(with_slow_work())
    d.start()
    for name in ("start", "limit", "enter", "bound"):
        d.finish(name)
    for iteration in range(2):
        tag = Tag(1, iteration)
        d.finish("merge", tag)
        d.finish("test", tag)
        d.finish("switch", tag, (True, False))
        d.finish("body", tag)
        started = d.finish("next", tag)
        assert started == (["merge"] if iteration == 0 else []), "iteration 2 waits for iteration 0"
    assert d.finish("slow", Tag(1, 0)) == ["merge"], "iteration 0 is over: there is room for 2 beside 1"
    assert {a.tag for a in d.last if isinstance(a, RunSegment)} == {Tag(1, 2)}


def test_the_exit_of_a_loop_that_never_entered_is_dead():
    m = Machine()
    m.node("x")
    m.node("switch", "x", "x", role="switch", outputs=2)
    m.node("enter", ("switch", 1), role="enter", frame="f")
    m.node("merge", "enter", "next", role="merge", outputs=2, back_edges=(1,))
    m.node("turn", "merge", "merge", role="switch", outputs=2)
    m.node("next", ("turn", 1), role="next_iteration")
    m.node("exit", ("turn", 0), role="exit")
    m.node("after", "exit")
    m.node("join", ("switch", 0), "after", role="merge", outputs=2)
    d = Drive(m)
    d.complete(lambda name, tag: (False, True) if name == "switch" else ())
    assert sorted(d.ran()) == ["join", "switch", "x"] and d.ended == [Finish(None)]


def test_an_exit_outside_any_frame_is_an_error():
    m = Machine()
    m.node("x")
    m.node("out", "x", role="exit")
    d = Drive(m)
    d.start()
    d.finish("x")
    with pytest.raises(errors.InvalidArgumentError) as error:
        d.finish("out")
    assert str(error.value) == "exit 'out': it is in no frame; pair it with enter"


def nested() -> Machine:
    """for i in range(n): for j in range(m): inner body."""
    m = Machine()
    m.node("start")
    m.node("enter", "start", role="enter", frame="outer")
    m.node("merge", "enter", "next", role="merge", outputs=2, back_edges=(1,))
    m.node("switch", "merge", "merge", role="switch", outputs=2)
    m.node("enter2", ("switch", 1), role="enter", frame="inner")
    m.node("merge2", "enter2", "next2", role="merge", outputs=2, back_edges=(1,))
    m.node("switch2", "merge2", "merge2", role="switch", outputs=2)
    m.node("work", ("switch2", 1))
    m.node("next2", "work", role="next_iteration")
    m.node("exit2", ("switch2", 0), role="exit")
    m.node("next", "exit2", role="next_iteration")
    m.node("exit", ("switch", 0), role="exit")
    return m


@pytest.mark.parametrize("pick", [0, -1])
def test_nested_frames_have_an_instance_per_outer_iteration(pick):
    d = Drive(nested())

    def decide(name: str, tag: Tag) -> tuple[bool, ...]:
        limit = {"switch": 3, "switch2": 2}.get(name)
        return () if limit is None else (tag.iteration < limit, tag.iteration >= limit)
    d.complete(decide, pick)
    assert d.ran()["work"] == 6 and d.ran()["exit2"] == 3 and d.ran()["exit"] == 1
    frames = {a.tag.frame for a in d.actions if isinstance(a, RunSegment) and d.names[a.segment] == "work"}
    assert len(frames) == 3 and d.ended == [Finish(None)] and d.executor._frames.keys() == {0}


def test_paths_name_frames_and_iterations_the_same_everywhere():
    d = Drive(nested())
    d.start()
    d.finish("start")
    d.finish("enter")
    d.finish("merge", Tag(1, 0))
    d.finish("switch", Tag(1, 0), (True, False))
    d.finish("enter2", Tag(1, 0))
    assert d.executor.path(ROOT) == "0:0"
    assert d.executor.path(Tag(1, 0)) == "outer:0" and d.executor.path(Tag(2, 0)) == "outer:0/inner:0"


# random graphs against a plain interpreter

@st.composite
def dags(draw):
    """Nodes with data and control inputs from earlier ones; some are switches, and merges that join their sides."""
    m, ports = Machine(), [("n0", 0)]
    m.node("n0")
    for i in range(1, draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(["", "", "switch", "joined"]))
        after = tuple(draw(st.lists(st.sampled_from(m.names), max_size=2, unique=True)))
        name = f"n{i}"
        if kind == "switch":
            m.node(name, draw(st.sampled_from(ports)), draw(st.sampled_from(ports)), after=after, role="switch",
                   outputs=2)
            ports += [(name, 0), (name, 1)]
        elif kind == "joined":
            source = draw(st.sampled_from(ports))
            m.node(f"{name}s", source, source, role="switch", outputs=2)
            m.node(f"{name}a", (f"{name}s", 0))
            m.node(name, f"{name}a", (f"{name}s", 1), role="merge", outputs=2)
            ports.append((name, 0))
        else:
            m.node(name, *draw(st.lists(st.sampled_from(ports), max_size=3)), after=after)
            ports.append((name, 0))
    sides = {n: draw(st.booleans()) for n in m.names}
    return m, sides, draw(st.integers(0, 2**31))


def interpret(m: Machine, sides: dict[str, bool]) -> dict[str, int]:
    """name -> which input a merge takes (-1 otherwise), for every node that runs; nodes stand in order."""
    alive: dict[tuple[str, int], bool] = {}
    ran: dict[str, int] = {}
    for name, o in zip(m.names, m.options):
        inputs = [alive[i if isinstance(i, tuple) else (i, 0)] for i in o["inputs"]]
        waits = [alive[(n, -1)] for n in o["after"]]
        if o.get("role") == "merge":
            lives, choice = any(inputs), inputs.index(True) if any(inputs) else -1
        else:
            lives, choice = all(inputs) and all(waits), -1
        if lives:
            ran[name] = choice
        alive[(name, -1)] = lives
        for port in range(o.get("outputs", 1)):
            alive[(name, port)] = lives and (o.get("role") != "switch" or sides[name] == bool(port))
    return ran


@given(dags())
def test_random_graphs_run_what_a_plain_interpreter_runs(case):
    m, sides, seed = case
    d = Drive(m)
    pending = [a for a in d.handle(StepStarted()) if isinstance(a, RunSegment)]
    ran: dict[str, int] = {}
    order = seed
    while pending:
        order = (order * 1103515245 + 12345) % 2**31
        action = pending.pop(order % len(pending))
        name = d.names[action.segment]
        assert name not in ran, "nothing runs twice"
        ran[name] = action.choice
        side = sides[name]
        dead = (side, not side) if m.options[action.segment].get("role") == "switch" else ()
        pending += [a for a in d.handle(SegmentFinished(action.segment, ROOT, dead)) if isinstance(a, RunSegment)]
    assert ran == interpret(m, sides)
    assert d.ended == [Finish(None)], "it ends, and only once"
