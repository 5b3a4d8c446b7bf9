"""What summaries are called, and the collections that they stand in."""
from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from typing import Any

from workbench.core.graph.graph import Tensor
from workbench.core.graph.subgraph import root_graph
from workbench.nn.framework import name_scope
from workbench.nn.variables import GraphKeys

__all__ = ["clean", "collected", "scope"]

_logger = logging.getLogger("workbench")


def clean(name: str | None) -> str | None:
    """A name that an operation can have."""
    if name is None:
        return None
    found = re.sub(r"[^-/\w.]", "_", name, flags=re.ASCII).lstrip("/")
    if found != name:
        _logger.info("Summary name %s is illegal; using %s instead.", name, found)
    return found


@contextlib.contextmanager
def scope(name: str | None, family: str | None = None, default_name: str | None = None,
          values: Any = None) -> Iterator[tuple[str, str]]:
    """(tag, name of the operation): the name below the scopes around it, made different from those of other summaries; a
    family stands before it once more, so that its summaries are shown together."""
    name, family = clean(name) or default_name or "summary", clean(family)
    with name_scope(name if family is None else f"{family}/{name}", None, values) as inner:
        tag = inner.rstrip("/")
        yield tag if family is None else f"{family}/{tag}", inner


def collected(made: Tensor, collections: Any, default: Any = (GraphKeys.SUMMARIES,)) -> Tensor:
    """A summary, put into these collections."""
    for key in default if collections is None else collections:
        root_graph().add_to_collection(key, made)
    return made
