"""Seeds of random operations as attributes hold them: signed numbers of 64 bits."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.graph import Operation
from workbench.formats.twins import Node
from workbench.formats.values import attr

__all__ = ["read_seeds", "written_seeds"]

_KEYS = ("seed", "seed2")


def written_seeds(op: Operation) -> dict[str, Any]:
    """The attributes with the seeds of an operation."""
    return {key: attr("i", op.attrs[key] - 2**64 if op.attrs[key] >= 2**63 else op.attrs[key]) for key in _KEYS}


def read_seeds(node: Node) -> dict[str, int]:
    """The seeds of a node, as our operations take them."""
    return {key: node.attr(key, 0) % 2**64 for key in _KEYS}
