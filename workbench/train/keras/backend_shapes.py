"""Products and arrangements of tensors under the names of Keras's backend."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn import layers
from workbench.nn.sparse import SparseTensor, sparse_tensor_dense_matmul
from workbench.train.keras import backend

__all__ = ["batch_dot", "batch_flatten", "concatenate", "dot", "expand_dims", "flatten", "permute_dimensions", "repeat",
           "repeat_elements", "resize_images", "resize_volumes", "spatial_2d_padding", "spatial_3d_padding", "squeeze",
           "temporal_padding", "tile"]


def dot(x: Any, y: Any) -> Tensor:
    """The product of matrices; of more axes the last of `x` with the last but one of `y`. ShapeError for a vector as `y`."""
    if isinstance(x, SparseTensor):
        return sparse_tensor_dense_matmul(x, y)
    x, y = convert(x), convert(y)
    if x.shape.rank == y.shape.rank == 2:
        made: Tensor = ops.matmul(x, y)
        return made
    if not x.shape.rank or (y.shape.rank or 0) < 2:
        raise errors.ShapeError(f"dot: x has shape {x.shape} and y {y.shape}; x needs an axis and y two")
    made = ops.tensordot(x, y, [[x.shape.rank - 1], [y.shape.rank - 2]])
    return made


def batch_dot(x: Any, y: Any, axes: Any = None) -> Tensor:
    """Σ x · y along an axis of each, row by row of the batch: [batch, rest of x, rest of y], of rank 2 or more.

    `axes` is one for both or a pair; without it the last of `x` and the last but one of `y`. ShapeError for vectors.
    """
    x, y = convert(x), convert(y)
    ranks = (x.shape.rank or 0, y.shape.rank or 0)
    if min(ranks) < 2:
        raise errors.ShapeError(f"batch_dot: x has shape {x.shape} and y {y.shape}; both need a batch and an axis")
    if ranks == (2, 2):
        made: Tensor = ops.reduce_sum(x * y, 1, True)
        return made
    rank, less = max(ranks), abs(ranks[0] - ranks[1])
    pair = (ranks[0] - 1, max(ranks[1] - 2, 1)) if axes is None else (axes, axes) if isinstance(axes, int) else tuple(axes)
    for _ in range(less):
        x, y = (x, ops.expand_dims(y, -1)) if ranks[0] > ranks[1] else (ops.expand_dims(x, -1), y)
    made = ops.matmul(x, y, transpose_a=pair[0] != rank - 1, transpose_b=pair[1] == rank - 1)
    first = sum(ranks) - 3 if ranks[0] > ranks[1] else ranks[0] - 1
    return ops.squeeze(made, list(range(first, first + less))) if less else made


def concatenate(tensors: Sequence[Any], axis: int = -1) -> Tensor:
    """One behind the other along `axis`."""
    made: Tensor = ops.concat(list(tensors), axis)
    return made


def permute_dimensions(x: Any, pattern: Sequence[int]) -> Tensor:
    """The axes in another order."""
    made: Tensor = ops.transpose(x, list(pattern))
    return made


def flatten(x: Any) -> Tensor:
    """All elements in a row."""
    made: Tensor = ops.reshape(x, [-1])
    return made


def batch_flatten(x: Any) -> Tensor:
    """[batch, …] as [batch, n]."""
    return layers.flatten(x)


def expand_dims(x: Any, axis: int = -1) -> Tensor:
    """With one more axis of size 1."""
    made: Tensor = ops.expand_dims(x, axis)
    return made


def squeeze(x: Any, axis: int) -> Tensor:
    """Without an axis, whose size is 1."""
    made: Tensor = ops.squeeze(x, [axis])
    return made


def tile(x: Any, n: Any) -> Tensor:
    """`x` n times along each axis."""
    made: Tensor = ops.tile(x, [n] if isinstance(n, int) else n)
    return made


def repeat(x: Any, n: int) -> Tensor:
    """[batch, features] n times as [batch, n, features]."""
    made: Tensor = ops.tile(ops.expand_dims(x, 1), [1, n, 1])
    return made


def repeat_elements(x: Any, rep: int, axis: int) -> Tensor:
    """Every element `rep` times in a row along `axis`."""
    shape, sizes = x.shape.as_list(), ops.shape(x)
    axis = axis % len(shape)
    dims = [sizes[number] if size is None else size for number, size in enumerate(shape)]
    tiles = [rep if number == axis + 1 else 1 for number in range(len(dims) + 1)]
    wide = ops.tile(ops.expand_dims(x, axis + 1), tiles)
    made: Tensor = ops.reshape(wide, [*dims[:axis], dims[axis] * rep, *dims[axis + 1:]])
    made.set_shape([*shape[:axis], None if shape[axis] is None else shape[axis] * rep, *shape[axis + 1:]])
    return made


def spatial_axes(rank: int, data_format: str | None = None) -> list[int]:
    """The axes of so many dimensions of space: behind the batch, or with "channels_first" behind the channels of images."""
    first = 2 if rank > 1 and backend.layout(data_format) == "channels_first" else 1
    return list(range(first, first + rank))


def enlarged(x: Any, factors: Sequence[int], axes: Sequence[int]) -> Any:
    """Every element so many times along axes."""
    for axis, factor in zip(axes, factors):
        x = repeat_elements(x, factor, axis)
    return x


def resize_images(x: Any, height_factor: int, width_factor: int, data_format: str | None = None) -> Any:
    """Every row and column of images so many times."""
    return enlarged(x, (height_factor, width_factor), spatial_axes(2, data_format))


def resize_volumes(x: Any, depth_factor: int, height_factor: int, width_factor: int, data_format: str | None = None) -> Any:
    """Every plane, row and column of volumes so many times."""
    return enlarged(x, (depth_factor, height_factor, width_factor), spatial_axes(3, data_format))


def padded(x: Any, pairs: Sequence[Any], axes: Sequence[int]) -> Tensor:
    """Zeros (before, after) along the axes of space."""
    around: list[Any] = [[0, 0]] * (len(axes) + 2)
    for axis, pair in zip(axes, pairs):
        around[axis] = list(pair)
    made: Tensor = ops.pad(x, around)
    return made


def temporal_padding(x: Any, padding: tuple[int, int] = (1, 1)) -> Tensor:
    """Zeros before and behind the time of [batch, time, features]."""
    return padded(x, [padding], [1])


def spatial_2d_padding(x: Any, padding: Any = ((1, 1), (1, 1)), data_format: str | None = None) -> Tensor:
    """Zeros around images: ((top, bottom), (left, right))."""
    return padded(x, padding, spatial_axes(2, data_format))


def spatial_3d_padding(x: Any, padding: Any = ((1, 1), (1, 1), (1, 1)), data_format: str | None = None) -> Tensor:
    """Zeros around volumes, for each of three axes (before, after)."""
    return padded(x, padding, spatial_axes(3, data_format))
