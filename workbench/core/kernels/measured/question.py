"""Which ways there are, which questions are alike, and what follows from their times; nothing here computes or reads."""
from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from workbench.core.kernels.choice import Spec

__all__ = ["EXACT", "MARGIN", "WAYS", "Time", "cost", "key_of", "ranked", "right", "sized"]

PRODUCTS = ("kept", "turned", "thin", "inner", "packed", "plain", "blas", "narrow", "compiled")
CONVOLUTIONS = ("winograd", "direct", "product", "compiled", "reference")
WAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "matmul": PRODUCTS,
    "fused_matmul": ("kept", "inner", "packed", "plain", "blas", "narrow", "compiled"),
    "matmul_add": ("kept", "inner", "packed", "plain", "blas", "compiled"),
    "matmul_update": ("thin", "inner", "packed", "plain", "blas", "narrow", "few", "compiled"),
    "conv2d": CONVOLUTIONS, "fused_conv2d": CONVOLUTIONS,
    "conv2d_backprop_input": CONVOLUTIONS, "conv2d_backprop_filter": CONVOLUTIONS,
}
"""operation -> names of its ways. Products: oneDNN's inner product over a weight in its own layout (`kept`), of turned operands
(`turned`), as a gradient of a weight (`thin`) and over plain weights (`inner`); its matmul over an operand that each call packs
(`packed`) and over plain ones (`plain`); NumPy's BLAS; compiled loops for a few columns (`narrow`), of a large matrix, few
terms (`few`), and for any sizes (`compiled`). Convolutions: `winograd`, oneDNN's own kernels (`direct`), a product of matrices
for filters of one pixel, compiled products of unrolled windows, and the reference, which unrolls them for BLAS."""
MARGIN: Final = 0.92
"""Part of the usual way's time that another has to stay below to take its place: two rounds of one kernel differ by less."""
EXACT: Final = 32
"""Sizes up to here are classes of their own; above, a doubling has `STEPS` classes."""
STEPS: Final = 8
PARAMETERS = ("activation", "data_format", "dilations", "padding", "strides", "transpose_a", "transpose_b")
"""Attributes that decide what a kernel has to do; all others follow from the shapes."""


class Time(NamedTuple):
    """Seconds of one call, and of bringing each input from the layout it has into the one that the way wants."""

    seconds: float
    reorders: tuple[float, ...] = ()


def cost(time: Time, inputs: Sequence[Spec]) -> float:
    """Seconds that a step spends for one call: changes of layout are shared by all readers of a value."""
    return time.seconds + sum(change / spec.readers for change, spec in zip(time.reorders, inputs))


def ranked(costs: Mapping[str, float], rule: Sequence[str]) -> list[str]:
    """The names to try, the best first: the fastest, if it is clearly faster than what the rule takes, then the rule's."""
    usual = next((name for name in rule if name in costs), None)
    best = min(costs, key=lambda name: (costs[name], name), default=None)
    if best is None or (usual is not None and costs[best] > MARGIN * costs[usual]):
        best = usual
    return list(dict.fromkeys([*([] if best is None else [best]), *rule]))


def sized(extent: int) -> int:
    """The class of a length: itself if it is small, else rounded so that lengths of a class differ by an eighth at most."""
    if extent <= EXACT:
        return extent
    step = (1 << (extent.bit_length() - 1)) // STEPS
    return (extent + step // 2) // step * step


def key_of(op: str, attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec], free: Sequence[bool],
           ways: Iterable[str], threads: int) -> str:
    """Equal for questions that share an answer: the operation and its parameters, classes of shapes, element types, layouts,
    the ways that there are, and the number of threads."""
    given = " ".join(f"{name}={attributes[name]}" for name in PARAMETERS if name in attributes)
    values = " ".join(map(_described, inputs)) + " -> " + " ".join(
        _described(spec) + ("~" if loose else "") for spec, loose in zip(outputs, free))
    return f"{op}({given}) {values}, {threads} threads: {' '.join(sorted(ways))}"


def _described(spec: Spec) -> str:
    layout = "" if spec.layout is None else f"@{getattr(spec.layout, 'text', '')}"
    return f"{_name(spec.dtype)}[{'x'.join(str(sized(extent)) for extent in spec.shape)}]{layout}"


@functools.cache
def _name(dtype: np.dtype[Any]) -> str:
    return dtype.name


def right(time: Time) -> bool:
    """Is it a time at all?"""
    return all(math.isfinite(part) and part >= 0 for part in (time.seconds, *time.reorders)) and time.seconds > 0
