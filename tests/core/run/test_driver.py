"""One step of one device with scripted neighbours: receives that come when the test says so, queues, failures."""
from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.compile.instance import Instance
from workbench.core.compile.partition import partition
from workbench.core.compile.place import place
from workbench.core.compile.plan import compile_plan
from workbench.core.passes.lower import lower
from workbench.core.passes.prune import prune
from workbench.core.run.crew import Crew, Hands
from workbench.core.run.driver import StepRun
from workbench.core.run.executor import Node
from workbench.core.run.nodes import nodes_of
from workbench.core.run.rendezvous import LocalRendezvous
from workbench.core.state.container import Container
from workbench.core.trace import Journal

pytestmark = pytest.mark.usefixtures("graph")
CREW = Crew()
CPUS = [f"/job:localhost/task:0/device:CPU:{i}" for i in range(2)]


class Step:
    """A step of the part of a program on one device; the other end of the rendezvous is the test."""

    def __init__(self, fetches: Any, feeds: dict[Any, Any], device: int = 0, container: Container | None = None,
                 targets: Any = (), **options: Any) -> None:
        program = lower(prune((*fetches, *targets)[0].graph, fetches, targets, {t: t.shape for t in feeds}))
        part = next(p for p in partition(program, place(program, CPUS)) if p.device == CPUS[device])
        self.plan = compile_plan(part.program)
        self.rendezvous = LocalRendezvous()
        self.sent: list[tuple[str, Any, bool]] = []
        self.answers: list[tuple[Any, Any]] = []
        self.over = threading.Event()
        instance = Instance(self.plan, container or Container(), part.device)
        values = [np.asarray(v, t.dtype.numpy) for t, v in feeds.items()]
        self.run = StepRun(instance, nodes_of(self.plan), [values[i] for i in part.feeds], 5, self.rendezvous,
                           lambda *sent: self.sent.append(sent), self.done, Hands(CREW, 4), Journal(capacity=100), **options)

    def done(self, results: Any, error: Any) -> None:
        self.answers.append((results, error))
        self.over.set()

    @property
    def results(self) -> Any:
        (results, error), = self.answers
        assert error is None, error
        return results

    @property
    def error(self) -> BaseException:
        (results, error), = self.answers
        assert results is None
        return error


def across() -> tuple[Any, Any]:
    """y is made on device 0, z = exp(y) on device 1."""
    x = wb.placeholder("float32", [2], name="x")
    y = wb.multiply(x, 2.0, name="y")
    with wb.device("/cpu:1"):
        z = wb.exp(y, name="z")
    return x, z


EDGE = f"y:0|{CPUS[0]}|{CPUS[1]}|0:0"


def test_a_send_names_tensor_and_both_devices():
    x, z = across()
    step = Step([z], {x: [1, 2]})
    step.run.start()
    (edge, value, dead), = step.sent
    assert (edge, dead) == (EDGE, False) and value.tolist() == [2, 4] and step.results == []


def test_a_step_waits_for_what_it_receives():
    x, z = across()
    step = Step([z], {x: [1, 2]}, device=1)
    step.run.start()
    assert step.answers == [] and step.rendezvous.pending == (EDGE,)
    step.rendezvous.send(EDGE, np.zeros(2, np.float32))
    assert step.results[0].tolist() == [1, 1]


def test_a_dead_value_makes_what_reads_it_dead():
    x, z = across()
    step = Step([z], {x: [1, 2]}, device=1)
    step.run.start()
    step.rendezvous.send(EDGE, np.zeros(0), dead=True)
    assert str(step.error) == ("fetch 'z:0': it has no value in this step, because it lies on a branch that was not taken; "
                               "fetch the merge of both branches (Retval[0] does not have value)")


def test_an_aborted_rendezvous_ends_the_step_with_that_error():
    x, z = across()
    step = Step([z], {x: [1, 2]}, device=1)
    step.run.start()
    stop = errors.AbortedError("task 3 died")
    step.rendezvous.abort(stop)
    assert step.error is stop


def test_a_failing_kernel_ends_the_step_once_with_its_place():
    x = wb.placeholder("int32", [], name="x")
    with wb.device("/cpu:1"):
        z = wb.exp(wb.cast(wb.floordiv(x, x, name="ratio"), "float32"))
    step = Step([z], {x: 0}, device=1)
    step.run.start()
    assert str(step.error).startswith("floordiv: integer division by zero in y of shape []; replace the zeros, or divide "
                                      "floats\n  operation: 'ratio'\n  inputs: x:0 int32[], x:0 int32[]\n  built at: ")
    step.run.cancel(errors.CancelledError("late"))
    assert len(step.answers) == 1


def test_cancelling_takes_a_waiting_dequeue_back():
    q = wb.FIFOQueue(5, ["float32"], shapes=[[]], name="q")
    taken, put = q.dequeue(name="take"), q.enqueue([wb.constant(7.0)])
    container = Container()
    step = Step([taken], {}, container=container)
    step.run.start()
    assert step.answers == []
    stop = errors.CancelledError("stop")
    step.run.cancel(stop)
    assert step.error is stop
    Step([], {}, container=container, targets=[put]).run.start()
    again = Step([taken], {}, container=container)
    again.run.start()
    assert again.results == [7.0], "the cancelled attempt took nothing"


def test_what_is_light_behind_a_dequeue_is_done_by_the_thread_that_enqueues():
    q = wb.FIFOQueue(5, ["float32"], shapes=[[]], name="q")
    value, put = wb.exp(q.dequeue()), q.enqueue([wb.constant(0.0)])
    container = Container()
    step = Step([value], {}, container=container)
    step.run.start()
    thread = threading.Thread(target=Step([], {}, container=container, targets=[put]).run.start)
    thread.start()
    assert step.over.wait(60) and step.results == [1.0]
    thread.join()


def test_before_compute_is_asked_before_every_segment_that_computes():
    x, z = across()
    asked = []
    step = Step([z], {x: [1, 2]}, before_compute=lambda: asked.append(1))
    step.run.start()
    assert asked and step.sent


def test_nodes_follow_the_segments():
    x = wb.placeholder("float32", [], name="x")
    q = wb.FIFOQueue(5, ["float32"], shapes=[[]], name="q")
    taken = q.dequeue(name="take")
    y = wb.add(wb.exp(x), taken, name="y")
    plan = compile_plan(prune(y.graph, [y], [], {x: x.shape}))
    nodes = nodes_of(plan)
    by_name: dict[str, Node] = {n.name: n for n in nodes}
    last = next(n for n in nodes if n.inputs == 2)
    assert by_name["take"].inputs == 0 and by_name["take"].feeds[0][1] == last.index
    assert sum(len(n.feeds) for n in nodes) == 2 and last.feeds == ()


def test_values_of_finished_iterations_are_dropped():
    n = wb.placeholder("int32", [], name="n")
    y = wb.while_loop(lambda i: i < n, lambda i: i + 1, [0], parallel_iterations=1)
    program = lower(prune(y.graph, [y], [], {n: n.shape}), lambda op: True)
    plan = compile_plan(program)
    answers: list[Any] = []
    run = StepRun(Instance(plan, Container(), CPUS[0]), nodes_of(plan), [np.array(50, np.int32)], 0, None, None,
                  lambda *answer: answers.append(answer), Hands(CREW, 4))
    run.start()
    assert answers[0][0] == [50] and len(run.values) == 1


def test_a_view_that_crosses_segments_is_waited_for():
    x = wb.placeholder("float32", [2, 2], name="x")
    q = wb.FIFOQueue(5, ["float32"], shapes=[[4]], name="q")
    view = wb.reshape(wb.tanh(wb.matmul(x, x)), [4])
    y = wb.add(view, q.dequeue(name="take"), name="y")
    plan = compile_plan(prune(y.graph, [y], [], {x: x.shape}))
    last, = (n for n in nodes_of(plan) if n.inputs == 2)
    assert plan.segments[last.index].op.name == "y"
    assert not any("b" in line.partition("return")[2] for line in plan.source.splitlines() if "return (b" in line)


def test_a_late_constant_is_waited_for():
    """The update reads a constant that has to wait for one queue, and a value of another."""
    first, second = (wb.FIFOQueue(5, ["float32"], shapes=[[]], name=n) for n in ("first", "second"))
    with wb.control_dependencies([first.dequeue()]):
        late = wb.constant(10.0)
    v = wb.Variable(0.0, name="v")
    update = wb.assign_add(v, second.dequeue() * late)
    box = Container()
    Step([], {}, container=box, targets=[v.initializer]).run.start()
    Step([], {}, container=box, targets=[second.enqueue([wb.constant(2.0)])]).run.start()
    step = Step([update], {}, container=box)
    step.run.start()
    assert step.answers == [] and box.variables()["v"].read() == 0.0
    Step([], {}, container=box, targets=[first.enqueue([wb.constant(0.0)])]).run.start()
    assert step.results == [20.0]


def test_iterations_that_end_together_keep_their_values_apart():
    """All wait for one queue and none for the value before: each has its own result when the one before hands it on."""
    q = wb.FIFOQueue(5, ["float32"], shapes=[[]], name="q")
    late = q.dequeue()
    x = wb.placeholder("float32", [], name="x")
    y = wb.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, late + wb.cast(i, "float32")), [0, x])[1]
    program = lower(prune(y.graph, [y], [], {x: x.shape}), lambda op: True)
    plan = compile_plan(program)
    box, answers = Container(), []
    run = StepRun(Instance(plan, box, CPUS[0]), nodes_of(plan), [np.array(10, np.float32)], 0, None, None,
                  lambda *answer: answers.append(answer), Hands(CREW, 4))
    run.start()
    assert answers == []
    Step([], {}, container=box, targets=[q.enqueue([wb.constant(-1.0)])]).run.start()
    (results, error), = answers
    assert error is None and results == [1.0]


class _Door:
    """A lock whose release lets Ctrl-C in once, as Python does after any call."""

    def __init__(self) -> None:
        self._lock, self.open = threading.Lock(), True

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *details: Any) -> None:
        self._lock.release()
        if self.open:
            self.open = False
            raise KeyboardInterrupt


def test_ctrl_c_before_an_event_is_handled_leaves_the_step_to_its_cancellation():
    x, z = across()
    step = Step([z], {x: [1, 2]}, device=1)
    step.run._lock = _Door()
    with pytest.raises(KeyboardInterrupt):
        step.run.start()
    stopped = errors.CancelledError("stopped")
    step.run.cancel(stopped)
    assert step.error is stopped
