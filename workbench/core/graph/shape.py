"""Static shapes: known, partly known and unknown, and the rules that combine them."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from workbench import errors
from workbench.core.graph.dimension import Length, dimension
from workbench.core.graph.language import spoken
from workbench.core.graph.origin import asked_by_ours

__all__ = ["Shape", "as_shape", "broadcast", "place"]

Dim = int | None


class Shape:
    """The static shape of a tensor: a tuple of ints, None for an unknown dimension; `sizes` None = unknown rank. It is made of
    these, of another one, or of a TensorShapeProto.

    Items are Dimensions: ints with `.value`, or the unknown one, which equals None.
    """

    __slots__ = ("sizes",)

    def __init__(self, dims: Any = None) -> None:
        if hasattr(dims, "unknown_rank"):      # a protocol buffer
            dims = None if dims.unknown_rank else [d.size for d in dims.dim]
        if isinstance(dims, int) and not isinstance(dims, bool):
            dims = [dims]
        self.sizes: tuple[Dim, ...] | None = None if dims is None else tuple([_dim(d) for d in dims])

    @classmethod
    def of_sizes(cls, sizes: tuple[Dim, ...] | None) -> Shape:
        """The shape whose `sizes` these are: taken from other shapes, they are not looked at again."""
        made = cls.__new__(cls)
        made.sizes = sizes
        return made

    @property
    def rank(self) -> int | None:
        """The number of dimensions, None when unknown."""
        return None if self.sizes is None else len(self.sizes)

    ndims = rank

    @property
    def dims(self) -> list[Any] | None:
        """The Dimensions, the unknown ones among them; None when the rank is unknown."""
        return None if self.sizes is None else [dimension(size) for size in self.sizes]

    _dims = dims      # as libraries above TensorFlow read them

    @property
    def known(self) -> bool:
        """True when every dimension is known."""
        return self.sizes is not None and None not in self.sizes

    def is_fully_defined(self) -> bool:
        """True when every dimension is known."""
        return self.known

    @property
    def static(self) -> tuple[int, ...]:
        """The dimensions of a fully known shape; ShapeError for another."""
        if self.sizes is None or None in self.sizes:
            raise errors.ShapeError(f"shape: {self} is not fully known; feed it or set it with set_shape (Shape {self} is not "
                                    "fully defined)")
        return self.sizes     # type: ignore[return-value]

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
        if self.sizes is None:
            raise errors.ShapeError("as_list: the rank is unknown; set it with set_shape (as_list() is not defined on an "
                                    "unknown TensorShape.)")
        return list(self.sizes)

    def compatible(self, other: Shape) -> bool:
        """Could one runtime shape satisfy both?"""
        if self.sizes is None or other.sizes is None:
            return True
        return len(self.sizes) == len(other.sizes) and all(
            a is None or b is None or a == b for a, b in zip(self.sizes, other.sizes))

    def is_compatible_with(self, other: Any) -> bool:
        """Could one runtime shape satisfy both? `other` is anything `as_shape` takes."""
        return self.compatible(as_shape(other))

    def merge(self, other: Shape, where: str = "merge") -> Shape:
        """What is known from either; ShapeError when they contradict."""
        if not self.compatible(other):
            raise errors.ShapeError(f"{where}: {self} and {other} cannot be the same shape; make them agree (Shapes {self} and "
                                    f"{other} are incompatible: they are not compatible)")
        if self.sizes is None:
            return other
        if other.sizes is None or self.known:
            return self
        return Shape(a if a is not None else b for a, b in zip(self.sizes, other.sizes))

    def merge_with(self, other: Any) -> Shape:
        """merge, for anything `as_shape` takes."""
        return self.merge(as_shape(other), "merge_with")

    def most_specific_compatible_shape(self, other: Any) -> Shape:
        """What both agree on: dimensions in which they differ, or that either leaves open, are unknown."""
        return self.common(as_shape(other))

    def concatenate(self, other: Any) -> Shape:
        """These dimensions and then those of `other`."""
        return self + as_shape(other)

    def with_rank(self, rank: int) -> Shape:
        """This shape with what the rank tells; ShapeError when its rank is another."""
        if self.sizes is not None and len(self.sizes) != rank:
            raise errors.ShapeError(f"with_rank: {self} has rank {len(self.sizes)}; it must be {rank} (Shape {self} must have "
                                    f"rank {rank})")
        return self.merge(Shape([None] * rank))

    def with_rank_at_least(self, rank: int) -> Shape:
        """This shape; ShapeError when its rank is known and smaller."""
        if self.sizes is not None and len(self.sizes) < rank:
            raise errors.ShapeError(f"with_rank_at_least: {self} has rank {len(self.sizes)}; it must be {rank} or more")
        return self

    def with_rank_at_most(self, rank: int) -> Shape:
        """This shape; ShapeError when its rank is known and larger."""
        if self.sizes is not None and len(self.sizes) > rank:
            raise errors.ShapeError(f"with_rank_at_most: {self} has rank {len(self.sizes)}; it must be {rank} or less")
        return self

    def assert_has_rank(self, rank: int) -> None:
        """ShapeError when the rank is known to be another."""
        self.with_rank(rank)

    def assert_same_rank(self, other: Any) -> None:
        """ShapeError when both ranks are known and differ."""
        there = as_shape(other).rank
        if there is not None:
            self.with_rank(there)

    def assert_is_compatible_with(self, other: Any) -> None:
        """ShapeError when the shapes contradict."""
        self.merge(as_shape(other), "assert_is_compatible_with")

    def assert_is_fully_defined(self) -> None:
        """ShapeError unless every dimension is known."""
        _ = self.static

    def common(self, other: Shape) -> Shape:
        """The most precise shape that both satisfy (used where branches meet)."""
        if self.sizes is None or other.sizes is None or len(self.sizes) != len(other.sizes):
            return Shape(None)
        return Shape(a if a == b else None for a, b in zip(self.sizes, other.sizes))

    def __len__(self) -> int:
        if self.sizes is None:
            raise errors.ShapeError("len: the rank is unknown; set it with set_shape")
        return len(self.sizes)

    def __bool__(self) -> bool:
        return self.sizes is not None

    def __iter__(self) -> Iterator[Any]:
        return map(dimension, self.as_list())

    def __getitem__(self, index: Any) -> Any:
        """One Dimension, or the Shape of a slice."""
        if self.sizes is None:
            return Shape(None) if isinstance(index, slice) else dimension(None)
        return Shape(self.sizes[index]) if isinstance(index, slice) else dimension(self.sizes[index])

    def __eq__(self, other: object) -> bool:
        if other is None or isinstance(other, (list, tuple, int)):
            try:
                other = as_shape(other)
            except TypeError:       # a list of something else, of tensors for instance
                return False
        return isinstance(other, Shape) and self.sizes == other.sizes

    def __hash__(self) -> int:
        return hash(self.sizes)

    def __add__(self, other: Shape | Iterable[Dim]) -> Shape:
        right = as_shape(other)
        return Shape(None) if self.sizes is None or right.sizes is None else Shape(self.sizes + right.sizes)

    def __repr__(self) -> str:
        return spoken().shape(self, True)

    def __str__(self) -> str:
        return spoken().shape(self, False)

    def __format__(self, spec: str) -> str:
        """In messages of ours one text whatever the language; in a program's own what it prints."""
        if not asked_by_ours():
            return format(str(self), spec)
        if self.sizes is None:
            return "[unknown]"
        return "[" + ",".join("?" if d is None else str(d) for d in self.sizes) + "]"


def _dim(value: Any) -> Dim:
    if isinstance(value, Length):
        value = value.value
    if value is None:
        return None
    dim = int(value)
    if dim != value and isinstance(value, float):
        raise errors.ShapeError(f"shape: a dimension of {value} is no number of elements (Ambiguous dimension: {value}); use a "
                                "whole number")
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


def place(axis: int, rank: int, where: str) -> int:
    """`axis` counted from the front; ShapeError when the rank has no such axis."""
    if not -rank <= axis < rank:
        raise errors.ShapeError(f"{where}: axis {axis} is outside rank {rank}; use {-rank} … {rank - 1} (axis = {axis} not in "
                                f"[{-rank}, {rank}))")
    return axis % rank


def broadcast(shapes: Iterable[Shape], where: str = "broadcast") -> Shape:
    """NumPy's broadcasting rule over static shapes; ShapeError names both dimensions that disagree."""
    result = Shape(())
    for shape in shapes:
        if result.sizes is None or shape.sizes is None:
            return Shape(None)
        width = max(len(result.sizes), len(shape.sizes))
        left = (1,) * (width - len(result.sizes)) + result.sizes
        right = (1,) * (width - len(shape.sizes)) + shape.sizes
        result = Shape.of_sizes(tuple([_pair(a, b, axis, width, result, shape, where)
                                       for axis, (a, b) in enumerate(zip(left, right))]))
    return result


def _pair(a: Dim, b: Dim, axis: int, width: int, left: Shape, right: Shape, where: str) -> Dim:
    if a == 1:
        return b
    if b == 1 or a == b:
        return a
    if a is None or b is None:
        return a if b is None else b
    raise errors.ShapeError(f"{where}: shapes {left} and {right} do not broadcast: axis {axis - width} is {a} and {b}; "
                            f"make the dimensions equal or 1 (Dimensions must be equal, but are {a} and {b})")
