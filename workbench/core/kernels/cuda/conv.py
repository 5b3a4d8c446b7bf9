"""Convolutions of images and their derivatives: by cuDNN, or by products of patches where it is missing or has no way."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench import errors
from workbench.core.graph.shape import Shape
from workbench.core.kernels.cuda import cudnn, patches
from workbench.core.kernels.cuda.values import FLOATS, cupy, kernel
from workbench.core.ops.conv import _convolvable, _filter_of
from workbench.core.ops.conv_windows import channels_last, extents_of, last

__all__ = ["problem_of"]

Options = Mapping[str, Any]


def problem_of(dtype: str, images: tuple[int, ...], filter: tuple[int, ...], options: Options) -> tuple[cudnn.Problem, tuple[
        int, int, int, int] | None]:
    """(the convolution of `images`, in the order of the data format, with a filter [kh, kw, c, o], for cuDNN; how many rows and
    columns of zeros stand around the images before: top, bottom, left, right, or None where cuDNN can add them itself).

    cuDNN pads alike on both sides, SAME with strides may not.
    """
    n, h, w, c = channels_last(images, options)
    kh, kw, _, o = filter
    (oh, top, bottom), (ow, left, right) = extents_of((h, w), (kh, kw), options)
    around = None if (top, left) == (bottom, right) else (top, bottom, left, right)
    if around:
        h, w, top, left = h + top + bottom, w + left + right, 0, 0
    return cudnn.Problem(dtype, options["data_format"] != "NCHW", (n, c, h, w), (o, c, kh, kw), (n, o, oh, ow), (top, left),
                         tuple(options["strides"]), tuple(options["dilations"])), around


def _space(problem: cudnn.Problem, dims: tuple[int, int, int, int], dtype: Any) -> Any:
    """An array for images or outputs of lengths n, c, h, w in the problem's layout."""
    n, c, h, w = dims
    return cupy.empty((n, h, w, c) if problem.channels_last else (n, c, h, w), dtype)


def _inner(problem: cudnn.Problem, around: tuple[int, int, int, int], size: tuple[int, int]) -> tuple[slice, ...]:
    """Where the images lie in the room with zeros around them."""
    rows, columns = slice(around[0], around[0] + size[0]), slice(around[2], around[2] + size[1])
    every = slice(None)
    return (every, rows, columns, every) if problem.channels_last else (every, every, rows, columns)


def _roomy(problem: cudnn.Problem, around: tuple[int, int, int, int] | None, x: Any, options: Options) -> Any:
    if around is None:
        return x
    _, h, w, _ = channels_last(x.shape, options)
    room = _space(problem, problem.images, x.dtype)
    room.fill(0)
    room[_inner(problem, around, (h, w))] = x
    return room


_TO_CUDNN = {True: (3, 0, 1, 2), False: (3, 2, 0, 1)}      # [kh, kw, c, o] to [o, kh, kw, c] or [o, c, kh, kw]
_FROM_CUDNN = {True: (1, 2, 3, 0), False: (2, 3, 1, 0)}


def _by_cudnn(x: Any) -> bool:
    return x.dtype.char in "fd" and x.size > 0 and cudnn.available()


def _back(y: Any, options: Options) -> Any:
    return y.transpose(0, 3, 1, 2) if options["data_format"] == "NCHW" else y


def _forward(x: Any, filter: Any, options: Options) -> Any:
    if _by_cudnn(x) and filter.size:
        problem, around = problem_of(x.dtype.name, x.shape, filter.shape, options)
        out = _space(problem, problem.outputs, x.dtype)
        turned = cupy.ascontiguousarray(filter.transpose(_TO_CUDNN[problem.channels_last]))
        try:
            cudnn.forward(problem, _roomy(problem, around, x, options), turned, out)
            return out
        except errors.UnimplementedError:
            pass
    return _back(patches.forward(last(x, options), filter, options), options)


def _backward_data(filter: Any, dy: Any, shape: tuple[int, ...], options: Options) -> Any:
    """`shape` is that of the images, in the order of the data format."""
    _, h, w, _ = channels_last(shape, options)
    if _by_cudnn(dy) and filter.size:
        problem, around = problem_of(dy.dtype.name, shape, filter.shape, options)
        out = _space(problem, problem.images, dy.dtype)
        turned = cupy.ascontiguousarray(filter.transpose(_TO_CUDNN[problem.channels_last]))
        try:
            cudnn.backward_data(problem, turned, dy, out)
            return out if around is None else out[_inner(problem, around, (h, w))]
        except errors.UnimplementedError:
            pass
    return _back(patches.backward_data(filter, last(dy, options), (h, w), options), options)


def _backward_filter(x: Any, dy: Any, shape: tuple[int, ...], options: Options) -> Any:
    if _by_cudnn(x) and dy.size:
        problem, around = problem_of(x.dtype.name, x.shape, shape, options)
        o, c, kh, kw = problem.filter
        out = cupy.empty((o, kh, kw, c) if problem.channels_last else (o, c, kh, kw), x.dtype)
        try:
            cudnn.backward_filter(problem, _roomy(problem, around, x, options), dy, out)
            return out.transpose(_FROM_CUDNN[problem.channels_last])
        except errors.UnimplementedError:
            pass
    return patches.backward_filter(last(x, options), last(dy, options), shape, options)


@kernel("conv2d", dtypes=FLOATS)
def _conv2d(x: Any, filter: Any, **options: Any) -> Any:
    return _forward(x, filter, options)


@kernel("conv2d_backprop_input", dtypes=FLOATS)
def _conv2d_backprop_input(filter: Any, dy: Any, *, input_shape: Any, **options: Any) -> Any:
    batch, *rest = tuple(input_shape)
    return _backward_data(filter, dy, (dy.shape[0] if batch is None else batch, *rest), options)


@kernel("conv2d_backprop_images", dtypes=(*FLOATS, "int32", "int64"), host=("input_shape",))
def _conv2d_backprop_images(filter: Any, dy: Any, input_shape: Any, **options: Any) -> Any:
    images = _convolvable(Shape(input_shape.tolist()), Shape(filter.shape), Shape(dy.shape), options)
    return _backward_data(filter, dy, images.static, options)


@kernel("conv2d_backprop_filter", dtypes=FLOATS)
def _conv2d_backprop_filter(x: Any, dy: Any, *, filter_shape: Any, **options: Any) -> Any:
    return _backward_filter(x, dy, tuple(filter_shape), options)


@kernel("conv2d_backprop_filters", dtypes=(*FLOATS, "int32", "int64"), host=("filter_shape",))
def _conv2d_backprop_filters(x: Any, dy: Any, filter_shape: Any, **options: Any) -> Any:
    found = _filter_of(Shape(x.shape), Shape(dy.shape), Shape(filter_shape.tolist()), options)
    return _backward_filter(x, dy, found.static, options)
