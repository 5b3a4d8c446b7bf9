"""Nested structures (lists, tuples, dicts, named tuples) of what branches and loops pass around: flat and back."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices
from workbench.core.graph.shape import Shape

__all__ = ["Structure", "analyze", "flatten_up_to", "pack", "register"]


@dataclass(frozen=True)
class Structure:
    """The shape of a nested value: `kind` "*" is one leaf, "None" nothing, else a container with named children."""

    kind: str
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()
    rebuild: Callable[[list[Any]], Any] = field(default=lambda parts: parts[0], compare=False)
    shapes: Callable[[Shape], list[Shape]] | None = field(default=None, compare=False)      # of the parts, by that of the whole

    def __str__(self) -> str:
        if not self.keys and self.kind in ("*", "None"):
            return self.kind
        inner = ", ".join(str(c) if isinstance(k, int) else f"{k}: {c}" for k, c in zip(self.keys, self.children))
        return f"{self.kind}({inner})"

    @property
    def count(self) -> int:
        """Number of leaves."""
        return 1 if self.kind == "*" else sum(child.count for child in self.children)


LEAF = Structure("*")
NOTHING = Structure("None", rebuild=lambda parts: None)

_registered: dict[type, tuple[Callable[[Any], Sequence[Any]], Callable[[Any, list[Any]], Any]]] = {}


def register(kind: type, parts: Callable[[Any], Sequence[Any]], rebuild: Callable[[Any, list[Any]], Any]) -> None:
    """Let values of `kind` be structures: `parts(value)` are its children, `rebuild(value, parts)` a new value."""
    _registered[kind] = parts, rebuild


register(IndexedSlices,
         lambda s: [s.values, s.indices] + ([] if s.dense_shape is None else [s.dense_shape]),
         lambda s, parts: IndexedSlices(*parts))


def analyze(value: Any) -> tuple[Structure, list[Any]]:
    """(structure, leaves in order); dictionaries are ordered by their keys."""
    if value is None:
        return NOTHING, []
    opened = _open(value)
    if opened is None:
        return LEAF, [value]
    keys, parts, rebuild = opened
    found = [analyze(part) for part in parts]
    leaves = [leaf for _, flat in found for leaf in flat]
    shapes = getattr(value, "__part_shapes__", None)
    return Structure(type(value).__name__, keys, tuple(s for s, _ in found), rebuild, shapes), leaves


def _open(value: Any) -> tuple[tuple[Any, ...], list[Any], Callable[[list[Any]], Any]] | None:
    if hasattr(value, "__parts__"):      # of the user level: () -> (parts, function that makes a new one from new parts)
        own, rebuilt = value.__parts__()
        return tuple(range(len(own))), list(own), rebuilt
    if type(value) in _registered:
        parts, rebuild = _registered[type(value)]
        found = list(parts(value))
        return tuple(range(len(found))), found, lambda new: rebuild(value, new)
    if isinstance(value, dict):
        keys = sorted(value, key=str)
        kind, order = type(value), list(value)
        return tuple(keys), [value[k] for k in keys], lambda new: kind(
            (k, dict(zip(keys, new))[k]) for k in order)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(value._fields), list(value), lambda new: type(value)(*new)
    if isinstance(value, (list, tuple)):
        return tuple(range(len(value))), list(value), type(value)
    return None


def pack(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The value of `structure` with these leaves; the inverse of analyze."""
    return _pack(structure, iter(leaves))


def _pack(structure: Structure, leaves: Iterator[Any]) -> Any:
    if structure.kind == "*" and not structure.keys:
        return next(leaves)
    return structure.rebuild([_pack(child, leaves) for child in structure.children])


def flatten_up_to(structure: Structure, value: Any, where: str) -> list[Any]:
    """What `value` holds at each leaf of `structure` (shapes, dtypes: whatever is found there)."""
    if structure.kind == "*":
        return [value]
    if structure.kind == "None":
        return []
    if isinstance(value, Shape) and structure.shapes is not None:
        value = structure.shapes(value)[:len(structure.children)]
    opened = None if value is None else _open(value)
    if opened is None or len(opened[1]) != len(structure.children):
        raise errors.InvalidArgumentError(f"{where}: {value!r} does not follow the structure {structure}; "
                                          "give one entry for each of its parts (the two structures don't have the same number "
                                          "of elements)")
    return [leaf for child, part in zip(structure.children, opened[1]) for leaf in flatten_up_to(child, part, where)]
