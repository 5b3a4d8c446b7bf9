"""oneDNN kernels for products and convolutions of 16-bit floats, added up in float32, where the processor has them.

The library is asked whether it uses instructions for a type and has kernels, once for each, and what it computes is compared.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import registry
from workbench.core.kernels.arithmetic import Arithmetic
from workbench.core.kernels.choice import Choice, Spec
from workbench.core.kernels.fallback import announce
from workbench.core.kernels.onednn_api import CONVOLUTION_DIRECT, FORWARD_TRAINING, Argument
from workbench.core.kernels.onednn_desc import any_format, contiguous
from workbench.core.kernels.onednn_format import Primitive, api, available, fast, primitive
from workbench.core.kernels.onednn_products import Product
from workbench.core.kernels.onednn_program import Builder, Place

__all__ = ["SERVED", "convolution", "leaks", "native", "product", "short"]

SERVED = ("matmul", "conv2d", "conv2d_backprop_input", "conv2d_backprop_filter")
CODES = {"float16": 1, "bfloat16": 2, "float32": 3}
"""The library's numbers of the types; float32 is there for tests on processors that have no other."""
FEW = 3      # channels of an image, for which the library has a kernel of its own
FILTER_AXES, IMAGE_AXES = (3, 2, 0, 1), (0, 3, 1, 2)
_TRIES = {"matmul": ((3, 4096), (4096, 5), (3, 5)), "conv2d": ((1, 5, 5, 256), (3, 3, 256, 16), (1, 3, 3, 16)),
          "conv2d_backprop_input": ((3, 3, 16, 256), (1, 3, 3, 256), (1, 5, 5, 16)),
          "conv2d_backprop_filter": ((1, 50, 50, 16), (1, 48, 48, 16), (3, 3, 16, 16))}
"""Shapes of two inputs and the output, of which each element is a sum of more than 2048 terms: ones tell in which type they are
added up, for from 2048 on float16 has no odd numbers, bfloat16 from 256 on."""


def product(name: str, attributes: Mapping[str, Any], a: Sequence[int], b: Sequence[int]) -> Choice | None:
    """The product of two matrices of the type `name`."""
    shape, code = Product(attributes, a, b), CODES[name]
    made = fast(primitive("matmul", *(one._replace(dtype=code) for one in (shape.left(), shape.right())), None,
                          shape.out()._replace(dtype=code)))
    if made is None:
        return None
    builder = Builder(2, 1)
    builder.step(made, {Argument.SOURCE: Place(0), Argument.WEIGHTS: Place(1), Argument.OUTPUT: builder.output()})
    return builder.choice((None, None), (None,))


def convolution(op: str, name: str, x: Sequence[int], kernel: Sequence[int], y: Sequence[int], axes: Sequence[int],
                window: tuple[tuple[int, ...], ...]) -> Choice | None:
    """A convolution of the type `name`, or one of its derivatives, over images that lie as they are; filters are brought into
    the library's layout in each step."""
    if name != "float32" and leaks(op, kernel):
        return None
    code = CODES[name]
    image, result = (contiguous(shape, axes)._replace(dtype=code) for shape in (x, y))
    filters = any_format(kernel, FILTER_AXES)._replace(dtype=code)
    forward = primitive("convolution_forward", FORWARD_TRAINING, CONVOLUTION_DIRECT, image, filters, None, result, *window)
    made: Primitive | None = forward
    if forward is not None and op != "conv2d":
        middle = (filters, None) if op == "conv2d_backprop_filter" else (filters,)
        family = "convolution_backward_" + ("weights" if op == "conv2d_backprop_filter" else "data")
        made = primitive(family, CONVOLUTION_DIRECT, image, *middle, result, *window, forward)
    if fast(made) is None or made is None:
        return None
    builder = Builder(2, 1)
    if op == "conv2d_backprop_filter":
        places = {Argument.SOURCE: Place(0), Argument.OUTPUT_GRADIENT: Place(1)}
        builder.store(made, Argument.WEIGHTS_GRADIENT, places, kernel, FILTER_AXES, False, dtype=code)
        return builder.choice((None, None), (None,))
    weights = builder.bring(made, Argument.WEIGHTS, Place(1 if op == "conv2d" else 0), kernel, FILTER_AXES, code)
    places = {Argument.SOURCE: Place(0), Argument.OUTPUT: builder.output()} if op == "conv2d" else {
        Argument.OUTPUT_GRADIENT: Place(1), Argument.SOURCE_GRADIENT: builder.output()}
    builder.step(made, {**places, Argument.WEIGHTS: weights})
    return builder.choice((None, None), (None,))


def leaks(op: str, kernel: Sequence[int]) -> bool:
    """Does the library let a NaN of one pixel into another? It takes channels in pairs, and of an odd number the first of the
    next pixel too, which it multiplies by 0, except in images of few channels."""
    *size, inner, outer = kernel
    if op == "conv2d":
        return inner % 2 == 1 and (inner > FEW or tuple(size) == (1, 1))
    return op == "conv2d_backprop_input" and outer % 2 == 1


@functools.cache
def native(name: str) -> bool:
    """Does the library compute products and convolutions of the type `name` on this processor, and right?"""
    try:
        with Arithmetic():      # this may start OpenMP's threads, which compute as steps do from then on
            return name in CODES and available() and _quick(name) and all(_right(op, name) for op in SERVED)
    except Exception as error:      # whatever is wrong in a library: the values can be computed without it
        announce("onednn", f"products of {name}", error)
        return False


def _quick(name: str) -> bool:
    """Does the library compute it by instructions? If not, float32 is quicker."""
    return name == "float32" or name in api().short


def _right(op: str, name: str) -> bool:
    """Does `op` of ones, and of random numbers, come to the last bits out as the reference has it?"""
    dtype, (one, two, out), random = as_dtype(name).numpy, _TRIES[op], np.random.default_rng(1)
    choice = _try(op, name)
    if choice is None:
        return False
    attributes: dict[str, Any] = {} if op == "matmul" else {"strides": (1, 1), "padding": "VALID"}
    if op not in ("matmul", "conv2d"):
        attributes["input_shape" if op.endswith("input") else "filter_shape"] = out
    kernel = choice.make((False,) * 3)
    scratch = [np.empty(choice.scratch, np.uint8)] if choice.scratch else []
    for draw in (np.ones, random.standard_normal):
        values = [draw(shape).astype(dtype) for shape in (one, two)]
        found = np.empty(out, dtype)
        kernel(*values, found, *scratch)
        wanted = registry[op].reference(*[value.astype(np.float32) for value in values], **attributes)
        if not np.abs(found.astype(np.float32) - wanted).max() <= 0.01 * np.abs(wanted).max():      # also for NaN
            return False
    return True


def _try(op: str, name: str) -> Choice | None:
    one, two, out = _TRIES[op]
    if op == "matmul":
        return product(name, {}, one, two)
    x, kernel, y = {"conv2d": (one, two, out), "conv2d_backprop_input": (out, one, two)}.get(op, (one, out, two))
    return convolution(op, name, x, kernel, y, IMAGE_AXES, ((1, 1), (0, 0), (0, 0), (0, 0)))


def short(*specs: Spec, rank: int) -> str:
    """The type of non-empty plain values of this rank, if it is one of 16 bits that the library serves here, else ""."""
    name = str(specs[0].dtype.name)
    fit = all(s.dtype.name == name and len(s.shape) == rank and math.prod(s.shape) and s.layout is None for s in specs)
    return name if fit and name in ("bfloat16", "float16") and native(name) else ""
