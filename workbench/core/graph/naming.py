"""Names of a graph's operations: which are taken, and the next one that is free."""
from __future__ import annotations

import re
from typing import Any

from workbench import errors

__all__ = ["Names", "checked", "text_name"]

_NAME = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\-/\\]*$")


class Names:
    """The names in use; they differ by more than case. Not safe to use from several threads at once."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}      # in small letters -> how many were made of it
        self._used: list[str] = []             # names that are not among them yet: most graphs are never asked for a new one
        self.use = self._used.append
        """Take a name, which its operation has already."""

    @property
    def _taken(self) -> dict[str, int]:
        if self._used:
            for name in self._used:
                self._counts.setdefault(name.lower(), 1)
            self._used.clear()
        return self._counts

    def next(self, name: str) -> str:
        """`name`, or `name_1`, `name_2` … when taken; taken from now on."""
        taken, key, found = self._taken, name.lower(), self.following(name)
        taken[key] = taken.get(key, 0) + 1
        taken.setdefault(found.lower(), 1)
        return found

    def following(self, name: str) -> str:
        """What `next` would give; nothing is taken."""
        taken = self._taken
        count = taken.get(name.lower(), 0)
        candidate = name if count == 0 else f"{name}_{count}"
        while count and candidate.lower() in taken:
            count += 1
            candidate = f"{name}_{count}"
        return candidate

    def free(self, name: str) -> None:
        """The operation of that name is gone."""
        self._taken.pop(name.lower(), None)


def text_name(name: Any) -> str:
    """`name` if it is a text, else DtypeError (a TypeError)."""
    if not isinstance(name, str):
        raise errors.DtypeError(f"graph: {name!r} is a {type(name).__name__}; names are strings (or similar)")
    return name


def checked(name: str, within: bool = False) -> str:
    """`name` if an operation or a scope, at the root or `within` a scope, may be called so, else InvalidArgumentError."""
    if name.startswith("_") and not within:
        raise errors.InvalidArgumentError(f"graph: {name!r} is not a valid root scope name; use a letter, a digit or . first")
    if not _NAME.match(f".{name}" if within else name):
        raise errors.InvalidArgumentError(f"graph: {name!r} is not an operation name; use letters, digits, _ . - /")
    return name
