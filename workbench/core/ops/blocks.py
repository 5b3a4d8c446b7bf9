"""Blocks of space moved into batch or depth and back: reshapes and transpositions whose sizes may be known late."""
from __future__ import annotations

import math

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.opdef import composed
from workbench.core.graph.shape import Shape


def _numbers(where, name, vector):
    """The elements of an int vector: ints where they are known now, scalar tensors where only the step knows them."""
    if vector.shape.rank not in (None, 1):
        raise errors.ShapeError(f"{where}: {name} has shape {vector.shape}; give a vector, a number for each axis")
    known = constant_value(vector)
    if known is not None:
        return [int(v) for v in known]
    if vector.shape.rank != 1 or not vector.shape.known:
        raise errors.InvalidArgumentError(f"{where}: the length of {name} (shape {vector.shape}) is known only at run time but "
                                          "the graph needs it now; use set_shape")
    return [ops.cast(ops.getitem(vector, i), "int32") for i in range(vector.shape.static[0])]


def _dims(x):
    """The dimensions of x of known rank: ints, or scalar tensors."""
    shape = None if x.shape.known else ops.shape(x)
    return [ops.getitem(shape, i) if dim is None else dim for i, dim in enumerate(x.shape.sizes)]


def _shared(where, what, size, block):
    """size / block, which must be whole."""
    if isinstance(size, int) and isinstance(block, int) and size % block:
        raise errors.ShapeError(f"{where}: {what} is {size}, which is not a multiple of the block {block}; pad or crop it")
    return size // block


def _of_any_rank(move, where, x, block_shape, pairs, name):
    """`move` of x of unknown rank: the axes behind the blocks are one until it is done."""
    count = convert(block_shape).shape.num_elements()
    if count is None:
        raise errors.ShapeError(f"{where}: the rank of input and the length of block_shape are unknown; use set_shape")
    dims = ops.shape(x)
    others = ops.getitem(dims, slice(1 + count, None))
    flat = ops.reshape(x, ops.concat([ops.getitem(dims, slice(1 + count)), [ops.reduce_prod(others)]], 0))
    flat.set_shape([None] * (2 + count))
    moved = move(flat, block_shape, pairs)
    return ops.reshape(moved, ops.concat([ops.getitem(ops.shape(moved), slice(1 + count)), others], 0), name=name)


def _arguments(where, x, block_shape, pairs, name):
    """(input, blocks, starts, ends, dimensions), all checked."""
    block, pairs = convert(block_shape), convert(pairs)
    if block.shape.rank is None:
        raise errors.ShapeError(f"{where}: the rank of block_shape is unknown; use set_shape")
    blocks = _numbers(where, "block_shape", block)
    if any(isinstance(b, int) and b < 1 for b in blocks):
        raise errors.InvalidArgumentError(f"{where}: block_shape is {blocks}; use numbers from 1")
    if x.shape.rank < 1 + len(blocks):
        raise errors.ShapeError(f"{where}: input has rank {x.shape.rank} (shape {x.shape}) but block_shape has {len(blocks)} "
                                f"elements, which needs rank {1 + len(blocks)} or more; reshape it")
    if pairs.shape.rank not in (2, None) or not pairs.shape.compatible(Shape([len(blocks), 2])):
        raise errors.ShapeError(f"{where}: {name} has shape {pairs.shape} but [{len(blocks)}, 2] is needed; give a pair for "
                                "each block")
    known = constant_value(pairs)
    if known is not None and (known < 0).any():
        raise errors.InvalidArgumentError(f"{where}: {name} is {known.tolist()}; use no negative number")
    flat = _numbers(where, name, ops.reshape(pairs, [2 * len(blocks)]))
    return x, blocks, flat[::2], flat[1::2]


@composed
def space_to_batch_nd(input, block_shape, paddings, name=None):
    """[batch · Π blocks, sizes / blocks, …]: blocks of the axes after the first, zero-padded, become entries of the batch.

    `input` is [batch, sizes…, others…], `block_shape` int [m], `paddings` int [m, 2]; the padded sizes are multiples of the
    blocks, else ShapeError. The entries of one place of the blocks follow each other.
    """
    where, x = "space_to_batch_nd", convert(input)
    if x.shape.rank is None:
        return _of_any_rank(space_to_batch_nd, where, x, block_shape, paddings, name)
    x, blocks, before, after = _arguments(where, x, block_shape, paddings, "paddings")
    dims, count = _dims(x), len(blocks)
    others = dims[1 + count:]
    rim = [[0, 0], *([a, b] for a, b in zip(before, after)), *([0, 0] for _ in others)]
    wide = [d + a + b for d, a, b in zip(dims[1:], before, after)]
    small = [_shared(where, f"axis {1 + i} with its padding", size, block) for i, (size, block) in enumerate(zip(wide, blocks))]
    cut = ops.reshape(ops.pad(x, convert(rim, "int32")),
                      _vector([dims[0], *(d for pair in zip(small, blocks) for d in pair), *others]))
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(1 + 2 * count, 1 + 2 * count + len(others))]
    return ops.reshape(ops.transpose(cut, order), _vector([dims[0] * math.prod(blocks), *small, *others]), name=name)


@composed
def batch_to_space_nd(input, block_shape, crops, name=None):
    """[batch / Π blocks, sizes · blocks - crops, …]: the inverse of space_to_batch_nd; `crops` int [m, 2] are cut off.

    ShapeError where the batch is no multiple of the blocks or a crop is longer than its axis.
    """
    where, x = "batch_to_space_nd", convert(input)
    if x.shape.rank is None:
        return _of_any_rank(batch_to_space_nd, where, x, block_shape, crops, name)
    x, blocks, before, after = _arguments(where, x, block_shape, crops, "crops")
    dims, count = _dims(x), len(blocks)
    sizes, others = dims[1:1 + count], dims[1 + count:]
    batch = _shared(where, "the batch", dims[0], math.prod(blocks))
    order = [count, *(i for k in range(count) for i in (count + 1 + k, k)), *range(2 * count + 1, 2 * count + 1 + len(others))]
    turned = ops.transpose(ops.reshape(x, _vector([*blocks, batch, *sizes, *others])), order)
    wide = [size * block for size, block in zip(sizes, blocks)]
    whole = ops.reshape(turned, _vector([batch, *wide, *others]))
    left = [size - a - b for size, a, b in zip(wide, before, after)]
    for axis, (size, a, b) in enumerate(zip(wide, before, after), 1):
        if all(isinstance(v, int) for v in (size, a, b)) and a + b > size:
            raise errors.ShapeError(f"{where}: crops take {a + b} of axis {axis}, which has {size} elements; take fewer")
    return ops.slice(whole, _vector([0, *before, *(0 for _ in others)]), _vector([batch, *left, *others]), name=name)


def _vector(dims):
    return convert([int(d) if isinstance(d, (int, np.integer)) else ops.cast(d, "int32") for d in dims], None if any(
        hasattr(d, "op") for d in dims) else "int32")


@composed
def space_to_batch(input, paddings, block_size, name=None):
    """space_to_batch_nd of images [batch, height, width, depth] with square blocks; `paddings` int [2, 2]."""
    return space_to_batch_nd(ops.of_rank(input, 4), [block_size, block_size], paddings, name)


@composed
def batch_to_space(input, crops, block_size, name=None):
    """batch_to_space_nd of images [batch, height, width, depth] with square blocks; `crops` int [2, 2]."""
    return batch_to_space_nd(ops.of_rank(input, 4), [block_size, block_size], crops, name)


@composed
def required_space_to_batch_paddings(input_shape, block_shape, base_paddings=None, name=None):
    """(paddings, crops), both int [m, 2]: the least padding at the ends beyond `base_paddings` that makes the sizes
    `input_shape` [m] multiples of `block_shape` [m], and the crops that undo it."""
    sizes, blocks = convert(input_shape, "int32"), convert(block_shape, "int32")
    base = ops.zeros(ops.stack([ops.size(blocks), 2]), "int32") if base_paddings is None else convert(base_paddings, "int32")
    before, after = ops.unstack(base, num=2, axis=1)
    more = ops.floormod(blocks - ops.floormod(sizes + before + after, blocks), blocks)
    return (ops.stack([before, after + more], axis=1, name=name), ops.stack([ops.zeros_like(more), more], axis=1))


# depth

def _images(where, input, block_size, data_format):
    x = ops.of_rank(input, 4)
    if data_format not in ("NHWC", "NCHW"):
        raise errors.InvalidArgumentError(f"{where}: data_format is {data_format!r}; use 'NHWC' or 'NCHW'")
    if not isinstance(block_size, (int, np.integer)) or block_size < 2:
        raise errors.InvalidArgumentError(f"{where}: block_size is {block_size!r}; use a whole number from 2")
    if x.shape.rank != 4:
        raise errors.ShapeError(f"{where}: input has shape {x.shape} but images of rank 4 are needed; reshape it or use "
                                "set_shape")
    return ops.transpose(x, [0, 2, 3, 1]) if data_format == "NCHW" else x


def _finished(x, dims, data_format, name):
    if data_format == "NHWC":
        return ops.reshape(x, _vector(dims), name=name)
    return ops.transpose(ops.reshape(x, _vector(dims)), [0, 3, 1, 2], name=name)


@composed
def space_to_depth(input, block_size, name=None, data_format="NHWC"):
    """[batch, height / b, width / b, b² · depth] of images [batch, height, width, depth]: each block of b = `block_size`
    becomes one place, row by row. ShapeError where a size is no multiple of b."""
    where, b = "space_to_depth", block_size
    x = _images(where, input, b, data_format)
    n, height, width, depth = _dims(x)
    h, w = _shared(where, "the height", height, b), _shared(where, "the width", width, b)
    cut = ops.transpose(ops.reshape(x, _vector([n, h, b, w, b, depth])), [0, 1, 3, 2, 4, 5])
    return _finished(cut, [n, h, w, b * b * depth], data_format, name)


@composed
def depth_to_space(input, block_size, name=None, data_format="NHWC"):
    """[batch, height · b, width · b, depth / b²] of images [batch, height, width, depth]: the inverse of space_to_depth.
    ShapeError where the depth is no multiple of b²."""
    where, b = "depth_to_space", block_size
    x = _images(where, input, b, data_format)
    n, h, w, depth = _dims(x)
    kept = _shared(where, "the depth", depth, b * b)
    laid = ops.transpose(ops.reshape(x, _vector([n, h, w, b, b, kept])), [0, 1, 3, 2, 4, 5])
    return _finished(laid, [n, h * b, w * b, kept], data_format, name)
