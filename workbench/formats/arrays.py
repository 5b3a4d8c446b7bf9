"""TensorArrays of a graph that are no more than values become lists, through which gradients pass: nodes of other types."""
from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from workbench.formats.messages import message

__all__ = ["LISTED", "as_lists"]

LISTED = "Listed"      # before the types of nodes that mean the same of a list
_MAKER, _VERSIONS = "TensorArray", ("", "V2", "V3")
_FLOWS = {"TensorArrayWrite": 3, "TensorArrayScatter": 3, "TensorArraySplit": 3, "TensorArrayRead": 2, "TensorArrayGather": 2,
          "TensorArrayConcat": 1, "TensorArraySize": 1, "TensorArrayClose": None}
"""What is done with an array -> at which of its inputs the flow stands; the handle is its first."""
_WRITES = ("TensorArrayWrite", "TensorArrayScatter", "TensorArraySplit")
_PASSES = {"Identity": 1, "Enter": 1, "Exit": 1, "NextIteration": 1, "Switch": 2, "Merge": 1}
"""What hands on values -> how many of its outputs are what was given."""


def as_lists(proto: Any, taken: Collection[str]) -> Any:
    """`proto`, a GraphDef, with lists in the place of arrays; itself where there are none.

    An array stays one of a step where its gradients are in the graph already, or where others than its own operations read it:
    its handle or its flow, or one of the tensors `taken` ("name:0").
    """
    if not any(_plain(node.op) == _MAKER for node in proto.node):
        return proto
    graph = _Readers(proto)
    changed: dict[str, Any] = {}
    for node in proto.node:
        if _plain(node.op) == _MAKER:
            changed.update((name, node) for name in graph.uses(node, taken))
    found = message("GraphDef")(versions=proto.versions, library=proto.library)
    found.node.extend(_listed(node, changed[node.name]) if node.name in changed else node for node in proto.node)
    for node in found.node:
        if node.op in _PASSES and any(text.partition(":")[0] in changed for text in node.input):
            node.attr.pop("_output_shapes", None)      # handles were vectors of two strings
    return found


def _plain(kind: str) -> str:
    """A node's type without its version."""
    return kind[:-2] if kind[-2:] in _VERSIONS else kind


def _listed(node: Any, maker: Any) -> Any:
    """A node of an array as one of a list, which is told what the array was made with."""
    made = message("NodeDef")()
    made.CopyFrom(node)
    made.op = LISTED + _plain(node.op)
    for key in ("dtype", "element_shape", "dynamic_size"):
        if key in maker.attr and (key != "element_shape" or key not in node.attr):
            made.attr[key].CopyFrom(maker.attr[key])
    return made


class _Another(Exception):
    """Something else than an operation of arrays reads it."""


class _Readers:
    """Who reads which output of a graph."""

    def __init__(self, proto: Any) -> None:
        self.readers: dict[str, list[tuple[Any, int]]] = {}
        for node in proto.node:
            for position, text in enumerate(_data(node)):
                self.readers.setdefault(text, []).append((node, position))

    def uses(self, maker: Any, taken: Collection[str]) -> list[str]:
        """The names of the nodes of an array that can be a list, its maker's among them; none of another."""
        try:
            handles = self._reached([f"{maker.name}:0"], {})
            uses = {node.name: node for text in handles for node, _ in self.readers.get(text, ()) if _plain(node.op) in _FLOWS}
            made = [f"{name}:0" for name, node in uses.items() if _plain(node.op) in _WRITES]
            flows = self._reached([f"{maker.name}:1", *made], uses)
        except _Another:
            return []
        whole = all(_data(node)[0] in handles and (place is None or _data(node)[place] in flows)
                    for node in uses.values() for place in (_FLOWS[_plain(node.op)],))
        merged = all(text in flows for node in self._passed(flows) if node.op == "Merge" for text in _data(node))
        return [maker.name, *uses] if whole and merged and not (handles | flows) & set(taken) else []

    def _passed(self, outputs: Collection[str]) -> Iterator[Any]:
        return (node for text in outputs for node, _ in self.readers.get(text, ()) if node.op in _PASSES)

    def _reached(self, outputs: list[str], uses: dict[str, Any]) -> set[str]:
        """The outputs that hand on these; of handles, without `uses`, only what no iteration and no branch gives."""
        found, left = set(outputs), list(outputs)
        while left:
            for node, position in self.readers.get(left.pop(), ()):
                kind = _plain(node.op)
                if node.op in _PASSES and position < (1 if node.op == "Switch" else len(node.input)) and (
                        uses or node.op in ("Identity", "Enter", "Switch")):
                    new = {f"{node.name}:{i}" for i in range(_PASSES[node.op])} - found
                    found |= new
                    left += new
                elif kind not in _FLOWS or position != (_FLOWS[kind] if node.name in uses else 0):
                    raise _Another
        return found


def _data(node: Any) -> list[str]:
    return [text if ":" in text else f"{text}:0" for text in node.input if not text.startswith("^")]
