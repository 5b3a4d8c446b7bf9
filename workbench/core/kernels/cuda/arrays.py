"""Joining, splitting, repeating, padding, filling and slicing."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.arrays import lengths, strided_key, wide
from workbench.core.graph.opdef import registry
from workbench.core.kernels.cuda.values import ALL, FLOATS, REALS, cupy, down, kernel
from workbench.core.ops.array import _sizes

__all__: list[str] = []


@kernel("concat", dtypes=ALL)
def _concat(*values: Any, axis: int) -> Any:
    return cupy.concatenate(values, axis)


@kernel("stack", dtypes=ALL)
def _stack(*values: Any, axis: int) -> Any:
    return cupy.stack(values, axis)


@kernel("split", dtypes=ALL)
def _split(value: Any, *, num_or_size_splits: Any, axis: int) -> Any:
    found, start, lead = [], 0, (slice(None),) * (axis % value.ndim)
    for size in _sizes(value.shape[axis], num_or_size_splits):
        found.append(value[(*lead, slice(start, start + size))].copy())
        start += size
    return found


@kernel("unstack", dtypes=ALL)
def _unstack(value: Any, *, num: int | None, axis: int) -> Any:
    if num is not None and value.shape[axis] != num:
        return registry["unstack"].reference(down(value), num=num, axis=axis)      # says so
    lead = (slice(None),) * (axis % value.ndim)
    return [value[(*lead, i)].copy() for i in range(value.shape[axis])]


@kernel("permute", dtypes=ALL, host=("perm",))
def _permute(x: Any, perm: Any) -> Any:
    if sorted(perm.tolist()) != list(range(x.ndim)):
        return registry["permute"].reference(down(x), perm)      # says so
    return x.transpose(perm.tolist())


@kernel("fill", dtypes=ALL, host=("dims",))
def _fill(dims: Any, value: Any) -> Any:
    return cupy.broadcast_to(value, lengths("fill", dims)).copy()


@kernel("zeros_like", dtypes=ALL)
def _zeros_like(x: Any) -> Any:
    return cupy.zeros(x.shape, x.dtype)


@kernel("ones_like", dtypes=ALL)
def _ones_like(x: Any) -> Any:
    return cupy.ones(x.shape, x.dtype)


@kernel("tile", dtypes=ALL, host=("multiples",))
def _tile(x: Any, multiples: Any) -> Any:
    return cupy.tile(x, lengths("tile", multiples))


@kernel("fold_tiles", dtypes=REALS, host=("multiples", "shape"))
def _fold_tiles(dy: Any, multiples: Any, shape: Any) -> Any:
    if list(dy.shape) != (multiples * shape).tolist():
        return registry["fold_tiles"].reference(down(dy), multiples, shape)      # says so
    dims = [int(n) for pair in zip(multiples, shape) for n in pair]
    return dy.reshape(dims).sum(tuple(range(0, len(dims), 2)), dtype=wide(dy.dtype)).astype(dy.dtype, copy=False)


@kernel("pad", dtypes=ALL, host=("paddings",))
def _pad(x: Any, paddings: Any, *, mode: str, constant_values: Any) -> Any:
    if not x.ndim or (paddings < 0).any() or mode.upper() != "CONSTANT":
        return registry["pad"].reference(down(x), paddings, mode=mode, constant_values=constant_values)
    out = cupy.full([d + int(a) + int(b) for d, (a, b) in zip(x.shape, paddings)], constant_values, x.dtype)
    out[tuple(slice(int(a), int(a) + d) for d, (a, _) in zip(x.shape, paddings))] = x
    return out


@kernel("one_hot", dtypes=ALL)
def _one_hot(indices: Any, *, depth: int, on_value: Any, off_value: Any, axis: int, dtype: Any) -> Any:
    at = indices.ndim if axis in (-1, None) else axis
    places = cupy.arange(depth).reshape(-1, *[1] * (indices.ndim - at))
    kind = dtype.numpy.type
    return cupy.where(cupy.expand_dims(indices, at) == places, kind(on_value), kind(off_value)).astype(dtype.numpy, copy=False)


@kernel("strided_slice", dtypes=ALL, host=("begin", "end", "strides"))
def _strided_slice(x: Any, begin: Any, end: Any, strides: Any, **masks: int) -> Any:
    try:
        return x[strided_key(begin.tolist(), end.tolist(), strides.tolist(), **masks)].copy()
    except IndexError as error:
        raise errors.ShapeError(f"strided_slice: {error} (x has shape {list(x.shape)}): slice index out of bounds; stay "
                                "inside") from None


@kernel("strided_slice_grad", dtypes=ALL, host=("shape", "begin", "end", "strides"))
def _strided_slice_grad(shape: Any, begin: Any, end: Any, strides: Any, dy: Any, **masks: int) -> Any:
    out = cupy.zeros(lengths("strided_slice_grad", shape), dy.dtype)
    out[strided_key(begin.tolist(), end.tolist(), strides.tolist(), **masks)] = dy
    return out


@kernel("check_numerics", dtypes=FLOATS)
def _check_numerics(x: Any, *, message: str) -> Any:
    return x if bool(cupy.isfinite(x).all()) else registry["check_numerics"].reference(down(x), message=message)
