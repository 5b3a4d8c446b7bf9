"""Patches of images for windows of a size (two scalars, whose product is k) that only the step knows."""
from __future__ import annotations

import numpy as np

from workbench.core.graph.build import ops
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape
from workbench.core.ops.conv_windows import extents_of


@op("sizes[2] ksize[2] -> ?", types="int32 int32 -> int32", shape=lambda inputs, attrs: [Shape([2, 3])], differentiable=False)
def window_extents(sizes, ksize, *, strides, padding, dilations):
    """[2, 3]: (outputs, elements of padding before, and after) of height and width, for images of `sizes`."""
    attrs = {"strides": strides, "padding": padding, "dilations": dilations}
    return np.array(extents_of(sizes.tolist(), ksize.tolist(), attrs), np.int32)


def _places(sizes, ksize, options):
    """Of height and of width [outputs, k] which places each window covers; and which elements of a patch lie inside [rows,
    columns, k]."""
    extents = ops.window_extents(ops.stack(sizes), ops.stack(ksize), **options)
    places, inside = [], []
    for axis, (size, count, stride, gap) in enumerate(zip(sizes, ksize, options["strides"], options["dilations"])):
        starts = ops.range(extents[axis, 0]) * stride - extents[axis, 1]
        places.append(ops.expand_dims(starts, 1) + ops.range(count) * gap)
        inside.append(ops.logical_and(places[axis] >= 0, places[axis] < size))
    mask = ops.logical_and(ops.expand_dims(inside[0], (1, 3)), ops.expand_dims(inside[1], (0, 2)))
    return *places, ops.reshape(mask, ops.stack([extents[0, 0], extents[1, 0], ksize[0] * ksize[1]]))


def patches_at(x, ksize, **options):
    """(the patches [n, rows, columns, k, c] of images x [n, height, width, c], which of their elements lie inside [rows,
    columns, k])"""
    x = ops.of_rank(x, 4)
    _, height, width, _ = ops.unstack(ops.shape(x), 4)
    down, right, mask = _places((height, width), ksize, options)
    found = ops.gather(ops.gather(x, ops.clip_by_value(down, 0, height - 1), 1), ops.clip_by_value(right, 0, width - 1), 3)
    dims = ops.shape(found)
    flat = ops.stack([dims[0], dims[1], dims[3], dims[2] * dims[4], dims[5]])
    patches = ops.reshape(ops.transpose(found, [0, 1, 3, 2, 4, 5]), flat)
    if options["padding"] == "SAME":      # the size of the window does not count
        n, *sizes, channels = x.shape.as_list()
        patches.set_shape([n, *(extent[0] for extent in extents_of(sizes, (1, 1), options)), None, channels])
    return patches, mask
