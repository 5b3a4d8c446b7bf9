"""Updates of variables on several devices as one push, of which a checkpoint holds all or nothing."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar

from workbench.core.graph import device as devices
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Operation, get_default_graph
from workbench.core.graph.program import changes, needed
from workbench.core.graph.subgraph import root_graph
from workbench.train.input.queues import WorkerPushes

__all__ = ["ordered", "pushed", "pushed_to_tasks"]

_Parts = dict[str, list[Operation]]
"""Device -> what changes variables there."""

_ordered: ContextVar[bool] = ContextVar("updates that are made now need no push of their own", default=False)


@contextlib.contextmanager
def ordered() -> Iterator[None]:
    """Updates that optimizers make in it need no push: what is around them keeps checkpoints out."""
    before = _ordered.set(True)
    try:
        yield
    finally:
        _ordered.reset(before)


def pushed(worker: str, apply: Callable[[], Operation]) -> Operation:
    """What `apply()` makes, whose updates are one push of `worker` from now on: a part on each device that has variables.

    A part begins on its device once what its last variable is updated with has come, which it does anyhow: nothing is sent for
    it, and nobody is asked. In the body of a loop a step has several pushes, and updates stay as they are.
    """
    return _pushed(f"{worker} ", apply, lambda parts: parts)


def pushed_to_tasks(apply: Callable[[], Operation]) -> Operation:
    """As `pushed`, for what an optimizer of any program makes: where devices place its variables on several tasks. Otherwise,
    and where updates are `ordered` or part of another push, they stay as they are. A process runs a push in one thread at a
    time; of one that it runs in several at once, a checkpoint may have a part."""
    return apply() if _ordered.get() else _pushed("", apply, _on_tasks)


def _pushed(worker: str, apply: Callable[[], Operation], choose: Callable[[_Parts], _Parts]) -> Operation:
    graph = root_graph()
    if get_default_graph() is not graph:
        return apply()
    before = len(graph.operations)
    with ordered():
        made = apply()
    new = set(graph.operations[before:])
    step = needed([made], lambda tensor: tensor.op not in new)      # no initializers of slots, which were made here too
    within = [op for op in graph.operations[before:] if op in step]
    waiting: dict[Operation, tuple[Sequence[object], Sequence[Operation]]] = {}
    parts = choose(_parts(within))
    for place, updates in parts.items():
        first = _first(updates, within)
        after = [t for t in first.inputs if t.dtype is not resource]
        with (graph.only_device(place), graph.colocate_with(None), graph.name_scope(None), graph.control_dependencies(None)):
            pushes = _pushes_at(place)
            with graph.control_dependencies(first.controls):
                began = pushes.begin(f"{worker}{made.name}", tuple(parts), after)
        waiting.update((op, (op.inputs, (*op.controls, began))) for op in updates)
    ops.rewire(waiting)
    return made


def _pushes_at(place: str) -> WorkerPushes:
    """Those of all workers there."""
    known = root_graph().get_collection(WorkerPushes.COLLECTION)
    return next((one for one in known if one.place == place), None) or WorkerPushes(place, f"pushes at {place}")


def _parts(made: Sequence[Operation]) -> _Parts:
    found: _Parts = {}
    for op in made:
        place = _changes_at(op)
        if place is not None:
            found.setdefault(place, []).append(op)
    return found


def _on_tasks(parts: _Parts) -> _Parts:
    """Those on devices that name their tasks, where these are several."""
    tasks = {place: (spec.job, spec.task) for place in parts if (spec := devices.parse(place)).task is not None}
    return {place: parts[place] for place in tasks} if len(set(tasks.values())) > 1 else {}


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
