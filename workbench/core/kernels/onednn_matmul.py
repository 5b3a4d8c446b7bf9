"""oneDNN kernels for products of float32 matrices: plain, with bias and ReLU, added to a matrix, folded into an update.

Which form of a product is fastest depends on its shape, by measurement (16x9216 times 9216x4096 takes 6 to 66 ms),
so a few fixed rules choose; they never measure at run time, and a graph gives the same bits in every process.
Weights lie plain, because packing 150 MB costs as much as the product, unless many products of a step share them.
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.core.kernels.choice import Choice, Kernel, Spec
from workbench.core.kernels.onednn_api import BINARY_ADD, BINARY_MULTIPLY, FORWARD_INFERENCE, FORWARD_TRAINING, Argument
from workbench.core.kernels.onednn_format import (
    Desc,
    Format,
    Primitive,
    any_format,
    contiguous,
    fast,
    format_of,
    known,
    primitive,
    servable,
)
from workbench.core.kernels.onednn_guard import referred, serve
from workbench.core.kernels.onednn_program import Builder, Place

__all__ = ["fused_matmul", "matmul", "matmul_add", "matmul_update"]

SKINNY_ROWS = 96
LARGE_WEIGHT = 2 << 20  # elements: above the second-level cache
PACKED_FROM = 256
THIN_COLUMNS = 16
STRAIGHT, TURNED = (0, 1), (1, 0)
NO_LAYOUTS = (None, None)
REUSED = 8
"""Products of one step that read a weight, from which on bringing it into the library's own layout pays: packing one of
1024x2048 costs as much as four products with 20 rows gain."""
WORTH_PACKING = 1 << 16  # elements: below, the library's own copy of the weight stays in the first caches


def _axes(transposed: bool) -> tuple[int, int]:
    return TURNED if transposed else STRAIGHT


class Product:
    """Shapes of `op(a) @ op(b)`: `rows` x `depth` times `depth` x `columns`."""

    def __init__(self, attributes: Mapping[str, Any], a: Spec, b: Spec) -> None:
        self.a, self.b = a.shape, b.shape
        self.turn_a = bool(attributes.get("transpose_a", False))
        self.turn_b = bool(attributes.get("transpose_b", False))
        self.rows, self.depth = (self.a[axis] for axis in _axes(self.turn_a))
        self.columns = self.b[0 if self.turn_b else 1]

    def left(self) -> Desc:
        return contiguous(self.a, _axes(self.turn_a))

    def right(self) -> Desc:
        return contiguous(self.b, _axes(self.turn_b))

    def out(self) -> Desc:
        return contiguous((self.rows, self.columns), STRAIGHT)


@serve("matmul")
def matmul(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
           free: Sequence[bool]) -> Choice | None:
    """`a @ b` of two float32 matrices, each optionally transposed."""
    if not servable(*inputs, *outputs, rank=2):
        return None
    product = Product(attributes, *inputs)
    builder = Builder(2, 1)
    layout = _kept(product, inputs[1], builder)
    if layout is not None:
        return builder.choice((None, layout), (None,))
    if product.turn_b and not product.turn_a and _turning_pays(product):
        return _turned(product)
    thin = _thin(product)
    if thin is not None:
        builder.step(thin, {Argument.SOURCE: Place(0), Argument.OUTPUT_GRADIENT: Place(1),
                            Argument.WEIGHTS_GRADIENT: builder.output()})
        return builder.choice(NO_LAYOUTS, (None,))
    made = _direct(product, builder, Place(0), Place(1), builder.output())
    return builder.choice(NO_LAYOUTS, (None,)) if made else None


def _kept(product: Product, weight: Spec, builder: Builder, bias: Place | None = None,
          after: tuple[tuple[Any, ...], ...] = (), extra: Mapping[int, Place] | None = None) -> Format | None:
    """Add the product of few rows and a weight that many others read too, and say in which layout it wants the weight.

    The planner brings the weight into that layout once for all of them. None, and no step, where that does not pay.
    """
    if product.turn_a or product.rows > SKINNY_ROWS or weight.readers < REUSED or (
            product.depth * product.columns < WORTH_PACKING):
        return None
    axes = STRAIGHT if product.turn_b else TURNED
    flat = None if bias is None else contiguous((product.columns,), (0,))
    made = fast(primitive("inner_product_forward", FORWARD_INFERENCE, product.left(), any_format(weight.shape, axes), flat,
                          product.out(), after=after))
    layout = None if made is None else format_of(made, Argument.WEIGHTS, weight.shape, axes)
    if made is not None and layout is not None:
        builder.step(made, {Argument.SOURCE: Place(0), Argument.WEIGHTS: Place(1), Argument.OUTPUT: builder.output(),
                            **({} if bias is None else {Argument.BIAS: bias}), **(extra or {})})
    return layout


def _thin(product: Product) -> Primitive | None:
    """`a.T @ b` for a narrow `b`: the weight gradient needs no copy of the long operand (0.02 ms against 0.045).

    NumPy's BLAS is as fast alone, but its threads and OpenMP's, which wait actively, take the cores from each other.
    """
    if not product.turn_a or product.turn_b or product.columns > THIN_COLUMNS:
        return None
    a, b = contiguous(product.a, STRAIGHT), contiguous(product.b, STRAIGHT)
    weight = contiguous((product.rows, product.columns), TURNED)
    hint = primitive("inner_product_forward", FORWARD_TRAINING, a, weight, None, b)
    return None if hint is None else fast(primitive("inner_product_backward_weights", a, weight, None, b, hint))


def _turning_pays(product: Product) -> bool:
    """Turning the two small matrices must cost less than the copy that a transposed right side needs."""
    small = product.rows * (product.depth + product.columns)
    return 2 * small <= product.depth * product.columns


def _turned(product: Product) -> Choice | None:
    """`a @ b.T` as `(b @ a.T).T`: the large matrix is read in place, once, at the speed of memory."""
    rows, depth, columns = product.rows, product.depth, product.columns
    builder = Builder(2, 1)
    narrow, result = builder.buffer(4 * rows * depth), builder.buffer(4 * rows * columns)
    first = primitive("reorder", contiguous((rows, depth), TURNED), contiguous((depth, rows), STRAIGHT))
    second = fast(primitive("matmul", contiguous((columns, depth), STRAIGHT), contiguous((depth, rows), STRAIGHT),
                            None, contiguous((columns, rows), STRAIGHT)))
    third = primitive("reorder", contiguous((columns, rows), TURNED), contiguous((rows, columns), STRAIGHT))
    if first is None or second is None or third is None:
        return None
    builder.step(first, {Argument.SOURCE: Place(0), Argument.OUTPUT: narrow})
    builder.step(second, {Argument.SOURCE: Place(1), Argument.WEIGHTS: narrow, Argument.OUTPUT: result})
    builder.step(third, {Argument.SOURCE: result, Argument.OUTPUT: builder.output()})
    return builder.choice(NO_LAYOUTS, (None,))


def _inner(product: Product, bias: Desc | None, after: tuple[tuple[Any, ...], ...]) -> Primitive | None:
    """Few rows times a weight larger than the caches: the inner product reads it in place (10.6 ms against 13.5)."""
    if product.turn_a or product.turn_b or product.rows > SKINNY_ROWS or \
            product.depth * product.columns < LARGE_WEIGHT:
        return None
    flat = None if bias is None else contiguous((product.columns,), (0,))
    return fast(primitive("inner_product_forward", FORWARD_INFERENCE, product.left(),
                          contiguous((product.depth, product.columns), TURNED), flat, product.out(), after=after))


def _direct(product: Product, builder: Builder, a: Place, b: Place, out: Place, bias: Place | None = None,
            after: tuple[tuple[Any, ...], ...] = (), extra: Mapping[int, Place] | None = None) -> bool:
    """Add the steps of one product; False if the library has no fast kernel for it."""
    row = None if bias is None else contiguous((1, product.columns), STRAIGHT)
    places = {Argument.SOURCE: a, Argument.WEIGHTS: b, Argument.OUTPUT: out, **(extra or {})}
    if bias is not None:
        places[Argument.BIAS] = bias
    made = None if extra else _inner(product, row, after)
    if made is None:
        made = _packed(product, builder, places, row, after)
    if made is None:
        made = fast(primitive("matmul", product.left(), product.right(), row, product.out(), after=after))
    if made is not None:
        builder.step(made, places)
    return made is not None


def _packed(product: Product, builder: Builder, places: dict[int, Place], row: Desc | None,
            after: tuple[tuple[Any, ...], ...]) -> Primitive | None:
    """A right side that is small beside the result is packed first: the library would copy it in every block."""
    if product.turn_b or product.rows < PACKED_FROM or product.depth > product.rows:
        return None
    made = fast(primitive("matmul", product.left(), any_format(product.b, STRAIGHT), row, product.out(), after=after))
    if made is None:
        return None
    pack = primitive("reorder", product.right(), known(made.formats[Argument.WEIGHTS]))
    if pack is None:
        return None
    packed = builder.buffer_of(made, Argument.WEIGHTS)
    builder.step(pack, {Argument.SOURCE: places[Argument.WEIGHTS], Argument.OUTPUT: packed})
    places[Argument.WEIGHTS] = packed
    return made


@serve("fused_matmul")
def fused_matmul(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                 free: Sequence[bool]) -> Choice | None:
    """`activation(a @ b + bias)` in one pass; activation "none" or "relu"."""
    a, b, bias = inputs
    activation = attributes.get("activation", "none")
    if not (servable(a, b, *outputs, rank=2) and servable(bias)) or activation not in ("none", "relu"):
        return None
    product = Product(attributes, a, b)
    builder = Builder(3, 1)
    after = (("relu",),) if activation == "relu" else ()
    layout = _kept(product, b, builder, Place(2), after)
    if layout is not None:
        return builder.choice((None, layout, None), (None,))
    made = _direct(product, builder, Place(0), Place(1), builder.output(), Place(2), after)
    return builder.choice((None, None, None), (None,)) if made else None


@serve("matmul_add")
def matmul_add(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
               free: Sequence[bool]) -> Choice | None:
    """`a @ b + c`, where c is as large as the product."""
    a, b, c = inputs
    if not servable(a, b, c, *outputs, rank=2):
        return None
    product = Product(attributes, a, b)
    builder = Builder(3, 1)
    after, extra = (("add", product.out()),), {Argument.after(0): Place(2)}
    layout = _kept(product, b, builder, None, after, extra)
    if layout is not None:
        return builder.choice((None, layout, None), (None,))
    made = _direct(product, builder, Place(0), Place(1), builder.output(), after=after, extra=extra)
    return builder.choice((None, None, None), (None,)) if made else None


@serve("matmul_update")
def matmul_update(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                  free: Sequence[bool]) -> Choice | None:
    """`w + sign * scale * (a @ b)`: the gradient of a weight is never stored; in place or into another buffer."""
    weight, a, b, scale = inputs
    if not servable(weight, a, b, *outputs, rank=2) or scale.dtype != np.float32 or scale.shape not in ((), (1,)):
        return None
    product = Product(attributes, a, b)
    sign = float(attributes.get("sign", -1.0))
    thin = _thin_update(product, sign)
    if thin is not None:
        return _finitely_scaled(thin.choice((None,) * 4, (None,), {0: 0}), attributes, inputs, outputs[0])
    into = _update(product, sign, (("sum",),), {})
    beside = _update(product, sign, (("add", product.out()),), {Argument.after(0): Place(0)})
    if into is None or beside is None:
        return None
    in_place, separate = into.program(), beside.program()
    note = into.choice((), ()).note

    def make(static: tuple[bool, ...]) -> Kernel:
        return _update_kernel(in_place(static), separate(static))
    choice = Choice("onednn", (None,) * 4, (None,), make, max(into.scratch(), beside.scratch()), {0: 0}, note)
    return _finitely_scaled(choice, attributes, inputs, outputs[0])


def _finitely_scaled(choice: Choice, attributes: Mapping[str, Any], inputs: Sequence[Spec], output: Spec) -> Choice:
    """Scaling an operand instead of the product is the same only for a finite scale; else the reference serves."""
    refer = referred("matmul_update", attributes, choice, inputs, output)

    def make(static: tuple[bool, ...]) -> Kernel:
        fast = choice.make(static)

        def kernel(*arrays: Any) -> None:
            if math.isfinite(arrays[3].item()):
                fast(*arrays)
            else:
                refer(arrays)
        return kernel
    return replace(choice, make=make)


def _scale(shape: tuple[int, ...], sign: float) -> Primitive | None:
    """A small operand times the run-time scalar and `sign`: scaling the product would be another pass over it."""
    plain = contiguous(shape, STRAIGHT)
    after = () if sign == 1.0 else (("linear", sign),)
    return fast(primitive("binary", BINARY_MULTIPLY, plain, contiguous((1, 1), STRAIGHT), plain, after=after))


def _thin_update(product: Product, sign: float) -> Builder | None:
    """The gradient of a narrow weight is small enough to be stored before it is added."""
    made, scale = _thin(product), _scale(product.b, sign)
    vector = contiguous((product.rows * product.columns,), (0,))
    add = fast(primitive("binary", BINARY_ADD, vector, vector, vector))
    if made is None or scale is None or add is None:
        return None
    builder = Builder(4, 1)
    scaled, gradient = builder.buffer_of(scale, Argument.OUTPUT), builder.buffer_of(made, Argument.WEIGHTS_GRADIENT)
    builder.step(scale, {Argument.SOURCE: Place(2), Argument.SOURCE_1: Place(3), Argument.OUTPUT: scaled})
    builder.step(made, {Argument.SOURCE: Place(1), Argument.OUTPUT_GRADIENT: scaled,
                        Argument.WEIGHTS_GRADIENT: gradient})
    builder.step(add, {Argument.SOURCE: Place(0), Argument.SOURCE_1: gradient, Argument.OUTPUT: builder.output()})
    return builder


def _update_kernel(in_place: Kernel, separate: Kernel) -> Kernel:
    def kernel(*arrays: Any) -> None:
        # The old weight may be added through the output only if it lies there.
        same = arrays[0] is arrays[4] or arrays[0].ctypes.data == arrays[4].ctypes.data
        (in_place if same else separate)(*arrays)
    return kernel


def _update(product: Product, sign: float, after: tuple[tuple[Any, ...], ...],
            extra: Mapping[int, Place]) -> Builder | None:
    """Scale the smaller operand, multiply, and add the old weight while the product is in the cache."""
    left = product.rows < product.columns
    shape = product.a if left else product.b
    scale = _scale(shape, sign)
    if scale is None:
        return None
    builder = Builder(4, 1)
    scaled = builder.buffer_of(scale, Argument.OUTPUT)
    small = Place(1 if left else 2)
    builder.step(scale, {Argument.SOURCE: small, Argument.SOURCE_1: Place(3), Argument.OUTPUT: scaled})
    a, b = (scaled, Place(2)) if left else (Place(1), scaled)
    return builder if _direct(product, builder, a, b, builder.output(), after=after, extra=extra) else None
