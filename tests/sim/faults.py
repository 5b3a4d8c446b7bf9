"""What goes wrong in a simulated cluster, at moments and places chosen by the seed."""
from __future__ import annotations

from typing import Any

from tests.sim.programs import SERVERS, WORKERS

__all__ = ["HEARTBEAT", "TASKS", "Faults"]

HEARTBEAT = 8.0
TASKS = (*SERVERS, *WORKERS)


class Faults:
    """Strikes at the tasks, links, chief and checkpoints of a scene, which has what is named here."""

    world: Any
    chief: Any
    disk: Any
    members: Any
    processes: Any
    damaged: set[str]
    excused: set[tuple[int, str]]
    faults: int
    session: int
    keeps_state: bool
    log: Any
    candidates: Any

    def plan_faults(self, until: float) -> None:
        rough = (self._stop, self._freeze, self._cut, self._cut_control, self._stop_chief, self._freeze_chief)
        worst = (self._crash, self._crash_chief, self._damage)
        kinds = self.world.random.choice(((self._cut,), (self._cut, self._stop),
                                          rough if self.keeps_state else (*rough, *worst)))
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
        if name in self.members:                         # else a new chief has not met it yet
            self.members[name].connection.cut()      # type: ignore[attr-defined]

    def _crash_chief(self) -> None:
        """As kill -9 of the program, wherever it is; it is started again by `play`."""
        self.log("fault", "crash", self.chief.name)
        self.world.crash(self.chief)

    def _stop_chief(self) -> None:
        self.log("fault", "stop", self.chief.name)
        self.world.stop(self.chief, self.world.random.uniform(0.0, HEARTBEAT / 3))

    def _freeze_chief(self) -> None:
        """So long that its tasks may have ended when it goes on."""
        for name in TASKS:
            self._excuse(name)
        self.log("fault", "freeze", self.chief.name)
        self.world.stop(self.chief, self.world.random.uniform(1.5, 4) * HEARTBEAT)

    def _damage(self) -> None:
        """The newest checkpoint, where there is another."""
        whole = [name for name in self.candidates() if name not in self.damaged]
        if len(whole) > 1:
            self.damaged.add(whole[0])
            self.log("fault", "damage", self.disk[whole[0]].version)
