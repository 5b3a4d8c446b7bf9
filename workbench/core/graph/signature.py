"""What an operation states of its function, `a[m,k] b[k,n] -> [m,n]` and `T T -> T`: read, and compared with it."""
from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from workbench import errors
from workbench.core.graph.dtype import as_dtype

__all__ = ["KINDS", "Pattern", "check_signature", "check_types", "parse"]

KINDS = {"float": ("float",), "number": ("float", "int", "complex"), "int": ("int",), "real": ("float", "int"),
         "differentiable": ("float", "complex"), "quantized": ("quantized",)}
"""What may stand after the colon of a capital letter -> the kinds of dtypes it may be."""


@dataclass(frozen=True)
class Pattern:
    """One term of a signature: `a[m,k]`, `*values[...]`, or `?` for any shape."""

    name: str
    dims: tuple[str, ...] | None     # None = any shape
    variadic: bool = False


_TERM = re.compile(r"(\*?)([A-Za-z_]\w*)?(?:\[([^\]]*)\]|(\?))")
_DIMENSION = re.compile(r"\.\.\.|\d+|[A-Za-z_]\w*")
_cache: dict[str, tuple[tuple[Pattern, ...], tuple[Pattern, ...]]] = {}


def parse(text: str) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...]]:
    """(input patterns, output patterns) of a signature."""
    if text not in _cache:
        left, _, right = text.partition("->")
        _cache[text] = _terms(left), _terms(right)
    return _cache[text]


def _terms(text: str) -> tuple[Pattern, ...]:
    return tuple(
        Pattern(name or "", None if any_ else tuple(d.strip() for d in dims.split(",") if d.strip()), star == "*")
        for star, name, dims, any_ in _TERM.findall(text))


# what a definition may get wrong

def check_signature(where: str, text: Any, parameters: Sequence[str]) -> None:
    """InvalidArgumentError where `text` is no signature of a function with these inputs (`*values` is a list of them)."""
    if not isinstance(text, str):
        raise errors.InvalidArgumentError(f"{where}: the signature is of {type(text).__name__}; write text such as "
                                          "'x[a,b] -> [a]'")
    if text.count("->") != 1:
        raise errors.InvalidArgumentError(f"{where}: the signature {text!r} has {text.count('->')} arrows; write the inputs, "
                                          "one '->' and the outputs")
    for side in text.split("->"):
        rest = _TERM.sub(" ", side).split()
        dims = [d for pattern in _terms(side) for d in pattern.dims or ()]
        wrong = rest[0] if rest else next((d for d in dims if not _DIMENSION.fullmatch(d)), None)
        if wrong is not None:
            raise errors.InvalidArgumentError(f"{where}: {wrong!r} in the signature {text!r} has no meaning; write terms like "
                                              "'x[a,b]' or 'x?', with letters, numbers, '_' or '...' as dimensions")
        if any((pattern.dims or ()).count("...") > 1 for pattern in _terms(side)):
            raise errors.InvalidArgumentError(f"{where}: a term of the signature {text!r} has '...' twice; keep one")
    named = ["*" * pattern.variadic + pattern.name for pattern in parse(text)[0]]
    if named != list(parameters):
        raise errors.InvalidArgumentError(f"{where}: the signature {text!r} has the inputs {_listed(named)} but the function "
                                          f"has {_listed(parameters)}; write one term for each parameter, by name and in order")


def _listed(names: Sequence[str]) -> str:
    return f"({', '.join(names)})"


def check_types(where: str, text: str, parameters: Sequence[str], attributes: Container[str]) -> None:
    """InvalidArgumentError where `text` is no rule of dtypes for these inputs and attributes."""
    left, arrow, right = text.partition("->")
    inputs, outputs = left.split(), right.split()
    if not arrow:
        raise errors.InvalidArgumentError(f"{where}: types={text!r} has no '->'; write the inputs, '->' and the outputs")
    if len(inputs) > len(parameters):
        raise errors.InvalidArgumentError(f"{where}: types={text!r} has {len(inputs)} terms for inputs but the function has "
                                          f"the inputs {_listed(parameters)}; write at most one for each")
    for term in (*inputs, *outputs):
        if not _is_type(term, attributes):
            raise errors.InvalidArgumentError(f"{where}: {term!r} in types={text!r} is not a dtype; write a name like float32, "
                                              "a capital letter, one with a kind like T:float, '@' and an attribute, int or "
                                              "any")
    bound = {term.partition(":")[0] for term in inputs or ["T"]}
    unbound = next((t for t in outputs if t == "any" or (t[0].isupper() and t.partition(":")[0] not in bound)), None)
    if unbound is not None:
        raise errors.InvalidArgumentError(f"{where}: {unbound!r} of the outputs stands for no input in types={text!r}; give an "
                                          "input that letter, or name the dtype")


def _is_type(term: str, attributes: Container[str]) -> bool:
    letter, colon, kind = term.partition(":")
    if letter.startswith("@"):
        return letter[1:] in attributes
    if letter[:1].isupper():
        return kind in KINDS if colon else True
    if term in ("int", "any"):
        return True
    try:
        as_dtype(term)
    except errors.Error:
        return False
    return True
