"""Decisions of a recovery, event by event; no session, cluster or file is needed for them."""
from __future__ import annotations

import pytest

from workbench import errors
from workbench.train.sessions.recovery import (
    Attempts,
    Begin,
    Damaged,
    GiveUp,
    Hands,
    Lost,
    Progress,
    Recovery,
    Reopen,
    Reopened,
    Restore,
    Restored,
    Resume,
    Wait,
    follow,
)

LOSS, AGAIN = errors.AbortedError("a task was lost"), errors.UnavailableError("another")
DAMAGE = errors.DataLossError("a byte is wrong")


def test_tasks_are_opened_anew_and_the_newest_checkpoint_is_restored():
    recovery = Recovery()
    assert recovery.handle(Lost(LOSS)) == Reopen(LOSS)
    assert recovery.handle(Reopened(("c-20", "c-10"))) == Restore("c-20")
    assert recovery.handle(Restored()) == Resume()
    assert recovery.handle(Progress()) == Resume()


def test_who_is_led_waits_for_the_chief():
    recovery = Recovery(led=True)
    assert recovery.handle(Lost(LOSS)) == Reopen(LOSS)
    assert recovery.handle(Reopened(())) == Wait()
    assert recovery.handle(Lost(AGAIN)) == Reopen(AGAIN)
    assert recovery.handle(Reopened(())) == Wait() and recovery.handle(Restored()) == Resume()


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before():
    recovery = Recovery(begun=True)
    recovery.handle(Lost(LOSS))
    assert recovery.handle(Reopened(("c-20", "c-10"))) == Restore("c-20")
    assert recovery.handle(Damaged(DAMAGE)) == Restore("c-10")
    last = recovery.handle(Damaged(DAMAGE))
    assert isinstance(last, GiveUp) and last.error is DAMAGE
    assert last.error.__notes__[-1] == "no checkpoint is left to go on from"


def test_a_loss_while_training_is_brought_back_begins_it_anew():
    recovery = Recovery()
    recovery.handle(Lost(LOSS))
    recovery.handle(Reopened(("c-20", "c-10")))
    assert recovery.handle(Lost(AGAIN)) == Reopen(AGAIN)
    assert recovery.handle(Reopened(("c-20", "c-10"))) == Restore("c-20")      # the first is tried again


def test_what_had_not_begun_begins_anew_with_initial_values_where_there_is_no_checkpoint():
    recovery = Recovery()
    assert recovery.handle(Reopened(())) == Begin()
    assert recovery.handle(Lost(LOSS)) == Reopen(LOSS)      # say while the first checkpoint is made
    assert recovery.handle(Reopened(())) == Begin()
    assert recovery.handle(Lost(AGAIN)) == Reopen(AGAIN)
    assert recovery.handle(Reopened(("c-0",))) == Restore("c-0")
    assert recovery.handle(Damaged(DAMAGE)) == Begin()
    assert recovery.handle(Restored()) == Resume()


def test_without_a_checkpoint_the_loss_is_the_answer():
    recovery = Recovery(begun=True)
    recovery.handle(Lost(LOSS))
    action = recovery.handle(Reopened(()))
    assert isinstance(action, GiveUp) and action.error is LOSS


@pytest.mark.parametrize("steps_between", [0, 1])
def test_losses_in_a_row_end_it_but_one_step_starts_the_count_again(steps_between: int):
    recovery = Recovery(attempts=3)
    for _ in range(3):
        assert recovery.handle(Lost(LOSS)) == Reopen(LOSS)
        recovery.handle(Reopened(("c",)))
        recovery.handle(Restored())
        if steps_between:
            recovery.handle(Progress())
    assert recovery.handle(Lost(AGAIN)) == (Reopen(AGAIN) if steps_between else GiveUp(AGAIN))


def test_decisions_are_carried_out_until_training_goes_on():
    """A loss while it is brought back, a damaged checkpoint, and one that is whole."""
    done: list[object] = []

    def prepare(path: str | None) -> None:
        done.append(path)
        if done == [LOSS, "c-20"]:
            raise AGAIN
        if path == "c-20":
            raise DAMAGE
    hands = Hands(lambda because: done.append(because) or ("c-20", "c-10"), prepare, lambda: True)
    recovery = Recovery(begun=True)
    follow(recovery, Lost(LOSS), hands)
    assert done == [LOSS, "c-20", AGAIN, "c-20", "c-10"] and recovery.losses == 2
    hands = Hands(lambda because: (), prepare, lambda: True)
    with pytest.raises(errors.AbortedError) as raised:
        follow(Recovery(begun=True), Lost(LOSS), hands)
    assert raised.value is LOSS


def test_of_threads_that_lost_the_same_tasks_one_brings_them_back():
    generation, done = [0], []
    attempts = Attempts(lambda: generation[0])
    marks = [attempts.mark() for _ in range(2)]

    def how() -> None:
        done.append(generation[0])
        generation[0] += 1
    for mark in marks:
        attempts.bring_back(mark, LOSS, how)
    assert done == [0]
    attempts.bring_back(attempts.mark(), AGAIN, how)
    assert done == [0, 1]


def test_threads_that_waited_for_an_attempt_in_vain_end_as_it_did():
    attempts, failure = Attempts(), errors.ResourceExhaustedError("too few workers")
    begun = attempts.failures
    with pytest.raises(errors.ResourceExhaustedError) as first, attempts.another(begun, LOSS):
        raise failure
    with pytest.raises(errors.ResourceExhaustedError) as second, attempts.another(begun, AGAIN):
        pytest.fail("it tries again")
    assert first.value is second.value is failure
    with attempts.another(attempts.failures, LOSS):      # a step that began later may bring it back
        pass
    with attempts.another(begun, LOSS):      # and then training goes on for everybody
        pass


def test_what_interrupts_an_attempt_is_no_error_of_others():
    attempts = Attempts()
    with pytest.raises(KeyboardInterrupt), attempts.another(0, LOSS):
        raise KeyboardInterrupt
    with pytest.raises(errors.AbortedError), attempts.another(0, AGAIN):
        pytest.fail("it tries again")
