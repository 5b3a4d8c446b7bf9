"""DOT text of a drawing: looks, widths and the attributes that keep the layout of large graphs fast."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import log10

from workbench.viz.schema import GraphNode

__all__ = ["Chip", "Drawing", "Line", "to_dot"]

LARGE = 60  # visible nodes from which the fast layout is used
LABELS = 8  # edges that get a label: the largest tensors, each once
_FORMS = {
    "op": "box",
    "scope": "box",
    "mixed": "box",
    "stack": "box3d",
    "variable": "cylinder",
    "closed_variable": "cylinder",
    "constant": "ellipse",
    "placeholder": "invhouse",
    "send": "rarrow",
    "recv": "larrow",
}

_STYLES = {
    "op": "rounded,filled",
    "scope": "rounded,filled,bold",
    "mixed": "rounded,filled,bold,dashed",
    "stack": "filled,bold",
    "closed_variable": "filled,bold",
}
_SIZES = {
    "constant": ', fontsize=9, margin="0.01,0.01"',
    "placeholder": ', margin="0.0,0.03"',
    "scope": ', margin="0.14,0.07"',
    "mixed": ', margin="0.14,0.07"',
    "stack": ', margin="0.14,0.07"',
}


@dataclass(slots=True)
class Line:
    """One drawn edge: everything that flows from `source` to `target`."""

    source: str
    target: str
    label: str
    nbytes: int
    control: bool = False


@dataclass(slots=True)
class Chip:
    """A small stand-in for `hub`, drawn beside `target` instead of a long edge."""

    id: str
    hub: str
    target: str
    label: str


@dataclass(slots=True)
class Drawing:
    nodes: Mapping[str, GraphNode]
    clusters: Mapping[str, str]  # node -> open scope around it, "" = none
    parents: Mapping[str, str]  # open scope -> the open scope around it, "" = none
    colors: Mapping[str, str]  # device -> colour
    seconds: Mapping[str, str]  # node -> second line of its label
    titles: Mapping[str, str]  # node -> tooltip
    lines: list[Line] = field(default_factory=list)
    chips: list[Chip] = field(default_factory=list)
    marks: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # node -> (sign before its label, colour)


def to_dot(drawing: Drawing) -> str:
    """The text `dot` lays out; the same drawing always gives the same text."""
    rows = ["digraph workbench {", *_head(len(drawing.nodes) + len(drawing.chips))]
    rows += _cluster(drawing, "", _inside(drawing), "  ")
    labelled = _labelled(drawing)
    rows += (_line(line, id(line) in labelled) for line in drawing.lines)
    rows += (
        f'  {quote(c.id)} -> {quote(c.target)} [style=dotted, arrowsize=0.4, class="wb-reference"];'
        for c in drawing.chips
    )
    return "\n".join((*rows, "}")) + "\n"


def quote(text: str) -> str:
    """`text` as a DOT string: quotes and backslashes escaped, line breaks kept."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _head(size: int) -> Iterator[str]:
    """NOTE: the four attributes of the large case cut the layout of 300 nodes from ten seconds to half a second."""
    fast = "splines=line, nslimit=2, nslimit1=2, mclimit=0.3" if size > LARGE else "splines=true"
    yield f"  graph [rankdir=TB, ranksep=0.35, nodesep=0.22, bgcolor=transparent, compound=true, {fast}];"
    yield '  node [fontname="Helvetica,Arial,sans-serif", fontsize=11, margin="0.1,0.05", height=0.3, width=0.3];'
    yield '  edge [fontname="Helvetica,Arial,sans-serif", fontsize=9, arrowsize=0.6, color="#777777"];'


def _inside(drawing: Drawing) -> dict[str, tuple[set[str], list[str]]]:
    """Open scope -> (open scopes directly in it, nodes directly in it)."""
    inside: dict[str, tuple[set[str], list[str]]] = defaultdict(lambda: (set(), []))
    for id, scope in drawing.clusters.items():
        inside[scope][1].append(id)
        while scope:
            parent = drawing.parents[scope]
            inside[parent][0].add(scope)
            scope = parent
    return inside


def _cluster(
    drawing: Drawing, scope: str, inside: Mapping[str, tuple[set[str], list[str]]], indent: str
) -> Iterator[str]:
    scopes, nodes = inside[scope]
    chips: dict[str, list[Chip]] = defaultdict(list)
    for chip in drawing.chips:
        chips[chip.target].append(chip)
    for id in nodes:
        yield indent + _node(drawing, id)
        yield from (indent + _chip(drawing, chip) for chip in chips[id])
    for inner in sorted(scopes):
        label = inner.rpartition("/")[2]
        yield f"{indent}subgraph {quote('cluster_' + inner)} {{"
        yield (
            f'{indent}  graph [label={quote(label)}, labeljust=l, style=rounded, color="#99999999", '
            f'bgcolor="#8888880c", margin=8, fontname="Helvetica,Arial,sans-serif", fontsize=10, '
            f'class="wb-cluster"];'
        )
        yield from _cluster(drawing, inner, inside, indent + "  ")
        yield indent + "}"


def _node(drawing: Drawing, id: str) -> str:
    node, second = drawing.nodes[id], drawing.seconds[id]
    form = "closed_variable" if node.form == "variable" and node.kind == "scope" else node.form
    sign, color = drawing.marks.get(id, ("", drawing.colors.get(node.device, "#888888")))
    label = f"{sign}{id.rpartition('/')[2]}" + (f"\n{second}" if second else "")
    style = _STYLES.get(form, "filled")
    device = list(drawing.colors).index(node.device) if node.device in drawing.colors else "none"
    return (
        f'{quote(id)} [label={quote(label)}, shape={_FORMS[form]}, style="{style}", color="{color}", '
        f'fillcolor="{color}26"{_SIZES.get(form, "")}, tooltip={quote(drawing.titles[id])}, '
        f'class="{_class(node, form)} wb-device-{device}"];'
    )


def _class(node: GraphNode, form: str) -> str:
    return f"wb-{form.removeprefix('closed_')}" + (" wb-closed" if node.kind == "scope" else "")


def _chip(drawing: Drawing, chip: Chip) -> str:
    hub = drawing.nodes[chip.hub]
    color = drawing.colors.get(hub.device, "#888888")
    return (
        f'{quote(chip.id)} [label={quote("↗ " + chip.label)}, shape=box, style="rounded,filled", fontsize=8, '
        f'height=0.18, margin="0.05,0.02", color="{color}80", fillcolor="{color}14", '
        f'tooltip={quote("reference to " + drawing.titles[chip.hub])}, class="wb-chip"];'
    )


def _labelled(drawing: Drawing) -> set[int]:
    """The lines that get their label: the few with the largest tensors."""
    named: dict[str, Line] = {}
    for line in sorted(drawing.lines, key=lambda line: (-line.nbytes, line.source, line.target)):
        if line.label:
            named.setdefault(f"{line.source} {line.label}", line)  # the same tensor on several lines is labelled once
    return {id(line) for line in list(named.values())[:LABELS]}


def _line(line: Line, labelled: bool) -> str:
    if line.control:
        return f'  {quote(line.source)} -> {quote(line.target)} [style=dashed, class="wb-control"];'
    width = min(5.0, max(0.8, 0.6 + 0.75 * log10(1 + line.nbytes / 1024)))
    label = f"label={quote(' ' + line.label)}, " if labelled else ""
    return f'  {quote(line.source)} -> {quote(line.target)} [{label}penwidth={width:.1f}, class="wb-data"];'
