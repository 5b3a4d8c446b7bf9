"""oneDNN kernels for products of float32 matrices: plain, with bias and ReLU, added to a matrix, folded into an update.

Which form of a product is fastest depends on its shape and on the processor (16x9216 times 9216x4096 takes 6 to 66 ms): what
was measured here decides, else a few rules, with which a graph gives the same bits in every process.
Weights lie plain, because packing 150 MB costs as much as the product, unless many products of a step share them.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.core.kernels.choice import Choice, Kernel, Make, Spec
from workbench.core.kernels.llvm import serves
from workbench.core.kernels.llvm_columns import few_columns
from workbench.core.kernels.llvm_few import few
from workbench.core.kernels.llvm_narrow import narrow
from workbench.core.kernels.llvm_products import compiled
from workbench.core.kernels.llvm_products import usual as compiled_usual
from workbench.core.kernels.measured.choose import choose
from workbench.core.kernels.onednn_api import BINARY_ADD, BINARY_MULTIPLY, Argument
from workbench.core.kernels.onednn_desc import contiguous
from workbench.core.kernels.onednn_format import Primitive, fast, primitive, servable
from workbench.core.kernels.onednn_guard import referred, serve
from workbench.core.kernels.onednn_products import STRAIGHT, Product, Task, Way, blas_fits, by_blas, thin, usual, ways_of
from workbench.core.kernels.onednn_program import Builder, Place
from workbench.core.kernels.onednn_short import product, short
from workbench.core.kernels.options import kernel_options

__all__ = ["fused_matmul", "matmul", "matmul_add", "matmul_update"]


@serve("matmul")
def matmul(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
           free: Sequence[bool]) -> Choice | None:
    """`a @ b` of two float32 matrices, or of 16 bits where the processor has them, each optionally transposed."""
    if name := short(*inputs, *outputs, rank=2):
        return product(name, attributes, inputs[0].shape, inputs[1].shape)
    if not servable(*inputs, *outputs, rank=2):
        return None
    task = Task(Product(attributes, inputs[0].shape, inputs[1].shape), Place(0), Place(1), Place(2))

    def finish(multiply: Callable[..., None], a: Any, b: Any, out: Any) -> None:
        multiply(a, b, out)
    return _chosen("matmul", attributes, inputs, outputs, free, task, finish)


@serve("fused_matmul")
def fused_matmul(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                 free: Sequence[bool]) -> Choice | None:
    """`activation(a @ b + bias)` in one pass; activation "none" or "relu"."""
    a, b, bias = inputs
    activation = attributes.get("activation", "none")
    if not (servable(a, b, *outputs, rank=2) and servable(bias)) or activation not in ("none", "relu"):
        return None
    after = (("relu",),) if activation == "relu" else ()
    task = Task(Product(attributes, a.shape, b.shape), Place(0), Place(1), Place(3), Place(2), after)

    def finish(multiply: Callable[..., None], a: Any, b: Any, bias: Any, out: Any) -> None:
        multiply(a, b, out)
        np.add(out, bias, out=out)
        if after:
            np.maximum(out, np.float32(0), out=out)
    return _chosen("fused_matmul", attributes, inputs, outputs, free, task, finish)


@serve("matmul_add")
def matmul_add(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
               free: Sequence[bool]) -> Choice | None:
    """`a @ b + c`, where c is as large as the product."""
    a, b, c = inputs
    if not servable(a, b, c, *outputs, rank=2):
        return None
    product = Product(attributes, a.shape, b.shape)
    task = Task(product, Place(0), Place(1), Place(3), None, (("add", product.out()),), {Argument.after(0): Place(2)})

    def finish(multiply: Callable[..., None], a: Any, b: Any, c: Any, out: Any) -> None:
        multiply(a, b, out)
        np.add(out, c, out=out)
    return _chosen("matmul_add", attributes, inputs, outputs, free, task, finish)


def _chosen(op: str, attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec], free: Sequence[bool],
            task: Task, finish: Callable[..., None]) -> Choice | None:
    """The best way of `task`; `finish` is how the one through BLAS computes the operation, see `by_blas`."""
    count = len(inputs)

    def made(way: Way) -> Choice | None:
        builder = Builder(count, 1)
        layouts = way(task, builder)
        return None if layouts is None else builder.choice((*layouts, *(None,) * (count - 2)), (None,))
    ways: dict[str, Make] = {name: partial(made, way) for name, way in ways_of(task, inputs[1]).items()}
    rule, product = usual(task, inputs[1]), task.product
    if blas_fits(op, product):
        ways["blas"] = partial(by_blas, product, count, finish)
    begin = "bias" if task.bias is not None else "start" if task.extra else ""
    rule = _with_compiled(ways, rule, product, partial(compiled, product, begin, ("relu",) in task.after))
    if loops := _loops(task, "relu" if task.after else "none"):
        ways["narrow"], rule = partial(_given, loops), ["narrow", *rule]
    return choose(op, attributes, inputs, outputs, free, ways, rule)


@serve("matmul_update")
def matmul_update(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                  free: Sequence[bool]) -> Choice | None:
    """`w + sign * scale * (a @ b)`: the gradient of a weight is never stored; in place or into another buffer."""
    weight, a, b, scale = inputs
    if not servable(weight, a, b, *outputs, rank=2) or scale.dtype != np.float32 or scale.shape not in ((), (1,)):
        return None
    update = _Update(Product(attributes, a.shape, b.shape), float(attributes.get("sign", -1.0)))
    known = ways_of(update.task(), b)
    makes: dict[str, Make] = {name: partial(update.by, known[name]) for name in ("inner", "packed", "plain") if name in known}
    rule = [name for name in usual(update.task(), b) if name in makes]
    if update.product.turn_a and not update.product.turn_b:
        makes["thin"] = update.thin
        rule = ["thin", *rule] if "thin" in usual(Task(update.product, Place(1), Place(2), Place(4)), b) else rule
    if blas_fits("matmul_update", update.product):
        makes["blas"] = update.blas
    rule = _with_compiled(makes, rule, update.product, partial(compiled, update.product, sign=update.sign), update=True)
    loops = update.loops()
    makes |= {name: partial(_given, choice) for name, choice in loops.items()}
    ways = {name: partial(_finitely_scaled, make, attributes, inputs, outputs[0]) for name, make in makes.items()}
    return choose("matmul_update", attributes, inputs, outputs, free, ways, [*loops, *rule])


def _loops(task: Task, activation: str) -> Choice | None:
    """Compiled loops for a product of few columns, where there are some."""
    product = task.product
    if product.turn_b or task.extra:
        return None
    if product.turn_a:
        return narrow(product.depth, product.rows, product.columns) if task.lone else None
    return few_columns(product.rows, product.depth, product.columns, task.bias is not None, activation)


def _with_compiled(ways: dict[str, Make], rule: Sequence[str], product: Product, make: Make,
                   update: bool = False) -> list[str]:
    """The rule, with compiled products among the ways where there is an LLVM: deterministic sessions take them, since a library
    cuts sums by the number of threads and the sizes of caches."""
    if not serves():
        return list(rule)
    ways["compiled"] = make
    first = kernel_options().deterministic or (compiled_usual(product, update) and "kept" not in rule)
    return ["compiled", *rule] if first else list(rule)


def _given(choice: Choice) -> Choice:
    return choice


def _finitely_scaled(make: Make, attributes: Mapping[str, Any], inputs: Sequence[Spec], output: Spec) -> Choice | None:
    """Scaling an operand instead of the product is the same only for a finite scale; else the reference serves."""
    choice = make()
    if choice is None:
        return None
    refer = referred("matmul_update", attributes, choice, inputs, output)

    def scaled(static: tuple[bool, ...]) -> Kernel:
        fast = choice.make(static)

        def kernel(*arrays: Any) -> None:
            if math.isfinite(arrays[3].item()):
                fast(*arrays)
            else:
                refer(arrays)
        return kernel
    return choice.by(scaled)


class _Update:
    """The ways of an update; kernels take (weight, a, b, scale, output)."""

    def __init__(self, product: Product, sign: float) -> None:
        self.product, self.sign = product, sign
        self.left = product.rows < product.columns      # the smaller operand is the one that is scaled
        self.small = product.a if self.left else product.b

    def task(self, scaled: Place | None = None) -> Task:
        """The product, added to the weight, which lies in the output."""
        a, b = (scaled or Place(1), Place(2)) if self.left else (Place(1), scaled or Place(2))
        return Task(self.product, a, b, Place(4), after=(("sum",),))

    def scale(self, shape: tuple[int, ...]) -> Primitive | None:
        """A small operand times the run-time scalar and `sign`: scaling the product would be another pass over it."""
        flat = contiguous(shape, STRAIGHT)
        after = () if self.sign == 1.0 else (("linear", self.sign),)
        return fast(primitive("binary", BINARY_MULTIPLY, flat, contiguous((1, 1), STRAIGHT), flat, after=after))

    def by(self, way: Way) -> Choice | None:
        """Scale the smaller operand, multiply, and add the old weight while the product is in the cache."""
        made = self.scale(self.small)
        if made is None:
            return None
        builder = Builder(4, 1)
        scaled, small = builder.buffer_of(made, Argument.OUTPUT), Place(1 if self.left else 2)
        builder.step(made, {Argument.SOURCE: small, Argument.SOURCE_1: Place(3), Argument.OUTPUT: scaled})
        if way(self.task(scaled), builder) is None:
            return None
        choice = builder.choice((None,) * 4, (None,), {0: 0})
        return choice.by(lambda static: _brought(choice.make(static)))

    def thin(self) -> Choice | None:
        """The gradient of a narrow weight is small enough to be stored before it is added."""
        product, builder = self.product, Builder(4, 1)
        scale, vector = self.scale(product.b), contiguous((product.rows * product.columns,), (0,))
        add = fast(primitive("binary", BINARY_ADD, vector, vector, vector))
        if scale is None or add is None:
            return None
        scaled = builder.buffer_of(scale, Argument.OUTPUT)
        gradient = builder.buffer(4 * product.rows * product.columns)
        builder.step(scale, {Argument.SOURCE: Place(2), Argument.SOURCE_1: Place(3), Argument.OUTPUT: scaled})
        if thin(Task(product, Place(1), scaled, gradient), builder) is None:
            return None
        builder.step(add, {Argument.SOURCE: Place(0), Argument.SOURCE_1: gradient, Argument.OUTPUT: builder.output()})
        return builder.choice((None,) * 4, (None,), {0: 0})

    def loops(self) -> dict[str, Choice]:
        """Those that are compiled here, where they fit."""
        product = self.product
        if not product.turn_a or product.turn_b:
            return {}
        sizes = product.depth, product.rows, product.columns, self.sign
        return {name: choice for name, choice in (("narrow", narrow(*sizes)), ("few", few(*sizes))) if choice is not None}

    def blas(self) -> Choice:
        product, shape = self.product, (self.product.rows, self.product.columns)
        first = 4 * math.prod(self.small)

        def finish(multiply: Callable[..., None], weight: Any, a: Any, b: Any, scale: Any, out: Any, scratch: Any) -> None:
            scaled = scratch[:first].view(np.float32).reshape(self.small)
            gradient = scratch[first:first + 4 * math.prod(shape)].view(np.float32).reshape(shape)
            np.multiply(a if self.left else b, np.float32(self.sign * scale.item()), out=scaled)
            multiply(scaled if self.left else a, b if self.left else scaled, gradient)
            np.add(weight, gradient, out=out)
        return by_blas(product, 4, finish, {0: 0}, first + 4 * math.prod(shape))


def _brought(in_place: Kernel) -> Kernel:
    """The old weight is added through the output: where it does not lie there, it is brought."""
    def kernel(*arrays: Any) -> None:
        weight, out = arrays[0], arrays[4]
        if weight is not out and weight.ctypes.data != out.ctypes.data:
            np.copyto(out, weight)
        in_place(*arrays)
    return kernel
