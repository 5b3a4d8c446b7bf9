"""One task between scripted connections: every step is answered, nothing grows, nothing outlives the session."""
from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tests.cluster.wires import SESSION, Wire
from workbench import errors
from workbench.cluster.task.engines import define_engine
from workbench.cluster.task.task import Task
from workbench.cluster.wire import messages as m
from workbench.cluster.wire.frames import HEADER, Dropped, Frame, parse_header
from workbench.core.names import join_edge
from workbench.core.trace import Span

HERE, THERE = "/job:ps/task:0", "/job:worker/task:0"


class Unwilling(np.ndarray):
    """An array whose bytes do not fit into memory once more."""

    def tobytes(self, order: Any = "C") -> bytes:
        raise MemoryError("cannot allocate 80 GiB")


class Scripted:
    """An engine whose steps do what the test says: a handle is the name of a method."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.unfinished: list[Any] = []        # what tells the task that a step is over
        self.handles: set[str] = set()
        self.preparing = lambda: None

    def register(self, handle: str, program: memoryview) -> None:
        self.preparing()
        self.handles.add(handle)

    def facts(self) -> dict[str, Any]:
        return {}

    def unregister(self, handle: str) -> None:
        self.handles.discard(handle)

    def run(self, handle: str, step: int, feeds: Any, send: Any, rendezvous: Any, done: Any, trace: int,
            of: Any = None) -> None:
        getattr(self, handle)(step, send, rendezvous, done)

    def answer(self, step: int, send: Any, rendezvous: Any, done: Any) -> None:
        done([np.float32(step)])

    def held(self, step: int, send: Any, rendezvous: Any, done: Any) -> None:
        self.unfinished.append(done)

    def broken(self, step: int, send: Any, rendezvous: Any, done: Any) -> None:
        done([step / 0])

    def too_much(self, step: int, send: Any, rendezvous: Any, done: Any) -> None:
        done([np.zeros(3).view(Unwilling)])

    def odd_name(self, step: int, send: Any, rendezvous: Any, done: Any) -> None:
        done(errors.NotFoundError("read_file: 'caf\udce9.txt' does not exist; check the name"))

    def wide(self, step: int, send: Any, rendezvous: Any, done: Any) -> None:
        for number in range(50):
            rendezvous.receive(join_edge(f"layer/{number}:0", THERE, HERE), lambda value, dead: None)

    def tell(self, step: int, send: Any, rendezvous: Any, done: Any) -> None:
        send(join_edge("x:0", HERE, THERE), np.ones(2), False)
        done([])

    def answers_nothing(self, step: int, send: Any, rendezvous: Any, done: Any) -> None:
        done([])

    def takes_only(self, step: int, send: Any, rendezvous: Any, done: Any) -> None:
        rendezvous.receive(join_edge("x:0", THERE, HERE), lambda value, dead: done([]))

    def takes_and_breaks(self, step: int, send: Any, rendezvous: Any, done: Any) -> None:
        rendezvous.receive(join_edge("x:0", THERE, HERE), lambda value, dead: done([step / 0]))

    def takes(self, step: int, send: Any, rendezvous: Any, done: Any) -> None:
        rendezvous.receive(join_edge("x:0", THERE, HERE),
                           lambda value, dead: done(value if isinstance(value, errors.Error) else [value]))

    def abort(self, step: int, error: errors.Error) -> None:
        """Steps end by themselves."""

    def close(self) -> None:
        """Nothing is held."""


class Scene:
    """A task, the wire from its chief, and the wires it dialled."""

    def __init__(self, on_send: Any = lambda message: None, dialling: Any = lambda: None) -> None:
        define_engine("scripted", Scripted)
        self.dialled: list[Wire] = []
        self.chief = Wire("chief", on_send)
        self._dialling = dialling
        self.task = Task(HERE, SESSION, self.chief, self._dial, lambda task: None)
        self.task.start()
        self.chief.arrive(m.OpenTask(HERE, "scripted", {HERE: "tcp://a", THERE: "tcp://b"}, True, 5.0, 10.0))

    def _dial(self, task: Task, target: str, address: str) -> Wire:
        self._dialling()
        self.dialled.append(Wire(target))
        return self.dialled[-1]

    def run(self, handle: str, step: int, live: tuple[int, ...] = ()) -> None:
        self.chief.arrive(m.RunStep(handle, live, 0, {}), step)

    @property
    def engine(self) -> Scripted:
        return self.task._engine

    def answers(self, step: int) -> list[m.Message]:
        return [message for number, message in self.chief.sent if number == step]


def test_fetches_that_cannot_be_sent_are_a_failure_of_the_step():
    scene = Scene()
    scene.run("too_much", 1)
    failed, = scene.answers(1)
    assert (failed.error, failed.message) == ("MemoryError", "cannot allocate 80 GiB")


def test_errors_may_quote_any_file_name():
    scene = Scene()
    scene.run("odd_name", 1)
    failed, = scene.answers(1)
    assert failed.message == r"read_file: 'caf\udce9.txt' does not exist; check the name"


def test_the_status_of_a_step_that_waits_for_much_gets_through():
    scene = Scene()
    scene.run("wide", 1)
    scene.chief.arrive(m.StatusRequest(False), 9)
    status, = scene.answers(9)
    assert status.facts["waiting"].count("layer/") == 50


def test_a_step_that_is_over_before_it_begins_is_answered():
    scene = Scene()
    scene.chief.arrive(m.Abort("CancelledError", "stopped"), 2)
    scene.run("answer", 2)
    scene.run("answer", 7)
    scene.run("answer", 5)
    for step in (2, 5):
        *_, failed = scene.answers(step)
        assert (failed.error, failed.message) == ("AbortedError", f"step {step}: it was over at {HERE} before it began; run "
                                                  "it again with a new number")
    done, = scene.answers(7)
    assert done.fetches == [7] and scene.task.facts()["active"] == []


def test_one_long_step_does_not_slow_the_others():
    """While step 1 runs all others come and go, and nothing is kept of them."""
    scene = Scene()
    scene.run("wide", 1)
    for step in range(2, 3000):
        scene.run("answer", step, live=(1,))
        assert scene.task.facts()["remembered"] <= 1
    assert scene.task.facts()["active"] == [1]


def test_a_step_that_is_overtaken_on_its_way_still_runs():
    scene = Scene()
    scene.run("answer", 3, live=(2,))
    scene.run("answer", 2, live=())
    assert [type(message) for message in scene.answers(2) + scene.answers(3)] == [m.Done, m.Done]


def test_an_aborted_step_is_over_when_its_last_kernel_returned():
    """Until then it may write, so nobody may take it for over."""
    scene = Scene()
    scene.run("held", 1)
    scene.chief.arrive(m.Abort("CancelledError", "stopped"), 1)
    assert scene.answers(1) == [] and scene.task.facts()["aborting"] == [1] and scene.task.facts()["active"] == []
    scene.engine.unfinished.pop()([np.float32(1)])
    assert scene.answers(1) == [m.Ended()] and scene.task.facts()["aborting"] == []
    scene.chief.arrive(m.Abort("CancelledError", "stopped"), 1)
    assert scene.answers(1) == [m.Ended(), m.Ended()]


def test_a_step_that_lost_its_peer_is_over_when_its_last_kernel_returned():
    scene = Scene()
    scene.chief.arrive(m.RegisterPartition("held", b"", {}, {HERE: "", THERE: ""}), 3)
    wire = Wire(THERE)
    scene.task.add_inbound(wire)
    scene.run("held", 1)
    wire.end(EOFError("the other end closed the connection"))
    failed, = scene.answers(1)
    assert failed.error == "AbortedError" and failed.peer == THERE and not failed.over
    scene.chief.arrive(m.Abort("AbortedError", failed.message), 1)
    assert scene.answers(1) == [failed]
    scene.engine.unfinished.pop()([np.float32(1)])
    assert scene.answers(1) == [failed, m.Ended()]


def tensor(step: int, size: int = 100) -> m.Tensor:
    return m.Tensor(join_edge("x:0", THERE, HERE), False, np.zeros(size, np.uint8))


def test_tensors_of_steps_that_never_begin_end_with_their_link():
    """Whoever waits for those steps hears of the link; a hundred thousand damaged links must not fill the memory."""
    scene = Scene()
    for step in range(1, 4):
        wire = Wire(THERE)
        scene.task.add_inbound(wire)
        wire.arrive(tensor(step), step)
        assert scene.task.facts()["tables"] == 1 and scene.task.facts()["early"] > 100
        wire.end(EOFError("the other end closed the connection"))
        assert scene.task.facts()["tables"] == scene.task.facts()["early"] == 0


def test_a_peer_cannot_fill_the_memory_with_steps_that_never_begin(monkeypatch):
    monkeypatch.setattr("workbench.cluster.task.steps._EARLY", 5000)
    scene, wire = Scene(), Wire(THERE)
    scene.task.add_inbound(wire)
    for number in range(3):
        wire.arrive(m.Tensor(join_edge(f"{number}:0", THERE, HERE), False, np.zeros(9000, np.uint8)), 1)      # large
    with pytest.raises(errors.DataLossError, match=f"{THERE}: it sent 3[0-9]{{4}} bytes for steps that have not begun here, "
                                                   "and goes on with step 2; 5000 are kept at most, the stream is damaged"):
        wire.arrive(tensor(2), 2)
    scene.run("answer", 1)                    # what begins is no longer early
    for step in range(2, 5):
        wire.arrive(tensor(step), step)
        scene.run("answer", step)
    assert scene.task.facts()["early"] == 0 and [type(x) for x in scene.answers(4)] == [m.Done]


@pytest.mark.parametrize("early", [False, True])
def test_a_tensor_that_does_not_fit_into_memory_fails_its_step_alone(early):
    """Also where it comes before the step; the link and the next step know nothing of it."""
    scene, wire = Scene(), Wire(THERE)
    scene.task.add_inbound(wire)

    def arrives(step: int) -> None:
        head, data = m.encode(tensor(step, 100_000), SESSION, 1, step)
        scene.task.on_tensor(wire, Frame(parse_header(head), head[HEADER.size:], Dropped(len(data)) if step == 1 else data))
    for step in (1, 2):
        for what in (arrives, lambda step: scene.run("takes", step))[::1 if early else -1]:
            what(step)
    failed, = scene.answers(1)
    assert (failed.error, failed.message, failed.peer, failed.over) == (
        "ResourceExhaustedError", f"x:0: its 100000 bytes do not fit into the memory of {HERE}; make the tensor "
        "smaller, or give its machine more memory", "", True)
    done, = scene.answers(2)
    assert len(done.fetches[0]) == 100_000 and not wire.closed
    assert [message for _, message in scene.chief.sent if type(message) is m.LinkLost] == []
    assert scene.task.facts()["tables"] == scene.task.facts()["early"] == 0


def test_a_broken_link_is_reported_also_when_no_step_runs():
    """What the peer sent for a step that is still on its way here went with the link."""
    scene = Scene()
    wire = Wire(THERE)
    scene.task.add_inbound(wire)
    wire.end(EOFError("the other end closed the connection"))
    assert scene.chief.sent[-1] == (-1, m.LinkLost(THERE, "the other end closed the connection"))


def test_what_is_unregistered_while_it_is_prepared_does_not_stay():
    scene = Scene()
    scene.engine.preparing = lambda: scene.chief.arrive(m.Unregister(("answer",)), -1)
    scene.chief.arrive(m.RegisterPartition("answer", b"", {}, {}), 3)
    assert scene.engine.handles == set() and scene.task._parties == {}


def test_orders_of_another_epoch_are_refused():
    scene = Scene()
    scene.chief.arrive(m.OpenTask(HERE, "scripted", {HERE: "tcp://a"}, True, 5.0, 10.0), 4)
    scene.chief.arrive(m.RunStep("answer", (), 0, {}), 1, epoch=2)
    again, = scene.answers(4)
    assert again.error == "AlreadyExistsError"
    assert again.message == f"{HERE}: it is open in epoch 1, OpenTask came again with epoch 1; open a new task"
    old, = scene.answers(1)
    assert old.message == f"{HERE}: RunStep is of epoch 2 but the task is open in epoch 1; its sender was replaced"


def test_a_chief_that_falls_silent_is_noticed():
    scene = Scene()
    assert all(scene.task.tick(1.0) for _ in range(11)) and not scene.task.tick(1.0)
    scene.chief.arrive(m.ClockProbe(1.0))
    assert scene.task.tick(20.0), "the chief may have spoken a moment before"
    assert scene.task.tick(10.0)
    scene.chief.pieces += 1                  # it is busy with a long tensor
    assert scene.task.tick(20.0) and scene.task.tick(10.0) and not scene.task.tick(1.0)


def test_training_begins_anew_without_the_sessions_of_others():
    """What they run must not write over what is restored next; then all of the state is forgotten."""
    order: list[Any] = []
    scene = Scene()
    scene.task._end_others = lambda task: order.append(task)
    scene.engine.reset = lambda containers: order.append(containers)
    scene.chief.arrive(m.BeginAnew(), 4)
    assert order == [scene.task, None] and scene.answers(4) == [m.WasReset()]


@pytest.mark.parametrize("for_good", [True, False])
def test_who_comes_again_does_not_say_goodbye(for_good):
    scene = Scene()
    scene.chief.arrive(m.Close(for_good))
    assert scene.task.over.is_set() and scene.task.dismissed == for_good


def test_a_task_that_leaves_says_why():
    scene = Scene()
    scene.task.leave("its Dask worker stops")
    assert scene.chief.sent[-1] == (-1, m.Leaving("its Dask worker stops")) and scene.chief.closed


def test_the_traceback_of_an_error_that_nobody_expected_travels():
    scene = Scene()
    scene.run("broken", 1)
    failed, = scene.answers(1)
    assert failed.error == "ZeroDivisionError" and "in broken" in failed.trace
    scene.run("odd_name", 2)
    assert scene.answers(2)[0].trace == ""


def test_a_connection_that_broke_is_made_anew():
    scene = Scene()
    scene.run("tell", 1)
    scene.dialled[0].closed = True           # as a failed send leaves it; its end is reported as our own doing
    scene.dialled[0].end(None)
    scene.run("tell", 2)
    assert len(scene.dialled) == 2 and len(scene.dialled[1].sent) == 1
    scene.dialled[1].closed = True           # nobody noticed yet: this step is lost, the next one is not
    scene.run("tell", 3)
    assert [message.error for message in scene.answers(3)] == ["AbortedError"]
    scene.dialled[1].end(None)
    scene.run("tell", 4)
    assert len(scene.dialled) == 3 and scene.task.facts()["links"] == [THERE]


@pytest.mark.parametrize("late", ["link", "inbound"])
def test_connections_made_while_the_task_closes_are_closed(late):
    scene = Scene(dialling=lambda: scene.task.close())
    if late == "link":
        scene.chief.arrive(m.RegisterPartition("tell", b"", {THERE: ""}, {}), 3)
        assert scene.dialled[0].closed
    else:
        scene.task.close()
        wire = Wire(THERE)
        scene.task.add_inbound(wire)
        assert wire.closed and not wire.started


def test_a_flush_waits_for_spans_that_another_thread_is_sending():
    def sending(message: m.Message) -> None:
        if type(message) is m.SpanBatch and message.spans:
            flushing.start()
            flushing.join(0.2)               # it ends now only if it does not wait

    scene = Scene(on_send=sending)
    flushing = threading.Thread(target=lambda: scene.chief.arrive(m.StatusRequest(True), 4))
    scene.task.journal.span(Span("step", "s", HERE, "", 0, 0.0, 1.0, 1))
    scene.chief.arrive(m.ClockProbe(1.0))
    flushing.join(60)
    kinds = [type(message) for _, message in scene.chief.sent]
    assert kinds.index(m.SpanBatch) < kinds.index(m.Status)


def test_connections_to_many_peers_are_made_at_the_same_time():
    """Each of them may take until its time limit."""
    together = threading.Barrier(3)
    scene = Scene(dialling=lambda: together.wait(60))
    peers = {f"/job:worker/task:{number}": "tcp://b" for number in range(3)}
    scene.task.tasks.update(peers)
    scene.chief.arrive(m.RegisterPartition("tell", b"", dict.fromkeys(peers, ""), {}), 3)
    assert scene.answers(3) == [m.Registered("tell")] and sorted(wire.peer for wire in scene.dialled) == sorted(peers)


def test_one_peer_that_cannot_be_reached_fails_the_registration():
    def dialling() -> None:
        raise errors.UnavailableError("/job:worker/task:1: no connection")
    scene = Scene(dialling=dialling)
    scene.task.tasks.update({f"/job:worker/task:{number}": "tcp://b" for number in range(3)})
    scene.chief.arrive(m.RegisterPartition("tell", b"", {"/job:worker/task:0": "", "/job:worker/task:1": ""}, {}), 3)
    refused, = scene.answers(3)
    assert refused.error == "UnavailableError"


def test_the_same_order_twice_is_one_order():
    scene = Scene()
    for _ in range(2):
        scene.run("held", 1)
    assert len(scene.engine.unfinished) == 1
    scene.engine.unfinished.pop()([])
    scene.run("held", 1)                     # it is over by now
    assert [type(message) for message in scene.answers(1)] == [m.Through] and scene.engine.unfinished == []
