"""A cluster in a simulated world: the real tracker, members, tasks and recovery, clients, faults, and the history."""
from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tests.sim.engine import SimEngine
from tests.sim.faults import HEARTBEAT, TASKS, Faults
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
from workbench.train.sessions.recovery import Attempts, Hands, Lost, Mark, Progress, Recovery, Reopened, follow

__all__ = ["BEGINNING", "HEARTBEAT", "Clients", "Saved", "Scene"]

_PROBE = 0.5
_GIVEN_UP = 1000.0       # seconds of this world in which whatever waits has to end; trainings take up to 300
_KEPT = 3                # checkpoints
_TRIES = 20              # to open the tasks, as often as the real ones fit into what a cluster waits
_BESIDE = ("hold", "settle", "read", "release")      # steps of a checkpoint, which are no progress of training
_LOST = (errors.UnavailableError, errors.DeadlineExceededError, errors.AbortedError)

Clients = dict[str, Callable[[], None]]


@dataclass(frozen=True)
class Saved:
    """A checkpoint."""

    version: int
    values: dict[str, float]      # of the servers
    taken: int                    # elements of the data
    waiting: list[float]          # how many are in the queue, and those


BEGINNING = Saved(0, dict.fromkeys(SERVERS, 0.0), 0, [0])


class _Lock:
    """A lock of a world without real ones."""

    def __init__(self, world: World) -> None:
        self._world, self._held = world, False

    def __enter__(self) -> None:
        while self._held:
            self._world.wait(lambda: not self._held)
        self._held = True

    def __exit__(self, *error: object) -> None:
        self._held = False


def _one_by_one(links: Links, targets: Iterable[str]) -> None:
    """There are no threads in this world."""
    for target in targets:
        links.make(target)


class Scene(Faults):
    """`faults` is how many things go wrong, at moments and places chosen by the seed."""

    keeps_state = False      # what tasks hold outlives a session, as that of a Server does: nobody restores it

    def __init__(self, seed: object, faults: int) -> None:
        self.world, self.seed, self.faults = World(seed), seed, faults
        self.containers: dict[str, Container] = {}
        self.history: list[tuple[Any, ...]] = []
        self.session, self.life = 0, 0                   # a chief that is started again is another life
        self.processes: dict[str, Process] = {}
        self.homes: dict[tuple[int, str], Process] = {}
        self.tasks: dict[tuple[int, str], Task] = {}
        self.engines: dict[tuple[int, str], SimEngine] = {}
        self.excused: set[tuple[int, str]] = set()       # (session, task) that something was done to
        self.disk: dict[str, Saved] = {}                 # published checkpoints by name, the newest last
        self.damaged: set[str] = set()
        self.handles: dict[str, dict[str, str]] = {}
        define_engine("simulated", self._engine)

    def _live(self) -> None:
        """The chief's process starts: it knows nothing of the ones before it."""
        self.life, self.session = self.life + 1, self.session + 1
        self.chief = Process(f"chief {self.life}")
        self.members: dict[str, Member] = {}
        unrecorded = Journal()                           # what is recorded depends on the real time
        unrecorded.enabled = False
        self.tracker = Tracker(self.session, self.members, HEARTBEAT, unrecorded)
        self.tracker.step_type = self._step_type()      # type: ignore[misc]
        if self.keeps_state:
            self.tracker.driver, self.tracker.incarnation = "driver", self.life
        self.recovery = Recovery(led=self.keeps_state)
        self.hands = Hands(self._reopen, self._prepare, lambda: True)
        self.attempts = Attempts(lambda: self.session, _Lock(self.world))
        self.lost: dict[str, tuple[Mark, errors.Error]] = {}      # client -> what its newest step began with and ended in
        self.watch()

    def log(self, *what: Any) -> None:
        self.history.append(what)

    def _step_type(self) -> type[PendingStep]:
        world, log = self.world, self.log

        class Waiting(PendingStep):
            """A step whose caller waits in the simulated world."""

            __slots__ = ()

            def wait(self, timeout: float | None, group: Any = None) -> bool:
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
        self.world.later(_PROBE, self.watch, self.chief)

    # steps
    def run(self, client: str, handle: str, feeds: dict[str, Any] | None = None, limit: float | None = None) -> Any:
        """A step of a client: the fetches by task, or the error that it ended with."""
        mark = self.attempts.mark()
        result = self.step(client, handle, feeds, limit)
        if isinstance(result, errors.Error):
            self.lost[client] = mark, result
        elif handle not in _BESIDE:
            self.recovery.handle(Progress())
        return result

    def step(self, client: str, handle: str, feeds: dict[str, Any] | None = None, limit: float | None = None) -> Any:
        """A step of whoever has a session, with what became of it in the history; it may begin while tasks are opened anew."""
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

    # losses
    def recover(self, client: str) -> None:
        """The newest step of the client was lost: all go back to the newest checkpoint, unless they have done so since."""
        mark, loss = self.lost[client]
        self.attempts.bring_back(mark, loss, lambda: follow(self.recovery, Lost(loss), self.hands))

    def _reopen(self, because: errors.Error) -> tuple[str, ...]:
        """As Cluster.recover."""
        self.log("recovery", self.session, because.message)
        for left in reversed(range(_TRIES)):
            self.look_for_losses()
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
                break
            except _LOST:                                # somebody was lost again
                if not left:
                    raise
        return self.candidates()

    def candidates(self) -> tuple[str, ...]:
        return tuple(sorted(self.disk, key=lambda name: self.disk[name].version, reverse=True))

    def _prepare(self, path: str | None) -> None:
        """Where tasks keep their state nobody restores anything; they have it since the beginning."""
        if self.keeps_state and self.session > 1:
            return
        if path in self.damaged:
            raise errors.DataLossError(f"{path} is damaged")
        saved = BEGINNING if path is None else self.disk[path]
        self.log("begins" if path is None else "restores", self.session, saved.version)
        fed = {server: ([value, value], saved.version, saved.taken, saved.waiting) for server, value in saved.values.items()}
        for handle, feeds in (("restore", fed), ("start", {})):
            if isinstance(error := self.step("chief", handle, feeds), errors.Error):
                raise error
        if path is None:
            self._publish(BEGINNING, self.session)

    def look_for_losses(self) -> None:
        """Whoever was given up although nothing was done to it is in the history."""
        for name, member in self.members.items():
            if member.lost is not None and (self.session, name) not in self.excused:
                self.log("given up", name, str(member.lost))

    def save(self, values: dict[str, Any], session: int) -> None:
        """What was read of all servers in that session is what training goes on from."""
        versions = {name: int(fetched[0]) for name, fetched in values.items()}
        assert len(set(versions.values())) == 1, f"a checkpoint has versions {versions} of the servers"
        first = values[SERVERS[0]]
        self._publish(Saved(versions[SERVERS[0]], {name: float(fetched[1][0]) for name, fetched in values.items()},
                            int(first[2]), first[3].tolist()), session)

    def _publish(self, saved: Saved, session: int) -> None:
        """Writing takes a while, in which training goes on; what was pinned before a loss is dropped, by Checkpointer.drop."""
        self.world.wait(lambda: False, self.world.delay())
        if session == self.session:
            name = f"model-{saved.version}"
            self.disk[name] = saved
            self.damaged.discard(name)
            self.log("saved", session, saved.version, saved.values, saved.taken, saved.waiting)
            for old in self.candidates()[_KEPT:]:
                del self.disk[old]

    # the whole
    def play(self, clients: Callable[[], Clients], seconds: float) -> None:
        """Open, let the clients train while things go wrong, close; the history is complete afterwards. A chief that died is
        started again, with clients that know nothing."""
        def user() -> None:
            while True:
                self._live()
                begun: list[bool] = []
                life, chief = self._started(clients(), begun, seconds), self.chief
                self.world.wait(lambda chief=chief, life=life: chief.crashed or all(over() for over in life))
                if not chief.crashed:
                    return
                self.world.wait(lambda: False, self.world.random.uniform(0.0, 2 * HEARTBEAT))
        self.world.start("user", user)
        self.world.run(_GIVEN_UP)
        self.look_for_losses()
        self.world.settle(8 * HEARTBEAT)

    def _started(self, clients: Clients, begun: list[bool], seconds: float) -> list[Callable[[], bool]]:
        chief = self.chief

        def lead() -> None:
            try:
                self.open()
            except _LOST:                                # the program ends, and whoever started it starts it again
                self.world.crash(chief)
                return
            for handle, programs in self.partitions().items() if self.life == 1 else ():
                self.register(handle, programs)
            follow(self.recovery, Reopened(self.candidates()), self.hands)
            begun.append(True)
            if self.life == 1:
                self.plan_faults(seconds)

        def when_begun(body: Callable[[], None]) -> Callable[[], None]:
            def run() -> None:
                self.world.wait(lambda: begun)
                body()
            return run
        return [self.world.start("chief", lead, chief),
                *(self.world.start(name, when_begun(body), chief) for name, body in clients.items())]

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
        found.update({name: {SERVERS[0]: name} for name in ("fill", "shut")})
        found.update({name: dict.fromkeys(SERVERS, name) for name in ("hold", "settle", "release")})
        found["update"] = dict.fromkeys(SERVERS, "update")
        return found
