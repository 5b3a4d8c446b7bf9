"""What waits between steps in checkpoints: elements of queues, sums of accumulators, how often the input was read."""
from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.nn.variables import GraphKeys
from workbench.train.sessions.coordinator import QueueRunner

__all__ = ["BEGUN_ANEW", "ELEMENT_COUNTERS", "InputState"]

logger = logging.getLogger("workbench")

BEGUN_ANEW, ELEMENT_COUNTERS = "begun_anew", "element_counters"
"""Collections of handles: of what is not kept since training begins it anew, and of variables that count what was read."""

_QUEUES = ("fifo_queue", "random_shuffle_queue", "padding_fifo_queue", "priority_queue", "barrier")
_ACCUMULATORS = ("conditional_accumulator", "sparse_conditional_accumulator")
_WAITS = ("queue_", "barrier_take", "reader_read")
_PATIENCE, _LOOK = 10.0, 0.005      # seconds: how long the step of a queue runner may take, and between two looks


class InputState:
    """Keeps what is in the queues of a graph, in accumulators and in counters of epochs; the operations are made here.

    While it is pinned, no queue runner of the graph begins a step, and each that is in one has either ended or waits at a
    queue: then an element is in a queue, or still in its source. What else puts elements into queues is not held up.
    """

    def __init__(self, graph: Graph, scope: str) -> None:
        self._graph, self._scope = graph, scope
        self._handles: dict[str, dict[str, Tensor]] = {}
        begun_anew = {handle.op for handle in graph.get_collection(BEGUN_ANEW)}
        counters = {handle.op for handle in graph.get_collection(ELEMENT_COUNTERS)}
        for op in graph.operations:
            if op in counters or (op.kind in (*_QUEUES, *_ACCUMULATORS) and op not in begun_anew):
                self._handles.setdefault(op.device, {})[f"input:{op.name}"] = op.outputs[0]
        self._pins: dict[str, Tensor] = {}
        self._impatient: set[QueueRunner] = set()      # those that were waited for once in vain
        self.restores: list[Operation] = []

    @property
    def devices(self) -> list[str]:
        """Where there is something to keep."""
        return list(self._handles)

    def build(self, base: Tensor, first: int, count: int) -> list[Tensor]:
        """The records of the shards from number `first` of `count`, in the order of `devices`."""
        filled, records = {_handle(runner) for runner in self._runners()}, list[Tensor]()
        for device, held in self._handles.items():
            name = f"{self._scope}{device}/input"
            with self._graph.only_device(device):
                handles, names = list(held.values()), tuple(held)
                self._pins[device] = ops.pin_state(handles, names=names, shared_name=name)
                records.append(ops.save_state(base, index=first + len(records), count=count, shared_name=name))
                self.restores.append(ops.restore_state(base, handles, names=names, reopen=tuple(h in filled for h in handles)))
        return records

    def _runners(self) -> list[QueueRunner]:
        known = {handle for held in self._handles.values() for handle in held.values()}
        return [runner for runner in self._graph.get_collection(GraphKeys.QUEUE_RUNNERS) if _handle(runner) in known]

    @contextlib.contextmanager
    def held(self, session: Any) -> Iterator[None]:
        """Pin what there is; until the end no queue runner takes anything from the sources."""
        if not self._pins:
            yield
            return
        with contextlib.ExitStack() as stack:
            runners = self._runners()
            for runner in runners:
                stack.enter_context(runner.held())
            self._pin(session, runners)
            yield

    def _pin(self, session: Any, runners: list[QueueRunner]) -> None:
        until = time.monotonic() + _PATIENCE
        nodes = {runner: _nodes(runner) for runner in runners if runner not in self._impatient}
        while True:
            inside = {runner: runner.inside(session) for runner in nodes}      # before, or one could end unseen
            waiting: dict[str, int] = {}
            for text in session.run(self._pins).values():
                waiting.update(json.loads(text))
            busy = [runner for runner, names in nodes.items() if inside[runner] > sum(waiting.get(n, 0) for n in names)]
            if not busy:
                return
            if time.monotonic() > until:
                self._impatient.update(busy)
                logger.warning("workbench: a step that fills queue %r has not ended for %.1f s; checkpoints do not wait for it "
                               "any more, so an element that it has read may be missing after a restart", busy[0].name,
                               _PATIENCE)
                return
            busy[0].wait_for_end(session, inside[busy[0]], _LOOK)


def _handle(runner: QueueRunner) -> Tensor | None:
    found: Tensor | None = getattr(runner.queue, "queue_ref", None)
    return found


def _nodes(runner: QueueRunner) -> set[str]:
    """The operations at which a step of this runner may wait for a queue."""
    left: list[Any] = [getattr(op, "op", op) for op in runner.enqueue_ops]
    found: set[Operation] = set()
    while left:
        op = left.pop()
        if op not in found:
            found.add(op)
            left += [*(tensor.op for tensor in op.inputs), *op.controls]
    return {op.name for op in found if op.kind.startswith(_WAITS)}
