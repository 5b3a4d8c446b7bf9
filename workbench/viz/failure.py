"""Where the operation that ended a run lies at a stage of a graph: itself, what it was fused into, or the nearest scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from workbench.core.names import task_of
from workbench.core.trace import GraphRecord, NodeRecord, StatusRecord
from workbench.viz.graph_view import GraphPicture
from workbench.viz.palette import short_device
from workbench.viz.pass_view import bare, compare
from workbench.viz.schema import Failed
from workbench.viz.stage_view import drawn_names

__all__ = ["Place", "cause_of", "failed_in", "holds", "place_of", "until"]


class Place(NamedTuple):
    """What stands for an operation at a stage of a graph, by its name in the drawing."""

    id: str = ""  # "": the graph never had the operation, or nothing is left of it
    scope: bool = False  # a scope that it lay in: a rewrite took the operation away


NOWHERE = Place()


def cause_of(status: StatusRecord) -> tuple[str, str]:
    """The operation that ended the run and its task, ("", "") where none did."""
    return (status.what, status.task) if status.state == "failed" and status.what else ("", "")


def holds(record: GraphRecord, name: str) -> bool:
    """Whether operation `name` is in a stage, on any device."""
    return any(node.name == name or bare(node.name) == name for node in record.nodes)


def until(stages: Sequence[GraphRecord], record: GraphRecord, number: int, before: bool) -> list[GraphRecord]:
    """How what is shown came to be, itself included, as far as it is kept: stage `number`, the one before it, or `record`."""
    if number >= 0:
        return list(stages[:max(1, number + (not before))])
    at = next((i for i, stage in enumerate(stages) if stage is record), -1)
    return [*stages[:at + 1]] if at >= 0 else [record]


def place_of(status: StatusRecord, stages: Sequence[GraphRecord]) -> Place:
    """What stands for the operation that `status` names in the last of `stages`, each of which was made of the one before."""
    node: NodeRecord | None = None
    home: str | None = None  # the device on which it was seen last, None: nowhere yet
    was: GraphRecord | None = None
    for now in stages:
        if node is not None and was is not None:
            node = _next(was, now, node, status.task)
        elif home is None:
            node = _found(now, status.what, status.task)
        home = home if node is None else node.device
        was = now
    if node is not None:
        return Place(drawn_names(stages[-1])[id(node)])
    return NOWHERE if home is None else _scope(stages[-1], status.what, home)


def _found(record: GraphRecord, name: str, task: str) -> NodeRecord | None:
    """Operation `name`; of its copies on several devices the one on `task`."""
    copies = [node for node in record.nodes if bare(node.name) == name]
    return next((node for node in copies if task_of(node.device) == task), copies[0] if copies else None)


def _next(was: GraphRecord, now: GraphRecord, node: NodeRecord, task: str) -> NodeRecord | None:
    """What became of `node` in the stage after it: itself, or what it was fused into."""
    same = (one for one in now.nodes if _same(one, node))
    kept = next(same, None) if was.split else _found(now, bare(node.name), task)
    if kept is not None:
        return kept
    for merged in compare(was, now)[0].merged:
        if any(part is node for part in merged.parts):
            end = merged.parts[-1]  # its own former self
            return next((one for one in now.nodes if (_same(one, end) if was.split else one.name == end.name)), None)
    return None


def _same(one: NodeRecord, other: NodeRecord) -> bool:
    return one.device == other.device and bare(one.name) == bare(other.name)


def _scope(record: GraphRecord, name: str, device: str) -> Place:
    """The nearest scope around `name` in which something is left."""
    apart = record.split and len({node.device for node in record.nodes}) > 1
    names = drawn_names(record).values()
    while name := name.rpartition("/")[0]:
        id = f"{short_device(device)}/{name}" if apart else name
        if any(one.startswith(f"{id}/") for one in names):
            return Place(id, True)
    return NOWHERE


def failed_in(picture: GraphPicture, place: Place, what: str) -> Failed | None:
    """What a page is told of operation `what`; None where nothing of it is left in the drawing."""
    at = picture.place(*place) if place.id else -1
    return Failed(what, picture.record.key, place.id, at) if at >= 0 else None
