"""What oneDNN does not do right is left to the reference kernel: special values, and private formats when it fails.

The library's maximum passes over a NaN, and Winograd's tiles mix what the filter does not reach. Both are right for
finite values, so their kernels look whether an input holds anything else, which costs one reading of it.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.fitting import agreeing
from workbench.core.graph.opdef import registry
from workbench.core.graph.shape import Shape
from workbench.core.kernels.choice import Choice, Kernel, Select, Spec, register
from workbench.core.kernels.fallback import Refer, rescued
from workbench.core.kernels.llvm import serves
from workbench.core.kernels.onednn_finite import finite
from workbench.core.kernels.onednn_view import read, write
from workbench.core.kernels.options import of_one_order

__all__ = ["by_reference", "guarded", "referred", "serve"]

COMPILED = ("matmul", "fused_matmul", "matmul_add", "matmul_update", "conv2d", "fused_conv2d", "conv2d_backprop_input",
            "conv2d_backprop_filter")
"""Operations with a way of compiled products, for float32."""
SUMLESS = ("relu", "relu_grad", "add", "bias_add", "max_pool", "max_pool_grad", "avg_pool", "avg_pool_grad")
"""Those that add up nothing, or no more than a window, term after term."""


def guarded(choice: Choice, watched: Mapping[int, int], refer: Refer) -> Choice:
    """`choice`, corrected by `refer` where one of the `watched` arguments (position -> elements) is not finite.

    The library's kernel runs in any case: what it leaves beside the values (positions of maxima) stays valid.
    """
    def make(static: tuple[bool, ...]) -> Kernel:
        kernel = choice.make(static)

        def checked(*arrays: Any) -> None:
            kernel(*arrays)
            for position, count in watched.items():
                if not finite(arrays[position], count):
                    return refer(arrays)
        return checked
    return choice.by(make)


def referred(op: str, attributes: Mapping[str, Any], choice: Choice, inputs: Sequence[Spec], output: Spec) -> Refer:
    """The reference kernel of `op` for the arguments of `choice`, whatever formats they lie in."""
    def refer(arrays: Sequence[Any]) -> None:
        given = [read(array, spec.shape, layout) for array, spec, layout in zip(arrays, inputs, choice.inputs)]
        with np.errstate(all="ignore"):
            result = registry[op].reference(*given, **attributes)
        write(arrays[len(given)], output.shape, choice.outputs[0],
              agreeing(op, result, as_dtype(output.dtype), Shape(output.shape)))
    return refer


def by_reference(op: str, attributes: Mapping[str, Any], inputs: Sequence[Spec], output: Spec) -> Choice:
    """The reference kernel of `op`, over plain values, as one way among others."""
    def kernel(*arrays: Any) -> None:
        refer(arrays)
    choice = Choice("numpy", (None,) * len(inputs), (None,), lambda static: kernel, note="reference")
    refer = referred(op, attributes, choice, inputs, output)
    return choice


def serve(op: str) -> Callable[[Select], Select]:
    """Decorator: `select` serves `op` for oneDNN; where its kernels fail, the reference does, and where sums must have one
    order, which those of the library have not: it cuts them by the sizes of caches."""
    def add(select: Select) -> Select:
        @functools.wraps(select)
        def chosen(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
                   free: Sequence[bool]) -> Choice | None:
            if of_one_order() and op not in SUMLESS and not (
                    op in COMPILED and inputs[0].dtype == np.float32 and serves()):
                return None
            choice = select(attributes, inputs, outputs, free)
            return choice and rescued(op, choice, referred(op, attributes, choice, inputs, outputs[0]))
        return register("onednn", op)(chosen)
    return add
