"""oneDNN kernels for float32 convolutions in both directions.

Filters are [height, width, in, out] for both data formats, as in TensorFlow 1.x. Images travel with the channels
last: there the generated kernels are as fast as in blocked formats or a little faster (measured on AVX-512, 1 to 384
channels), and an NHWC value needs no private format at all. Only filters are reordered, once a step. Where no fast
kernel takes channels last, the library chooses.
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from workbench.core.kernels.choice import Choice, Make, Spec
from workbench.core.kernels.llvm_windows import by_filter, by_images, convolved
from workbench.core.kernels.measured.choose import choose
from workbench.core.kernels.onednn_api import Argument
from workbench.core.kernels.onednn_format import (
    Primitive,
    format_of,
    servable,
)
from workbench.core.kernels.onednn_guard import by_reference, guarded, referred, serve
from workbench.core.kernels.onednn_padded import padded
from workbench.core.kernels.onednn_products import Product, Task, plain
from workbench.core.kernels.onednn_program import Builder, Place
from workbench.core.kernels.onednn_short import convolution, short
from workbench.core.kernels.onednn_window import FILTER_AXES, Convolution, good
from workbench.core.kernels.onednn_winograd import Winograd
from workbench.core.kernels.options import kernel_options

__all__ = ["conv2d", "conv2d_backprop_filter", "conv2d_backprop_input", "fused_conv2d"]


@serve("conv2d")
def conv2d(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
           free: Sequence[bool]) -> Choice | None:
    """Convolution of an image batch with a filter."""
    if not servable(*inputs, *outputs, rank=4):
        return _in_short("conv2d", attributes, inputs[0], inputs[1], outputs[0])
    return _forward(Convolution(attributes, inputs[0], inputs[1], outputs[0]), (), free[0])


@serve("fused_conv2d")
def fused_conv2d(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                 free: Sequence[bool]) -> Choice | None:
    """`activation(conv2d(x, filter) + bias)` in one pass; activation "none" or "relu"."""
    x, kernel, bias = inputs
    activation = attributes.get("activation", "none")
    if not (servable(x, kernel, *outputs, rank=4) and servable(bias)) or activation not in ("none", "relu"):
        return None
    after = (("relu",),) if activation == "relu" else ()
    return _forward(Convolution(attributes, x, kernel, outputs[0], bias), after, free[0])


def _forward(shape: Convolution, after: tuple[tuple[Any, ...], ...], free: bool) -> Choice | None:
    if not _channels_match(shape):
        return None
    op = "conv2d" if shape.bias is None else "fused_conv2d"
    given = (shape.x, shape.kernel, *(() if shape.bias is None else (shape.bias,)))
    winograd, (fits, format_) = shape.winograd(), shape.last(shape.y, free)
    ways: dict[str, Make] = {"direct": partial(_direct_forward, shape, after, free)}
    if winograd is not None and fits:
        layouts = (shape.wanted_last(shape.x), *(None,) * (len(given) - 1))
        activation = "" if shape.bias is None else "relu" if after else "bias"
        ways["winograd"] = lambda: shape.exact(winograd.forward(activation, layouts, format_), op, shape.attributes, given,
                                               shape.y)
    if shape.pointwise():
        product = Product({}, shape.pixels(shape.x), shape.kernel.shape[2:])
        bias = None if shape.bias is None else Place(2)
        ways["product"] = partial(_by_product, Task(product, Place(0), Place(1), Place(len(given)), bias, after), len(given))
    begin, outputs = "" if shape.bias is None else "bias", shape.kernel.shape[3]
    ways["compiled"] = lambda: shape.laid(convolved(shape.windows(), outputs, begin, bool(after)), {0: shape.x}, shape.y, free)
    return _decided(op, shape, ways, winograd, given, shape.y, free)


def _decided(op: str, shape: Convolution, ways: dict[str, Make], winograd: Winograd | None, inputs: Sequence[Spec],
             output: Spec, free: bool) -> Choice | None:
    """The best of `ways`, or the reference where that may be best; Winograd's algorithm usually where it should pay, and
    compiled products in deterministic sessions, since the library cuts sums by the sizes of caches."""
    if shape.small():
        ways["reference"] = partial(by_reference, op, shape.attributes, inputs, output)
    rule = ["winograd"] if "winograd" in ways and winograd is not None and winograd.pays() else []
    first = ["compiled"] if kernel_options().deterministic else []
    return choose(op, shape.attributes, inputs, [output], [free], ways, [*first, *rule, "direct"])


def _by_product(task: Task, count: int) -> Choice | None:
    builder = Builder(count, 1)
    return None if plain(task, builder) is None else builder.choice((None,) * count, (None,))


def _direct_forward(shape: Convolution, after: tuple[tuple[Any, ...], ...], free: bool) -> Choice | None:
    made = shape.best(lambda mode: shape.forward(mode, after), shape.x)
    if made is None:
        return None
    if not good(made) and any((*shape.window.before, *shape.window.after)):
        found = padded(shape.x, shape.sides(), lambda wide: _generated_forward(shape.within(wide), after, free))
        if found is not None:
            return found
    return _forward_by(made, shape, free)


def _generated_forward(shape: Convolution, after: tuple[tuple[Any, ...], ...], free: bool) -> Choice | None:
    made = shape.best(lambda mode: shape.forward(mode, after), shape.x)
    return None if made is None or not good(made) else _forward_by(made, shape, free)


def _forward_by(made: Primitive, shape: Convolution, free: bool) -> Choice:
    builder = Builder(2 if shape.bias is None else 3, 1)
    places = {Argument.SOURCE: Place(0), Argument.WEIGHTS: Place(1)}
    wanted = [shape.wanted(made, Argument.SOURCE, shape.x),
              format_of(made, Argument.WEIGHTS, shape.kernel.shape, FILTER_AXES)]
    if shape.bias is not None:
        places[Argument.BIAS] = Place(2)
        wanted.append(None)
    stored = builder.store(made, Argument.OUTPUT, places, shape.y.shape, shape.axes, free)
    return builder.choice(wanted, (stored,))


def _in_short(op: str, attributes: Mapping[str, Any], x: Spec, kernel: Spec, y: Spec) -> Choice | None:
    """A convolution of 16-bit values, or a derivative, where the processor has instructions for them."""
    name = short(x, kernel, y, rank=4)
    shape = Convolution(attributes, x, kernel, y) if name else None
    if shape is None or not _channels_match(shape):
        return None
    return convolution(op, name, x.shape, kernel.shape, y.shape, shape.axes, shape.window.parameters())


def _channels_match(shape: Convolution) -> bool:
    """Grouped convolutions are not ours."""
    return shape.x.shape[shape.axes[1]] == shape.kernel.shape[2]


@serve("conv2d_backprop_input")
def conv2d_backprop_input(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                          free: Sequence[bool]) -> Choice | None:
    """Gradient of `conv2d` with respect to the image, from the filter and `dy`."""
    kernel, dy = inputs
    if not servable(*inputs, *outputs, rank=4):
        return _in_short("conv2d_backprop_input", attributes, outputs[0], kernel, dy)
    shape = Convolution(attributes, outputs[0], kernel, dy)
    if not _channels_match(shape):
        return None
    winograd, (fits, format_) = shape.winograd(), shape.last(outputs[0], free[0])
    ways: dict[str, Make] = {"direct": partial(_direct_input, shape, free[0])}
    if winograd is not None and fits:
        ways["winograd"] = lambda: shape.exact(winograd.backward_data(shape.wanted_last(dy), format_),
                                               "conv2d_backprop_input", attributes, inputs, outputs[0])
    if shape.pointwise():
        product = Product({"transpose_b": True}, shape.pixels(dy), kernel.shape[2:])
        ways["product"] = partial(_by_product, Task(product, Place(1), Place(0), Place(2)), 2)
    ways["compiled"] = partial(_compiled_input, shape, free[0])
    return _decided("conv2d_backprop_input", shape, ways, winograd, inputs, outputs[0], free[0])


def _direct_input(shape: Convolution, free: bool) -> Choice | None:
    x, kernel, dy = shape.x, shape.kernel, shape.y
    made = shape.best(lambda mode: shape.backward(
        "convolution_backward_data", shape.data(x, mode), shape.filter(), shape.data(dy, mode)), dy)
    if made is None:
        return None
    builder = Builder(2, 1)
    places = {Argument.WEIGHTS: Place(0), Argument.OUTPUT_GRADIENT: Place(1)}
    stored = builder.store(made, Argument.SOURCE_GRADIENT, places, x.shape, shape.axes, free)
    return builder.choice((format_of(made, Argument.WEIGHTS, kernel.shape, FILTER_AXES),
                           shape.wanted(made, Argument.OUTPUT_GRADIENT, dy)), (stored,))


def _compiled_input(shape: Convolution, free: bool) -> Choice | None:
    """What is not finite in the filter meets zeros around dy, so the reference serves it."""
    choice = shape.laid(by_images(shape.windows(), shape.kernel.shape[3]), {1: shape.y}, shape.x, free)
    if choice is None or shape.pointwise():
        return choice
    refer = referred("conv2d_backprop_input", shape.attributes, choice, (shape.kernel, shape.y), shape.x)
    return guarded(choice, {0: math.prod(shape.kernel.shape)}, refer)


@serve("conv2d_backprop_filter")
def conv2d_backprop_filter(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                           free: Sequence[bool]) -> Choice | None:
    """Gradient of `conv2d` with respect to the filter, from the image and `dy`."""
    x, dy = inputs
    if not servable(*inputs, *outputs, rank=4):
        return _in_short("conv2d_backprop_filter", attributes, x, outputs[0], dy)
    shape = Convolution(attributes, x, outputs[0], dy)
    if not _channels_match(shape):
        return None
    winograd = shape.winograd()
    ways: dict[str, Make] = {"direct": partial(_direct_filter, shape, free[0])}
    if winograd is not None:
        ways["winograd"] = lambda: shape.exact(winograd.backward_filter((shape.wanted_last(x), shape.wanted_last(dy))),
                                               "conv2d_backprop_filter", attributes, inputs, outputs[0])
    if shape.pointwise():
        product = Product({"transpose_a": True}, shape.pixels(x), shape.pixels(dy))
        ways["product"] = partial(_by_product, Task(product, Place(0), Place(1), Place(2)), 2)
    ways["compiled"] = lambda: shape.laid(by_filter(shape.windows(), outputs[0].shape[3]), {0: x, 1: dy}, None)
    return _decided("conv2d_backprop_filter", shape, ways, winograd, inputs, outputs[0], free[0])


def _direct_filter(shape: Convolution, free: bool) -> Choice | None:
    x, kernel, dy = shape.x, shape.kernel, shape.y
    made = shape.best(lambda mode: shape.backward(
        "convolution_backward_weights", shape.data(x, mode), shape.filter(), shape.data(dy, mode)), x, dy)
    if made is None:
        return None
    builder = Builder(2, 1)
    places = {Argument.SOURCE: Place(0), Argument.OUTPUT_GRADIENT: Place(1)}
    stored = builder.store(made, Argument.WEIGHTS_GRADIENT, places, kernel.shape, FILTER_AXES, free)
    return builder.choice((shape.wanted(made, Argument.SOURCE, x), shape.wanted(made, Argument.OUTPUT_GRADIENT, dy)),
                          (stored,))
