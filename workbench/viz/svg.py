"""DOT to SVG that is safe to insert into a page and takes its colours from the page's style sheet."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from workbench import errors
from workbench.viz import layouts

__all__ = ["clean", "to_places", "to_plain", "to_svg"]

_NS = "{http://www.w3.org/2000/svg}"
_TITLE = "{http://www.w3.org/1999/xlink}title"
_ELEMENTS = frozenset(("svg", "g", "title", "path", "polygon", "polyline", "ellipse", "text"))
_ATTRIBUTES = frozenset(
    (
        "class",
        "cx",
        "cy",
        "d",
        "fill",
        "fill-opacity",
        "font-family",
        "font-size",
        "font-weight",
        "points",
        "rx",
        "ry",
        "stroke",
        "stroke-dasharray",
        "stroke-opacity",
        "stroke-width",
        "text-anchor",
        "transform",
        "viewBox",
        "x",
        "y",
    )
)
_one_at_a_time = threading.Lock()  # the Graphviz library keeps global state


def to_svg(dot: str, deadline: float | None = None, milliseconds: Mapping[str, float] | None = None) -> str:
    """The drawing of `dot`, cleaned (see `clean`), its nodes marked with their `milliseconds`.

    With a `deadline` (seconds) the layout runs in a process of its own, which is ended when it takes longer; without
    one it runs in this process. Raises DeadlineExceededError, and InvalidArgumentError for text that is not DOT.
    """
    return clean(_laid_out(dot, "svg", deadline), milliseconds)


def to_plain(dot: str, deadline: float | None = None) -> str:
    """Where everything of `dot` lies, in Graphviz's plain format; ends and raises as `to_svg` does."""
    return _laid_out(dot, "plain", deadline)


def to_places(dots: Sequence[str], still: str, deadline: float) -> tuple[list[Any], str]:
    """Where everything of each of `dots` lies, as Graphviz's JSON, and the drawing of `still`, cleaned.

    What is there twice is laid out once. Ends after `deadline` s and raises as `to_svg` does.
    """
    wanted = {dot: ["json0"] for dot in dots}
    wanted.setdefault(still, []).append("svg")
    made = _outside(wanted, deadline)
    places = {dot: json.loads(found[0]) for dot, found in made.items() if wanted[dot][0] == "json0"}
    return [places[dot] for dot in dots], clean(made[still][-1])


def _laid_out(dot: str, form: str, deadline: float | None) -> str:
    if deadline is not None:
        return _outside({dot: [form]}, deadline)[dot][0]
    try:
        with _one_at_a_time:
            return layouts.forms(dot, [form])[0]
    except (ValueError, OSError) as bad:
        raise errors.InvalidArgumentError(f"graph layout: {bad}; check the DOT text") from bad


def _outside(wanted: Mapping[str, Sequence[str]], deadline: float) -> dict[str, list[str]]:
    """DOT text -> its `wanted` forms, laid out in one process, which ends after `deadline` seconds."""
    try:
        done = subprocess.run([sys.executable, "-I", layouts.__file__], input=json.dumps(wanted).encode(), capture_output=True,
                              timeout=deadline, check=False)
    except subprocess.TimeoutExpired as slow:
        raise errors.DeadlineExceededError(f"graph layout: it took longer than {deadline} s for {sum(map(len, wanted)):,} "
                                           "characters of DOT; close some scopes") from slow
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise errors.InvalidArgumentError(f"graph layout: {reason[-1] if reason else 'failed'}; check the DOT text")
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def clean(svg: str, milliseconds: Mapping[str, float] | None = None) -> str:
    """`svg` as Graphviz writes it, reduced to shapes and text: no scripts, links, images, styles or foreign content.

    Each node, edge and cluster group carries `data-id` (its name in the DOT text). Nodes carry `--wb-device`, the
    colour they were given, and with `milliseconds` `--wb-strength`, 14 to 56 % by their part of the longest.
    Tooltips become `<title>`.
    """
    root = ElementTree.fromstring(svg)
    if root.tag != f"{_NS}svg":
        raise errors.InvalidArgumentError(
            f"graph layout: the drawing is a {root.tag}, not SVG; check the layout program"
        )
    most = max(milliseconds.values(), default=0.0) if milliseconds else 0.0
    for element in root.iter():
        element.attrib.pop("style", None)  # the only styles that remain are ours
    for group in root.iter(f"{_NS}g"):
        _describe(group)
        if milliseconds and most > 0 and group.get("data-id") in milliseconds and "node" in group.get("class", ""):
            _time(group, milliseconds[group.get("data-id", "")], most)
    made = _copy(root)
    made.set("xmlns", _NS[1:-1])
    width, height = root.get("viewBox", "0 0 100 100").split()[2:]
    made.attrib.update({"class": "wb-svg", "width": width, "height": height})
    return ElementTree.tostring(made, encoding="unicode")


def _describe(group: ElementTree.Element) -> None:
    kind = (group.get("class") or "").partition(" ")[0]
    if kind not in ("node", "cluster", "edge"):
        return
    title = group.find(f"{_NS}title")
    name = (title.text or "") if title is not None else ""
    group.set("data-id", name.removeprefix("cluster_") if kind == "cluster" else name)
    link = next((e for e in group.iter(f"{_NS}a")), None)
    if title is not None and link is not None and link.get(_TITLE):
        title.text = link.get(_TITLE)
    shape = next((e for e in group.iter() if e.get("stroke", "").startswith("#")), None)
    if kind == "node" and shape is not None:
        group.set("style", f"--wb-device:{shape.get('stroke', '')[:7]}")


def _time(group: ElementTree.Element, milliseconds: float, most: float) -> None:
    group.set("style", f"{group.get('style', '')};--wb-strength:{14 + 42 * milliseconds / most:.0f}%".lstrip(";"))
    title = group.find(f"{_NS}title")
    if title is not None:
        title.text = f"{title.text}\n{milliseconds:.3g} ms"


def _copy(element: ElementTree.Element) -> ElementTree.Element:
    name = element.tag.removeprefix(_NS)
    made = ElementTree.Element(name, {k: v for k, v in element.attrib.items() if k in _ATTRIBUTES})
    if made.get("class", "").partition(" ")[0] in ("node", "cluster", "edge"):
        made.attrib.update({k: element.attrib[k] for k in ("data-id", "style") if k in element.attrib})
    made.text = element.text if name in ("title", "text") else None
    for child in element:
        _place(made, child)
    return made


def _place(parent: ElementTree.Element, child: ElementTree.Element) -> None:
    """Links and their groups give way to what they hold; what is not on the list goes."""
    if not isinstance(child.tag, str):
        return  # a comment
    name = child.tag.removeprefix(_NS)
    if name == "a" or (name == "g" and child.get("id", "").startswith("a_")):
        for inner in child:
            _place(parent, inner)
    elif name in _ELEMENTS:
        parent.append(_copy(child))
