"""Steps that a task passes on, or hears of from another task: one answer for all, and none for what failed."""
from __future__ import annotations

import numpy as np
import pytest

from tests.cluster.task.test_task import HERE, THERE, Scene
from tests.cluster.wires import Wire
from workbench.cluster.link.leader import Leadership
from workbench.cluster.wire import messages as m
from workbench.core.names import join_edge


def passing(handle: str = "held") -> tuple[Scene, Wire]:
    """A task that has passed a step on, and the wire on which the other one answers."""
    scene, back = Scene(), Wire(THERE)
    scene.task.add_inbound(back)
    scene.chief.arrive(m.RunStep(handle, (), 0, {}, relay=(THERE,)), 1)
    return scene, back


def told(scene: Scene) -> list[m.Message]:
    return [message for wire in scene.dialled for _, message in wire.sent]


@pytest.mark.parametrize("first", ["it", "the other"])
def test_the_chief_hears_once_when_both_are_through(first):
    scene, back = passing()
    assert told(scene) == [m.RunStep("held", (), 0, {})]
    if first == "it":
        scene.engine.unfinished.pop()([])
        assert scene.answers(1) == [] and scene.task.facts()["relayed"] == [1]
    back.arrive(m.Through((THERE,)), 1)
    if first == "the other":
        assert scene.answers(1) == []
        scene.engine.unfinished.pop()([])
    done, = scene.answers(1)
    assert set(done.tasks) == {HERE, THERE} and scene.task.facts()["relayed"] == []
    back.arrive(m.Through((THERE,)), 1)          # twice is once
    assert len(scene.answers(1)) == 1


LAST = m.Last(join_edge("x:0", THERE, HERE), False, np.ones(2))


def test_the_last_tensor_of_a_task_says_that_it_is_through():
    scene, back = passing("takes_only")
    back.arrive(LAST, 1)
    done, = scene.answers(1)
    assert set(done.tasks) == {HERE, THERE} and scene.task.facts()["relayed"] == []


def test_the_last_tensor_of_another_epoch_is_not_heard():
    scene, back = passing("takes_only")
    back.arrive(LAST, 1, 2)
    assert scene.answers(1) == [] and scene.task.facts()["relayed"] == [1]


def test_that_comes_too_late_for_a_step_that_is_over_here_and_still_says_so():
    scene, back = passing()
    scene.engine.unfinished.pop()([])
    back.arrive(LAST, 1)
    done, = scene.answers(1)
    assert set(done.tasks) == {HERE, THERE} and scene.task.facts()["early"] == 0


def test_a_tensor_that_its_step_cannot_take_says_nothing_of_it():
    scene, back = passing("takes_and_breaks")
    back.arrive(LAST, 1)
    failed, = scene.answers(1)
    assert type(failed) is m.Failed and failed.error == "ZeroDivisionError" and scene.task.facts()["relayed"] == []


@pytest.mark.parametrize("handle, kinds", [("tell", [m.Last]), ("answers_nothing", [m.Through])])
def test_who_heard_of_a_step_answers_with_its_last_tensor(handle, kinds):
    """What a receiver posts waits until it has handled what came, so that one frame can say both."""
    scene, wire = Scene(), Wire(THERE)
    scene.task.add_inbound(wire)
    scene.run("tell", 1)                      # which connects

    def turn() -> bool:
        wire.arrive(m.RunStep(handle, (), 0, {}), 2)
        return False
    leadership = Leadership(turn, "test")
    leadership.start()
    leadership.join(30)
    assert [type(message) for message in told(scene)[1:]] == kinds and scene.answers(2) == []


def test_of_a_step_that_ended_here_nobody_answers_for_the_other():
    scene, back = passing()
    scene.chief.arrive(m.Abort("CancelledError", "stopped"), 1)
    scene.engine.unfinished.pop()([])
    back.arrive(m.Through((THERE,)), 1)
    assert scene.answers(1) == [m.Ended()] and scene.task.facts()["relayed"] == []


def test_a_step_that_fails_here_is_no_longer_passed_on():
    scene, back = passing("broken")
    failed, = scene.answers(1)
    back.arrive(m.Through((THERE,)), 1)
    assert failed.error == "ZeroDivisionError" and scene.answers(1) == [failed] and scene.task.facts()["relayed"] == []


def test_when_it_cannot_be_passed_on_it_fails():
    scene = Scene()
    scene.run("tell", 1)
    scene.dialled[0].closed = True            # nobody noticed yet
    scene.chief.arrive(m.RunStep("held", (), 0, {}, relay=(THERE,)), 2)
    assert [type(message) for message in scene.answers(2)] == [m.Failed] and scene.task.facts()["relayed"] == []
    assert m.LinkLost in [type(message) for message in scene.answers(-1)]


def heard(handle: str, step: int = 1, epoch: int = 1, scene: Scene | None = None) -> Scene:
    """A task that heard of a step from another one."""
    scene, wire = scene or Scene(), Wire(THERE)
    scene.task.add_inbound(wire)
    wire.arrive(m.RunStep(handle, (), 0, {}), step, epoch)
    return scene


def test_who_heard_of_a_step_from_a_task_answers_there():
    scene = heard("held")
    scene.engine.unfinished.pop()([])
    assert [type(message) for message in told(scene)] == [m.Through] and scene.answers(1) == []


def test_a_failure_is_told_to_the_chief():
    scene = heard("broken")
    assert [message.error for message in scene.answers(1)] == ["ZeroDivisionError"] and told(scene) == []


def test_so_is_the_end_of_a_step_that_the_chief_ended():
    scene = heard("held")
    scene.chief.arrive(m.Abort("CancelledError", "stopped"), 1)
    assert scene.answers(1) == []
    scene.engine.unfinished.pop()([])
    assert scene.answers(1) == [m.Ended()] and told(scene) == []


def test_a_step_that_was_ended_on_its_way_does_not_begin():
    scene = Scene()
    scene.chief.arrive(m.Abort("CancelledError", "stopped"), 1)
    heard("held", scene=scene)
    assert scene.engine.unfinished == [] and told(scene) == []


def test_an_answer_that_cannot_be_given_is_a_failure():
    scene = Scene()
    scene.run("tell", 1)
    heard("held", 2, scene=scene)
    scene.dialled[0].closed = True
    scene.engine.unfinished.pop()([])
    failed, = scene.answers(2)
    assert failed.over and failed.peer == THERE


def test_values_to_fetch_are_never_lost_in_silence():
    failed, = heard("answer").answers(1)
    assert failed.message == f"step 1: {HERE} has something to fetch, which no relay takes along; register it without one"


def test_steps_of_another_epoch_are_not_heard():
    scene = heard("held", epoch=2)
    assert scene.engine.unfinished == [] and scene.answers(1) == []
