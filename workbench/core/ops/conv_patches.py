"""Patches of images, and the convolutions made of them: depthwise, separable and dilated ones."""
from __future__ import annotations

import math

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import lengths
from workbench.core.graph.build import constant_shape, convert, ops
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape
from workbench.core.ops.conv_late import patches_at
from workbench.core.ops.conv_windows import extents_of, options_of, scatter, views, window


def _cut(inputs, attrs):
    return [_patches_of(inputs[0].shape, attrs)]


def _patches_of(images, attrs):
    if images.sizes is None:
        return Shape([None] * 4)
    n, h, w, c = images.sizes
    (oh, *_), (ow, *_) = extents_of((h, w), attrs["ksize"], attrs)
    return Shape([n, oh, ow, None if c is None else math.prod(attrs["ksize"]) * c])


def _put_back(inputs, attrs):
    where = "image_patches_grad"
    images = constant_shape(inputs[1]).merge(Shape([None] * 4), f"{where}: input_shape")
    if inputs[0].shape.sizes is not None:
        batch = Shape([inputs[0].shape.sizes[0], None, None, None])
        images = images.merge(batch, f"{where}: input_shape and the number of dy")
    _patches_of(images, attrs).merge(inputs[0].shape, f"{where}: the patches of {images} and dy")
    return [images]


@op("images[n,h,w,c] -> ?", types="T:number -> T", shape=_cut)
def image_patches(images, *, ksize, strides, padding, dilations):
    """[n, rows, columns, height · width · c]: the window of `ksize` at each place, laid out flat; zeros outside."""
    attrs = {"strides": strides, "padding": padding, "dilations": dilations}
    found = views(images, ksize, attrs).copy()      # where windows are as wide as the images, no reshaping copies
    return found.reshape(*found.shape[:3], math.prod(found.shape[3:]))


@image_patches.gradient
def _(node, dy):
    return ops.image_patches_grad(dy, ops.shape(node.inputs[0]), **node.attrs)


@op("dy[n,h,w,k] input_shape[4] -> ?", types="T:number int -> T", shape=_put_back)
def image_patches_grad(dy, input_shape, *, ksize, strides, padding, dilations):
    """The patches dy added up where they lay in images of `input_shape`."""
    attrs = {"strides": strides, "padding": padding, "dilations": dilations}
    images = Shape(lengths("image_patches_grad", input_shape))
    _patches_of(images, {**attrs, "ksize": ksize}).merge(Shape(dy.shape), f"image_patches_grad: the patches of {images} and dy")
    _, h, w, c = images.static
    return scatter(dy.reshape(*dy.shape[:3], *ksize, c), (h, w), ksize, attrs)


@image_patches_grad.gradient
def _(node, ddx):
    return ops.image_patches(ddx, **node.attrs), None


def _images(where, x):
    if x.shape.rank not in (None, 4):
        raise errors.ShapeError(f"{where}: the images have shape {x.shape} but rank 4 is needed; reshape them or use set_shape")
    return ops.of_rank(x, 4)


def patches_of(x, ksize, channels, **options):
    """[n, rows, columns, k, channels]: the patches of images x [n, height, width, channels], zeros outside; k is the product of
    `ksize`, two numbers, or scalars that only the step knows."""
    if not all(isinstance(size, int) for size in ksize):
        patches, inside = patches_at(x, ksize, **options)
        return ops.select(ops.expand_dims(inside, -1), patches, ops.zeros_like(patches))
    flat, count = ops.image_patches(x, ksize=ksize, **options), math.prod(ksize)
    patches = ops.reshape(flat, ops.concat([ops.getitem(ops.shape(flat), slice(3)), [count, channels]], 0))
    patches.set_shape([*flat.shape.as_list()[:3], count, channels if isinstance(channels, int) else None])
    return patches


@composed
def extract_image_patches(images, ksizes, strides, rates, padding, name=None):
    """[n, rows, columns, height · width · depth]: the patches of images [n, height, width, depth], each laid out flat.

    `ksizes`, `strides` and `rates` (distances between the elements of a patch) are [1, rows, columns, 1]; `padding` is
    "SAME" or "VALID". Raises ShapeError where the window is larger than the image.
    """
    where = "extract_image_patches"
    options = options_of(where, strides, padding, "NHWC", rates)
    del options["data_format"]
    return ops.image_patches(_images(where, convert(images)), ksize=window(where, "ksizes", ksizes, "NHWC"), name=name,
                             **options)


# convolutions of each channel by itself

def _depthwise(where, input, filter, strides, padding, rate, data_format, name):
    data_format = data_format or "NHWC"
    options = options_of(where, strides, padding, data_format, 1 if rate is None else tuple(rate))
    if max(options["strides"]) > 1 and max(options["dilations"]) > 1:
        raise errors.InvalidArgumentError(f"{where}: strides are {list(options['strides'])} and rate is "
                                          f"{list(options['dilations'])}; one of them must be 1")
    x, kernel = _images(where, convert(input)), convert(filter)
    if kernel.shape.rank not in (None, 4):
        raise errors.ShapeError(f"{where}: filter has shape {kernel.shape} but rank 4 is needed, [height, width, channels, "
                                "multiplier]; reshape it or use set_shape")
    sizes, own = list(kernel.shape.sizes or (None,) * 4), x.shape.sizes[1 if data_format == "NCHW" else 3]
    sizes[2] = own if sizes[2] is None else sizes[2]
    late = ops.unstack(ops.shape(kernel), 4) if None in sizes else sizes
    height, width, channels, times = [at_run if size is None else size for size, at_run in zip(sizes, late)]
    if None not in (own, sizes[2]) and own != channels:
        raise errors.ShapeError(f"{where}: input has {own} channels but filter axis 2 is {channels}; make them equal")
    x = ops.transpose(x, [0, 2, 3, 1]) if options.pop("data_format") == "NCHW" else x
    parts = patches_of(x, (height, width), channels, **options)
    mixed = ops.einsum("nhwkc,kcm->nhwcm", parts, ops.reshape(kernel, [height * width, channels, times]))
    nchw, lead = data_format == "NCHW", ops.getitem(ops.shape(parts), slice(3))
    found = ops.reshape(mixed, ops.concat([lead, [channels * times]], 0), name=None if nchw else name)
    rows = [extent for extent, *_ in extents_of(x.shape.sizes[1:3], sizes[:2], options)]
    found.set_shape([x.shape.sizes[0], *rows, None if None in sizes[2:] else channels * times])
    return ops.transpose(found, [0, 3, 1, 2], name=name) if nchw else found


@composed
def depthwise_conv2d(input, filter, strides, padding, rate=None, name=None, data_format=None):
    """[n, rows, columns, channels · multiplier]: channel c of the images [n, height, width, channels] with each of its own
    filters [height, width, c, multiplier].

    `strides` is [1, s, s, 1], `rate` (rows, columns) the distance between the elements of a filter; one of both is 1.
    `data_format` "NCHW" puts channels second. ShapeError where the channels differ.
    """
    return _depthwise("depthwise_conv2d", input, filter, strides, padding, rate, data_format, name)


@composed
def depthwise_conv2d_native(input, filter, strides, padding, data_format="NHWC", name=None):
    """depthwise_conv2d without a rate."""
    return _depthwise("depthwise_conv2d_native", input, filter, strides, padding, None, data_format, name)


@composed
def separable_conv2d(input, depthwise_filter, pointwise_filter, strides, padding, rate=None, name=None, data_format=None):
    """depthwise_conv2d, then a convolution by `pointwise_filter` [1, 1, channels · multiplier, outputs] that mixes channels.

    Raises ShapeError where the filters do not fit each other.
    """
    point, depth = convert(pointwise_filter), convert(depthwise_filter)
    if point.shape.rank == depth.shape.rank == 4 and point.shape.known and depth.shape.known:
        wanted = [1, 1, depth.shape.static[2] * depth.shape.static[3]]
        if list(point.shape.static[:3]) != wanted:
            raise errors.ShapeError(f"separable_conv2d: pointwise_filter has shape {point.shape} but depthwise_filter "
                                    f"{depth.shape}; the first must be {wanted[:-1]} and {wanted[-1]} channels deep")
    mixed = _depthwise("separable_conv2d", input, depth, strides, padding, rate, data_format, None)
    return ops.conv2d(mixed, point, 1, "VALID", data_format=data_format or "NHWC", name=name)


@composed
def atrous_conv2d(value, filters, rate, padding, name=None):
    """conv2d of images [n, height, width, channels] whose filters' elements lie `rate` pixels apart, with stride 1."""
    if not isinstance(rate, (int, np.integer)) or rate < 1:
        raise errors.InvalidArgumentError(f"atrous_conv2d: rate is {rate!r}; use a whole number from 1")
    return ops.conv2d(value, filters, 1, padding, dilations=int(rate), name=name)
