"""Checkpoints while training goes on: a consistent moment is pinned between two steps and written beside the next ones."""
from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.subgraph import root_graph
from workbench.core.state import checkpoint
from workbench.nn.saveables import SaveableObject
from workbench.train.config import RunOptions
from workbench.train.input.input_state import InputState
from workbench.train.input.queues import WorkerPushes
from workbench.train.saving.intervals import Interval
from workbench.train.saving.saver import Saver, absolute, default_saver

__all__ = ["Checkpointer", "cuts"]

logger = logging.getLogger("workbench")

_PUSH_MILLISECONDS = 10_000      # what a push may take that a checkpoint waits for


class Checkpointer:
    """Saves what `saver` saves under `prefix`, besides how far random generators, dataset iterators and readers of all tasks
    are, and what waits in queues (InputState).

    What it needs is added to the graph here. `save` returns when the values are pinned, which copies nothing of variables;
    they are written by their tasks while later steps run: blocks of rows that changed since one of the last few checkpoints,
    as many as `saver.increments`. Called between two steps, while no other thread runs any, a checkpoint is one moment of all
    tasks; where others push meanwhile (WorkerPushes) it is a moment between their pushes. `interval` learns what it costs.
    Set `input_over` when the input was read to its end: who goes on from a checkpoint that is made then begins the input anew.
    """

    def __init__(self, prefix: Any, saver: Saver | None = None, interval: Interval | None = None) -> None:
        self.prefix, self.saver, self.interval = str(prefix), saver or default_saver(), interval or Interval()
        self._writer: threading.Thread | None = None
        self._problem: BaseException | None = None
        self._saving = threading.Lock()
        self.input_over = False
        with root_graph().name_scope("checkpoints") as scope:
            self._build(scope)

    def _build(self, scope: str) -> None:
        self._graph = graph = root_graph()
        groups = self.saver.groups
        self._base = ops.placeholder("string", [])
        self._records: list[Tensor] = []
        self._pins: dict[str, Tensor] = {}
        self._resume: dict[str, tuple[Tensor, Any]] = {}
        self._build_moments({one.place: one for one in graph.get_collection(WorkerPushes.COLLECTION)}.values())
        self._input = InputState(graph, scope)
        count = len(groups) + len(self._input.devices)
        for device in dict.fromkeys([*groups, *(op.device for op in graph.operations)]):
            held = groups.get(device, [])
            with graph.only_device(device):
                handles = [piece.variable.handle for piece in held]
                self._pins[device] = ops.take_snapshot(handles, shared_name=f"{scope}{device}")
                found = ops.placeholder("string", [])
                self._resume[device] = found, ops.set_positions(found)
                if held:
                    self._records.append(ops.save(self._base, handles, parts=tuple(piece.part for piece in held),
                                                  index=len(self._records), count=count, snapshot=f"{scope}{device}",
                                                  increments=self.saver.increments))
        self._records += self._input.build(self._base, len(self._records), count)
        self._object_pins = [self._build_object(one, f"{scope}{one.specs[0].name}") for one in self.saver.objects]

    def _build_moments(self, pushes: Iterable[WorkerPushes]) -> None:
        """What finds a moment between pushes, on each of their servers."""
        self._places, self._cuts = [one.place for one in pushes], [ops.placeholder("string", []) for _ in pushes]
        self._hold, self._release = list[Tensor](), list[Tensor]()
        self._settle, self._forget = list[Operation](), list[Operation]()
        for one, cut in zip(pushes, self._cuts):
            with self._graph.only_device(one.pushes_ref.device):
                self._hold.append(one.hold())
                self._settle.append(one.settle(cut))
                self._forget.append(one.forget())
                self._release.append(one.release())

    def _build_object(self, one: SaveableObject, name: str) -> Any:
        """What pins an object in the task that holds it; what writes it then is among the records."""
        with self._graph.only_device(one.device):
            self._records.append(ops.save_tensors(self._base, [], snapshot=name))
            return ops.pin_tensors([spec.tensor for spec in one.specs], names=tuple(spec.name for spec in one.specs),
                                   shared_name=name)

    # saving
    @property
    def writing(self) -> bool:
        """Is a checkpoint being written?"""
        return self._writer is not None and self._writer.is_alive()

    def save(self, session: Any, step: int) -> None:
        """Pin this moment as the checkpoint of `step`, and write it while the caller goes on.

        Waits for the checkpoint before, if that is still being written, and raises what it failed with.
        """
        with self._saving:
            self._save(session, step)

    def _save(self, session: Any, step: int) -> None:
        self.wait()
        started = time.perf_counter()
        with self._input.held(session):
            found = self._pin(session) if self._hold else self._pin_now(session)
        pause = time.perf_counter() - started
        meta = {"positions": {device: json.loads(text) for device, text in found.items()}, "input over": self.input_over}
        self._writer = threading.Thread(target=self._write, args=(session, step, meta, pause), name="workbench-checkpoint")
        self._writer.start()

    def _pin(self, session: Any) -> dict[str, Any]:
        """Pin a moment between pushes to several servers: what began on one of them has ended on all."""
        try:
            begun = [json.loads(text) for text in session.run(self._hold)]
            feeds = {cut: json.dumps(one) for cut, one in zip(self._cuts, cuts(self._places, begun))}
            try:
                session.run(self._settle, feeds, options=RunOptions(timeout_in_ms=_PUSH_MILLISECONDS))
            except errors.DeadlineExceededError:
                logger.warning("workbench: a worker has not ended its push of an update for %.1f s; checkpoints do not wait "
                               "for it any more", _PUSH_MILLISECONDS / 1000)
                session.run(self._forget)
            found = self._pin_now(session)
        finally:
            held = session.run(self._release)
        if not all(held):
            raise errors.AbortedError("checkpoint: tasks were opened anew while it was pinned, so that it is of no one moment; "
                                      "it is dropped, save again")
        return found

    def _pin_now(self, session: Any) -> dict[str, Any]:
        """Pin all that is saved; how far each device's generators, iterators and readers are."""
        found: dict[str, Any] = session.run([self._pins, self._object_pins])[0]
        return found

    def _write(self, session: Any, step: int, meta: dict[str, Any], pause: float) -> None:
        started = time.perf_counter()
        try:
            base = checkpoint.base_of(self.prefix, step)
            records = session.run(self._records, {self._base: absolute(base)})
            checkpoint.publish(base, step, [json.loads(record) for record in records], meta)
            self.saver.keep(str(base))
            self.saver.describe(self._graph, str(base))
            self.interval.written(pause, time.perf_counter() - started)
        except BaseException as problem:
            self._problem = problem

    def wait(self) -> None:
        """Until nothing is being written any more. Raises what the newest checkpoint failed with, once."""
        if self._writer is not None:
            self._writer.join()
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def drop(self) -> None:
        """As `wait`, for one whose failure is known: its tasks are lost."""
        try:
            self.wait()
        except errors.Error as problem:
            fact = problem.message.partition(";")[0]      # what else it says is for programs that do not go on
            logger.warning("workbench: a checkpoint was not completed: %s", fact)

    # restoring
    def candidates(self) -> list[str]:
        """The checkpoints of the folder, newest first, without those that can be told to be damaged."""
        return self.saver.candidates(checkpoint.base_of(self.prefix, None).parent)

    def restore(self, session: Any, path: str) -> None:
        """Bring variables, generators, iterators and readers to where they were; `refill` does the rest. DataLossError when a
        byte of it is damaged; then nothing has changed."""
        self.saver.restore(session, path)
        self.saver.take_over(path)
        if not checkpoint.exists(path):      # of others, which know nothing of positions
            return
        meta = checkpoint.contents(path).meta
        found = meta.get("positions", {})
        if meta.get("input over"):      # generators alone go on
            found = {device: {name: one for name, one in known.items() if "bits" in one} for device, known in found.items()}
        feeds = {text: json.dumps(found[device]) for device, (text, _) in self._resume.items() if device in found}
        session.run([resume for device, (_, resume) in self._resume.items() if device in found], feeds)

    def refill(self, session: Any, path: str) -> None:
        """Give queues, accumulators and counters of epochs what they held: after what begins them, before what fills them.
        DataLossError when a byte of that is damaged."""
        if not checkpoint.exists(path):
            return
        found = checkpoint.contents(path)
        if self._input.restores and not found.meta.get("input over"):
            session.run(self._input.restores, {self._base: absolute(found.path)})

    def restore_newest(self, session: Any) -> str | None:
        """Restore the newest checkpoint that is whole, passing over damaged ones; its path, None when there is none."""
        for path in self.candidates():
            try:
                self.restore(session, path)
                self.refill(session, path)
                return path
            except errors.DataLossError as problem:
                logger.warning("workbench: passing over a damaged checkpoint: %s", problem.message)
        return None


def cuts(places: Sequence[str], begun: Sequence[Mapping[str, tuple[int, Sequence[str]]]]) -> list[dict[str, int]]:
    """For each server which pushes it has to have, up to a number of each worker, of those that began at one of them.

    `begun` says of each, by worker, the number of the newest push that did and the `places` that it has parts on.
    """
    newest: dict[str, tuple[int, Sequence[str]]] = {}
    for one in begun:
        for worker, (number, parts) in one.items():
            newest[worker] = max((number, parts), newest.get(worker, (-1, ())), key=lambda push: (push[0], len(push[1])))
    return [{worker: number for worker, (number, parts) in newest.items() if place in parts} for place in places]
