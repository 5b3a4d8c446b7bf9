"""A session's steps on a cluster: partitions are registered as long as they are used, a step is one message per task."""
from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from workbench import errors
from workbench.cluster.chief import relays
from workbench.cluster.wire.frames import largest_dropped
from workbench.core.compile.partition import Part
from workbench.core.compile.plan import Plan, compile_plan
from workbench.core.device.interface import Memory, type_of
from workbench.core.graph.serial import dump, load
from workbench.core.kernels.options import KernelOptions
from workbench.core.names import task_of
from workbench.core.run.local import Runner, Told
from workbench.core.trace import Journal

__all__ = ["ClusterBackend"]


class Tasks(Protocol):
    """What is used of a cluster: its tasks, registering partitions, running steps."""

    tasks: tuple[str, ...]
    home: str
    device_types: dict[str, str]

    def when_lost(self, callback: Callable[[str], None]) -> Callable[[], None]: ...
    def register_all(self, handle: str, programs: Any, targets: Any, *, told: Told, relays: Any) -> None: ...
    def unregister(self, handles: Any) -> None: ...
    def next_step(self) -> int: ...
    def run_step(self, handle: str, step: int, *, feeds_by_task: Any, timed: bool,
                 deadline: float | None) -> dict[str, list[Any]]: ...


class ClusterBackend:
    """`Backend` over a `wb.Cluster`: one device per task; what asks for no device goes to its home, or the first worker."""

    records_steps = True       # each task records its share of a step

    def __init__(self, cluster: Tasks) -> None:
        self.cluster = cluster
        self._registered: weakref.WeakSet[_Runner] = weakref.WeakSet()
        self._heard: list[Callable[[], None]] = []
        types = {task: kind.upper() for task, kind in cluster.device_types.items()}
        for task in types:
            if task not in cluster.tasks:
                raise errors.InvalidArgumentError(f"Cluster: device_types names {task!r} but the tasks are "
                                                  f"{', '.join(cluster.tasks)}; name one of them")
        # the CPUs of workers are home before other devices: every operation has a kernel there
        ordered = sorted(cluster.tasks, key=lambda task: (task in types, task != cluster.home,
                                                          not task.startswith("/job:worker")))
        self.devices = tuple(f"{task}/device:{types.get(task, 'CPU')}:0" for task in ordered)

    def next_step(self) -> int:
        """A number of the cluster's, whose steps it tells apart: sessions share them."""
        return self.cluster.next_step()

    def prepare(self, parts: Sequence[Part], name: str, fetches: int, kernels: KernelOptions, told: Told) -> Runner:
        if kernels != KernelOptions():
            raise errors.UnimplementedError(f"Session: kernels is {kernels} but the tasks of a cluster choose by their own "
                                            "WB_* variables; set those where the workers start, and leave kernels out")
        programs = {task_of(p.device): dump(p.program) for p in parts}
        targets = {task_of(p.device): sorted({task_of(op.attrs["target"]) for op in p.program.graph.operations
                                              if op.kind == "send"} - {task_of(p.device)}) for p in parts}
        runner = _Runner(self.cluster, name, [(task_of(p.device), p.feeds, p.fetches) for p in parts], fetches,
                         [(p.device, programs[task_of(p.device)]) for p in parts],
                         {position: t.name for p in parts for position, t in zip(p.fetches, p.program.fetches)})
        self._registered.add(runner)      # first: tasks that did register must forget it when another refuses
        if programs:
            self.cluster.register_all(name, programs, targets, told=told, relays=relays.choose(parts))
        return runner

    def when_lost(self, callback: Callable[[str], None]) -> None:
        """Call `callback(task)` once, on a thread of its own, for each task that is lost before this is closed."""
        self._heard.append(self.cluster.when_lost(callback))

    def memory(self, device: str) -> Memory | None:
        """The tasks count their own."""
        return None

    def close(self) -> None:
        """Tasks forget what was registered here; the cluster outlives its sessions, its owner closes it."""
        for runner in list(self._registered):
            runner.release()
        while self._heard:
            self._heard.pop()()


class _Runner:
    nbytes = 0      # the tasks hold the values

    def __init__(self, cluster: Tasks, handle: str, routes: list[tuple[str, list[int], list[int]]], fetches: int,
                 programs: list[tuple[str, bytes]], names: dict[int, str]) -> None:
        self._cluster, self._handle, self._fetches, self._programs, self._names = cluster, handle, fetches, programs, names
        self._fed = [(task, feeds) for task, feeds, _ in routes if feeds]
        self._asked = [(task, positions) for task, _, positions in routes if positions]
        self.release = weakref.finalize(self, cluster.unregister, (handle,))
        """What a session no longer keeps, tasks need not keep either; calling it again does nothing."""
        self.release.atexit = False

    def run(self, feeds: Sequence[Any], step: int, traced: bool = False, deadline: float | None = None,
            journal: Journal | None = None) -> Sequence[Any]:
        if journal is not None:
            raise errors.UnimplementedError("Session.run: run_metadata was passed but the tasks of a cluster report later; "
                                            "read wb.core.trace.journal, or leave it out")
        if not self._programs:
            return []
        sent = {task: {str(i): feeds[position] for i, position in enumerate(positions)} for task, positions in self._fed}
        answers = self._cluster.run_step(self._handle, step, feeds_by_task=sent, timed=traced, deadline=deadline)
        results: list[Any] = [None] * self._fetches
        for task, positions in self._asked:
            answer = answers.get(task, [])
            if (dropped := largest_dropped(answer)) is not None:
                place, fetch = dropped
                raise fetch.error(self._names[positions[place]], "the process that fetches it")
            for position, value in zip(positions, answer):
                results[position] = value
        return results

    def compiled(self) -> list[tuple[str, Plan]]:
        """Compiled here for who asks; each task compiled its own, with the libraries of its machine."""
        return [(device, compile_plan(load(program), f"{self._handle} explained", type_of(device)))
                for device, program in self._programs]
