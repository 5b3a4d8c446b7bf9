"""Nested lists, tuples, named tuples and dictionaries: flat and back, and functions of all their leaves."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors

__all__ = ["assert_same_structure", "flatten", "is_sequence", "map_structure", "pack_sequence_as"]


def is_sequence(seq: Any) -> bool:
    """Is it a list, tuple or dictionary?"""
    return isinstance(seq, (list, tuple, dict))


def flatten(nest: Any) -> list[Any]:
    """The leaves in order; dictionaries in the order of their keys."""
    if isinstance(nest, dict):
        return [leaf for key in sorted(nest) for leaf in flatten(nest[key])]
    if isinstance(nest, (list, tuple)):
        return [leaf for item in nest for leaf in flatten(item)]
    return [nest]


def _pack(structure: Any, leaves: Any) -> Any:
    if isinstance(structure, dict):
        made = {key: _pack(structure[key], leaves) for key in sorted(structure)}
        return type(structure)((key, made[key]) for key in structure)
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*[_pack(item, leaves) for item in structure])
    if isinstance(structure, (list, tuple)):
        return type(structure)([_pack(item, leaves) for item in structure])
    return next(leaves)


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any]) -> Any:
    """These leaves in a structure; InvalidArgumentError (ValueError) where their number differs."""
    count = len(flatten(structure))
    if count != len(flat_sequence):
        raise errors.InvalidArgumentError(f"pack_sequence_as: the structure has {count} leaves but {len(flat_sequence)} "
                                          "are given; give one for each")
    return _pack(structure, iter(flat_sequence))


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """InvalidArgumentError (ValueError) where the structures differ; TypeError where only their types do and are checked."""
    if is_sequence(nest1) != is_sequence(nest2) or (is_sequence(nest1) and len(nest1) != len(nest2)):
        raise errors.InvalidArgumentError(f"assert_same_structure: the two structures don't have the same nested structure: "
                                          f"{nest1!r} and {nest2!r}")
    if not is_sequence(nest1):
        return
    if check_types and type(nest1) is not type(nest2):
        raise TypeError(f"The two structures don't have the same sequence type. First structure has type {type(nest1)}, while "
                        f"second structure has type {type(nest2)}.")
    pairs = [(nest1[key], nest2[key]) for key in sorted(nest1)] if isinstance(nest1, dict) else zip(nest1, nest2)
    for a, b in pairs:
        assert_same_structure(a, b, check_types)


def map_structure(func: Callable[..., Any], *structure: Any, check_types: bool = True) -> Any:
    """`func` of the leaves that stand at the same place."""
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types)
    return _pack(structure[0], iter([func(*leaves) for leaves in zip(*map(flatten, structure))]))
