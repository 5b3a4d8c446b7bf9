"""Products of matrices whose sums have one order in deterministic processes.

BLAS, which serves in others, chooses its order by the model of the processor and by the number of threads.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.settings import settings

__all__ = ["compiled", "contracted", "product"]

Array = np.ndarray[Any, Any]
compiled: list[Callable[[Array, Array], Array | None]] = []
"""Products of two float arrays in compiled loops, of the shapes that `_ordered` has; the first that is not None serves."""


def product(a: Array, b: Array, out: Array | None = None) -> Array:
    """a · b of matrices in the last two axes, the others broadcast; in deterministic processes (`WB_DETERMINISTIC=1`) the bits
    depend on the values, the shapes and the processor's instructions alone."""
    if not settings.deterministic or a.dtype.kind not in "fc" or 0 in (*a.shape, *b.shape):
        return np.asarray(np.matmul(a, b, out=out))      # whole numbers are exact in any order
    found = _complex(a, b) if a.dtype.kind == "c" else _ordered(a, b)
    if out is None:
        return found
    np.copyto(out, found)
    return out


def _complex(a: Array, b: Array) -> Array:
    found = _ordered(a.real, b.real).astype(a.dtype)
    found -= _ordered(a.imag, b.imag)
    found.imag = _ordered(a.real, b.imag) + _ordered(a.imag, b.real)
    return found


def _ordered(a: Array, b: Array) -> Array:
    if b.ndim == 2 and a.ndim > 2:      # one product: many rows by the same matrix
        return _ordered(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    for multiply in compiled:
        found = multiply(a, b)
        if found is not None:
            return found
    # NOTE: it calls BLAS only where it may optimize
    return np.asarray(np.einsum("...mk,...kn->...mn", np.ascontiguousarray(a), np.ascontiguousarray(b), optimize=False))


def contracted(equation: str, *arrays: Array) -> Array:
    """`np.einsum` of an equation with an arrow whose terms name no axis twice, two arrays at a time by `product`."""
    if not settings.deterministic or len(arrays) == 1:
        return np.asarray(np.einsum(equation, *arrays, optimize=len(arrays) > 1))
    left, _, result = equation.partition("->")
    rest = list(zip(left.split(","), arrays))
    for places in np.einsum_path(equation, *arrays, optimize="greedy")[0][1:]:
        terms = [rest.pop(place) for place in sorted(places, reverse=True)]
        while len(terms) > 1:
            one, other = terms.pop(), terms.pop()
            terms.append(_pair(one, other, set(result).union(*(letters for letters, _ in (*rest, *terms)))))
        rest += terms
    [(letters, found)] = rest
    return np.asarray(np.einsum(f"{letters}->{result}", found), order="C")


Term = tuple[str, Array]


def _pair(one: Term, other: Term, kept: set[str]) -> Term:
    """Σ of the products of two arrays over the letters that nobody keeps."""
    (first, a), (second, b) = (_alone(term, kept | set(rival[0])) for term, rival in ((one, other), (other, one)))
    both = [letter for letter in first if letter in second]
    batch, summed = [x for x in both if x in kept], [x for x in both if x not in kept]
    rows, columns = [x for x in first if x not in both], [x for x in second if x not in both]
    sizes = {**dict(zip(first, a.shape)), **dict(zip(second, b.shape))}

    def laid(array: Array, letters: str, *groups: list[str]) -> Array:
        """With one axis for each group of letters."""
        turned = array.transpose([letters.index(letter) for group in groups for letter in group])
        return turned.reshape([int(np.prod([sizes[letter] for letter in group], dtype=np.int64)) for group in groups])
    found = product(laid(a, first, batch, rows, summed), laid(b, second, batch, summed, columns))
    letters = [*batch, *rows, *columns]
    return "".join(letters), found.reshape([sizes[letter] for letter in letters])


def _alone(term: Term, needed: set[str]) -> Term:
    """A term without the letters that it has alone."""
    letters, array = term
    axes = tuple(axis for axis, letter in enumerate(letters) if letter not in needed)
    return ("".join(x for x in letters if x in needed), np.add.reduce(array, axis=axes)) if axes else term
