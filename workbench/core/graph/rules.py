"""Rules of shapes and dtypes, as operations state them with `a[m,k] b[k,n] -> [m,n]` and `T T -> T`: applied to inputs."""
from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.opdef import OpDef
from workbench.core.graph.shape import Dim, Shape, broadcast
from workbench.core.graph.signature import KINDS, Pattern, parse

__all__ = ["infer_dtypes", "infer_shapes", "input_names", "type_terms"]

_REMEMBERED = 4096      # answers about shapes and about dtypes


# inference

def infer_shapes(definition: OpDef, shapes: Sequence[Shape], attrs: Mapping[str, Any]) -> list[Shape]:
    """Output shapes by the signature; ShapeError names both inputs, both axes and the letter they share."""
    return list(_shapes(definition.name, definition.text(attrs), input_names(definition, len(shapes)),
                        tuple([shape.sizes for shape in shapes])))


@functools.lru_cache(_REMEMBERED)      # the layers of a model ask the same thing hundreds of times
def _shapes(where: str, text: str, names: tuple[str, ...], dims: tuple[tuple[Dim, ...] | None, ...]) -> tuple[Shape, ...]:
    patterns, outputs = parse(text)
    binding: dict[str, tuple[Dim, str]] = {}
    spreads: list[Shape] = []
    for position, (actual, name) in enumerate(zip(dims, names)):
        pattern = patterns[min(position, len(patterns) - 1)] if patterns else Pattern("", None)
        _bind(where, text, pattern, Shape.of_sizes(actual), name, binding, spreads)
    spread = broadcast(spreads, where) if spreads else Shape(())
    return tuple([_output(pattern, binding, spread) for pattern in outputs])


def input_names(definition: OpDef, count: int) -> tuple[str, ...]:
    names = definition.inputs
    if definition.variadic:
        names += tuple([f"{definition.variadic}[{i}]" for i in range(count - len(names))])
    return names


def _bind(where: str, text: str, pattern: Pattern, shape: Shape, name: str,
          binding: dict[str, tuple[Dim, str]], spreads: list[Shape]) -> None:
    if pattern.dims is None:
        return
    dims, actual = pattern.dims, shape.sizes
    if actual is None:
        if "..." in dims:
            spreads.append(Shape.of_sizes(None))
        return
    fixed = len(dims) - ("..." in dims)
    if len(actual) < fixed or ("..." not in dims and len(actual) != fixed):
        raise errors.ShapeError(f"{where}: {name} has rank {len(actual)} (shape {shape}) but rank "
                                f"{'>= ' if '...' in dims else ''}{fixed} is needed by {text!r}; reshape it (Shape must be "
                                f"{'at least ' if '...' in dims else ''}rank {fixed} but is rank {len(actual)}"
                                f"{_kernels_words(name, fixed, '...' in dims)})")
    if "..." in dims:
        at = dims.index("...")
        stop = len(actual) - (fixed - at)
        spreads.append(Shape.of_sizes(actual[at:stop]))
        pairs = list(enumerate(zip(dims[:at], actual[:at])))
        pairs += [(stop + i, pair) for i, pair in enumerate(zip(dims[at + 1:], actual[stop:]))]
    else:
        pairs = list(enumerate(zip(dims, actual)))
    for axis, (letter, dim) in pairs:
        known = binding.get(letter)
        if known is None or known[0] != dim:
            _bind_dim(where, text, letter, dim, f"{name} axis {axis}", binding)


def _kernels_words(name: str, rank: int, more: bool) -> str:
    """What TensorFlow's kernels say of a rank that only the step shows to be wrong."""
    if more:
        return f"; input must be at least {rank}-dim"
    return {0: f"; {name} must be a scalar", 1: f"; {name} must be a vector: {name} must be 1-D"}.get(rank, "")


def _bind_dim(where: str, text: str, letter: str, dim: Dim, place: str, binding: dict[str, tuple[Dim, str]]) -> None:
    if letter.isdigit():
        if dim is not None and dim != int(letter):
            raise errors.ShapeError(f"{where}: {place} is {dim} but {letter} is needed by {text!r}; reshape it")
        return
    if letter == "_":
        return
    known, first = binding.get(letter, (None, place))
    if known is not None and dim is not None and known != dim:
        raise errors.ShapeError(f"{where}: {first} is {known} but {place} is {dim}; both are {letter!r} in {text!r} "
                                f"(Dimensions must be equal, but are {known} and {dim})")
    binding[letter] = (known if dim is None else dim, first if known is not None else place)


def _output(pattern: Pattern, binding: Mapping[str, tuple[Dim, str]], spread: Shape) -> Shape:
    if pattern.dims is None:
        return Shape(None)
    dims: list[Dim] = []
    for letter in pattern.dims:
        if letter == "...":
            if spread.sizes is None:
                return Shape(None)
            dims += spread.sizes
        else:
            dims.append(int(letter) if letter.isdigit() else binding.get(letter, (None, ""))[0])
    return Shape.of_sizes(tuple(dims))


def infer_dtypes(definition: OpDef, dtypes: Sequence[DType], attrs: Mapping[str, Any], outputs: int) -> list[DType]:
    """Output dtypes by the type rule; DtypeError names both inputs."""
    if callable(definition.types):
        return definition.types(dtypes, attrs)
    types, names = definition.types or "", input_names(definition, len(dtypes))
    wanted = outputs if definition.dtypes is None else 0
    if "@" in types:
        found = _by_terms(definition.name, types, names, dtypes, wanted, attrs)
    else:
        found = list(_without_attributes(definition.name, types, names, tuple(dtypes), wanted))
    return found if definition.dtypes is None else list(definition.dtypes(dtypes, attrs))


@functools.lru_cache(_REMEMBERED)
def _without_attributes(where: str, types: str, names: tuple[str, ...], dtypes: tuple[DType, ...],
                        outputs: int) -> tuple[DType, ...]:
    return tuple(_by_terms(where, types, names, dtypes, outputs, {}))


def _by_terms(where: str, types: str, names: Sequence[str], dtypes: Sequence[DType], outputs: int,
              attrs: Mapping[str, Any]) -> list[DType]:
    left, right = _terms_of(types, len(dtypes), outputs)
    binding: dict[str, tuple[DType, str]] = {}
    for term, dtype, name in zip(left, dtypes, names):
        _bind_type(where, term, dtype, name, binding, attrs)
    if not dtypes and any(term[0].isupper() for term in right[:outputs]):
        raise errors.InvalidArgumentError(f"{where}: its list of inputs is empty, but they tell the dtype; pass at least one")
    return [_type(term, binding, attrs) for term in right[:outputs]]


def type_terms(definition: OpDef, inputs: int, outputs: int) -> tuple[list[str], list[str]]:
    if callable(definition.types):
        return ["any"] * inputs, ["any"] * outputs
    return _terms_of(definition.types or "", inputs, outputs)


def _terms_of(types: str, inputs: int, outputs: int) -> tuple[list[str], list[str]]:
    left_text, _, right_text = types.partition("->")
    left, right = left_text.split(), right_text.split()
    if not left:
        left = ["T"] if inputs else []
    while len(left) < inputs:
        left.append(left[-1])
    if not right:
        right = ["T"]
    while len(right) < outputs:
        right.append(right[-1])
    return left[:inputs], right[:outputs]


def _bind_type(where: str, term: str, dtype: DType, name: str, binding: dict[str, tuple[DType, str]],
               attrs: Mapping[str, Any]) -> None:
    letter, _, kind = term.partition(":")
    if letter == "any":
        return
    if letter.startswith("@"):
        wanted = as_dtype(attrs[letter[1:]])
    elif letter[0].isupper():
        if kind and dtype.kind not in KINDS[kind]:
            raise errors.DtypeError(f"{where}: {name} is {dtype.name} but a {kind} type is needed; cast it (Value passed to "
                                    f"parameter {name!r} has DataType {dtype.name} not in list of allowed values)")
        first, place = binding.setdefault(letter, (dtype, name))
        if first is not dtype:
            raise errors.DtypeError(f"{where}: {place} is {first.name} but {name} is {dtype.name}; "
                                    "both must have one dtype: cast one of them")
        return
    elif letter == "int":
        if dtype.kind != "int":
            raise errors.DtypeError(f"{where}: {name} is {dtype.name} but an integer type is needed; cast it (Value passed to "
                                    f"parameter {name!r} has DataType {dtype.name} not in list of allowed values)")
        return
    else:
        wanted = as_dtype(letter)
    if dtype is not wanted:
        raise errors.DtypeError(f"{where}: {name} is {dtype.name} but {wanted.name} is needed; cast it")


def _type(term: str, binding: Mapping[str, tuple[DType, str]], attrs: Mapping[str, Any]) -> DType:
    if term.startswith("@"):
        return as_dtype(attrs[term[1:]])
    if term[0].isupper() and term.partition(":")[0] in binding:
        return binding[term.partition(":")[0]][0]
    return as_dtype(term)
