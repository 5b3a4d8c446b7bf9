"""The steps in flight of one cluster: begun on their tasks, answered, ended everywhere when one part fails."""
from __future__ import annotations

import functools
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workbench import errors
from workbench.cluster.chief.beat import Beat
from workbench.cluster.chief.member import Member
from workbench.cluster.chief.orders import EPOCH, Feeds, Route
from workbench.cluster.chief.sampling import Sampling
from workbench.cluster.chief.steps import PendingStep, Tries
from workbench.cluster.link.callers import CallerGroup
from workbench.cluster.task.failures import ANEW, cut_off
from workbench.cluster.wire import messages as m
from workbench.cluster.wire.frames import packed_step
from workbench.core.run.gate import gate
from workbench.core.run.interrupts import deferred_interrupt
from workbench.core.trace import Journal

__all__ = ["EPOCH", "Tracker"]

_CAUSE_SECONDS = 0.5      # how long a consequence waits for its cause
_WAITING = 8              # numbers that have not begun, from which on those of threads that have ended are looked for


class Tracker:
    """Numbers steps, sends them to their tasks and waits for the answers. Thread-safe.

    `members` is the cluster's own table of tasks. A step that failed, was stopped or timed out is over when `run` raises:
    every task has said that its last kernel returned, or is lost. One that has not said so within `heartbeat` seconds is.
    """

    step_type = PendingStep      # all that blocks are its waits, so that a simulation can have time of its own
    group: CallerGroup | None = None      # where a caller that is alone receives its answers itself

    def __init__(self, session: int, members: Mapping[str, Member], heartbeat: float, journal: Journal) -> None:
        self.members, self.heartbeat, self.closed = members, heartbeat, False
        self.handles: dict[str, dict[str, None]] = {}          # handle -> its tasks, in order of registration
        self._routes: dict[str, Route] = {}                    # handle -> its tasks and the orders for them
        self._relays: dict[str, dict[str, tuple[str, ...]]] = {}      # handle -> task -> those it passes steps on to
        self._passed: dict[str, frozenset[str]] = {}           # handle -> tasks that hear of steps from others
        self._leaving: set[str] = set()                         # handles to be forgotten when no step of them is in flight
        self._unready: set[str] = set()                         # handles that the tasks opened last do not have yet
        self.pending: dict[int, PendingStep] = {}
        self.session = session
        self.driver, self.incarnation = "", 0                   # whose steps these are, in which life of its process
        self._retried: dict[int, None] = {}                     # steps that may be tried again, by their first number
        self._mourners: list[Callable[[str], None]] = []        # who wants to hear of lost tasks
        self._mourning, self._trying = threading.Lock(), threading.local()
        gate.member(self)
        self._journal = journal
        self.sampling, self.beat = Sampling(journal), Beat()
        self._numbers = itertools.count(1)
        self._asked: dict[int, int] = {}                        # thread -> its number that has not begun yet
        self._numbering = threading.Lock()

    # registered handles
    def add(self, handle: str, tasks: Iterable[str]) -> None:
        """`handle` is registered on `tasks` from now on, besides those it was."""
        self.handles.setdefault(handle, {}).update(dict.fromkeys(tasks))
        self._routes = {}
        self._unready.discard(handle)

    def relay(self, handle: str, relays: Mapping[str, str]) -> None:
        """Steps of `handle` reach each task in `relays` through the one that is named there."""
        found: dict[str, tuple[str, ...]] = {}
        for task, relay in relays.items():
            found[relay] = (*found.get(relay, ()), task)
        if found:
            self._relays[handle], self._passed[handle] = found, frozenset(relays)
            self._routes = {}

    def remove(self, handles: Iterable[str]) -> None:
        """Forget handles, here and on their tasks; steps in flight go on. Never blocks, for collectors call it."""
        by_task: dict[str, list[str]] = {}
        for handle in handles:
            if handle in self._relays and any(step.handle == handle for step in list(self.pending.values())):
                self._leaving.add(handle)                       # it would overtake a step that is passed on
                continue
            self._relays.pop(handle, None)
            self._passed.pop(handle, None)
            self.sampling.forget(handle)
            self._unready.discard(handle)
            for task in self.handles.pop(handle, {}):
                by_task.setdefault(task, []).append(handle)
        self._routes = {}
        for task, gone in by_task.items():
            self._tell(task, m.Unregister(tuple(gone)))

    def withdraw(self, handle: str, tasks: Iterable[str]) -> None:
        """A registration failed: tasks that had no part in `handle` before have none now."""
        for task in tasks:
            if task not in self.handles.get(handle, ()):
                self._tell(task, m.Unregister((handle,)))

    def _tell(self, task: str, message: m.Message) -> None:
        member = self.members.get(task)
        if member is not None and member.lost is None and not self.closed:
            member.post_soon(message, -1)

    def check_open(self) -> None:
        if self.closed:
            raise errors.FailedPreconditionError("Cluster: it is closed; start a new one")

    def member(self, task: str) -> Member:
        """The usable task called `task`; NotFoundError, or UnavailableError when it is lost."""
        self.check_open()
        member = self.members.get(task)
        if member is None:
            raise self._unknown(task)
        if member.lost is not None:
            raise errors.UnavailableError(f"Cluster: {task} at {member.address} is lost; {ANEW}") from member.lost
        return member

    def _unknown(self, task: str) -> errors.NotFoundError:
        return errors.NotFoundError(f"Cluster: there is no task {task}, only {', '.join(self.members)}; check the name")

    def next_step(self) -> int:
        """A number that no step had before, for the step that this thread runs next; numbers must grow."""
        with self._numbering:
            if len(self._asked) >= _WAITING:      # some are of threads that have ended
                alive = {thread.ident for thread in threading.enumerate()}
                self._asked = {thread: number for thread, number in self._asked.items() if thread in alive}
            number = self._asked[threading.get_ident()] = next(self._numbers)
        return number

    # one step
    def tries(self) -> Tries:
        """For a step that is tried until it succeeds: `with` it around each try, and `over()` at the end."""
        return Tries(self._trying, lambda number: self._retried.pop(number, None))

    def run(self, handle: str, step: int | None, feeds: Feeds, limit: float | None, timed: bool) -> dict[str, list[Any]]:
        """One step of `handle`, to its end: the fetches by task. See `Cluster.run_step`."""
        pending, members, number, level = None, {}, 0, self.sampling.level(handle, timed)
        teller, tries = object(), getattr(self._trying, "tries", None)
        try:
            with self._numbering:      # no later step may count this one as over before it counts as pending
                number = next(self._numbers) if step is None else step
                self._asked.pop(threading.get_ident(), None)
                pending = self.pending[number] = self.step_type(number, handle, tuple(self.handles.get(handle, ())), level)
                if tries is not None:
                    pending.sequence = tries.sequence = tries.sequence or number
                    self._retried[tries.sequence] = None
            route = self.route(handle)             # NOTE: only now, so that what is lost or closed from here on fails it
            members = route.members
            self._journal.tellers[teller] = time.perf_counter(), functools.partial(pending.doing, members)
            self.post(pending, route, feeds, limit is None)      # with a limit it must be known who is late
            if not pending.wait(limit, self.group if len(self.pending) == 1 else None):
                self._blame_late(pending, members, limit or 0.0)
            if pending.error is not None:
                self._end(pending, members, pending.error)      # by then a task that was lost is known to be
                pending.wait_for_cause(_CAUSE_SECONDS)
        except BaseException as stopped:
            if pending is not None:
                self._end(pending, members, pending.error or errors.CancelledError(
                    f"step {number}: stopped by {type(stopped).__name__}; variables keep what was applied, run again to go on"))
            raise
        finally:
            self.pending.pop(number, None)
            self._journal.tellers.pop(teller, None)
            self.beat.ended(level)
            if handle in self._leaving:
                self._leaving.discard(handle)
                self.remove((handle,))
        if pending.error is not None:
            raise gate.ended(pending.error)
        return pending.results

    def route(self, handle: str) -> Route:
        """What is kept of the steps of `handle`. What makes it untrue puts another table in the place of this one, so that who
        was about to keep it here keeps it nowhere."""
        routes = self._routes
        return routes.get(handle) or routes.setdefault(handle, Route(
            handle, self.members_of(handle), self._relays.get(handle, {}), self._passed.get(handle, frozenset()), self.session))

    def members_of(self, handle: str) -> dict[str, Member]:
        """The tasks that `handle` is registered on."""
        tasks = self.handles.get(handle)
        self.check_open()
        if tasks is None:
            raise errors.NotFoundError(f"run_step: nothing is registered as {handle!r}; call register first")
        if handle in self._unready:
            raise errors.AbortedError(f"run_step: the tasks of {handle!r} were opened anew and are being prepared; run it "
                                      "again when the cluster has recovered")
        members = self.members
        try:
            found = {task: members[task] for task in tasks}
        except KeyError as missing:
            raise self._unknown(missing.args[0]) from None
        for member in found.values():
            if member.lost is not None:
                self.member(member.task)                        # which says so
        return found

    def post(self, pending: PendingStep, route: Route, feeds: Feeds, relayed: bool) -> None:
        """Send the step to its tasks, where it is `relayed` to some of them through others."""
        live: tuple[int, ...] = ()
        with self._numbering:
            if self._retried or self._asked or len(self.pending) > (pending.step in self.pending):      # another is in flight
                begun = {**self.pending, **self._retried, **dict.fromkeys(self._asked.values())}
                live = tuple(number for number in begun if number < pending.step)
        if not (live or feeds or pending.sequence):
            number = packed_step(pending.step)
            for member, send, before, after in route.plain(pending.trace, relayed):
                try:
                    send(before + number + after)
                except errors.UnavailableError as error:
                    self._not_sent(pending, member, error)
            return
        for task in feeds:
            if task not in route.members:
                raise errors.InvalidArgumentError(f"run_step: feeds name {task} but {pending.handle!r} runs on "
                                                  f"{', '.join(route.members)}; feed one of these")
        whose = (self.driver, self.incarnation, pending.sequence) if pending.sequence else ("", 0, 0)
        with deferred_interrupt():                              # a large frame must not be cut by Ctrl-C
            for member, buffers in route.packed(pending.step, live, pending.trace, feeds, whose, relayed):
                try:
                    member.connection.send(buffers)
                except errors.UnavailableError as error:
                    self._not_sent(pending, member, error)

    def _not_sent(self, pending: PendingStep, member: Member, error: errors.Error) -> None:
        self.on_lost(member, error)
        pending.fail(member.lost or error)                      # it may be lost since before this step began
        pending.over_at(member.task)

    def _blame_late(self, pending: PendingStep, members: Mapping[str, Member], limit: float) -> None:
        late = ", ".join(f"{task} at {members[task].address}" for task in sorted(pending.missing))
        pending.fail(errors.DeadlineExceededError(f"step {pending.step}: no answer within {limit:g} s from {late}; "
                                                  "a task is stopped, overloaded or waits for another: see "
                                                  "Cluster.status(), or allow more with step_deadline"))

    def _end(self, pending: PendingStep, members: Mapping[str, Member], error: errors.Error) -> None:
        """Have a step that failed with `error`, or is not wanted any more, be over everywhere."""
        with deferred_interrupt():
            self._abort(pending, members, error)
        if members and not pending.wait_until_over(self.heartbeat):
            self._give_up(pending, members)

    def _abort(self, pending: PendingStep, members: Mapping[str, Member], error: errors.Error) -> None:
        message = m.Abort(type(error).__name__, error.message)
        for task in list(pending.missing):
            member = members.get(task)
            if member is not None and member.lost is None:
                member.post_soon(message, pending.step)
            else:
                pending.over_at(task)                           # it never began there, or nothing is left of it

    def _give_up(self, pending: PendingStep, members: Mapping[str, Member]) -> None:
        """Tasks that do not end an aborted step count as lost: what runs there could write into the state of later steps."""
        for task in list(pending.missing):
            self.on_lost(members[task], errors.DeadlineExceededError(
                f"step {pending.step} was aborted and still runs there after {self.heartbeat:g} s"))

    # events, on receiver threads
    def on_step(self, member: Member, step: int, message: m.Message) -> None:
        """A task said something of a step."""
        pending = self.pending.get(step)
        if pending is None:
            return                                              # nobody waits for its end any more
        if isinstance(message, m.Done):
            member.last_seconds = message.seconds
            self.on_through(step, (member.task,), message.fetches)
        elif isinstance(message, m.Failed):
            error = errors.by_name(message.error, message.message)
            error.add_note(f"raised in step {step} on {member.task} at {member.address}")
            if message.trace:
                error.add_note(message.trace)
            pending.fail(error, secondary=bool(message.peer))
            if message.over:
                pending.over_at(member.task)
        else:
            pending.over_at(member.task)

    def on_through(self, step: int, tasks: tuple[str, ...], fetches: list[Any]) -> None:
        """Tasks are through with a step, as one says itself, or the one where they heard of it."""
        pending = self.pending.get(step)
        if pending is not None:
            members, found = self.members, {}
            for task in tasks:
                member = members.get(task)
                if member is not None:
                    member.steps += 1
                    found[task] = fetches
            if found:
                pending.done(found)

    def on_link_lost(self, member: Member, peer: str, why: str) -> None:
        """What travelled between two tasks may be gone, so steps on both may wait for it for ever."""
        both, other = {member.task, peer}, self.members.get(peer)
        address = other.address if other is not None else "?"
        for step, pending in self.pending.copy().items():
            if both <= pending.tasks:
                pending.fail(cut_off(step, member.task, peer, address, why), secondary=True)

    def on_lost(self, member: Member, error: BaseException | None) -> None:
        """A task is gone: steps that it has a part in fail."""
        if self.closed or self.members.get(member.task) is not member:      # it was replaced
            return
        why = f"{type(error).__name__}: {error}" if error is not None else "connection closed"
        with self._mourning:
            first = member.lost is None
            if first:
                member.lose(why)
            mourners = list(self._mourners) if first else []
        self._routes = {}
        for step, pending in self.pending.copy().items():
            if member.task in pending.tasks:
                pending.fail(errors.AbortedError(
                    f"step {step}: {member.task} at {member.address} was lost ({why}), and with it what its memory held; "
                    f"{ANEW}"))
            pending.over_at(member.task)
        member.connection.close()
        for mourner in mourners:
            _mourn(mourner, member.task)

    def when_lost(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback(task)` once, on a thread of its own, for each task that is lost: those that are already, and those
        that will be, until what this returns is called, once."""
        with self._mourning:
            self._mourners.append(callback)
            lost = [member.task for member in list(self.members.values()) if member.lost is not None]
        for task in lost:
            _mourn(callback, task)

        def forget() -> None:
            with self._mourning:
                self._mourners.remove(callback)
        return forget

    def begin_anew(self, session: int, why: errors.Error) -> None:
        """All tasks are given up: steps in flight fail with `why`, and so do those that begin before there are new ones."""
        self._unready.update(self.handles)
        for member in list(self.members.values()):
            member.lost = member.lost or why
        self._routes = {}
        for pending in list(self.pending.values()):
            pending.fail(errors.AbortedError(f"step {pending.step}: {why.message}"))
            for task in list(pending.missing):
                pending.over_at(task)
        self.session = session

    def cancel(self) -> None:
        """The user stopped what this process runs: steps in flight end with CancelledError."""
        for pending in list(self.pending.values()):
            pending.fail(errors.StoppedError(f"step {pending.step}: stopped by the user; run again to go on"))

    def close(self) -> None:
        """No step begins any more; those in flight end with CancelledError."""
        self.closed, self._routes = True, {}
        for pending in list(self.pending.values()):
            pending.fail(errors.CancelledError(f"step {pending.step}: the cluster was closed; start a new one"))
            for task in list(pending.missing):
                pending.over_at(task)


def _mourn(mourner: Callable[[str], None], task: str) -> None:
    """NOTE: on a thread, for it may run steps, and whoever notices a loss receives."""
    threading.Thread(target=mourner, args=(task,), daemon=True, name="workbench-lost").start()
