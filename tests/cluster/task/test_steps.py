"""What a task knows of its steps, for people: where one that takes long is, and until when all is told."""
from __future__ import annotations

from workbench.cluster.task.steps import LATE, Active, Steps
from workbench.core.names import join_edge

SERVER, WORKER = "/job:ps/task:0", "/job:worker/task:0"


def test_a_step_that_takes_long_says_whose_tensors_it_waits_for():
    steps = Steps()
    table = steps.begin(1, (), Active(10.0, "session_0_1", 0))
    table.receive(join_edge("weights", f"{SERVER}/device:CPU:0", f"{WORKER}/device:CPU:0"), lambda value, dead: None)
    assert steps.doing(10.5) == "" and steps.doing(11.5) == f"for {SERVER}"
    steps.done(1)
    assert steps.doing(20.0) == ""


def test_a_step_that_runs_may_yet_say_what_it_did_one_that_is_over_has_said_it():
    steps = Steps()
    assert steps.told(5.0) == 5.0 - LATE
    steps.begin(1, (), Active(3.0, "session_0_1", 0))
    steps.begin(2, (), Active(4.0, "session_0_1", 0))
    assert steps.told(5.0) == 3.0
    steps.done(1)
    assert steps.told(6.0) == 4.0
    steps.done(2)
    assert steps.told(7.0) == 7.0 - LATE
