"""What is wrong with a GraphDef before anything is built of it: names, places, and types that inputs do not have."""
from __future__ import annotations

import re
from typing import Any

from workbench import errors
from workbench.core.graph.dtype import DType
from workbench.formats.twins import Node

__all__ = ["UnknownOperationError", "check_graph", "check_type"]

_NAME = re.compile(r"^[A-Za-z0-9_.][A-Za-z0-9_.\\/>-]*$")
_NONE = {"object", "quantized"}      # kinds of types of which `T` may tell something else


class UnknownOperationError(errors.UnimplementedError, ValueError):
    """A GraphDef has operations of types that are not offered; a ValueError, as in TensorFlow 1.x."""


def check_graph(proto: Any) -> None:
    """InvalidArgumentError for a name that is none, or a node that shall stand with one that is not there."""
    names = {node.name for node in proto.node}
    for node in proto.node:
        if not _NAME.match(node.name):
            raise errors.InvalidArgumentError(f"import_graph_def: {node.name!r} ({node.op}) is not a valid node name; use "
                                              "letters, digits, _ . - /")
        for text in node.attr["_class"].list.s if "_class" in node.attr else ():
            place = text.decode(errors="replace")
            if place.startswith("loc:@") and place[5:] not in names:
                raise errors.InvalidArgumentError(f"import_graph_def: node {node.name!r} expects to be colocated with unknown "
                                                  f"node {place[5:]!r}; the graph is incomplete")


def check_type(node: Node) -> None:
    """InvalidArgumentError where no input has the element type that the attribute `T` says."""
    wanted = node.attr("T") if node.has("T") else None
    found = [t.op.attrs["dtype"] if t.op.kind == "variable" else t.dtype for t in node.inputs]
    if isinstance(wanted, DType) and found and all(wanted is not d and not {d.kind, wanted.kind} & _NONE for d in found):
        raise errors.InvalidArgumentError(
            f"{node.where}: its type T is {wanted.name} but it was passed {', '.join(d.name for d in found)}, which is "
            f"incompatible with expected {wanted.name}; cast what it reads")
