"""The operations that are called at random, a function a family: each gives a Call."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracle.calls.draw import ANY, Call, Draw
from tests.oracle.harness import named

__all__ = ["BINARY", "FAMILIES", "UNARY"]

UNARY = (
    "abs", "negative", "sign", "square", "sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "ceil", "floor", "round", "rint",
    "reciprocal", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "lgamma",
    "digamma", "erf", "erfc", "sigmoid", "log_sigmoid", "is_nan", "is_inf", "is_finite", "logical_not", "conj", "real",
    "imag", "angle", "identity", "zeros_like", "ones_like", "shape", "size", "rank", "nn.relu", "nn.relu6", "nn.elu",
    "nn.selu", "nn.softplus", "nn.softsign", "nn.l2_loss", "nn.softmax", "nn.log_softmax", "nn.crelu", "nn.zero_fraction",
    "to_float", "to_int32", "to_int64", "to_double", "matrix_transpose", "trace", "matrix_diag", "matrix_diag_part",
    "diag_part", "transpose", "where", "unique", "unique_with_counts", "squeeze", "string_to_number", "as_string")
BINARY = (
    "add", "subtract", "multiply", "divide", "div", "truediv", "floordiv", "floor_div", "realdiv", "mod", "floormod",
    "truncatemod", "pow", "maximum", "minimum", "atan2", "squared_difference", "equal", "not_equal", "less", "less_equal",
    "greater", "greater_equal", "logical_and", "logical_or", "logical_xor", "bitwise.bitwise_and", "bitwise.bitwise_or",
    "bitwise.bitwise_xor", "complex", "nn.bias_add", "matmul", "tensordot", "igamma", "igammac")
DIVISIONS = ("divide", "div", "truediv", "floordiv", "floor_div", "mod", "floormod", "truncatemod")


def unary(draw: Draw) -> Call:
    name = draw.one(*UNARY)
    return Call(name, (draw.array(draw.shape(), draw.one(*ANY)),), lambda tf, x: named(tf, name)(x))


def binary(draw: Draw) -> Call:
    name, dtype, shape = draw.one(*BINARY), draw.one(*ANY), draw.shape()
    x, y = draw.array(shape, dtype), draw.array(draw.fitting(shape), dtype if draw.chance(0.95) else draw.one(*ANY))
    if y.dtype.kind in "iu" and name in DIVISIONS:
        y = np.where(y == 0, 1, y).astype(y.dtype)
    if (name == "pow" and y.dtype.kind in "iu") or (name.startswith("igamma") and y.dtype.kind == "f"):
        x, y = np.abs(x), np.abs(y)
    more = (1,) if name == "tensordot" else ()
    return Call(name, (x, y), lambda tf, x, y: named(tf, name)(x, y, *more))


def reduction(draw: Draw) -> Call:
    name = draw.one("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_mean", "reduce_all", "reduce_any",
                    "reduce_logsumexp", "reduce_join", "norm", "nn.l2_normalize")
    x = draw.array(draw.shape(), draw.one(*ANY))
    axes, keep = draw.axes(x.ndim), draw.one(True, False)
    if name == "nn.l2_normalize":
        return Call(f"{name} {axes}", (x,), lambda tf, x: tf.nn.l2_normalize(x, 0 if axes is None else axes))
    if name == "norm" and isinstance(axes, list):
        axes = axes[0]
    return Call(f"{name} {axes} {keep}", (x,), lambda tf, x: named(tf, name)(x, axis=axes, keep_dims=keep))


def along(draw: Draw) -> Call:
    """Operations along one axis."""
    x = draw.array(draw.shape(), draw.one(*ANY))
    axis, flag, other = draw.axis(x.ndim), draw.one(True, False), draw.one(True, False)
    count, kind = draw.one(1, 2, 3), draw.one("int32", "int64")
    made: dict[str, Callable[..., Any]] = {
        "cumsum": lambda tf, x: tf.cumsum(x, axis, exclusive=flag, reverse=other),
        "cumprod": lambda tf, x: tf.cumprod(x, axis, exclusive=flag, reverse=other),
        "reverse": lambda tf, x: tf.reverse(x, [axis]), "stack": lambda tf, x: tf.stack([x, x], axis),
        "concat": lambda tf, x: tf.concat([x, x], axis), "split": lambda tf, x: list(tf.split(x, count, axis)),
        "split_by_sizes": lambda tf, x: list(tf.split(x, [1, 1, -1] if flag else [1, 2], axis)),
        "unstack": lambda tf, x: list(tf.unstack(x, axis=axis)), "expand_dims": lambda tf, x: tf.expand_dims(x, axis),
        "argmax": lambda tf, x: tf.argmax(x, axis, output_type=named(tf, kind)),
        "argmin": lambda tf, x: tf.argmin(x, axis, output_type=named(tf, kind)),
        "top_k": lambda tf, x: list(tf.nn.top_k(x, count)), "squeeze": lambda tf, x: tf.squeeze(x, [axis]),
        "softmax": lambda tf, x: tf.nn.softmax(x, axis), "gather_first": lambda tf, x: tf.gather(x, [0], axis=axis)}
    name = draw.one(*made)
    return Call(f"{name} {axis} {flag} {other} {count} {kind}", (x,), made[name])


def shaping(draw: Draw) -> Call:
    """Operations that move, repeat, cut or fill."""
    x = draw.array(draw.shape(), draw.one(*ANY))
    sizes, rank = list(x.shape), x.ndim
    times, order = [draw.one(1, 1, 2, 3) for _ in sizes], draw.shuffled(range(rank))
    pads, mode = [[draw.one(0, 1, 2), draw.one(0, 1)] for _ in sizes], draw.one("CONSTANT", "REFLECT", "SYMMETRIC")
    begin, length = [draw.one(0, max(0, d - 1)) for d in sizes], [draw.one(-1, 0, 1) for _ in sizes]
    wanted = draw.one([-1], draw.shuffled(sizes), [*sizes, 1], [2, -1])
    bands, place = (draw.one(-1, 0, 1), draw.one(-1, 0, 2)), _place(draw, rank)
    dtype = draw.one(*ANY[:-1])
    made: dict[str, tuple[Any, Callable[..., Any]]] = {
        "tile": (times, lambda tf, x: tf.tile(x, times)), "transpose": (order, lambda tf, x: tf.transpose(x, order)),
        "pad": ((pads, mode), lambda tf, x: tf.pad(x, pads, mode)),
        "slice": ((begin, length), lambda tf, x: tf.slice(x, begin, length)),
        "reshape": (wanted, lambda tf, x: tf.reshape(x, wanted)), "getitem": (place, lambda tf, x: x[place]),
        "matrix_band_part": (bands, lambda tf, x: tf.matrix_band_part(x, *bands)),
        "cast": (dtype, lambda tf, x: tf.cast(x, named(tf, dtype)))}
    name = draw.one(*made)
    return Call(f"{name} {made[name][0]}", (x,), made[name][1])


def _place(draw: Draw, rank: int) -> Any:
    """An index of NumPy's kind."""
    found: list[Any] = []
    for _ in range(draw.random.randrange(1, rank + 2)):
        part = slice(draw.one(None, 0, 1, -1, 5), draw.one(None, 0, 2, -1), draw.one(None, 2, -1))
        found.append(draw.one(None, draw.random.randrange(-3, 3), part))
    if draw.chance(0.3):
        found[draw.random.randrange(len(found))] = Ellipsis
    return tuple(found)


def choosing(draw: Draw) -> Call:
    """Operations by positions."""
    x = draw.array(draw.shape(draw.one(1, 2, 3), empty=0), draw.one(*ANY))
    rows = x.shape[0]
    at, ids = draw.ints(0, rows, draw.shape(draw.one(0, 1, 2))), np.sort(draw.ints(0, 3, (rows,)))
    chosen, lengths = draw.array(x.shape[:draw.one(1, x.ndim)], "bool"), draw.ints(0, x.shape[-1] + 1, (rows,))
    way = draw.one("sum", "max", "min", "prod", "mean")
    places = draw.ints(0, 1, (2, draw.random.randrange(1, x.ndim + 1)))
    made: dict[str, tuple[tuple[Any, ...], Callable[..., Any]]] = {
        "gather": ((at,), lambda tf, x, at: tf.gather(x, at)), "gather_nd": ((places,), lambda tf, x, at: tf.gather_nd(x, at)),
        "where": ((chosen, x[::-1]), lambda tf, x, c, y: tf.where(c, x, y)),
        "boolean_mask": ((chosen,), lambda tf, x, c: tf.boolean_mask(x, c)),
        f"segment_{way}": ((ids,), lambda tf, x, i: named(tf, f"segment_{way}")(x, i)),
        "unsorted_segment_sum": ((ids - draw.one(0, 1),), lambda tf, x, i: tf.unsorted_segment_sum(x, i, 3)),
        "dynamic_partition": ((ids % 2,), lambda tf, x, i: list(tf.dynamic_partition(x, tf.cast(i, "int32"), 2))),
        "batch_gather": ((draw.ints(0, 1, (rows, 2) if x.ndim > 1 else (3,)),), lambda tf, x, at: tf.batch_gather(x, at)),
        "reverse_sequence": ((lengths,), lambda tf, x, n: tf.reverse_sequence(x, n, seq_axis=x_last, batch_axis=0))}
    x_last = x.ndim - 1
    name = draw.one(*made)
    return Call(name, (x, *made[name][0]), made[name][1])


def filtering(draw: Draw) -> Call:
    """Convolutions and windows."""
    dtype, padding, by = draw.one("float32", "float64"), draw.one("SAME", "VALID"), draw.one(1, 2)
    images = draw.array((2, draw.random.randrange(3, 7), draw.random.randrange(3, 7), 4), dtype)
    size, rates = (draw.one(1, 2, 3), draw.one(1, 3)), draw.one([1, 1], [2, 1])
    filters, line = draw.array((*size, 4, 3), dtype), draw.array((2, 6, 3), dtype)
    strides, window = [1, by, draw.one(1, 2), 1], [1, *size, 1]
    made: dict[str, tuple[tuple[Any, ...], Callable[..., Any]]] = {
        "conv2d": ((images, filters), lambda tf, x, f: tf.nn.conv2d(x, f, strides, padding)),
        "convolution": ((images, filters), lambda tf, x, f: tf.nn.convolution(x, f, padding, dilation_rate=rates)),
        "conv1d": ((line, draw.array((3, 3, 4), dtype)), lambda tf, x, f: tf.nn.conv1d(x, f, by, padding)),
        "conv3d": ((images[None], draw.array((1, 2, 3, 4, 2), dtype)), lambda tf, x, f: tf.nn.conv3d(x, f, [1] * 5, padding)),
        "depthwise_conv2d": ((images, filters), lambda tf, x, f: tf.nn.depthwise_conv2d(x, f, [1, by, by, 1], padding)),
        "max_pool": ((images,), lambda tf, x: tf.nn.max_pool(x, window, strides, padding)),
        "avg_pool": ((images,), lambda tf, x: tf.nn.avg_pool(x, window, strides, padding)),
        "lrn": ((images,), lambda tf, x: tf.nn.lrn(x, by, 1.0, 0.5, 0.6)),
        "space_to_depth": ((images[:, :2, :2],), lambda tf, x: tf.space_to_depth(x, 2)),
        "depth_to_space": ((images,), lambda tf, x: tf.depth_to_space(x, 2)),
        "extract_image_patches": ((images,), lambda tf, x: tf.extract_image_patches(x, window, strides, [1] * 4, padding)),
        "space_to_batch_nd": ((images[:, :2, :2],), lambda tf, x: tf.space_to_batch_nd(x, [2, 2], [[by - 1, by - 1], [0, 2]]))}
    name = draw.one(*made)
    return Call(f"{name} {padding} {strides} {window} {rates}", made[name][0], made[name][1])


def picturing(draw: Draw) -> Call:
    """Images."""
    batch = (draw.one(1, 2),) if draw.chance(0.5) else ()
    x = draw.array((*batch, draw.one(1, 3, 4), draw.one(1, 2, 5), 3), draw.one("float32", "float64", "uint8"))
    x = np.abs(x) / 6 if x.dtype.kind == "f" else x
    size, align, method, dtype = [draw.one(1, 2, 5), draw.one(2, 3, 7)], draw.one(True, False), draw.one(0, 1, 2, 3), draw.one(
        "float32", "uint8", "int16")
    made: dict[str, Callable[..., Any]] = {
        **{f"image.{way}": lambda tf, x, way=way: named(tf.image, way)(x, size, align_corners=align) for way in (
            "resize_bilinear", "resize_nearest_neighbor", "resize_bicubic", "resize_area")},
        **{f"image.{way}": lambda tf, x, way=way: named(tf.image, way)(x) for way in (
            "rgb_to_grayscale", "rgb_to_hsv", "per_image_standardization", "total_variation", "flip_left_right", "rot90")},
        "image.resize_images": lambda tf, x: tf.image.resize_images(x, size, method, align_corners=align),
        "image.resize_image_with_crop_or_pad": lambda tf, x: tf.image.resize_image_with_crop_or_pad(x, *size),
        "image.convert_image_dtype": lambda tf, x: tf.image.convert_image_dtype(x, named(tf, dtype), saturate=align),
        "image.central_crop": lambda tf, x: tf.image.central_crop(x, 0.5),
        "image.adjust_contrast": lambda tf, x: tf.image.adjust_contrast(x, 1.5)}
    name = draw.one(*made)
    return Call(f"{name} {size} {align} {method} {dtype}", (x,), made[name])


def losing(draw: Draw) -> Call:
    """Losses with weights of any shape that fits."""
    shape = draw.shape(2, empty=0)
    labels, predictions = (np.abs(draw.array(shape, "float32")) + 0.1 for _ in range(2))
    form = draw.one((), (1, 1), (shape[0], 1), shape, (shape[0],), (1, shape[1]))
    reduction = draw.one("none", "weighted_sum", "weighted_mean", "weighted_sum_by_nonzero_weights")
    name = draw.one("mean_squared_error", "absolute_difference", "huber_loss", "log_loss", "hinge_loss", "cosine_distance",
                    "sigmoid_cross_entropy", "softmax_cross_entropy", "sparse_softmax_cross_entropy",
                    "mean_pairwise_squared_error")
    options: dict[str, Any] = {} if name == "mean_pairwise_squared_error" else {"reduction": reduction}
    if name == "cosine_distance":
        options["axis"] = 1
    if name == "hinge_loss":
        labels = (labels > 1).astype(np.float32)
    if name == "sparse_softmax_cross_entropy":
        labels = draw.ints(0, shape[1], shape[:1])
    return Call(f"losses.{name} {form} {reduction}", (labels, predictions, np.abs(draw.array(form, "float32"))),
                lambda tf, x, y, w: named(tf.losses, name)(x, y, weights=w, **options))


def solving(draw: Draw) -> Call:
    """Linear algebra."""
    m, dtype, flag = draw.one(1, 2, 3), draw.one("float32", "float64", "complex64"), draw.one(True, False)
    matrix = draw.array((*draw.one((), (2,)), m, m), dtype)
    regular = (matrix + 7 * np.eye(m)).astype(matrix.dtype)
    own = ((regular + np.swapaxes(regular, -1, -2).conj()) / 2).astype(matrix.dtype)
    right = draw.array((*matrix.shape[:-1], 2), dtype)
    made: dict[str, tuple[tuple[Any, ...], Callable[..., Any]]] = {
        **{name: ((regular,), lambda tf, x, name=name: named(tf, name)(x)) for name in (
            "matrix_inverse", "matrix_determinant", "trace", "linalg.slogdet")},
        "linalg.expm": ((regular,), lambda tf, x: tf.linalg.expm(x * 0.1)),
        **{name: ((own,), lambda tf, x, name=name: named(tf, name)(x)) for name in (
            "cholesky", "self_adjoint_eigvals", "linalg.logdet")},
        "svd": ((regular,), lambda tf, x: tf.svd(x, compute_uv=False)),
        "matrix_solve": ((regular, right), lambda tf, x, y: tf.matrix_solve(x, y, adjoint=flag)),
        "matrix_triangular_solve": ((regular, right), lambda tf, x, y: tf.matrix_triangular_solve(x, y, lower=flag)),
        "matrix_solve_ls": ((regular, right), lambda tf, x, y: tf.matrix_solve_ls(x, y, fast=flag)),
        "cholesky_solve": ((own, right), lambda tf, x, y: tf.cholesky_solve(tf.cholesky(x), y)),
        "matrix_set_diag": ((regular, right[..., 0]), lambda tf, x, y: tf.matrix_set_diag(x, y))}
    name = draw.one(*made)
    return Call(f"{name} {flag}", made[name][0], made[name][1])


FAMILIES: tuple[Callable[[Draw], Call], ...] = (
    unary, unary, binary, binary, reduction, along, shaping, choosing, filtering, picturing, losing, solving)
