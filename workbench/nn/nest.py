"""Nested lists, tuples, named tuples and dictionaries: flat and back, and functions of all their leaves."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from workbench import errors

__all__ = ["assert_same_structure", "assert_shallow_structure", "flatten", "flatten_dict_items", "flatten_up_to",
           "get_traverse_shallow_structure", "is_sequence", "map_structure", "map_structure_up_to", "pack_sequence_as"]


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


def _pack(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_sequence(structure):
        return next(leaves)
    return _refilled(structure, (_pack(part, leaves) for part in _branches(structure)))


def _refilled(structure: Any, parts: Iterator[Any]) -> Any:
    """A structure of the same kind with these parts, which for a dictionary come in the order of its keys."""
    if isinstance(structure, dict):
        made = dict(zip(sorted(structure), parts))
        return type(structure)((key, made[key]) for key in structure)
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*parts)
    return type(structure)(parts)


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any]) -> Any:
    """These leaves in a structure; InvalidArgumentError (ValueError) where their number differs, TypeError where they are no
    sequence."""
    if not is_sequence(flat_sequence):
        raise TypeError(f"pack_sequence_as: flat_sequence must be a sequence but is {flat_sequence!r}; pass a list")
    count = len(flatten(structure))
    if count != len(flat_sequence):
        what = "Structure had" if is_sequence(structure) else "Structure is a scalar:"
        raise errors.InvalidArgumentError(f"pack_sequence_as: {what} {count} elements, but flat_sequence had "
                                          f"{len(flat_sequence)} elements; give one for each")
    return _pack(structure, iter(flat_sequence))


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """InvalidArgumentError (ValueError) where the structures differ; TypeError where only their types do and are checked."""
    sizes = len(flatten(nest1)), len(flatten(nest2))
    if sizes[0] != sizes[1]:
        raise errors.InvalidArgumentError(
            f"The two structures don't have the same number of elements.\n\nFirst structure ({sizes[0]} elements): {nest1}\n\n"
            f"Second structure ({sizes[1]} elements): {nest2}")
    _assert_same(nest1, nest2, check_types)


def _assert_same(nest1: Any, nest2: Any, check_types: bool) -> None:
    if is_sequence(nest1) != is_sequence(nest2) or (is_sequence(nest1) and len(nest1) != len(nest2)):
        raise errors.InvalidArgumentError(f"The two structures don't have the same nested structure.\n\nFirst structure: "
                                          f"{nest1}\n\nSecond structure: {nest2}.")
    if not is_sequence(nest1):
        return
    if check_types and type(nest1) is not type(nest2):
        raise TypeError(f"The two structures don't have the same sequence type. First structure has type {type(nest1)}, while "
                        f"second structure has type {type(nest2)}.")
    if check_types and isinstance(nest1, dict) and set(nest1) != set(nest2):
        raise errors.InvalidArgumentError(f"The two dictionaries don't have the same set of keys: {sorted(nest1)} and "
                                          f"{sorted(nest2)}.")
    for a, b in zip(_branches(nest1), _branches(nest2)):
        _assert_same(a, b, check_types)


def _branches(nest: Any) -> list[Any]:
    return [nest[key] for key in sorted(nest)] if isinstance(nest, dict) else list(nest)


def map_structure(func: Callable[..., Any], *structure: Any, check_types: bool = True) -> Any:
    """`func` of the leaves that stand at the same place; InvalidArgumentError (ValueError) without a structure."""
    if not callable(func):
        raise TypeError(f"map_structure: func must be callable but is {func!r}; pass a function")
    if not structure:
        raise errors.InvalidArgumentError("map_structure: Must provide at least one structure")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types)
    return _pack(structure[0], iter([func(*leaves) for leaves in zip(*map(flatten, structure))]))


def flatten_dict_items(dictionary: dict[Any, Any]) -> dict[Any, Any]:
    """{leaf of a key: leaf of its value}; InvalidArgumentError (ValueError) where a key has another number of leaves than its
    value, or where a leaf comes twice."""
    if not isinstance(dictionary, dict):
        raise TypeError(f"flatten_dict_items: input must be a dictionary but is a {type(dictionary).__name__}")
    found: dict[Any, Any] = {}
    for key, value in dictionary.items():
        keys, values = (flatten(key), flatten(value)) if is_sequence(key) else ([key], [value])
        if len(keys) != len(values):
            raise errors.InvalidArgumentError(f"flatten_dict_items: Key had {len(keys)} elements, but value had {len(values)} "
                                              f"elements. Key: {keys}, value: {values}.")
        for leaf, one in zip(keys, values):
            if leaf in found:
                raise errors.InvalidArgumentError(f"flatten_dict_items: key {leaf!r} is not unique; give each once")
            found[leaf] = one
    return found


# down to the leaves of a shallower structure

def assert_shallow_structure(shallow_tree: Any, input_tree: Any, check_types: bool = True) -> None:
    """TypeError or InvalidArgumentError (ValueError) where `input_tree` is not `shallow_tree` with structures for some of its
    leaves."""
    if not is_sequence(shallow_tree):
        return
    if not is_sequence(input_tree):
        raise TypeError("If shallow structure is a sequence, input must also be a sequence. Input has type: "
                        f"{type(input_tree)}.")
    if check_types and not isinstance(input_tree, type(shallow_tree)):
        raise TypeError(f"The two structures don't have the same sequence type. Input structure has type {type(input_tree)}, "
                        f"while shallow structure has type {type(shallow_tree)}.")
    if len(input_tree) != len(shallow_tree):
        raise errors.InvalidArgumentError(
            f"The two structures don't have the same sequence length. Input structure has length {len(input_tree)}, while "
            f"shallow structure has length {len(shallow_tree)}.")
    for shallow, deep in zip(_branches(shallow_tree), _branches(input_tree)):
        assert_shallow_structure(shallow, deep, check_types)


def flatten_up_to(shallow_tree: Any, input_tree: Any) -> list[Any]:
    """What of `input_tree` stands where `shallow_tree` has its leaves; errors as of assert_shallow_structure."""
    assert_shallow_structure(shallow_tree, input_tree)
    return list(_up_to(shallow_tree, input_tree))


def _up_to(shallow_tree: Any, input_tree: Any) -> Iterator[Any]:
    if not is_sequence(shallow_tree):
        yield input_tree
        return
    for shallow, deep in zip(_branches(shallow_tree), _branches(input_tree)):
        yield from _up_to(shallow, deep)


def map_structure_up_to(shallow_tree: Any, func: Callable[..., Any], *inputs: Any) -> Any:
    """`func` of what flatten_up_to finds in each of the inputs, in the structure of `shallow_tree`."""
    if not inputs:
        raise errors.InvalidArgumentError("map_structure_up_to: Cannot map over no sequences; pass at least one")
    return pack_sequence_as(shallow_tree, [func(*parts) for parts in zip(*(flatten_up_to(shallow_tree, tree)
                                                                           for tree in inputs))])


def get_traverse_shallow_structure(traverse_fn: Callable[[Any], Any], structure: Any) -> Any:
    """`structure` down to where `traverse_fn` says False, for flatten_up_to: it is asked for each part, and gives one bool or,
    for the parts below, a structure of bools. TypeError where it gives anything else."""
    asked = traverse_fn(structure)
    if not is_sequence(structure):
        if not isinstance(asked, bool):
            raise TypeError(f"traverse_fn returned structure: {asked} for non-structure: {structure}")
        return asked
    if asked is False:
        return False
    below = _branches(structure)
    if asked is not True:
        if not is_sequence(asked):
            raise TypeError(f"traverse_fn returned a non-bool scalar: {asked} for input: {structure}")
        assert_shallow_structure(asked, structure)
        if not all(isinstance(one, bool) for one in _branches(asked)):
            raise TypeError(f"traverse_fn didn't return a depth=1 structure of bools: {asked} for structure: {structure}")
    marks = [True] * len(below) if asked is True else _branches(asked)
    return _refilled(structure, iter([mark and get_traverse_shallow_structure(traverse_fn, part)
                                      for mark, part in zip(marks, below)]))
