"""Tokens of synchronous training: everybody has each step once, nobody an old one."""
from __future__ import annotations

from tests.core.state.test_queues import Call
from workbench import errors
from workbench.core.state.tokens import Tokens


def take(tokens: Tokens, newer_than: int) -> Call:
    call = Call()
    call.undo = tokens.take(newer_than, call.done, call.fail)
    return call


def test_everybody_has_a_step_once():
    tokens = Tokens("t")
    first, second = take(tokens, 0), take(tokens, 0)
    assert first.pending and second.pending
    tokens.release(1)
    assert (first.result, second.result) == ((1,), (1,))
    assert take(tokens, 1).pending
    assert take(tokens, 0).result == (1,)             # somebody slow


def test_what_was_left_behind_is_given_to_nobody():
    tokens = Tokens("t")
    for step in (1, 2, 3):
        tokens.release(step)
    waiting = take(tokens, 3)
    assert take(tokens, 1).result == (3,) and waiting.pending
    tokens.release(2)
    assert waiting.pending and tokens.newest == 3


def test_an_attempt_that_is_taken_back_gets_nothing():
    tokens = Tokens("t")
    gone = take(tokens, 0)
    gone.undo()
    tokens.release(1)
    assert gone.pending


def test_closing_ends_what_waits():
    tokens = Tokens("t")
    tokens.release(4)
    waiting = take(tokens, 4)
    tokens.close()
    tokens.close()
    for call in (waiting, take(tokens, 4)):
        assert isinstance(call.error, errors.OutOfRangeError)
        assert call.error.message == "tokens 't': they are closed and the newest is 4; training is over"
    assert take(tokens, 3).result == (4,)
