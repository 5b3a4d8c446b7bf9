"""Elements of datasets as structures: tensors, dense or sparse, in nested tuples and dictionaries, and their components."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape, as_shape
from workbench.nn.sparse import SparseTensor, SparseTensorValue
from workbench.nn.sparse_ops import deserialize_many_sparse, serialize_sparse

__all__ = ["Elements", "Part", "common", "components", "converted", "flatten", "leaves", "pack", "parts_of", "rebuilt",
           "tensors"]


class Part(NamedTuple):
    """A place of the structure: a tensor of this dtype and shape. A sparse one travels as three strings."""

    dtype: DType
    shape: Shape
    sparse: bool = False
    batched: bool = False      # sparse rows of a batch

    @property
    def stored(self) -> tuple[DType, Shape]:
        """dtype and shape of the component that stands for it."""
        if not self.sparse:
            return self.dtype, self.shape
        return as_dtype("string"), Shape([None, 3] if self.batched else [3])


def flatten(structure: Any) -> list[Any]:
    """The leaves, dictionaries by their sorted keys; lists and sparse tensors are leaves."""
    if isinstance(structure, dict):
        return [leaf for key in sorted(structure) for leaf in flatten(structure[key])]
    if isinstance(structure, tuple) and not isinstance(structure, (SparseTensorValue, Part)):
        return [leaf for part in structure for leaf in flatten(part)]
    return [structure]


def pack(like: Any, found: Sequence[Any]) -> Any:
    """`found` in the structure of `like`."""
    return _packed(like, list(found))


def _packed(like: Any, rest: list[Any]) -> Any:
    if isinstance(like, dict):
        return {key: _packed(like[key], rest) for key in sorted(like)}
    if isinstance(like, tuple) and not isinstance(like, (SparseTensorValue, Part)):
        parts = [_packed(part, rest) for part in like]
        return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
    return rest.pop(0)


def converted(structure: Any) -> Any:
    """Tensors in the place of arrays, numbers and lists."""
    return pack(structure, [_converted(leaf) for leaf in flatten(structure)])


def _converted(leaf: Any) -> Any:
    if isinstance(leaf, (SparseTensor, SparseTensorValue)):
        return SparseTensor.from_value(leaf)
    return convert(leaf)


def parts_of(structure: Any) -> Any:
    """A Part for each tensor."""
    return pack(structure, [Part(t.dtype, t.get_shape(), isinstance(t, SparseTensor)) for t in flatten(structure)])


def components(structure: Any) -> list[Tensor]:
    """What travels of an element: dense tensors, and sparse ones as strings."""
    return [serialize_sparse(t) if isinstance(t, SparseTensor) else t for t in flatten(structure)]


def tensors(parts: Any, found: Sequence[Tensor]) -> Any:
    """The element whose components these are."""
    return pack(parts, [_tensor(part, value) for part, value in zip(flatten(parts), found)])


def _tensor(part: Part, value: Tensor) -> Any:
    if not part.sparse:
        return value
    rank = part.shape.rank
    if part.batched:
        return deserialize_many_sparse(value, part.dtype, None if rank is None else rank - 1)
    row = deserialize_many_sparse(ops.expand_dims(value, 0), part.dtype, rank)
    return SparseTensor(row.indices[:, 1:], row.values, row.dense_shape[1:])


class Elements:
    """Where elements of one structure come from: `_parts` has a Part for each of their tensors."""

    _parts: Any

    @property
    def output_types(self) -> Any:
        """The dtypes of an element, in its structure."""
        return pack(self._parts, [part.dtype for part in flatten(self._parts)])

    @property
    def output_shapes(self) -> Any:
        """The static shapes of an element, in its structure."""
        return pack(self._parts, [part.shape for part in flatten(self._parts)])

    @property
    def output_classes(self) -> Any:
        """Tensor or SparseTensor for every part of an element."""
        return pack(self._parts, [SparseTensor if part.sparse else Tensor for part in flatten(self._parts)])


def rebuilt(dtypes: Any, shapes: Any, classes: Any) -> Any:
    """Parts from an iterator's output_types, output_shapes and output_classes."""
    types = [as_dtype(t) for t in flatten(dtypes)]
    sizes = [Shape(None)] * len(types) if shapes is None else [as_shape(s) for s in leaves(dtypes, shapes)]
    kinds = [Tensor] * len(types) if classes is None else flatten(classes)
    return pack(dtypes, [Part(t, s, kind is SparseTensor) for t, s, kind in zip(types, sizes, kinds)])


def leaves(like: Any, structure: Any) -> list[Any]:
    """The parts of `structure` where `like` has its leaves: shapes may themselves be tuples."""
    if isinstance(like, dict):
        return [leaf for key in sorted(like) for leaf in leaves(like[key], structure[key])]
    if isinstance(like, tuple) and not isinstance(like, Part):
        return [leaf for part, inner in zip(like, structure) for leaf in leaves(part, inner)]
    return [structure]


def common(where: str, ours: Any, theirs: Any) -> Any:
    """Parts that hold for the elements of two datasets; DtypeError where they differ in more than shape."""
    mine, other = flatten(ours), flatten(theirs)
    if len(mine) != len(other):
        raise errors.InvalidArgumentError(f"{where}: elements of {len(mine)} and of {len(other)} parts do not fit; give both "
                                          "the same (The two structures don't have the same number of elements)")
    if [p.dtype for p in mine] != [p.dtype for p in other] or [p.sparse for p in mine] != [p.sparse for p in other]:
        raise errors.DtypeError(f"{where}: {', '.join(p.dtype.name for p in mine)} and "
                                f"{', '.join(p.dtype.name for p in other)} do not fit; cast one of them (Datasets to "
                                "concatenate have different types)")
    return pack(ours, [a._replace(shape=_shape(a.shape, b.shape)) for a, b in zip(mine, other)])


def _shape(a: Shape, b: Shape) -> Shape:
    if a.rank is None or a.rank != b.rank:
        return Shape(None)
    return Shape([m if m == n else None for m, n in zip(a.as_list(), b.as_list())])
