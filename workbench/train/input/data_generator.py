"""Datasets of Python generators: an iterator of the generator for each pass over the data, known by a number."""
from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype, bare
from workbench.core.graph.shape import Shape, as_shape
from workbench.train.input.data_structures import flatten, leaves, pack

__all__ = ["generated"]


class _Passes:
    """The passes over a generator that are under way; safe for several threads."""

    def __init__(self, generator: Callable[..., Any], types: Any, shapes: list[Shape]) -> None:
        self._generator, self._types, self._shapes = generator, types, shapes
        self._dtypes = [as_dtype(t) for t in flatten(types)]
        self._numbers, self._lock = itertools.count(), threading.Lock()
        self._open: dict[int, Iterator[Any]] = {}

    def begin(self, *args: Any) -> Any:
        """The number of a new pass."""
        with self._lock:
            number = next(self._numbers)
        self._open[number] = iter(self._generator(*args))
        return np.int64(number)

    def following(self, number: Any) -> list[Any]:
        """The components of the next element; StopIteration at the end."""
        try:
            element = next(self._open[int(number)])
        except StopIteration:
            del self._open[int(number)]
            raise
        try:
            parts = leaves(self._types, element)
        except (TypeError, KeyError):
            parts = []
        if len(parts) != len(self._dtypes) or (
                isinstance(self._types, tuple) and len(element) != len(self._types)):
            raise TypeError(f"`generator` yielded an element that did not match the expected structure. The expected "
                            f"structure was {self._types}, but the yielded element was {element}.")
        return [self._array(*row) for row in zip(parts, self._dtypes, self._shapes)]

    def _array(self, value: Any, dtype: Any, shape: Shape) -> Any:
        value = bare(value, "from_generator: an element")
        try:
            array = np.asarray(value if dtype.kind != "string" else _bytes(value), dtype.numpy)
        except (TypeError, ValueError) as error:
            raise TypeError(f"`generator` yielded an element that could not be converted to the expected type. The "
                            f"expected type was {dtype.name}, but the yielded element was {value} ({error}).") from None
        if not shape.compatible(Shape(array.shape)):
            raise ValueError(f"`generator` yielded an element of shape {array.shape} where an element of shape {shape!s} was "
                             "expected.")
        return array


def _bytes(value: Any) -> Any:
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_bytes(part) for part in value]
    return value.encode() if isinstance(value, str) else value


def generated(kind: Any, generator: Callable[..., Any], output_types: Any, output_shapes: Any, args: Any) -> Any:
    """The dataset of Dataset.from_generator, made by the class `kind`. TypeError where `generator` is no function."""
    if not callable(generator):
        raise TypeError("`generator` must be callable.")
    dtypes = [as_dtype(t) for t in flatten(output_types)]
    shapes = [Shape(None)] * len(dtypes) if output_shapes is None else [
        as_shape(s) for s in leaves(output_types, output_shapes)]
    passes = _Passes(generator, output_types, shapes)

    def element(number: Any) -> Any:
        found = ops.py_func(passes.following, [number], dtypes, name="generator_next")
        for tensor, shape in zip(found, shapes):
            tensor.set_shape(shape)
        return pack(output_types, found)

    def one_pass(*given: Any) -> Any:
        number = ops.py_func(passes.begin, list(given[1:]), "int64", name="generator_begin")
        number.set_shape(())
        return kind.from_tensors(number).repeat().map(element)
    return kind.from_tensors((0, *map(convert, args or ()))).flat_map(one_pass)
