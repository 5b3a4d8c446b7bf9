"""The graph as a report keeps it: what can be looked at without a kernel, and where everything of it lies."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.core.trace import GraphRecord, StatusRecord
from workbench.viz.failure import cause_of, failed_in, place_of, until
from workbench.viz.graph_view import CONTROL, GraphPicture
from workbench.viz.schema import GraphStage, GraphUpdate, GraphView, NodeDetails, Picture, plain
from workbench.viz.scopes import ScopeTree
from workbench.viz.stage_view import staged
from workbench.viz.svg import to_places

__all__ = ["Kept", "Line", "Look", "keep"]

SCOPES = 12  # closed scopes that can be opened, the largest first
ROOM = 400_000  # characters of JSON for all looks beside the first one
DEADLINE = 20.0  # seconds for all layouts


@dataclass(slots=True)
class Line:
    """As the front end's `Line` (`labextension/src/graph/geometry.ts`)."""

    points: Sequence[float]
    flows: list[int]
    control: bool
    label: str
    x: float
    y: float


@dataclass(slots=True)
class Look:
    """One picture of the graph: with one scope more open, or one of its stages, before or after its rewrite."""

    opened: str
    stage: int
    before: bool
    update: GraphUpdate
    geometry: Mapping[str, Any]  # boxes, lines, size


@dataclass(slots=True)
class Kept:
    looks: list[Look]  # the default one first
    details: dict[str, NodeDetails]  # of the nodes of the newest stage
    stages: list[GraphStage]
    scopes: int  # closed scopes that can be opened


def keep(record: GraphRecord, stages: Sequence[GraphRecord], milliseconds: Mapping[str, float],
         status: StatusRecord) -> tuple[Kept, str]:
    """`record` as it is first shown, with each of its closed scopes opened, and its `stages`, as far as there is room;
    and the drawing of the first picture for readers without scripts; in all of them the operation that ended the run, if
    `status` names one.

    Raises DeadlineExceededError and InvalidArgumentError where a layout program fails (`svg.to_places`).
    """
    tree, pictures = ScopeTree(record), []
    first = GraphPicture(record, tree)
    closed = sorted((n for n in first.view().nodes if n.kind == "scope" and not n.open), key=lambda n: (-n.count, n.id))
    pictures.append(_Shown(first, "", -1, False, {}, ""))
    for node in closed[:SCOPES]:
        inside = GraphPicture(record, tree)
        inside.expand(node.id)
        pictures.append(_Shown(inside, node.id, -1, False, {}, ""))
    for number, before in _sides(stages):
        shown = staged(stages, number, before)
        pictures.append(_Shown(GraphPicture(shown.record), "", number, before, shown.marks, shown.sentence))
    places, still = to_places([shown.picture.dot(chips=False) for shown in pictures], first.dot(), DEADLINE)
    looks = [_look(shown, stages, place, milliseconds) for shown, place in zip(pictures, places)]
    _tell(looks, pictures, record, stages, status)
    kept, room = looks[:1], ROOM
    for look in looks[1:]:
        room -= len(json.dumps(plain(look)))
        kept += [look] if room >= 0 else []
    opened = [shown.picture for shown in pictures if shown.stage < 0]
    details = {node.id: found for picture in opened for node in picture.view().nodes if (found := picture.details(node.id))}
    whole = len(kept) == len(looks)  # else some stages could not be shown
    chosen = [GraphStage(one.stage, one.note, len(one.nodes)) for one in stages] if whole else []
    return Kept(kept, details, chosen, sum(bool(look.opened) for look in kept)), still


def _tell(looks: Sequence[Look], pictures: Sequence[_Shown], record: GraphRecord, stages: Sequence[GraphRecord],
          status: StatusRecord) -> None:
    """Say in each of `looks` where the operation lies that ended the run."""
    what, _ = cause_of(status)
    if what:
        sides = {(look.stage, look.before) for look in looks}
        places = {side: place_of(status, until(stages, record, *side)) for side in sides}
        for look, shown in zip(looks, pictures):
            look.update.failed = failed_in(shown.picture, places[look.stage, look.before], what)


@dataclass(slots=True)
class _Shown:
    picture: GraphPicture
    opened: str
    stage: int
    before: bool
    marks: Mapping[str, int]
    sentence: str


def _sides(stages: Sequence[GraphRecord]) -> list[tuple[int, bool]]:
    """(stage, before?) of each stage that a reader may choose: what built the graph has nothing before it."""
    return [(number, before) for number in range(len(stages)) for before in ((False, True) if number else (False,))]


def _look(shown: _Shown, stages: Sequence[GraphRecord], places: Mapping[str, Any], milliseconds: Mapping[str, float]) -> Look:
    view = shown.picture.view()
    stats = shown.picture.stats(milliseconds)
    update = GraphUpdate(view.key, Picture(view.nodes, view.edges, view.devices, shown.picture.marks(shown.marks)),
                         [stats.get(node.id) for node in view.nodes], view.note, stage=shown.stage, rewrite=shown.sentence)
    return Look(shown.opened, shown.stage, shown.before, update, _geometry(view, places))


def _geometry(view: GraphView, places: Mapping[str, Any]) -> dict[str, Any]:
    """Graphviz's JSON upside down: a box for each node of `view`, and its lines."""
    left, bottom, right, top = _numbers(places["bb"])
    boxes, names = {}, {}
    for one in places.get("objects", ()):
        name = one["name"].removeprefix("cluster_") if "bb" in one else one["name"]
        names[one["_gvid"]] = name
        boxes[name] = _box(one, top)
    flows = defaultdict(list)
    for number, (source, target) in enumerate(zip(view.edges.sources, view.edges.targets)):
        flows[view.nodes[source].id, view.nodes[target].id].append(number)
    lines = []
    for one in places.get("edges", ()):
        tail, head = names[one["tail"]], names[one["head"]]
        lines.append(_line(one, _way(one, boxes[tail], boxes[head], top), flows[tail, head], view, top))
    none = {"x": 0.0, "y": 0.0, "width": 0.0, "height": 0.0}
    return {"boxes": [boxes.get(node.id, none) for node in view.nodes], "lines": lines,
            "size": {"x": 0.0, "y": 0.0, "width": right - left, "height": top - bottom}}


def _box(one: Mapping[str, Any], top: float) -> dict[str, float]:
    if "bb" in one:
        x0, y0, x1, y1 = _numbers(one["bb"])
        return {"x": x0, "y": top - y1, "width": x1 - x0, "height": y1 - y0}
    (x, y), width, height = _numbers(one["pos"]), 72 * float(one["width"]), 72 * float(one["height"])
    return {"x": x - width / 2, "y": top - y - height / 2, "width": width, "height": height}


def _line(one: Mapping[str, Any], points: list[float], flows: list[int], view: GraphView, top: float) -> Line:
    x, y = _numbers(one.get("lp", "0,0"))
    control = bool(flows) and all(view.edges.kinds[flow] == CONTROL for flow in flows)
    return Line(points, flows, control, one.get("label", "").strip(), x, top - y)


def _way(one: Mapping[str, Any], tail: Mapping[str, float], head: Mapping[str, float], top: float) -> list[float]:
    """The points of an edge's curve; a straight line from box to box where Graphviz found no way."""
    if "pos" in one:
        pairs = [_numbers(pair) for pair in one["pos"].split() if not pair.startswith("e,")]
        return [value for x, y in pairs for value in (x, top - y)]
    (x0, y0), (x1, y1) = _border(tail, head), _border(head, tail)
    return [value for part in (0, 1 / 3, 2 / 3, 1) for value in (x0 + part * (x1 - x0), y0 + part * (y1 - y0))]


def _border(box: Mapping[str, float], other: Mapping[str, float]) -> tuple[float, float]:
    """Where the line between the middles of two boxes leaves the first."""
    (x, y), (to_x, to_y) = _middle(box), _middle(other)
    far = max(2 * abs(to_x - x) / (box["width"] or 1), 2 * abs(to_y - y) / (box["height"] or 1), 1)
    return x + (to_x - x) / far, y + (to_y - y) / far


def _middle(box: Mapping[str, float]) -> tuple[float, float]:
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def _numbers(text: str) -> list[float]:
    return [float(word) for word in text.split(",")]
