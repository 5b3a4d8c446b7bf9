"""What to do when a task is lost, as a pure state machine, and what carries it out: no sessions, clocks or files."""
from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from workbench import errors

__all__ = ["LOSSES", "Action", "Attempts", "Begin", "Damaged", "Event", "GiveUp", "Hands", "Lost", "Mark", "Progress",
           "Recovery", "Reopen", "Reopened", "Restore", "Restored", "Resume", "Wait", "follow"]

logger = logging.getLogger("workbench")

LOSSES = (errors.AbortedError, errors.UnavailableError)      # what a recovery may help against
_ATTEMPTS = 10            # losses in a row without a single step in between


# what happened

@dataclass(frozen=True)
class Progress:
    """A training step is done."""


@dataclass(frozen=True)
class Lost:
    """A task was lost, in a step or while it was being brought back."""

    error: errors.Error


@dataclass(frozen=True)
class Reopened:
    """All tasks are open and empty, for the first time or again; these checkpoints are known, newest first."""

    checkpoints: tuple[str, ...]


@dataclass(frozen=True)
class Damaged:
    """The checkpoint that was to be restored is not whole; nothing was changed."""

    error: errors.Error


@dataclass(frozen=True)
class Restored:
    """Variables, generators, iterators and counters are those of the checkpoint, or those to begin with."""


Event = Progress | Lost | Reopened | Damaged | Restored


# what to do

@dataclass(frozen=True)
class Reopen:
    """Open all tasks anew, on Dask workers that answer; what is left of the old ones becomes nobody's."""

    because: errors.Error


@dataclass(frozen=True)
class Restore:
    """Bring the state of this checkpoint back."""

    path: str


@dataclass(frozen=True)
class Begin:
    """Give everything its initial values."""


@dataclass(frozen=True)
class Wait:
    """Wait until another process has brought the state of a checkpoint back."""


@dataclass(frozen=True)
class Resume:
    """Go on training."""


@dataclass(frozen=True)
class GiveUp:
    """Raise this error: nothing more can be done here."""

    error: errors.Error


Action = Reopen | Restore | Begin | Wait | Resume | GiveUp


@dataclass
class Recovery:
    """Decides what follows a loss. Losses while training is brought back begin it anew, at most so many in a row.

    A checkpoint that proves damaged is passed over for the one before it. Where there is none training begins with initial
    values, also after a loss before it had begun; later they would undo what was trained, which only one that trains
    `alone` begins again, as in TensorFlow. One that is `led` restores nothing itself.
    """

    led: bool = False
    alone: bool = False
    attempts: int = _ATTEMPTS
    begun: bool = False                                      # there was something to train once
    losses: int = 0                                          # in a row
    left: list[str] = field(default_factory=list)            # checkpoints not tried yet, newest first
    loss: errors.Error | None = None                         # what it began with

    def handle(self, event: Event) -> Action:
        """The next action after `event`."""
        match event:
            case Progress():
                self.losses, self.loss = 0, None
                return Resume()
            case Restored():
                self.begun = True
                return Resume()
            case Lost(error):
                return self._lost(error)
            case Reopened(checkpoints):
                self.left = list(checkpoints)
                return Wait() if self.led else self._restore(None)
            case Damaged(error):
                return self._restore(error)

    def _lost(self, error: errors.Error) -> Action:
        self.losses += 1
        self.loss = self.loss or error
        return GiveUp(error) if self.losses > self.attempts else Reopen(error)

    def _restore(self, problem: errors.Error | None) -> Action:
        if self.left:
            return Restore(self.left.pop(0))
        if not self.begun or (self.alone and problem is None):
            return Begin()
        why = problem or self.loss or errors.NotFoundError("recovery: there is no checkpoint")
        why.add_note("no checkpoint is left to go on from")
        return GiveUp(why)


# what is done

@dataclass(frozen=True)
class Hands:
    """What carries out the decisions of a Recovery."""

    reopen: Callable[[errors.Error], tuple[str, ...]]
    """Opens all tasks anew, because of that loss; the checkpoints there are then, newest first."""
    prepare: Callable[[str | None], None]
    """Has the state of this checkpoint restored, or without one the initial values given, or waited for."""
    can_recover: Callable[[], bool]
    """Is there any use in bringing training back after a loss?"""


def follow(recovery: Recovery, event: Event, hands: Hands) -> None:
    """Do what follows `event` until training can go on. Raises where nothing can be done."""
    while event != Restored():
        event = _perform(recovery, event, hands)
    recovery.handle(event)


def _perform(recovery: Recovery, event: Event, hands: Hands) -> Event:
    """Do what follows `event`; what came of it."""
    action = recovery.handle(event)
    try:
        match action:
            case Reopen(because):
                return Reopened(hands.reopen(because))
            case Restore(path):
                hands.prepare(path)
                return Restored()
            case Begin() | Wait():
                hands.prepare(None)
                return Restored()
            case GiveUp(error):
                raise error
    except errors.DataLossError as problem:
        logger.warning("workbench: passing over a damaged checkpoint: %s", problem.message)
        return Damaged(problem)
    except LOSSES as again:                                 # a task was lost while it was brought back
        if isinstance(action, GiveUp) or not hands.can_recover():
            raise
        return Lost(again)
    raise AssertionError(action)


@dataclass(frozen=True)
class Mark:
    """What a step begins with: how often the tasks were opened anew, how many attempts to bring training back had failed."""

    generation: int
    failures: int


class Attempts:
    """Of several threads that lost the same tasks one tries to bring training back; where that fails the others, who waited
    for it, end as it did: each would wait as long for the same machines. `generation()` grows when tasks are opened anew."""

    def __init__(self, generation: Callable[[], int] = lambda: 0,
                 lock: contextlib.AbstractContextManager[Any] | None = None) -> None:
        self._generation, self._lock = generation, lock or threading.Lock()
        self.failures = 0                                   # how many attempts ended in an error
        self._failed: errors.Error | None = None            # the newest, until one succeeds

    def mark(self) -> Mark:
        """Of a step that begins now: not while another thread brings the state back."""
        failures = self.failures
        with self._lock:
            return Mark(self._generation(), failures)

    def bring_back(self, mark: Mark, loss: errors.Error, how: Callable[[], None]) -> None:
        """`how()`, after the `loss` of a step that began at `mark`, unless another thread has done so, or tried, since."""
        with self._lock, self.another(mark.failures, loss):
            if self._generation() == mark.generation:
                how()

    @contextlib.contextmanager
    def another(self, failures: int, loss: errors.Error) -> Iterator[None]:
        """For what tries again after the `loss` of a step, which began after so many `failures`; by one thread at a time."""
        if self._failed is not None and self.failures != failures:
            raise self._failed
        try:
            yield
            self._failed = None
        except BaseException as error:
            self.failures, self._failed = self.failures + 1, error if isinstance(error, errors.Error) else loss
            raise
