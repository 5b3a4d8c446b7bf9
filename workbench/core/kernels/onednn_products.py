"""The ways to multiply two matrices: oneDNN's inner product and matmul in several forms, and NumPy's BLAS.

`usual` says which of them serve where nothing was measured. Times in this file are of a 16 x 9216 x 4096 product.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.core.kernels.choice import Choice, Kernel, Layout, Spec
from workbench.core.kernels.llvm_products import Sizes
from workbench.core.kernels.onednn_api import FORWARD_INFERENCE, FORWARD_TRAINING, Argument, load
from workbench.core.kernels.onednn_desc import Desc, any_format, contiguous
from workbench.core.kernels.onednn_format import fast, format_of, known, primitive
from workbench.core.kernels.onednn_program import Builder, Place
from workbench.core.kernels.options import kernel_options
from workbench.core.kernels.threads import get_threads

__all__ = ["STRAIGHT", "Product", "Task", "blas_fits", "by_blas", "usual", "ways_of"]

SKINNY_ROWS = 96
LARGE_WEIGHT = 2 << 20  # elements: above the second-level cache
PACKED_FROM = 256
THIN_COLUMNS = 16
STRAIGHT, TURNED = (0, 1), (1, 0)
REUSED = 8
"""Products of one step that read a weight, from which on bringing it into the library's own layout pays: packing one of
1024x2048 costs as much as four products with 20 rows gain."""
WORTH_PACKING = 1 << 16  # elements: below, the library's own copy of the weight stays in the first caches
BLAS_SERIAL = 1 << 18
"""Multiplications of a product, up to which NumPy's OpenBLAS works on one thread."""


def _axes(transposed: bool) -> tuple[int, int]:
    return TURNED if transposed else STRAIGHT


class Product(Sizes):
    """A product as the library describes it."""

    def left(self) -> Desc:
        return contiguous(self.a, _axes(self.turn_a))

    def right(self) -> Desc:
        return contiguous(self.b, _axes(self.turn_b))

    def out(self) -> Desc:
        return contiguous((self.rows, self.columns), STRAIGHT)


@dataclass(frozen=True)
class Task:
    """A product among the arguments of a kernel, and what is done to it while it is in the cache: a bias is added, and what
    `after` lists, whose arguments are `extra`."""

    product: Product
    a: Place
    b: Place
    out: Place
    bias: Place | None = None
    after: tuple[tuple[Any, ...], ...] = ()
    extra: Mapping[int, Place] = field(default_factory=dict)

    @property
    def lone(self) -> bool:
        """Is the product all there is to do?"""
        return self.bias is None and not self.after

    def places(self, b: Place | None = None) -> dict[int, Place]:
        bias = {} if self.bias is None else {Argument.BIAS: self.bias}
        return {Argument.SOURCE: self.a, Argument.WEIGHTS: b or self.b, Argument.OUTPUT: self.out, **bias, **self.extra}

    def row(self, *axes: int) -> Desc | None:
        """The bias as a matrix of one row, or a vector."""
        shape = (1, self.product.columns) if len(axes) == 2 else (self.product.columns,)
        return None if self.bias is None else contiguous(shape, axes)


Way = Callable[[Task, Builder], "tuple[Layout | None, ...] | None"]
"""Adds the steps of a product; the layouts in which it wants (a, b), or None if the library has no fast kernel for it."""
PLAIN = (None, None)


def _inner_over(task: Task, builder: Builder, weight: Desc) -> Any:
    product = task.product
    made = fast(primitive("inner_product_forward", FORWARD_INFERENCE, product.left(), weight, task.row(0), product.out(),
                          after=task.after))
    if made is not None:
        builder.step(made, task.places())
    return made


def kept(task: Task, builder: Builder) -> tuple[Layout | None, ...] | None:
    """Inner product with a weight in the library's own layout: the planner brings it there once for all who read it."""
    b, axes = task.product.b, STRAIGHT if task.product.turn_b else TURNED
    made = _inner_over(task, builder, any_format(b, axes))
    layout = None if made is None else format_of(made, Argument.WEIGHTS, b, axes)
    return None if layout is None else (None, layout)


def inner(task: Task, builder: Builder) -> tuple[Layout | None, ...] | None:
    """Few rows times a weight larger than the caches: the inner product reads it in place (10.6 ms against 13.5)."""
    product = task.product
    weight = contiguous(product.b, STRAIGHT if product.turn_b else TURNED)
    return None if _inner_over(task, builder, weight) is None else PLAIN


def thin(task: Task, builder: Builder) -> tuple[Layout | None, ...] | None:
    """`a.T @ b` for a narrow `b`: the weight gradient needs no copy of the long operand (0.02 ms against 0.045).

    NumPy's BLAS is as fast alone, but its threads and OpenMP's, which wait actively, take the cores from each other.
    """
    product = task.product
    a, b = contiguous(product.a, STRAIGHT), contiguous(product.b, STRAIGHT)
    weight = contiguous((product.rows, product.columns), TURNED)
    hint = primitive("inner_product_forward", FORWARD_TRAINING, a, weight, None, b)
    made = None if hint is None else fast(primitive("inner_product_backward_weights", a, weight, None, b, hint))
    if made is None:
        return None
    builder.step(made, {Argument.SOURCE: task.a, Argument.OUTPUT_GRADIENT: task.b, Argument.WEIGHTS_GRADIENT: task.out})
    return PLAIN


def turned(task: Task, builder: Builder) -> tuple[Layout | None, ...] | None:
    """`a @ b.T` as `(b @ a.T).T`: the large matrix is read in place, once, at the speed of memory."""
    rows, depth, columns = task.product.rows, task.product.depth, task.product.columns
    narrow, result = builder.buffer(4 * rows * depth), builder.buffer(4 * rows * columns)
    first = primitive("reorder", contiguous((rows, depth), TURNED), contiguous((depth, rows), STRAIGHT))
    second = fast(primitive("matmul", contiguous((columns, depth), STRAIGHT), contiguous((depth, rows), STRAIGHT),
                            None, contiguous((columns, rows), STRAIGHT)))
    third = primitive("reorder", contiguous((columns, rows), TURNED), contiguous((rows, columns), STRAIGHT))
    if first is None or second is None or third is None:
        return None
    builder.step(first, {Argument.SOURCE: task.a, Argument.OUTPUT: narrow})
    builder.step(second, {Argument.SOURCE: task.b, Argument.WEIGHTS: narrow, Argument.OUTPUT: result})
    builder.step(third, {Argument.SOURCE: result, Argument.OUTPUT: task.out})
    return PLAIN


def packed(task: Task, builder: Builder) -> tuple[Layout | None, ...] | None:
    """The right side is packed first: the library would copy it in every block of rows."""
    product = task.product
    made = fast(primitive("matmul", product.left(), any_format((product.depth, product.columns), STRAIGHT),
                          task.row(*STRAIGHT), product.out(), after=task.after))
    pack = None if made is None else primitive("reorder", product.right(), known(made.formats[Argument.WEIGHTS]))
    if made is None or pack is None:
        return None
    room = builder.buffer_of(made, Argument.WEIGHTS)
    builder.step(pack, {Argument.SOURCE: task.b, Argument.OUTPUT: room})
    builder.step(made, task.places(room))
    return PLAIN


def plain(task: Task, builder: Builder) -> tuple[Layout | None, ...] | None:
    product = task.product
    made = fast(primitive("matmul", product.left(), product.right(), task.row(*STRAIGHT), product.out(), after=task.after))
    if made is None:
        return None
    builder.step(made, task.places())
    return PLAIN


def ways_of(task: Task, weight: Spec) -> dict[str, Way]:
    """Those that a product has; `weight` is its right side."""
    product = task.product
    found: dict[str, Way] = {}
    if not product.turn_a and weight.readers > 1:
        found["kept"] = kept
    if task.lone and product.turn_b and not product.turn_a:
        found["turned"] = turned
    if task.lone and product.turn_a and not product.turn_b:
        found["thin"] = thin
    if not product.turn_a:
        found["inner"] = inner
    return {**found, "packed": packed, "plain": plain}


def _gains_by_packing(rows: int) -> bool:
    """One row needs each element of a weight once. With AVX-512 the kernel for packed weights takes 0.6 of the plain one's
    time, with AVX2 1.1 to 1.4 (128x128 to 4096x4096, one thread; 1.0 to 1.1 on two); two rows 0.7 there too."""
    library = load()
    return rows > 1 or (library is not None and library.wide)


def usual(task: Task, weight: Spec) -> list[str]:
    """The rule: which ways to try where none was measured, the best first."""
    alone = get_threads() == 1      # one thread packs, and turns, while the others wait
    product, skinny, large = task.product, task.product.rows <= SKINNY_ROWS, task.product.depth * task.product.columns
    good = {
        "kept": skinny and weight.readers >= REUSED and large >= WORTH_PACKING and _gains_by_packing(product.rows),
        "turned": 2 * product.rows * (product.depth + product.columns) <= large and (      # else the copies cost more
            alone or large >= LARGE_WEIGHT),
        "thin": product.columns <= THIN_COLUMNS,
        "inner": skinny and not product.turn_b and large >= LARGE_WEIGHT and not task.extra,
        "packed": not product.turn_b and product.rows >= PACKED_FROM and product.depth <= product.rows and (
            alone or not product.turn_a),
        "plain": True,
    }
    return [name for name in ways_of(task, weight) if good[name]]


def blas_fits(op: str, product: Product) -> bool:
    """Is BLAS a way at all? On several threads it is so alone, not among oneDNN's kernels: its threads and OpenMP's wait
    actively, and on two cores a product of 0.3 ms took 3 ms behind one of the other library. Who asks for it gets it."""
    serial = get_threads() == 1 or product.rows * product.depth * product.columns <= BLAS_SERIAL
    return serial or kernel_options().ways.get(op) == "blas"


def by_blas(product: Product, count: int, finish: Callable[..., None], inplace: Mapping[int, int] | None = None,
            scratch: int = 0) -> Choice:
    """A choice whose kernel takes `count` inputs, the output and `scratch` bytes; `finish(multiply, *arrays)` calls
    `multiply(a, b, out)`, which is NumPy's product, and does the rest."""
    def multiply(a: Any, b: Any, out: Any) -> None:
        np.matmul(a.T if product.turn_a else a, b.T if product.turn_b else b, out=out)

    def make(static: tuple[bool, ...]) -> Kernel:
        def kernel(*arrays: Any) -> None:
            finish(multiply, *arrays)
        return kernel
    return Choice("numpy", (None,) * count, (None,), make, scratch, inplace or {}, note="BLAS")
