"""The part of a meta graph below one name scope, its names without the scope; inputs from outside wait for an input map."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench import errors
from workbench.formats.messages import message
from workbench.nn.contrib.framework import strip_name_scope

__all__ = ["UNBOUND", "below", "check_bound", "cut"]

UNBOUND = "unbound_inputs"      # the collection that names the inputs from outside
_PREFIX = "$unbound_inputs_"
_FIRST = {"VariableDef": "variable_name", "QueueRunnerDef": "queue_name"}      # by it a message is inside of a scope or not


def _inside(name: str, scope: str) -> bool:
    return name.startswith(f"{scope}/")


def below(proto: Any, scope: str | None) -> Any:
    """A VariableDef or QueueRunnerDef with its names stripped of `scope`; None where it stands outside."""
    if not scope:
        return proto
    if not _inside(getattr(proto, _FIRST[proto.DESCRIPTOR.name]), scope):
        return None
    for field, value in proto.ListFields():
        if isinstance(value, str):
            setattr(proto, field.name, strip_name_scope(value, scope))
        elif field.name.endswith("_op_name"):
            value[:] = [strip_name_scope(name, scope) for name in value]
    return proto


def cut(proto: Any, scope: str, unbound: str | None = UNBOUND) -> None:
    """Leave of a MetaGraphDef what stands below `scope`, without the scope in its names.

    What a node reads from outside is called "$unbound_inputs_<name>", and listed in the collection `unbound`.
    """
    scope = scope.rstrip("/")
    nodes = [node for node in proto.graph_def.node if _inside(node.name, scope)]
    outside: dict[str, None] = {}
    for node in nodes:
        node.name = strip_name_scope(node.name, scope)
        node.input[:] = [_input(text, scope, outside) for text in node.input]
        if "_class" in node.attr:
            kept = [text for text in node.attr["_class"].list.s if _inside(text.decode().removeprefix("loc:@"), scope)]
            node.attr["_class"].list.s[:] = [b"loc:@" + strip_name_scope(text.decode().removeprefix("loc:@"), scope).encode()
                                             for text in kept]
    kept_graph = message("GraphDef")(versions=proto.graph_def.versions, library=proto.graph_def.library, node=nodes)
    proto.graph_def.CopyFrom(kept_graph)
    for key in list(proto.collection_def):
        _cut_collection(proto, key, scope)
    if unbound and outside:
        proto.collection_def[unbound].bytes_list.value[:] = [text.encode() for text in outside]


def _input(text: str, scope: str, outside: dict[str, None]) -> str:
    mark = "^" * text.startswith("^")
    name = text.removeprefix("^")
    if _inside(name, scope):
        return mark + strip_name_scope(name, scope)
    outside[f"{mark}{_PREFIX}{name}"] = None
    return f"{mark}{_PREFIX}{name}"


def _cut_collection(proto: Any, key: str, scope: str) -> None:
    kept = proto.collection_def[key]
    if kept.HasField("node_list"):
        kept.node_list.value[:] = [strip_name_scope(name, scope) for name in kept.node_list.value if _inside(name, scope)]
        if not kept.node_list.value:
            del proto.collection_def[key]


def check_bound(proto: Any, input_map: Mapping[str, Any], unbound: str | None) -> None:
    """InvalidArgumentError where a meta graph has inputs from outside that `input_map` does not give."""
    if not unbound or unbound not in proto.collection_def:
        return
    needed = [text.decode() for text in proto.collection_def[unbound].bytes_list.value]
    if set(needed) - set(input_map):
        raise errors.InvalidArgumentError(f"import_meta_graph: Graph contains unbound inputs: {', '.join(needed)}. Must "
                                          f"provide these inputs through input_map; it has [{', '.join(map(str, input_map))}]")
