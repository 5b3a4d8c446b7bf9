"""Static shapes: known, partly known and unknown, and the rules that combine them."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from workbench import errors

__all__ = ["Shape", "as_shape", "broadcast"]

Dim = int | None


class Shape:
    """The static shape of a tensor: a tuple of ints, None for an unknown dimension; `dims` None = unknown rank."""

    __slots__ = ("dims",)

    def __init__(self, dims: Iterable[Any] | None = None) -> None:
        self.dims: tuple[Dim, ...] | None = None if dims is None else tuple(_dim(d) for d in dims)

    @property
    def rank(self) -> int | None:
        """The number of dimensions, None when unknown."""
        return None if self.dims is None else len(self.dims)

    ndims = rank

    @property
    def known(self) -> bool:
        """True when every dimension is known."""
        return self.dims is not None and None not in self.dims

    def is_fully_defined(self) -> bool:
        """True when every dimension is known."""
        return self.known

    @property
    def static(self) -> tuple[int, ...]:
        """The dimensions of a fully known shape; ShapeError for another."""
        if self.dims is None or None in self.dims:
            raise errors.ShapeError(f"shape: {self} is not fully known; feed it or set it with set_shape")
        return self.dims     # type: ignore[return-value]

    def num_elements(self) -> int | None:
        """The product of the dimensions, None while one is unknown."""
        if not self.known:
            return None
        count = 1
        for dim in self.static:
            count *= dim
        return count

    def as_list(self) -> list[Dim]:
        """The dimensions, None where unknown; ShapeError when the rank is unknown."""
        if self.dims is None:
            raise errors.ShapeError("as_list: the rank is unknown; set it with set_shape")
        return list(self.dims)

    def compatible(self, other: Shape) -> bool:
        """Could one runtime shape satisfy both?"""
        if self.dims is None or other.dims is None:
            return True
        return len(self.dims) == len(other.dims) and all(
            a is None or b is None or a == b for a, b in zip(self.dims, other.dims))

    is_compatible_with = compatible

    def merge(self, other: Shape, where: str = "merge") -> Shape:
        """What is known from either; ShapeError when they contradict."""
        if not self.compatible(other):
            raise errors.ShapeError(f"{where}: {self} and {other} cannot be the same shape; make them agree")
        if self.dims is None:
            return other
        if other.dims is None:
            return self
        return Shape(a if a is not None else b for a, b in zip(self.dims, other.dims))

    def common(self, other: Shape) -> Shape:
        """The most precise shape that both satisfy (used where branches meet)."""
        if self.dims is None or other.dims is None or len(self.dims) != len(other.dims):
            return Shape(None)
        return Shape(a if a == b else None for a, b in zip(self.dims, other.dims))

    def __len__(self) -> int:
        if self.dims is None:
            raise errors.ShapeError("len: the rank is unknown; set it with set_shape")
        return len(self.dims)

    def __iter__(self) -> Iterator[Dim]:
        return iter(self.as_list())

    def __getitem__(self, index: Any) -> Any:
        if self.dims is None:
            return Shape(None) if isinstance(index, slice) else None
        return Shape(self.dims[index]) if isinstance(index, slice) else self.dims[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (list, tuple)):
            other = Shape(other)
        return isinstance(other, Shape) and self.dims == other.dims

    def __hash__(self) -> int:
        return hash(self.dims)

    def __add__(self, other: Shape | Iterable[Dim]) -> Shape:
        right = as_shape(other)
        return Shape(None) if self.dims is None or right.dims is None else Shape(self.dims + right.dims)

    def __repr__(self) -> str:
        if self.dims is None:
            return "[unknown]"
        return "[" + ",".join("?" if d is None else str(d) for d in self.dims) + "]"


def _dim(value: Any) -> Dim:
    if value is None:
        return None
    dim = int(value)
    if dim == -1:
        return None
    if dim < 0:
        raise errors.ShapeError(f"shape: dimension {dim} is negative; use None for an unknown dimension")
    return dim


def as_shape(value: Any) -> Shape:
    """The shape meant by a Shape, a list with None for unknown, one int, or None for unknown rank."""
    if isinstance(value, Shape):
        return value
    if value is None:
        return Shape(None)
    if isinstance(value, int) or not hasattr(value, "__iter__"):
        return Shape([value])
    return Shape(value)


def broadcast(shapes: Iterable[Shape], where: str = "broadcast") -> Shape:
    """NumPy's broadcasting rule over static shapes; ShapeError names both dimensions that disagree."""
    result = Shape(())
    for shape in shapes:
        if result.dims is None or shape.dims is None:
            return Shape(None)
        width = max(len(result.dims), len(shape.dims))
        left = (1,) * (width - len(result.dims)) + result.dims
        right = (1,) * (width - len(shape.dims)) + shape.dims
        result = Shape(_pair(a, b, axis, width, result, shape, where) for axis, (a, b) in enumerate(zip(left, right)))
    return result


def _pair(a: Dim, b: Dim, axis: int, width: int, left: Shape, right: Shape, where: str) -> Dim:
    if a == 1:
        return b
    if b == 1 or a == b:
        return a
    if a is None or b is None:
        return a if b is None else b
    raise errors.ShapeError(f"{where}: shapes {left} and {right} do not broadcast: axis {axis - width} is {a} and {b}; "
                            "make the dimensions equal or 1")
