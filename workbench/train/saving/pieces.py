"""What a saver writes of variables: each a whole tensor of the checkpoint, or a block of one."""
from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench import errors
from workbench.nn.blocks import SaveSliceInfo, full_name
from workbench.nn.partitions import variable_parts
from workbench.nn.variables import Variable

__all__ = ["Piece", "pieces_of"]


@dataclass(frozen=True)
class Piece:
    """One variable of a saver: the whole tensor `key` of the checkpoint, or a block of it."""

    key: str
    variable: Variable
    block: SaveSliceInfo | None = None

    @property
    def start(self) -> tuple[int, ...] | None:
        """Where the block begins."""
        return tuple(self.block.var_offset) if self.block else None

    @property
    def part(self) -> tuple[Any, ...]:
        """As the operation `save` wants it."""
        return (self.key, self.start, tuple(self.block.full_shape)) if self.block else (self.key,)


def pieces_of(variables: Any) -> list[Piece]:
    """What a saver of these variables writes: of a list of them, or of a dictionary by names in the checkpoint."""
    if isinstance(variables, Mapping):
        _check_twice(variables)
        return [piece for key, value in variables.items()
                for piece in ([Piece(key, value)] if isinstance(value, Variable) else _parts(key, list(value)))]
    found: dict[str, Variable] = {}
    for variable in (part for v in variables for part in variable_parts(v)):
        if variable.op.name in found and found[variable.op.name] is not variable:
            raise errors.InvalidArgumentError(f"Saver: At least two variables have the same name: {variable.op.name}; pass a "
                                              "dictionary of distinct names")
        found[variable.op.name] = variable
    return [Piece(full_name(variable), variable, variable._get_save_slice_info()) for variable in found.values()]


def _check_twice(variables: Mapping[str, Any]) -> None:
    """InvalidArgumentError for a variable under two names."""
    names: dict[str, str] = {}
    for key, value in variables.items():
        for one in variable_parts(value):
            if names.setdefault(one.op.name, key) != key:
                raise errors.InvalidArgumentError(f"Saver: The same saveable will be restored with two names: {one.op.name}, "
                                                  f"as {names[one.op.name]!r} and as {key!r}; give it one")


def _parts(key: str, variables: Sequence[Variable]) -> list[Piece]:
    """Variables that are one tensor: parts that know where they stand, or cut along the first axis."""
    told = [variable._get_save_slice_info() for variable in variables]
    if all(told):
        if len(names := {block.full_name for block in told if block}) > 1:
            raise errors.InvalidArgumentError(f"Saver: {key!r} has parts of {' and '.join(sorted(names))}; parts of one tensor "
                                              "are of one variable (Slices must all be from the same tensor)")
        return [Piece(key, variable, block) for variable, block in zip(variables, told)]
    if len(variables) == 1:
        return [Piece(key, variables[0])]
    first, rank = variables[0].shape, variables[0].shape.rank or 0
    for variable in variables:
        if not variable.shape.known or not rank or variable.shape.rank != rank or variable.shape[1:] != first[1:]:
            raise errors.InvalidArgumentError(f"Saver: {key!r} has parts of shapes {first} and {variable.shape}; parts of one "
                                              "tensor have known shapes that differ in axis 0 alone")
    ends = list(itertools.accumulate(variable.shape.static[0] for variable in variables))
    whole, rest = (ends[-1], *first.static[1:]), (0,) * (rank - 1)
    return [Piece(key, v, SaveSliceInfo(key, whole, (end - v.shape.static[0], *rest), v.shape.static))
            for v, end in zip(variables, ends)]
