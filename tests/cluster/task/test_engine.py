"""The engine of a task with scripted neighbours: whenever an abort comes, the step ends and harms no later one."""
from __future__ import annotations

import gc
import os
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.eventually import eventually
from workbench import errors
from workbench.cluster.chief.backend import ClusterBackend
from workbench.cluster.task import engine as module
from workbench.cluster.task.engine import GraphEngine
from workbench.cluster.task.engines import SILENT, TaskContext
from workbench.core.compile.instance import Instance
from workbench.core.graph.build import ops
from workbench.core.passes.together import FEWEST
from workbench.core.run.rendezvous import LocalRendezvous
from workbench.core.state.accumulators import Accumulator
from workbench.core.state.container import Container
from workbench.core.state.retries import TryOf
from workbench.core.state.variables import VariableState
from workbench.core.threads import keep_core, usable_cores
from workbench.core.trace import Journal

pytestmark = pytest.mark.usefixtures("graph")
TASK = "/job:worker/task:0"


class Registered:
    """Stands for a cluster of one task: keeps what a session registers and runs nothing."""

    tasks, home = (TASK,), ""
    device_types: dict[str, str] = {}      # noqa: RUF012

    def register_all(self, handle: str, programs: Any, targets: Any, told: Any = None, relays: Any = None) -> None:
        self.program = programs[TASK]

    def unregister(self, handles: Any) -> None:
        """Nothing is kept."""

    def next_step(self) -> int:
        return 1

    def run_step(self, handle: str, step: int, **options: Any) -> dict[str, list[Any]]:
        return {}

    def backend(self) -> ClusterBackend:
        return ClusterBackend(self)


class Steps:
    """An engine with one program, and what its steps answered."""

    def __init__(self, fetch: Any, container: Container | None = None) -> None:
        registered = Registered()
        with wb.Session(registered) as session:
            session.run(fetch)
        self.engine = GraphEngine(TaskContext(TASK, (TASK,), 7, Journal(), container))
        self.engine.register("h", registered.program)
        self.pool = self.engine._prepared["h"].pool
        self.answers: dict[int, Any] = {}

    def run(self, step: int, sequence: int = 0) -> None:
        of = TryOf("worker 1", 77, sequence, ()) if sequence else None
        self.engine.run("h", step, {}, lambda *sent: None, LocalRendezvous(),
                        lambda result: self.answers.__setitem__(step, result), SILENT, of)

    def abort(self, step: int) -> None:
        self.engine.abort(step, errors.CancelledError("stopped; run again"))


def endless() -> Any:
    return wb.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 1000, [wb.constant(0)])


def taken(size: int) -> Any:
    """The sum of an element of a queue."""
    return wb.reduce_sum(wb.FIFOQueue(4, ["float32"], shapes=[[size]], name="queue").dequeue())


def rows(table: int, count: int) -> Any:
    """`count` rows of a table, doubled there."""
    v = wb.Variable(wb.zeros([table, 8]), name="v")
    indices = wb.constant(np.arange(count))
    return wb.scatter_add(v, indices, wb.gather(v, indices))


def put(steps: Steps, size: int, value: float) -> None:
    def fail(error: BaseException) -> None:
        raise error
    steps.engine.container._items["queue"].enqueue([np.full(size, value, np.float32)], lambda: None, fail)


def test_an_endless_loop_does_not_hold_the_receiver_and_can_be_aborted(monkeypatch):
    released, looping = threading.Event(), threading.Event()
    check = Instance._check
    monkeypatch.setattr(module, "release_receiver", lambda needed: released.set())
    monkeypatch.setattr(Instance, "_check", lambda instance: (looping.set(), check(instance)))
    steps = Steps(endless())
    thread = threading.Thread(target=steps.run, args=(1,), daemon=True)
    thread.start()
    assert looping.wait(60) and released.is_set()
    steps.abort(1)
    thread.join(60)
    assert isinstance(steps.answers[1], errors.CancelledError) and steps.engine._running == {}
    assert sum(map(len, steps.pool._idle.values())) == 0          # a cancelled instance serves nobody


@pytest.mark.parametrize("fetch", [endless, lambda: taken(200_000)], ids=["loop", "queue"])
def test_an_abort_right_after_the_receiver_was_released(monkeypatch, fetch):
    steps = Steps(fetch())
    with monkeypatch.context() as once:
        once.setattr(module, "release_receiver", lambda needed: steps.abort(1))
        steps.run(1)
    assert steps.engine._running == {} and not isinstance(steps.answers.get(1), list)
    if fetch is not endless:
        steps.run(2)
        put(steps, 200_000, 1.0)
        assert steps.answers[2] == [200_000.0]                     # the aborted step takes nothing away


def test_a_step_that_ends_well_during_its_abort_gives_no_cancelled_instance_back(monkeypatch):
    steps = Steps(taken(3))
    steps.run(1)

    class Late(threading.Event):
        """The element arrives just before the abort has cancelled the instance."""

        def set(self) -> None:
            put(steps, 3, 2.0)
            super().set()

    steps.engine._running[1].__self__.instance.cancelled = Late()      # type: ignore[attr-defined]
    steps.abort(1)
    assert steps.answers[1] == [6.0]
    assert all(not instance.cancelled.is_set() for instance in steps.pool._idle[False])


@wb.op("x[...] -> [...]", types="T:float -> T")
def leaves_the_task(x: Any) -> Any:
    """A kernel that asks the process of its task to exit."""
    raise SystemExit(3)


@wb.op("x[...] -> [...]", types="T:float -> T", blocking=True, context=True)
def leaves_while_it_waits(context: Any, x: Any) -> None:
    """The same where a plan is cut."""
    raise KeyboardInterrupt("pressed by nobody")


@pytest.mark.parametrize(("kernel", "text"), [("leaves_the_task", "SystemExit: 3"),
                                              ("leaves_while_it_waits", "KeyboardInterrupt: pressed by nobody")])
def test_a_kernel_that_asks_its_task_to_exit_ends_its_step_alone(kernel, text):
    """A step runs on the thread that receives for all: it must go on."""
    steps = Steps(getattr(ops, kernel)(wb.placeholder_with_default(1.0, [])) + 1.0)
    running = threading.Thread(target=lambda: (steps.run(1), steps.run(2)))
    running.start()
    running.join(60)
    for answer in steps.answers[1], steps.answers[2]:
        assert isinstance(answer, errors.InvalidArgumentError) and f"{kernel}: {text}; " in str(answer)
    assert steps.engine._running == {}


@wb.op("x[...] -> [...]", types="T:float -> T")
def held_up(x: Any) -> Any:
    """A kernel that says it began and returns when the test lets it."""
    began.set()
    assert go_on.wait(60)
    return x


began, go_on = threading.Event(), threading.Event()


def test_a_step_that_is_aborted_inside_a_kernel_answers_when_the_kernel_returned():
    """A plan of one piece cannot be stopped: what it writes must have been written before anybody says it is over."""
    began.clear()
    go_on.clear()
    v = wb.Variable(1.0, name="v")
    steps = Steps(v.assign_add(ops.held_up(wb.placeholder_with_default(1.0, []))))
    steps.engine.container.get("v", VariableState, lambda: VariableState("v", wb.float32, wb.TensorShape([]))).assign(
        np.float32(1))
    thread = threading.Thread(target=steps.run, args=(1,))
    thread.start()
    assert began.wait(60)
    steps.abort(1)
    assert 1 not in steps.answers
    go_on.set()
    thread.join(60)
    assert 1 in steps.answers and steps.engine._running == {}


def test_a_step_of_several_pieces_answers_when_the_last_one_returned():
    """Heavy pieces run on threads of their own: a step that was aborted is over when the last of them is."""
    began.clear()
    go_on.clear()
    queue = wb.FIFOQueue(4, ["float32"], shapes=[[200_000]], name="queue")
    steps = Steps(wb.reduce_sum(ops.held_up(queue.dequeue() * 2.0)))
    running = threading.Thread(target=lambda: (steps.run(1), put(steps, 200_000, 1.0)))
    running.start()
    assert began.wait(60)
    aborting = threading.Thread(target=steps.abort, args=(1,))
    aborting.start()
    aborting.join(0.05)
    assert 1 not in steps.answers
    go_on.set()
    for thread in (running, aborting):
        thread.join(60)
    eventually(lambda: 1 in steps.answers)
    assert isinstance(steps.answers[1], errors.CancelledError) and steps.engine._running == {}


def test_what_was_unregistered_is_gone_with_its_memory():
    steps = Steps(wb.reduce_sum(wb.placeholder_with_default(np.ones(200_000, np.float32), [200_000])))
    steps.run(1)
    pool = weakref.ref(steps.pool)
    del steps.pool
    steps.engine.unregister("h")
    gc.collect()
    assert pool() is None and steps.answers[1] == [200_000.0]
    steps.run(2)
    assert isinstance(steps.answers[2], errors.NotFoundError)


def test_it_tells_which_gradients_did_not_count_and_the_versions_of_variables():
    steps = Steps(wb.Variable([1.0, 2.0], name="v").assign_add([1.0, 1.0]))
    state = steps.engine.container.get("v", VariableState, lambda: VariableState("v", wb.float32, wb.TensorShape([2])))
    state.assign(np.float32([1, 2]))
    steps.run(1)
    gradients = [steps.engine.container.get(name, Accumulator, lambda name=name: Accumulator(
        name, wb.float32, wb.TensorShape([2]))) for name in ("v/grad_accum", "w/grad_accum")]
    gradients[0].set_global_step(5)
    for step, worker in ((4, ""), (5, "a"), (5, "a")):      # too late, counted, a second time
        gradients[0].apply(step, np.ones(2, np.float32), worker=worker)
    assert steps.engine.facts() == {"dropped": {"v/grad_accum": 2}, "versions": {"v": 2}}


def test_a_reset_forgets_the_variables_of_a_container_and_what_is_bound_to_them():
    v = wb.Variable([1.0, 2.0], name="v")
    steps = Steps(v.value())
    state = steps.engine.container.get("v", VariableState, lambda: VariableState("v", wb.float32, wb.TensorShape([2])))
    state.assign(np.float32([1, 2]))
    steps.run(1)
    assert steps.answers[1][0].tolist() == [1, 2]
    steps.engine.reset(["elsewhere"])
    steps.run(2)
    assert steps.answers[2][0].tolist() == [1, 2]
    steps.engine.reset([""])
    steps.run(3)
    assert isinstance(steps.answers[3], errors.FailedPreconditionError)
    assert "never initialised" in steps.answers[3].message


@pytest.mark.parametrize("fetch, light", [
    (lambda: wb.read_file("name"), False), (lambda: wb.constant(1.0) + wb.placeholder_with_default(1.0, []), True),
    (lambda: wb.Variable(1.0, name="v").assign_add(1.0), True),
    (lambda: wb.as_string(wb.placeholder_with_default(1.0, [])), False),
    (lambda: rows(200_000, 32), True), (lambda: rows(200_000, 20_000), False),      # of a table only rows are touched
    (lambda: ops.held_up(wb.placeholder_with_default(1.0, [])), False)])
def test_what_may_take_long_never_runs_where_it_arrives(fetch, light):
    """Aborts and probes wait behind it: a file on a slow disk would look like a dead task."""
    assert Steps(fetch()).engine._prepared["h"].light is light


def test_closing_ends_what_runs():
    steps = Steps(taken(3))
    steps.run(1)
    steps.engine.close()
    assert isinstance(steps.answers[1], errors.CancelledError) and steps.engine._running == {}


def counted() -> tuple[Any, Any]:
    """The state of a task that keeps it, and a step: v counts, an element is taken of a queue, and another; w counts both."""
    v, w = wb.Variable(0.0, name="v"), wb.Variable(0.0, name="w")
    queue = wb.FIFOQueue(4, ["float32"], shapes=[[1]], name="queue")
    with wb.control_dependencies([v.assign_add(1.0)]):
        first = queue.dequeue()
    with wb.control_dependencies([first]):
        second = queue.dequeue()
    container = Container(TASK, retried=True)
    Steps(wb.global_variables_initializer(), container).run(1)
    return container, w.assign_add(wb.reduce_sum(first + second))


def test_what_a_step_did_before_it_was_cut_off_counts_once_when_it_is_tried_again():
    """An element that it took is the same again, what waited is taken back, an update of a variable is made by one try."""
    container, step = counted()
    steps = Steps(step, container)

    def values() -> list[float]:
        return [float(container.variables()[name].read()) for name in ("v", "w")]
    steps.run(1, sequence=1)
    put(steps, 1, 5.0)                        # the first try has this one, and waits for another
    steps.run(4, sequence=1)                  # its session broke: nobody heard of an end; the second try ends it
    assert isinstance(steps.answers[1], errors.AbortedError) and 4 not in steps.answers and values() == [1, 0]
    put(steps, 1, 6.0)
    assert steps.answers[4] == [11] and values() == [1, 11]
    steps.run(6, sequence=1)                  # the answer was lost, too
    assert steps.answers[6] == [11] and values() == [1, 11]
    steps.run(7, sequence=7)
    put(steps, 1, 1.0)
    put(steps, 1, 2.0)
    assert steps.answers[7] == [14] and values() == [2, 14]
    steps.run(8)                              # one that nobody tries again
    put(steps, 1, 1.0)
    put(steps, 1, 2.0)
    assert values() == [3, 17]


@pytest.mark.parametrize("count", [1, FEWEST])
@pytest.mark.parametrize("optimizer", [wb.train.GradientDescentOptimizer(0.5), wb.train.AdamOptimizer(0.5)],
                         ids=["descent", "adam"])
def test_an_update_of_a_model_counts_once(optimizer, count):
    """One variable, or so many that their updates are one operation."""
    variables = [wb.Variable(np.ones((4, 3), np.float32), name="w" if not i else f"w{i}") for i in range(count)]
    x = wb.constant(np.ones((2, 4), np.float32))
    train = optimizer.minimize(wb.add_n([wb.reduce_sum(wb.square(wb.matmul(x, w))) for w in variables]))
    found = []
    for tries in ((1, 1, 3), (1, 3)):
        container = Container(TASK, retried=True)
        Steps(wb.global_variables_initializer(), container).run(1)
        steps = Steps(train, container)
        for number, sequence in enumerate(tries, 10):
            steps.run(number, sequence)
        assert all(isinstance(answer, list) for answer in steps.answers.values())
        found.append(container.variables()["w"].read())
    np.testing.assert_array_equal(*found)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity") or len(usable_cores()) < 2, reason="needs two cores")
@pytest.mark.parametrize("size, stays", [(8, True), (160, False)])
def test_what_several_cores_could_share_is_not_run_by_a_thread_that_keeps_to_one(size: int, stays: bool) -> None:
    """Else the team of its kernels, made by a thread on one core, would stay there for good."""
    v = wb.Variable(wb.zeros([size, size]), name="v")
    steps = Steps(wb.assign(v, wb.matmul(wb.ones([size, size]), wb.ones([size, size]))))
    assert steps.engine._prepared["h"].light
    found: list[Any] = []

    def step() -> None:
        keep_core(max(usable_cores()))
        steps.run(1)
        found.append(os.sched_getaffinity(0))
    thread = threading.Thread(target=step)
    thread.start()
    thread.join(60)
    assert not isinstance(steps.answers[1], Exception)
    assert found == [{max(usable_cores())} if stays else usable_cores()]
