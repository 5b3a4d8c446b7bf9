"""Patches of images: what the windows cut out of them, laid out flat, and its adjoint."""
from __future__ import annotations

import math

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


def images_of_rank(where, x):
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
    return ops.image_patches(images_of_rank(where, convert(images)), ksize=window(where, "ksizes", ksizes, "NHWC"), name=name,
                             **options)
