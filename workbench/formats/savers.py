"""Which variables a saver of a meta graph restores, and what they are called in its checkpoints: as its nodes say."""
from __future__ import annotations

from typing import Any

__all__ = ["keys_of"]

_ASSIGNS = ("Assign", "AssignVariableOp")
_RESTORES = ("RestoreV2", "Restore", "RestoreSlice")


def keys_of(graph_def: Any, saver_def: Any) -> dict[str, str]:
    """Name of a variable -> its key in checkpoints, for those that the SaverDef's nodes assign; {} where they say nothing."""
    nodes = {node.name: node for node in graph_def.node}
    found: dict[str, str] = {}
    left, seen = [saver_def.restore_op_name.removeprefix("^")], set[str]()
    while left:
        name = left.pop()
        node = nodes.get(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        if node.op in _ASSIGNS:
            key = _key(nodes, node.input[1])
            if key is not None:
                found[node.input[0].partition(":")[0]] = key
        left += [text[1:] for text in node.input if text.startswith("^")]
    return {name: found[name] for name in nodes if name in found}


def _key(nodes: dict[str, Any], text: str) -> str | None:
    """What a checkpoint calls the value that is read there; None where it comes from no checkpoint."""
    name, _, index = text.partition(":")
    node = nodes.get(name)
    while node is not None and node.op in ("Identity", "Reshape"):
        name, _, index = node.input[0].partition(":")
        node = nodes.get(name)
    if node is None or node.op not in _RESTORES:
        return None
    names = nodes.get(node.input[1].partition(":")[0])
    words = names.attr["value"].tensor.string_val if names is not None and names.op == "Const" else ()
    return words[int(index or 0)].decode() if int(index or 0) < len(words) else None
