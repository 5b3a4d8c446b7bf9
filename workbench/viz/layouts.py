"""Graphviz's layouts. Run as a program, in a process of its own, it imports nothing of ours, which would take longer."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence, Set
from typing import Any

__all__ = ["forms"]


def forms(dot: str, wanted: Sequence[str]) -> list[str]:
    """`dot` laid out, in each of the `wanted` forms that Graphviz writes: "svg", "plain", "json0" and others.

    It finds no way for some labelled edges between nodes side by side, and leaves them out without a word: those are drawn
    without their labels. Raises ValueError for text that is not DOT.
    """
    import pygraphviz  # here: it loads ten shared libraries, which only a drawing needs

    graph = pygraphviz.AGraph(string=dot)
    found = _written(graph, {"json0", *wanted})
    lost = _lost(json.loads(found["json0"]))
    if lost:
        for edge in graph.edges():
            if edge in lost:
                edge.attr["label"] = ""
        found = _written(graph, set(wanted))
    return [found[form] for form in wanted]


def _written(graph: Any, wanted: Set[str]) -> dict[str, str]:
    import pygraphviz.graphviz as library

    context = library.gvContextWithBuiltins()
    try:
        if library.gvLayout(context, graph.handle, b"dot"):
            raise ValueError("Graphviz finds no layout")
        made = {form: library.gvRenderData(context, graph.handle, form.encode()) for form in wanted}
        library.gvFreeLayout(context, graph.handle)
    finally:
        library.gvFreeContext(context)
    if failed := [form for form, (status, _) in made.items() if status]:
        raise ValueError(f"Graphviz does not write {', '.join(failed)}")
    return {form: text.decode() for form, (_, text) in made.items()}


def _lost(places: Any) -> list[tuple[str, str]]:
    """Ends of the edges that have no way."""
    names = {one["_gvid"]: one["name"] for one in places.get("objects", ())}
    return [(names[one["tail"]], names[one["head"]]) for one in places.get("edges", ()) if "pos" not in one]


if __name__ == "__main__":
    json.dump({dot: forms(dot, wanted) for dot, wanted in json.load(sys.stdin).items()}, sys.stdout)
