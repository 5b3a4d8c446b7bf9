"""Updates of variables on several devices as one push, of which a checkpoint holds all or nothing."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.core.graph.build import ops
from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Operation, get_default_graph
from workbench.core.graph.program import changes, needed
from workbench.core.graph.subgraph import root_graph
from workbench.train.input.queues import WorkerPushes

__all__ = ["pushed"]


def pushed(worker: str, apply: Callable[[], Operation]) -> Operation:
    """What `apply()` makes, whose updates are one push of `worker` from now on: a part on each device that has variables.

    A part begins on its device once what its last variable is updated with has come, which it does anyhow: nothing is sent for
    it, and nobody is asked. In the body of a loop a step has several pushes, and updates stay as they are.
    """
    graph = root_graph()
    if get_default_graph() is not graph:
        return apply()
    before = len(graph.operations)
    made = apply()
    waiting: dict[Operation, tuple[Sequence[object], Sequence[Operation]]] = {}
    step = needed([made])      # initializers of slots are made here too, and belong to no push
    within = [op for op in graph.operations[before:] if op in step]
    parts = _parts(within)
    for place, updates in parts.items():
        first = _first(updates, within)
        after = [t for t in first.inputs if t.dtype is not resource]
        with graph.only_device(place), graph.name_scope(None), graph.control_dependencies(None):
            pushes = _pushes_at(place)
            with graph.control_dependencies(first.controls):
                began = pushes.begin(f"{worker} {made.name}", tuple(parts), after)
        waiting.update((op, (op.inputs, (*op.controls, began))) for op in updates)
    ops.rewire(waiting)
    return made


def _pushes_at(place: str) -> WorkerPushes:
    """Those of all workers there."""
    known = root_graph().get_collection(WorkerPushes.COLLECTION)
    return next((one for one in known if one.place == place), None) or WorkerPushes(place, f"pushes at {place}")


def _parts(made: Sequence[Operation]) -> dict[str, list[Operation]]:
    """Device -> what changes variables there."""
    found: dict[str, list[Operation]] = {}
    for op in made:
        place = _changes_at(op)
        if place is not None:
            found.setdefault(place, []).append(op)
    return found


def _changes_at(op: Operation) -> str | None:
    """The device whose variables `op` changes; None where it changes none."""
    return next((t.op.device for t in changes(op) if t.op.kind == "variable"), None)


def _first(updates: Sequence[Operation], made: Sequence[Operation]) -> Operation:
    """The last update that waits for no other one of its place: backpropagation makes its gradient before the others'."""
    late: set[Operation] = set()
    chosen = set(updates)
    for op in made:
        if any(before in late or before in chosen for before in (*(t.op for t in op.inputs), *op.controls)):
            late.add(op)
    return next(op for op in reversed(updates) if op not in late)
