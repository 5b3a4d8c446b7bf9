"""Collections of a graph: lists of whatever belongs to it, under names that programs agree on."""
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

__all__ = ["Collections"]


class Collections:
    """Lists by name, which a body shares with the graph around it; and the tensors that record themselves."""

    def __init__(self) -> None:
        self.collected: dict[str, list[Any]] = {}      # name -> its list
        self.followed: set[str] = set()      # names

    def follow(self, tensor: Any) -> None:
        """Let `tensor`, a floating-point scalar, record its value in each step that fetches it, as a loss does by its name."""
        self.followed.add(tensor.name)

    def add_to_collection(self, name: str, value: Any) -> None:
        """Append `value` to the list that is kept under `name`."""
        self.collected.setdefault(name, []).append(value)

    def add_to_collections(self, names: Sequence[str] | str, value: Any) -> None:
        """Append `value` to each of the collections, once."""
        for name in dict.fromkeys([names] if isinstance(names, str) else names):
            self.add_to_collection(name, value)

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """A copy of the collection `name`; `scope` is a regular expression that names must begin with: no item without one."""
        found = self.collected.get(name, [])
        if scope is None:
            return list(found)
        return [item for item in found if hasattr(item, "name") and re.match(scope, item.name)]

    def get_collection_ref(self, name: str) -> list[Any]:
        """The collection `name` itself, made when there is none."""
        return self.collected.setdefault(name, [])

    def get_all_collection_keys(self) -> list[str]:
        """The names of the collections there are."""
        return list(self.collected)

    collections = property(get_all_collection_keys)

    def clear_collection(self, name: str) -> None:
        """Empty a collection; fine when there is none."""
        self.collected.pop(name, None)
