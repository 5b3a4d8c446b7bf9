"""Derivatives of convolutions as functions of their own: by filters and by images, plain and dilated."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_shape, convert, ops
from workbench.core.graph.opdef import composed
from workbench.core.ops.conv_windows import options_of


@composed
def conv2d_filter_gradient(input, filter_sizes, out_backprop, strides, padding, use_cudnn_on_gpu=True, data_format="NHWC",
                           name=None):
    """The derivative of conv2d by its filter, of shape `filter_sizes`, for the derivative `out_backprop` by its result."""
    wanted = convert(filter_sizes)
    shape = constant_shape(wanted)
    return ops.conv2d_backprop_filter(input, out_backprop, filter_shape=shape.static if shape.known else wanted, name=name,
                                      **options_of("conv2d_backprop_filter", strides, padding, data_format))


@composed
def conv2d_image_gradient(input_sizes, filter, out_backprop, strides, padding, use_cudnn_on_gpu=True, data_format="NHWC",
                          name=None):
    """The derivative of conv2d by its images, of shape `input_sizes`, for the derivative `out_backprop` by its result."""
    return ops.conv2d_transpose(out_backprop, filter, input_sizes, strides, padding, data_format, name=name)


@composed
def atrous_conv2d_transpose(value, filters, output_shape, rate, padding, name=None):
    """The transpose of atrous_conv2d, with filters [height, width, channels out, channels in]: images of `output_shape`."""
    if not isinstance(rate, (int, np.integer)) or rate < 1:
        raise errors.InvalidArgumentError(f"atrous_conv2d_transpose: rate is {rate!r}; use a whole number from 1")
    wanted = convert(output_shape)
    shape = constant_shape(wanted)
    late = shape.sizes is None or None in shape.sizes[1:]
    return ops.conv2d_backprop_input(filters, value, input_shape=wanted if late else shape.sizes, name=name,
                                     **options_of("atrous_conv2d_transpose", 1, padding, "NHWC", int(rate)))
