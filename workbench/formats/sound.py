"""What is wrong with a GraphDef before anything is built of it: names, places, and types that inputs do not have."""
from __future__ import annotations

import re
from typing import Any

from workbench import errors
from workbench.core.graph.dtype import DType
from workbench.formats.twins import Node

__all__ = ["MIN_CONSUMER", "PRODUCER", "UnknownOperationError", "check_graph", "check_type"]

PRODUCER, MIN_CONSUMER = 22, 0      # of GraphDef's versions: those of TensorFlow 1.0, which every later one reads

_NAME = re.compile(r"^[A-Za-z0-9_.][A-Za-z0-9_.\\/>-]*$")
_NONE = {"object", "quantized"}      # kinds of types of which `T` may tell something else


class UnknownOperationError(errors.UnimplementedError, ValueError):
    """A GraphDef has operations of types that are not offered; a ValueError, as in TensorFlow 1.x."""


def check_graph(proto: Any) -> None:
    """InvalidArgumentError for versions that do not admit ours, a name that is none, a node that shall stand with one that is
    not there, or inputs in no order."""
    _check_versions(proto.versions)
    names = {node.name for node in proto.node}
    for node in proto.node:
        if not _NAME.match(node.name):
            raise errors.InvalidArgumentError(f"import_graph_def: {node.name!r} ({node.op}) is not a valid node name; use "
                                              "letters, digits, _ . - /")
        waits = [text.startswith("^") for text in node.input]
        if waits != sorted(waits):
            raise errors.InvalidArgumentError(
                f"import_graph_def: node {node.name!r} reads {list(node.input)}: control dependencies must come after regular "
                f"dependencies; put {node.input[waits.index(True)]!r} last (Node {node.name!r}: Control dependencies must come "
                "after regular dependencies)")
        for text in node.attr["_class"].list.s if "_class" in node.attr else ():
            place = text.decode(errors="replace")
            if place.startswith("loc:@") and place[5:] not in names:
                raise errors.InvalidArgumentError(f"import_graph_def: node {node.name!r} expects to be colocated with unknown "
                                                  f"node {place[5:]!r}; the graph is incomplete")


def _check_versions(versions: Any) -> None:
    """As TensorFlow checks what a graph asks of those who read it; this is a reader of version PRODUCER."""
    if versions.min_consumer > PRODUCER:
        wrong = f"GraphDef min consumer version {versions.min_consumer} above current version {PRODUCER}"
    elif PRODUCER in versions.bad_consumers:
        wrong = f"GraphDef disallows consumer version {PRODUCER}"
    elif versions.producer < 0:
        wrong = f"GraphDef producer version {versions.producer} below min producer 0 supported here"
    else:
        return
    raise errors.InvalidArgumentError(f"import_graph_def: {wrong}; write the graph anew, for TensorFlow 1.0")


def check_type(node: Node) -> None:
    """InvalidArgumentError where no input has the element type that the attribute `T` says."""
    wanted = node.attr("T") if node.has("T") else None
    found = [t.op.attrs["dtype"] if t.op.kind == "variable" else t.dtype for t in node.inputs]
    if isinstance(wanted, DType) and found and all(wanted is not d and not {d.kind, wanted.kind} & _NONE for d in found):
        raise errors.InvalidArgumentError(
            f"{node.where}: its type T is {wanted.name} but it was passed {', '.join(d.name for d in found)}, which is "
            f"incompatible with expected {wanted.name}; cast what it reads")
