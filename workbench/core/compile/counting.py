"""Which operations count: to state it makes a difference whether they are done once or twice."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.core.graph.opdef import OpDef

__all__ = ["counts", "gives_value"]


def counts(definition: OpDef, attrs: Mapping[str, Any]) -> bool:
    """Must a step that is tried again not do it again?

    Updates of variables do, and what says so in its definition. What has a worker's name and a step says itself what
    it counts for (`SyncReplicasOptimizer`), and so do tokens, clocks and pushes.
    """
    return gives_value(definition) or (definition.counts and not attrs.get("worker"))


def gives_value(definition: OpDef) -> bool:
    """Does it change a variable, its first input, and give what that is now?"""
    types = definition.types if isinstance(definition.types, str) else ""
    return definition.stateful and types.startswith("resource ") and types.endswith("-> T")
