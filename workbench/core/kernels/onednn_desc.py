"""How the bytes of a value lie, as oneDNN counts its axes: descriptors that it made, and such as are to be."""
from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from workbench.core.kernels.onednn_api import FLOAT32, Pointer

__all__ = ["Desc", "Interned", "any_format", "channels_last", "contiguous", "strides_of"]


class Interned:
    """A descriptor of the library, its bytes and its format in words; equal ones are one object, which frees it when nothing
    refers to it any more. `strides` are those of an array, None where a block or something else lies together."""

    __slots__ = ("__weakref__", "nbytes", "pointer", "strides", "text")

    def __init__(self, pointer: Pointer, nbytes: int, text: str) -> None:
        self.pointer, self.nbytes, self.text = pointer, nbytes, text
        plain = text.startswith("strides ") and " blocks " not in text
        self.strides = tuple(map(int, text.removeprefix("strides ").split(","))) if plain else None


class Desc(NamedTuple):
    """A descriptor to be: an interned one, one with strides, or (both None) one that the primitive chooses; `dtype` is the
    library's number of the elements' type."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    identity: Interned | None = None
    dtype: int = FLOAT32


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """C-contiguous strides in elements."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides)) if shape else ()


def contiguous(shape: Sequence[int], axes: Sequence[int]) -> Desc:
    """A C-contiguous value of `shape` seen through `axes`."""
    return _contiguous(tuple(shape), tuple(axes))


@functools.lru_cache(4096)
def _contiguous(shape: tuple[int, ...], axes: tuple[int, ...]) -> Desc:
    strides = strides_of(shape)
    return Desc(tuple([shape[axis] for axis in axes]), tuple([strides[axis] for axis in axes]))


def any_format(shape: Sequence[int], axes: Sequence[int]) -> Desc:
    """A value of `shape` whose format the primitive chooses."""
    return Desc(tuple(shape[axis] for axis in axes))


def channels_last(shape: Sequence[int], axes: Sequence[int]) -> Desc:
    """An image value of `shape` whose bytes lie as [batch, height, width, channels]."""
    batch, channels, height, width = (shape[axis] for axis in axes)
    return Desc((batch, channels, height, width), (height * width * channels, 1, width * channels, channels))
