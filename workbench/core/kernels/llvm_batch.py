"""Products of many matrices as compiled products, one after the other: in deterministic sessions, else NumPy serves."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.core.kernels.choice import Choice, Kernel, Spec, register
from workbench.core.kernels.llvm_products import Sizes, compiled
from workbench.core.kernels.options import kernel_options

__all__: list[str] = []


@register("llvm", "batch_matmul")
def _select(attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
            free: Sequence[bool]) -> Choice | None:
    a, b = inputs
    plain = all(spec.dtype.name == "float32" and spec.layout is None and math.prod(spec.shape) for spec in (*inputs, *outputs))
    if not kernel_options().deterministic or not plain:
        return None
    product = Sizes(attributes, a.shape[-2:], b.shape[-2:])
    lead = outputs[0].shape[:-2]
    pairs = list(zip(_order(a.shape[:-2], lead), _order(b.shape[:-2], lead)))
    choice = compiled(product)
    if choice is None:
        return None

    def make(static: tuple[bool, ...]) -> Kernel:
        one = choice.make((False,) * 3)

        def kernel(x: Any, y: Any, out: Any) -> None:
            left, right = x.reshape(-1, *product.a), y.reshape(-1, *product.b)
            for (i, j), into in zip(pairs, out.reshape(-1, product.rows, product.columns)):
                one(left[i], right[j], into)
        return kernel
    return Choice("llvm", (None, None), (None,), make, note="compiled products", source=choice.source)


def _order(shape: tuple[int, ...], lead: tuple[int, ...]) -> list[int]:
    """Which matrix of an operand with these leading axes belongs to each of the results."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    return [int(number) for number in np.broadcast_to(numbers, lead).ravel()]
