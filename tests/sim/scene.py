"""A cluster in a simulated world: the real tracker, members and tasks, clients that train, faults, and the history."""
from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.sim.engine import SimEngine
from tests.sim.programs import PROGRAMS, SERVERS, WORKERS
from tests.sim.world import Link, Process, World
from workbench import errors
from workbench.cluster.chief.member import Member
from workbench.cluster.chief.steps import PendingStep
from workbench.cluster.chief.tracker import EPOCH, Tracker
from workbench.cluster.task.engines import TaskContext, define_engine
from workbench.cluster.task.links import Links
from workbench.cluster.task.task import Task
from workbench.cluster.wire import messages as m
from workbench.core.state.container import Container
from workbench.core.trace import Journal

__all__ = ["HEARTBEAT", "Scene"]

HEARTBEAT = 8.0
_PROBE = 0.5
_GIVEN_UP = 1000.0       # seconds of this world in which whatever waits has to end; trainings take up to 300
TASKS = (*SERVERS, *WORKERS)


def _one_by_one(links: Links, targets: Iterable[str]) -> None:
    """There are no threads in this world."""
    for target in targets:
        links.make(target)


class Scene:
    """`faults` is how many things go wrong, at moments and places chosen by the seed."""

    keeps_state = False      # what tasks hold outlives a session, as that of a Server does: nobody restores it

    def __init__(self, seed: object, faults: int) -> None:
        self.world, self.seed, self.faults = World(seed), seed, faults
        self.containers: dict[str, Container] = {}
        self.history: list[tuple[Any, ...]] = []
        self.session, self.recovering = 1, False
        self.chief = Process("chief")
        self.processes: dict[str, Process] = {}
        self.homes: dict[tuple[int, str], Process] = {}
        self.tasks: dict[tuple[int, str], Task] = {}
        self.engines: dict[tuple[int, str], SimEngine] = {}
        self.excused: set[tuple[int, str]] = set()       # (session, task) that something was done to
        self.members: dict[str, Member] = {}
        unrecorded = Journal()                           # what is recorded depends on the real time
        unrecorded.enabled = False
        self.tracker = Tracker(self.session, self.members, HEARTBEAT, unrecorded)
        self.tracker.step_type = self._step_type()      # type: ignore[misc]
        # version, values of the servers, elements of the data taken, what waits at the queue
        self.saved: tuple[int, dict[str, float], int, list[float]] = 0, dict.fromkeys(SERVERS, 0.0), 0, [0]
        self.handles: dict[str, dict[str, str]] = {}
        define_engine("simulated", self._engine)

    def log(self, *what: Any) -> None:
        self.history.append(what)

    def _step_type(self) -> type[PendingStep]:
        world, log = self.world, self.log

        class Waiting(PendingStep):
            """A step whose caller waits in the simulated world."""

            __slots__ = ()

            def wait(self, timeout: float | None) -> bool:
                return world.wait(lambda: self.error is not None or not self.missing, timeout)

            def wait_until_over(self, timeout: float) -> bool:
                return world.wait(lambda: not self.missing, timeout)

            def wait_for_cause(self, timeout: float) -> None:
                if self.secondary:
                    world.wait(lambda: not self.secondary, timeout)

            def done(self, fetches: Mapping[str, list[Any]]) -> None:
                for task in fetches:
                    log("answered", self.step, task)
                super().done(fetches)
        return Waiting

    # processes and tasks
    def _engine(self, context: TaskContext) -> SimEngine:
        process = self.processes[context.task]
        made = SimEngine(self.world, process, context, PROGRAMS, self.log)      # type: ignore[arg-type]
        self.engines[context.session, context.task] = made
        return made

    def _dial(self, process: Process) -> Callable[[Task, str, str], Link]:
        def dial(task: Task, target: str, address: str) -> Link:
            peer = self.tasks.get((task.session, target))
            there = self.processes[target]
            if peer is None or there.crashed or there.stopped or peer.over.is_set():
                raise errors.UnavailableError(f"{target}: no connection to {address}")
            here, other = self.world.link(process, there, (target, task.name), task.session, False)
            self.world.later(self.world.delay(), lambda: peer.add_inbound(other), there)
            return here
        return dial

    def open(self) -> None:
        """On a client: all tasks, on processes of their own, with all that is registered."""
        for name in TASKS:
            if not self.keeps_state or name not in self.processes:
                self.processes[name] = Process(f"{name} of session {self.session}")
            process = self.homes[self.session, name] = self.processes[name]
            if process.stopped:
                self._excuse(name)
            here, there = self.world.link(self.chief, process, (name, "chief"), self.session, True)
            container = self.containers.setdefault(name, Container(name)) if self.keeps_state else None
            task = Task(name, self.session, there, self._dial(process), self._forget, container=container)
            task._links.make_all = partial(_one_by_one, task._links)      # type: ignore[method-assign]
            self.tasks[self.session, name] = task
            task.start()
            self._tick(task, process)
            self.members[name] = Member(name, f"sim://{self.session}", here, EPOCH, Journal(), self.tracker,
                                        None)      # type: ignore[arg-type]
        addresses = {name: f"sim://{self.session}" for name in TASKS}
        self._ask({name: m.OpenTask(name, "simulated", addresses, True, 5.0, 3 * HEARTBEAT) for name in TASKS})
        for handle, programs in self.handles.items():
            self._register(handle, programs)

    def _forget(self, task: Task) -> None:
        self.tasks.pop((task.session, task.name), None)

    def _tick(self, task: Task, process: Process) -> None:
        def tick() -> None:
            if not task.over.is_set():
                if not task.tick(1.0):
                    task.close()
                self._tick(task, process)
        self.world.later(1.0, tick, process)

    def _ask(self, questions: dict[str, m.Message]) -> None:
        asked = {name: self.members[name].begin(message) for name, message in questions.items()}
        for name, number in asked.items():
            member = self.members[name]
            arrived = member._requests[number].arrived
            self.world.wait(arrived.is_set, 60.0)
            member.answer_to(number, 0.0)

    def register(self, handle: str, programs: dict[str, str]) -> None:
        self.handles[handle] = programs
        self._register(handle, programs)

    def _register(self, handle: str, programs: dict[str, str]) -> None:
        parties = dict.fromkeys(programs, "")
        self._ask({name: m.RegisterPartition(handle, program.encode(), {t: "" for t in programs if t != name}, parties)
                   for name, program in programs.items()})
        self.tracker.add(handle, programs)
        relay = random.Random(f"relays {self.seed}").choice((None, *SERVERS))
        if relay is not None and relay in programs:
            self.tracker.relay(handle, {name: relay for name, program in programs.items() if program == "push"})

    def watch(self) -> None:
        """What the chief's watcher does, in this world's time."""
        for member in self.members.values():
            if member.lost is None and member.unanswered * _PROBE > HEARTBEAT:
                self.tracker.on_lost(member, errors.DeadlineExceededError(f"no sign of life for {HEARTBEAT:g} s"))
        for member in self.members.values():
            if member.lost is None:
                try:
                    member.post_backlog()
                    member.probe()
                except errors.UnavailableError:
                    """Its end is on its way."""
        if not self.tracker.closed:
            self.world.later(_PROBE, self.watch)

    # steps
    def run(self, client: str, handle: str, feeds: dict[str, Any] | None = None, limit: float | None = None) -> Any:
        """One step: the fetches by task, or the error that it ended with, which is in the history too."""
        number = self.tracker.next_step()
        session = self.session
        self.log("invoked", session, client, handle, number)
        fed = {task: {str(i): np.float64(v) for i, v in enumerate(values)} for task, values in (feeds or {}).items()}
        try:
            results = self.tracker.run(handle, number, fed, limit, False)
        except errors.Error as error:
            self.log("failed", session, client, handle, number, f"{type(error).__name__}: {error.message}")
            return error
        self.log("acknowledged", session, client, handle, number)
        return results

    def recover(self, why: str) -> None:
        """On a client: everything anew from what was saved last; others wait meanwhile."""
        self.recovering = True
        self.log("recovery", self.session, why)
        self.look_for_losses()
        for _ in range(20):
            assert self.session < 60, f"recovery never comes to an end: {why}"
            old = list(self.members.values())
            self.session += 1
            self.tracker.begin_anew(self.session, errors.UnavailableError("Cluster: its tasks are opened anew"))
            for member in old:
                try:
                    member.post(m.Close(), wait=False)
                except errors.UnavailableError:
                    """It is gone."""
                member.connection.close()
            try:
                self.open()
                if self.keeps_state or self.restore():
                    break
            except errors.Error:
                """Somebody was lost again."""
            self.look_for_losses()
        self.recovering = False

    def look_for_losses(self) -> None:
        """Whoever was given up although nothing was done to it is in the history."""
        for name, member in self.members.items():
            if member.lost is not None and (self.session, name) not in self.excused:
                self.log("given up", name, str(member.lost))

    def save(self, values: dict[str, Any]) -> None:
        """What was read of all servers is what training goes on from."""
        versions = {name: int(fetched[0]) for name, fetched in values.items()}
        assert len(set(versions.values())) == 1, f"a checkpoint has versions {versions} of the servers"
        first = values[SERVERS[0]]
        self.saved = (versions[SERVERS[0]], {name: float(fetched[1][0]) for name, fetched in values.items()}, int(first[2]),
                      first[3].tolist())
        self.log("saved", self.session, *self.saved)

    def restore(self) -> bool:
        version, values, taken, waiting = self.saved
        fed = {server: ([value, value], version, taken, waiting) for server, value in values.items()}
        return not isinstance(self.run("chief", "restore", {s: v for s, v in fed.items()}), errors.Error) and not isinstance(
            self.run("chief", "start"), errors.Error)

    # faults
    def plan_faults(self, until: float) -> None:
        rough = (self._stop, self._freeze, self._cut, self._cut_control)
        kinds = self.world.random.choice(((self._cut,), (self._cut, self._stop),
                                          rough if self.keeps_state else (self._crash, *rough)))
        until *= self.world.random.choice((0.1, 1))
        for _ in range(self.faults):
            kind = self.world.random.choice(kinds)
            self.world.later(self.world.random.uniform(0.0, until), kind)

    def _any(self) -> str:
        return self.world.random.choice(TASKS)

    def _excuse(self, name: str) -> None:
        self.excused.add((self.session, name))

    def _crash(self) -> None:
        name = self._any()
        self._excuse(name)
        self.log("fault", "crash", name)
        self.world.crash(self.processes[name])

    def _stop(self) -> None:
        """Shorter than is noticed."""
        name = self._any()
        self.log("fault", "stop", name)
        self.world.stop(self.processes[name], self.world.random.uniform(0.0, HEARTBEAT / 3))

    def _freeze(self) -> None:
        """So long that it is given up; afterwards it is back from the dead."""
        name = self._any()
        self._excuse(name)
        self.log("fault", "freeze", name)
        self.world.stop(self.processes[name], self.world.random.uniform(1.5, 4) * HEARTBEAT)

    def _cut(self) -> None:
        links = [link for link in self.processes[self._any()].links if link.peer != "chief" and not link.closed]
        if links:
            link = self.world.random.choice(links)
            self.log("fault", "cut", link._process.name, link.peer)
            link.cut()

    def _cut_control(self) -> None:
        name = self._any()
        self._excuse(name)
        self.log("fault", "cut from the chief", name)
        self.members[name].connection.cut()      # type: ignore[attr-defined]

    # the whole
    def play(self, clients: dict[str, Callable[[], None]], seconds: float) -> None:
        """Open, let the clients train while things go wrong, close; the history is complete afterwards."""
        begun = SimpleNamespace(yet=False)

        def chief() -> None:
            self.open()
            for handle, programs in self.partitions().items():
                self.register(handle, programs)
            assert self.restore()
            begun.yet = True
            self.plan_faults(seconds)

        def when_begun(body: Callable[[], None]) -> Callable[[], None]:
            def run() -> None:
                self.world.wait(lambda: begun.yet)
                body()
            return run
        self.watch()
        self.world.start("chief", chief)
        for name, body in clients.items():
            self.world.start(name, when_begun(body))
        self.world.run(_GIVEN_UP)
        self.look_for_losses()
        self.world.settle(8 * HEARTBEAT)

    def partitions(self) -> dict[str, dict[str, str]]:
        """Handle -> task -> program."""
        found = {"restore": dict.fromkeys(SERVERS, "restore"), "read": dict.fromkeys(SERVERS, "read"),
                 "start": {SERVERS[0]: "start"}, "compare": {SERVERS[0]: "hear", SERVERS[1]: "tell"}}
        for number, worker in enumerate(WORKERS):
            found[f"count_{number}"] = {**dict.fromkeys(SERVERS, "count"), worker: "push"}
            found[f"push_{number}"] = {**dict.fromkeys(SERVERS, "serve"), worker: "push"}
            found[f"work_{number}"] = {SERVERS[0]: "first", SERVERS[1]: "second", worker: "work"}
            found[f"bounded_{number}"] = {SERVERS[0]: "lead", SERVERS[1]: "follow", worker: "push"}
            found.update({f"{what}_{number}": {SERVERS[0]: what} for what in ("retire", "evaluate", "admit")})
        found.update({name: {SERVERS[0]: name} for name in ("hold", "release", "fill", "shut")})
        found["update"] = dict.fromkeys(SERVERS, "update")
        return found
