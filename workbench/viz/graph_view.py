"""A graph record as a drawing of at most a few hundred nodes: scopes collapsed, hubs set aside, then DOT text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workbench.core.trace import GraphRecord, NodeRecord
from workbench.viz.dot import Chip, Drawing, Line, to_dot
from workbench.viz.palette import color_of, device_order, natural, short_device
from workbench.viz.schema import DeviceColor, GraphNode, GraphView
from workbench.viz.scopes import ScopeTree, tensor_bytes

__all__ = ["GraphPicture", "choose_graph", "graph_view"]

LIMIT = 300  # visible nodes
FIRST = 24  # visible nodes before anybody opened or closed a scope
HUB = 6  # visible neighbours beyond which a variable, constant or placeholder is shown as chips
BUSY_HUB = 12  # the same for any other operation
CHIPS = 40  # chips of one hub; beyond, its edges are counted in its label instead
_SOURCES = ("constant", "const", "variable", "variablev2", "placeholder", "read", "identity")


def graph_view(
    record: GraphRecord,
    opened: Iterable[str] = (),
    closed: Iterable[str] = (),
    limit: int = LIMIT,
) -> GraphView:
    """The view of `record` with its default scopes open, plus `opened`, minus `closed`. Pure; ids are stable."""
    picture = GraphPicture(record)
    for id in opened:
        picture.expand(id)
    for id in closed:
        picture.collapse(id)
    return picture.view(limit)


def choose_graph(records: Iterable[GraphRecord], session: str) -> GraphRecord | None:
    """The newest stage of the largest executable of `session` (of all sessions when it has none); None without any."""
    newest = {record.key: record for record in records if not record.split}
    mine = [r for r in newest.values() if session and r.key.startswith(f"{session}_")] or list(newest.values())
    return max(mine, key=lambda r: len(r.nodes), default=None)


@dataclass
class _Bundle:
    """All edges between two visible nodes."""

    tensors: Counter[tuple[str, int]] = field(default_factory=Counter)
    control: int = 0
    nbytes: int = 0


class GraphPicture:
    """One graph record and which of its scopes are open; remembers its view until that changes."""

    def __init__(self, record: GraphRecord, tree: ScopeTree | None = None) -> None:
        self.record = record
        self.tree = tree or ScopeTree(record)
        self._opened = dict.fromkeys(self.tree.default_open(FIRST))  # in the order of opening
        self._owners: dict[str, str] = {}
        self._view: GraphView | None = None

    def expand(self, id: str) -> bool:
        """Open scope `id` and the scopes around it; False when there is no such scope or it is open."""
        if id not in self.tree.scopes or not id or id in self._opened:
            return False
        for scope in reversed(self.tree.ancestors(id)):
            self._opened.setdefault(scope)
        self._view = None
        return True

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

    def _draw(self, limit: int) -> GraphView:
        note = self._keep_within(limit)
        self._owners = self.tree.owners(set(self._opened))
        visible = Counter(self._owners.values())
        hidden = self._cut(visible, limit)
        nodes = {id: self._node(id, visible[id]) for id in sorted(visible, key=natural)}
        drawing = Drawing(nodes, self._clusters(nodes), colors=dict(self._colors()), shapes=self._shapes(nodes))
        self._connect(drawing)
        if hidden:
            whole = sum(visible.values()) + hidden
            note = f"{hidden:,} of {whole:,} operations are not drawn: their scope holds too many."
        chips = [
            GraphNode(c.id, c.label, "op", nodes[c.hub].device, 1, f"reference to {nodes[c.hub].title}")
            for c in drawing.chips
        ]
        return GraphView(
            self.record.key,
            to_dot(drawing),
            [*nodes.values(), *chips],
            [DeviceColor(name, color) for name, color in self._colors()],
            {},
            note,
        )

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
        return f"{shut} scopes were closed to keep the drawing under {limit} nodes." if shut else ""

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

    def _node(self, id: str, count: int) -> GraphNode:
        """NOTE: an operation inside an open scope of its own name is an operation, not that scope."""
        if id in self.tree.scopes and id not in self._opened:
            scope = self.tree.scopes[id]
            where = scope.devices.most_common()
            title = f"{id}: {count:,} operations\n" + "\n".join(f"{n:,} on {short_device(d)}" for d, n in where)
            return GraphNode(id, id.rpartition("/")[2], "scope", where[0][0], count, title)
        record = self.tree.nodes[id]
        return GraphNode(id, id.rpartition("/")[2], "op", record.device, 1, _title(record))

    def _clusters(self, nodes: Mapping[str, GraphNode]) -> dict[str, str]:
        """Visible node -> open scope it is drawn in."""
        around = {}
        for id, node in nodes.items():
            home = self.tree.scopes[id].parent if node.kind == "scope" else self.tree.home[id]
            around[id] = home or ""
        return around

    def _shapes(self, nodes: Mapping[str, GraphNode]) -> dict[str, tuple[str, str]]:
        """Visible node -> (form, second line of the label)."""
        shapes = {}
        for id, node in nodes.items():
            if node.kind == "scope":
                form = "mixed" if len(self.tree.scopes[id].devices) > 1 else "scope"
                own = self.tree.nodes.get(id)
                if own is not None and _form(own) == "variable":
                    form = "closed_variable"
                shapes[id] = (form, f"{node.count:,} operation{'s' if node.count != 1 else ''}")
            else:
                kind = self.tree.nodes[id].type
                plain = node.label.rstrip("_0123456789").lower() == kind.replace("_", "").lower()
                shapes[id] = (_form(self.tree.nodes[id]), "" if plain or node.label.startswith(kind) else kind)
        return shapes

    def _connect(self, drawing: Drawing) -> None:
        bundles: dict[tuple[str, str], _Bundle] = defaultdict(_Bundle)
        owners, visible = self._owners, drawing.nodes
        for edge in self.tree.edges:
            ends = owners[edge.source], owners[edge.target]
            if ends[0] != ends[1] and ends[0] in visible and ends[1] in visible:
                bundle = bundles[ends]
                if edge.index < 0:
                    bundle.control += 1
                else:
                    bundle.tensors[edge.source, edge.index] += 1
        degrees: Counter[str] = Counter(source for source, _ in bundles)
        for (source, target), bundle in sorted(bundles.items()):
            if self._is_hub(source, degrees[source]):
                self._chip(drawing, source, target, degrees[source])
            else:
                drawing.lines.append(self._line(source, target, bundle))

    def _is_hub(self, id: str, degree: int) -> bool:
        node = self.tree.nodes.get(id)
        small = node is not None and node.type.lower() in _SOURCES
        return degree > (HUB if small else BUSY_HUB)

    @staticmethod
    def _chip(drawing: Drawing, hub: str, target: str, degree: int) -> None:
        if degree > CHIPS:
            drawing.shapes[hub] = (drawing.shapes[hub][0], f"read by {degree} others (not drawn)")
            return
        drawing.chips.append(Chip(f"{hub} → {target}", hub, target, drawing.nodes[hub].label))

    def _line(self, source: str, target: str, bundle: _Bundle) -> Line:
        outputs = [self._output(*tensor) for tensor in bundle.tensors]
        nbytes = sum(tensor_bytes(*output) for output in outputs)
        if len(outputs) == 1 and len(outputs[0][1] or ()) > 1:
            label = "×".join("?" if d is None else str(d) for d in outputs[0][1] or ())
        else:
            label = f"{len(outputs)} tensors" if len(outputs) > 1 else ""
        return Line(source, target, label, nbytes, control=not outputs, tensor=f"{source} {label}")

    def _output(self, name: str, index: int) -> tuple[str, tuple[int | None, ...] | None]:
        outputs = self.tree.nodes[name].outputs
        return outputs[index] if index < len(outputs) else ("", None)


def _form(record: NodeRecord) -> str:
    kind = record.type.lower()
    if kind in ("send", "recv"):
        return kind
    for word, form in (
        ("placeholder", "placeholder"),
        ("argument", "placeholder"),
        ("const", "constant"),
        ("variable", "variable"),
    ):
        if kind.startswith(word):
            return form
    return "op"


def _title(record: NodeRecord) -> str:
    """What the tooltip of an operation says, a fact a line."""
    shapes = ", ".join(
        f"{dtype}[{'?' if shape is None else ', '.join('?' if d is None else str(d) for d in shape)}]"
        for dtype, shape in record.outputs
    )
    lines = [
        f"{record.name}: {record.type}",
        f"gives {shapes}" if shapes else "",
        f"on {short_device(record.device)}" if record.device else "not placed yet",
        f"requested: {record.request}" if record.request else "",
        f"built at {record.source}" if record.source else "",
    ]
    return "\n".join(filter(None, lines))
