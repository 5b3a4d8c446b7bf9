"""A graph record as at most a few hundred nodes and their edges: scopes collapsed, repeats stacked, hubs set aside."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from workbench.core.trace import GraphRecord
from workbench.viz.dot import Chip, Drawing, Line, to_dot
from workbench.viz.node_view import form_of, operation_details, scope_details, search, title
from workbench.viz.palette import color_of, device_order, natural, short_device
from workbench.viz.schema import DeviceColor, Found, GraphEdges, GraphNode, GraphView, NodeDetails
from workbench.viz.scopes import Bundle, Owners, ScopeTree
from workbench.viz.stage_view import CHANGED

__all__ = ["GraphPicture", "choose_graph", "graph_dot", "graph_view"]

LIMIT = 300  # visible nodes
FIRST = 24  # visible nodes before anybody opened or closed a scope
HUB = 6  # visible neighbours beyond which a variable, constant or placeholder is shown as chips
BUSY_HUB = 12  # the same for any other operation
CHIPS = 40  # readers of a hub that are marked; beyond, they are counted
TENSORS, CONTROL, ASIDE = 0, 1, 2  # kinds of edges
_SOURCES = ("constant", "const", "variable", "variablev2", "placeholder", "read", "identity")


def graph_view(
    record: GraphRecord,
    opened: Iterable[str] = (),
    closed: Iterable[str] = (),
    limit: int = LIMIT,
) -> GraphView:
    """The view of `record` and its drawing, with its default scopes open, plus `opened`, minus `closed`; ids are stable."""
    picture = _picture(record, opened, closed)
    return replace(picture.view(limit), dot=picture.dot())


def graph_dot(record: GraphRecord, opened: Iterable[str] = (), closed: Iterable[str] = ()) -> str:
    """The same as DOT text."""
    return _picture(record, opened, closed).dot()


def _picture(record: GraphRecord, opened: Iterable[str], closed: Iterable[str]) -> GraphPicture:
    picture = GraphPicture(record)
    for id in opened:
        picture.expand(id)
    for id in closed:
        picture.collapse(id)
    return picture


def choose_graph(records: Iterable[GraphRecord], session: str) -> GraphRecord | None:
    """The newest stage of the largest executable of `session` (of all sessions when it has none); None without any."""
    newest = {record.key: record for record in records if not record.split}
    mine = [r for r in newest.values() if session and r.key.startswith(f"{session}_")] or list(newest.values())
    return max(mine, key=lambda r: len(r.nodes), default=None)


class GraphPicture:
    """One graph record and which of its scopes are open; remembers its view until that changes."""

    def __init__(self, record: GraphRecord, tree: ScopeTree | None = None) -> None:
        self.record = record
        self.tree = tree or ScopeTree(record)
        self._opened = dict.fromkeys(self.tree.default_open(FIRST))  # in the order of opening
        self._owners: Owners  # of what is drawn
        self._unseen: dict[str, int] = {}  # hubs whose readers are counted only
        self._view: GraphView | None = None

    def expand(self, id: str) -> bool:
        """Open scope `id` and the scopes around it; False when there is no such scope or it is open."""
        if id not in self.tree.scopes or not id or id in self._opened:
            return False
        for scope in reversed(self.tree.ancestors(id)):
            self._opened.setdefault(scope)
        self._view = None
        return True

    def reveal(self, id: str) -> bool:
        """Open the scopes around node `id`; False when it is visible already, or there is none."""
        if id in self.tree.scopes:
            return self.expand(self.tree.scopes[id].parent or "")
        return id in self.tree.nodes and self.expand(self.tree.home[id])

    def collapse(self, id: str) -> bool:
        """Close scope `id`; the scopes in it keep their state for the next time."""
        if id not in self._opened:
            return False
        del self._opened[id]
        self._view = None
        return True

    def view(self, limit: int = LIMIT) -> GraphView:
        """The drawing without timings."""
        if self._view is None:
            self._view = self._draw(limit)
        return self._view

    def stats(self, milliseconds: Mapping[str, float]) -> dict[str, float]:
        """Time per visible node from time per operation; operations that are not in this graph are left out."""
        self.view()
        summed: dict[str, float] = defaultdict(float)
        for name, value in milliseconds.items():
            owner = self._owners.get(name)
            if owner is not None:
                summed[owner] += value
        return {id: round(value, 4) for id, value in summed.items()}

    def place(self, id: str, scope: bool = False) -> int:
        """The node that shows operation `id` (or, said so, that scope) or holds it, as its place in the view; -1 for none."""
        nodes = self.view().nodes
        if not scope:
            owner = self._owners.get(id)
            return next((i for i, node in enumerate(nodes) if node.id == owner and not node.open), -1)
        drawn = {node.id: i for i, node in enumerate(nodes) if node.kind == "scope"}
        return next((drawn[one] for one in self.tree.ancestors(id) if one in drawn), -1) if id in self.tree.scopes else -1

    def marks(self, of: Mapping[str, int]) -> list[int]:
        """The mark of each visible node from those of operations; a scope has one when all that is in it has."""
        view = self.view()
        found: dict[str, Counter[int]] = defaultdict(Counter)
        for name, mark in of.items():
            owner = self._owners.get(name)
            if owner is not None:
                found[owner][mark] += 1
        return [_mark(found[node.id], node.count) if node.id in found and not node.open else 0 for node in view.nodes]

    def dot(self, marks: Mapping[str, tuple[str, str]] | None = None, chips: bool = True) -> str:
        """The view as DOT text, for pictures that stand still; `marks`: node -> (sign before its label, colour).

        `chips`: readers of a hub have a small stand-in for it beside them.
        """
        view = self.view()
        nodes = {node.id: node for node in view.nodes if not node.open}
        drawing = Drawing(nodes, {id: view.nodes[node.scope].id if node.scope >= 0 else "" for id, node in nodes.items()},
                          {node.id: view.nodes[node.scope].id if node.scope >= 0 else "" for node in view.nodes if node.open},
                          {device.name: device.color for device in view.devices}, self._seconds(nodes),
                          {id: self._title(id, node) for id, node in nodes.items()}, marks=marks or {})
        edges = view.edges
        for source, target, nbytes, kind, label in zip(edges.sources, edges.targets, edges.nbytes, edges.kinds, edges.labels):
            ends = view.nodes[source].id, view.nodes[target].id
            if kind == ASIDE and chips:
                drawing.chips.append(Chip(f"{ends[0]} → {ends[1]}", *ends, nodes[ends[0]].id.rpartition("/")[2]))
            elif kind != ASIDE:
                drawing.lines.append(Line(*ends, label, nbytes, kind == CONTROL))
        return to_dot(drawing)

    def details(self, id: str) -> NodeDetails | None:
        """Everything known about operation or scope `id`; None when there is no such node."""
        visible = {node.id: node.kind for node in self.view().nodes}
        if id in self.tree.nodes and visible.get(id) != "scope":
            return operation_details(self.tree, id)
        return scope_details(self.tree, id) if id in self.tree.scopes and id else None

    def search(self, text: str) -> Found:
        """Operations and scopes whose name or type contains `text`, upper and lower case alike."""
        return search(self.tree, text)

    def _draw(self, limit: int) -> GraphView:
        note = self._keep_within(limit)
        self._owners = self.tree.owners(set(self._opened))
        visible = self._owners.visible()
        hidden = self._cut(visible, limit)
        places: dict[str, int] = {}
        nodes: list[GraphNode] = []
        for id in sorted(visible, key=natural):
            home = self._around(id, visible[id])
            self._place(home, nodes, places)
            places[id] = len(nodes)
            nodes.append(self._node(id, visible[id], places.get(f"scope {home}", -1)))
        if hidden:
            whole = sum(visible.values()) + hidden
            note = f"{hidden:,} of {whole:,} operations are not drawn: their scope holds too many."
        devices = [DeviceColor(name, color) for name, color in self._colors()]
        return GraphView(self.record.key, nodes, self._connect(places), devices, note=note)

    def _around(self, id: str, count: int) -> str:
        """The open scope that visible node `id` lies in."""
        if self._is_scope(id, count):
            return self.tree.scopes[id].parent or ""
        return self.tree.home[id]

    def _is_scope(self, id: str, count: int) -> bool:
        """NOTE: an operation inside an open scope of its own name is an operation, not that scope."""
        return id in self.tree.scopes and id not in self._opened and (count > 1 or id not in self.tree.nodes)

    def _place(self, scope: str, nodes: list[GraphNode], places: dict[str, int]) -> None:
        """Put open scope `scope` and those around it in the list, the outermost first."""
        if not scope or scope not in self._opened or f"scope {scope}" in places:
            return
        parent = self.tree.scopes[scope].parent or ""
        self._place(parent, nodes, places)
        places[f"scope {scope}"] = len(nodes)
        nodes.append(self._scope(scope, places.get(f"scope {parent}", -1), True))

    def _colors(self) -> Iterable[tuple[str, str]]:
        used = {d for d in (*self.record.devices, *self.tree.scopes[""].devices) if d}
        return ((name, color_of(name)) for name in sorted(used, key=device_order))

    def _keep_within(self, limit: int) -> str:
        """Close the scopes opened first until at most `limit` nodes are visible."""
        shut = 0
        while self._visible_count() > limit and len(self._opened) > 1:
            newest = self.tree.ancestors(next(reversed(self._opened)))
            oldest = next((id for id in self._opened if id not in newest), None)
            if oldest is None:
                break
            del self._opened[oldest]
            shut += 1
        what = "1 scope was" if shut == 1 else f"{shut} scopes were"
        return f"{what} closed to keep the drawing under {limit} nodes." if shut else ""

    def _visible_count(self) -> int:
        total = self.tree.children("")
        for id in self._opened:
            if all(above in self._opened for above in self.tree.ancestors(id)):
                total += self.tree.children(id) - 1
        return total

    def _cut(self, visible: Counter[str], limit: int) -> int:
        """Drop operations beyond `limit` from a scope that is too full even alone; how many operations that hides."""
        excess = len(visible) - limit
        if excess <= 0:
            return 0
        dropped = [id for id in visible if id in self.tree.nodes][-excess:]
        hidden = sum(visible.pop(id) for id in dropped)
        return hidden

    def _node(self, id: str, count: int, around: int) -> GraphNode:
        if self._is_scope(id, count):
            return self._scope(id, around, False)
        record = self.tree.nodes[id]
        return GraphNode(id, "op", form_of(record), record.type, record.device, 1, 1, around, False)

    def _scope(self, id: str, around: int, open: bool) -> GraphNode:
        scope, own = self.tree.scopes[id], self.tree.nodes.get(id)
        form = "mixed" if len(scope.devices) > 1 else "scope"
        if own is not None and form_of(own) == "variable":
            form = "variable"
        elif scope.kind == "stack":
            form = "stack"
        [(where, _)] = scope.devices.most_common(1)
        return GraphNode(id, "scope", form, "", where, scope.count, scope.alike, around, open, self.tree.alike.get(id, 0))

    def _seconds(self, nodes: Mapping[str, GraphNode]) -> dict[str, str]:
        """The second line of labels in pictures."""
        lines = {}
        for id, node in nodes.items():
            label = id.rpartition("/")[2]
            plain = label.rstrip("_0123456789").lower() == node.type.replace("_", "").lower()
            hidden = self._unseen.get(id, 0)
            if node.kind == "scope":
                lines[id] = f"{node.count:,} operation{'s' if node.count != 1 else ''}"
            elif hidden:
                lines[id] = f"read by {hidden} others (not drawn)"
            else:
                lines[id] = "fed" if node.type == "argument" else "" if plain or label.startswith(node.type) else node.type
        return lines

    def _title(self, id: str, node: GraphNode) -> str:
        """What the tooltip in a picture says, a fact a line."""
        if node.kind == "scope":
            where = self.tree.scopes[id].devices.most_common()
            return f"{id}: {node.count:,} operations\n" + "\n".join(f"{n:,} on {short_device(d)}" for d, n in where)
        return title(self.tree.nodes[id])

    def _connect(self, places: Mapping[str, int]) -> GraphEdges:
        bundles = sorted(b for b in self._owners.bundles() if b.source in places and b.target in places)
        degrees = Counter(bundle.source for bundle in bundles)
        self._unseen = {id: n for id, n in degrees.items() if n > CHIPS and self._is_hub(id, n)}
        rows = [(places[bundle.source], places[bundle.target],
                 *self._line(bundle, self._is_hub(bundle.source, degrees[bundle.source])))
                for bundle in bundles if bundle.source not in self._unseen]
        return GraphEdges(*([list(column) for column in zip(*rows)] if rows else ([], [], [], [], [])))

    def _is_hub(self, id: str, degree: int) -> bool:
        node = self.tree.nodes.get(id)
        small = node is not None and node.type.lower() in _SOURCES
        return degree > (HUB if small else BUSY_HUB)

    def _line(self, bundle: Bundle, aside: bool) -> tuple[int, int, str]:
        """Bytes, kind and label of a line."""
        label = f"{bundle.tensors:,} tensors" if bundle.tensors else ""
        if bundle.tensors == 1:
            outputs, index = self.tree.nodes[bundle.edge.source].outputs, bundle.edge.index
            label = shape_text(outputs[index][1]) if index < len(outputs) else ""
        return bundle.nbytes, ASIDE if aside else TENSORS if bundle.tensors else CONTROL, label


def _mark(found: Counter[int], count: int) -> int:
    [(mark, many)] = found.most_common(1)
    return mark if many == count else CHANGED


def shape_text(shape: tuple[int | None, ...] | None) -> str:
    """"100×10" of a matrix; "" of vectors and scalars, which are not worth a label."""
    return "×".join("?" if d is None else str(d) for d in shape) if shape and len(shape) > 1 else ""
