"""Steps that only compute a little and receive: the short way gives what the way of all steps gives, whatever comes when."""
from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.core.run.test_driver import CPUS, Step
from workbench import errors
from workbench.core.compile.instance import Instance
from workbench.core.run.light import LightRun, Script, script_of
from workbench.core.run.rendezvous import LocalRendezvous
from workbench.core.state.container import Container
from workbench.core.state.pushes import Pushes
from workbench.train.input.queues import WorkerPushes

pytestmark = pytest.mark.usefixtures("graph")


class Light:
    """A step of the part on device 1; the other end of the rendezvous is the test."""

    def __init__(self, fetches: Any, feeds: dict[Any, Any] | None = None) -> None:
        self.usual = Step(fetches, feeds or {}, device=1)
        self.script = script_of(self.usual.plan)
        assert isinstance(self.script, Script)
        self.rendezvous, self.answers, self.returned = LocalRendezvous(), [], []
        self.instance = Instance(self.usual.plan, Container(), CPUS[1])
        values = [np.float32(value) for value in (feeds or {}).values()]
        self.run = LightRun(self.script, self.instance, values, 5, self.rendezvous, lambda *sent: None,
                            lambda *answer: self.answers.append(answer), self.returned.append)

    def bring(self, place: int, value: Any, dead: bool = False) -> None:
        """To both."""
        for rendezvous in (self.rendezvous, self.usual.rendezvous):
            rendezvous.send(self.script.edges[place], value, dead)


def three() -> tuple[Any, list[Any]]:
    """What depends on one, two and three of the tensors that device 0 sends."""
    with wb.device("/cpu:0"):
        a, b, c = (wb.exp(wb.constant(float(i)), name=f"sent_{i}") for i in range(3))
    with wb.device("/cpu:1"):
        one = wb.add(a, 1.0)
        two = wb.multiply(one, b)
        return (one, two, wb.add(two, c)), [a, b, c]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("early", range(4))
def test_whatever_comes_in_whatever_order_gives_the_same(order, early):
    """`early` tensors come before the step begins."""
    fetches, _ = three()
    light = Light(fetches)
    for place in order[:early]:
        light.bring(place, np.float32(place + 2))
    light.run.start()
    light.usual.run.start()
    for place in order[early:]:
        assert light.answers == []
        light.bring(place, np.float32(place + 2))
    (found, error), = light.answers
    assert error is None and found == light.usual.results and len(found) == 3
    assert light.returned == [light.instance]


def test_what_a_dead_tensor_reaches_does_not_run():
    (one, two, _), _ = three()
    light = Light([one, two])
    light.run.start()
    light.usual.run.start()
    light.bring(0, np.float32(1))
    light.bring(1, np.zeros(0, np.float32), dead=True)
    (found, error), = light.answers
    assert found is None and isinstance(error, errors.InvalidArgumentError) and str(error) == str(light.usual.error)
    assert "a branch that was not taken" in str(error) and light.returned == []


def test_a_kernel_that_fails_ends_the_step_once_and_what_comes_later_is_not_looked_at():
    (one, two, three_), _ = three()
    light = Light([one, two, three_])
    light.run.start()
    light.usual.run.start()
    light.bring(0, np.ones((2, 3), np.float32))
    light.bring(1, np.ones((4,), np.float32))
    light.bring(2, np.float32(1))
    (found, error), = light.answers
    assert found is None and type(error) is type(light.usual.error) and str(error) == str(light.usual.error)
    assert light.returned == []


@pytest.mark.parametrize("end", [lambda light, error: light.run.cancel(error),
                                 lambda light, error: light.rendezvous.abort(error)])
def test_a_step_that_waits_ends_when_it_is_cancelled_or_aborted(end):
    light, error = Light(three()[0]), errors.AbortedError("step 5: somebody else failed")
    light.run.start()
    end(light, error)
    end(light, errors.CancelledError("later"))
    assert light.answers == [(None, error)] and light.returned == []


def test_a_step_that_is_over_cannot_be_cancelled():
    light = Light(three()[0])
    light.run.start()
    for place in range(3):
        light.rendezvous.send(light.script.edges[place], np.float32(place))
    light.run.cancel(errors.CancelledError("too late"))
    assert len(light.answers) == 1 and light.answers[0][1] is None


def test_a_step_that_is_cancelled_before_it_begins_ends_once():
    """By another thread, in the moment in which it has been announced and has not begun."""
    x = wb.placeholder("float32", [])
    with wb.device("/cpu:1"):
        y = wb.exp(x)
    light, error = Light([y, three()[0][0]], {x: 1.0}), errors.AbortedError("step 5: it is being tried again")
    light.run.cancel(error)
    light.run.start()
    light.rendezvous.send(light.script.edges[0], np.float32(1))
    assert light.answers == [(None, error)] and light.returned == []


def test_what_comes_while_another_thread_computes_is_left_to_it():
    light, computing, go_on = Light(three()[0]), threading.Event(), threading.Event()
    index = light.script.scenes[light.script.waiting[0][0]].segment.index
    function = light.instance.by_segment[index]

    def slow(*values: Any) -> Any:
        computing.set()
        assert go_on.wait(60)
        return function(*values)
    light.instance.by_segment[index] = slow
    light.run.start()
    thread = threading.Thread(target=light.rendezvous.send, args=(light.script.edges[0], np.float32(0)))
    thread.start()
    assert computing.wait(60)
    for place in (1, 2):
        light.rendezvous.send(light.script.edges[place], np.float32(place))      # returns at once
    assert light.answers == []
    go_on.set()
    thread.join(60)
    (found, error), = light.answers
    assert error is None and found == [1.0, 1.0, 3.0]


def pushing() -> Any:
    """An update on device 1 of what device 0 sends, in a push."""
    with wb.device("/cpu:0"):
        sent = wb.exp(wb.constant(1.0), name="sent")
    with wb.device("/cpu:1"):
        pushes = WorkerPushes("place", "pushes")
        with wb.control_dependencies([pushes.begin("worker", ["place"], [sent])]):
            return wb.add(sent, 1.0)


def pushes_of(light: Light) -> Pushes:
    return light.instance.container.get("pushes", Pushes, lambda: Pushes("pushes"))


def test_a_push_that_nobody_holds_begins_at_once_and_ends_with_the_step():
    light = Light([pushing()])
    light.run.start()
    light.bring(0, np.float32(2))
    assert light.answers == [([3.0], None)] and light.returned == [light.instance]
    said = []
    assert [*pushes_of(light).hold().values()] == [(5, ("place",))]
    pushes_of(light).settle({}, lambda: said.append("ended"))
    assert said


@pytest.mark.parametrize("early", [True, False])
def test_a_push_that_is_held_waits_without_a_thread_and_goes_on(early):
    light = Light([pushing()])
    pushes_of(light).hold()
    if early:
        light.bring(0, np.float32(2))
    light.run.start()
    if not early:
        light.bring(0, np.float32(2))
    assert light.answers == []
    pushes_of(light).release()
    assert light.answers == [([3.0], None)]


def test_a_push_that_is_held_is_taken_back_with_its_step():
    light, error = Light([pushing()]), errors.AbortedError("step 5: somebody else failed")
    pushes_of(light).hold()
    light.run.start()
    light.bring(0, np.float32(2))
    light.run.cancel(error)
    pushes_of(light).release()
    assert light.answers == [(None, error)] and pushes_of(light).hold() == {}


def test_a_push_whose_tensor_is_dead_does_not_begin():
    light = Light([pushing()])
    light.run.start()
    light.bring(0, np.zeros(0, np.float32), dead=True)
    (found, error), = light.answers
    assert found is None and "a branch that was not taken" in str(error) and pushes_of(light).hold() == {}


def test_steps_that_may_wait_for_something_else_or_compute_much_have_no_script():
    with wb.device("/cpu:1"):
        queue = wb.FIFOQueue(1, ["float32"], [[]])
        taken, large = queue.dequeue(), wb.placeholder("float32", [512, 512])
        heavy = wb.matmul(large, large)
    for fetches, feeds in (([taken], {}), ([heavy], {large: np.zeros((512, 512))})):
        assert script_of(Step(fetches, feeds, device=1).plan) is None
