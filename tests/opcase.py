"""What a row about an operation says, the numbers that rows use, and the list of all rows."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.core.graph.build import ops

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """`value(*inputs)` is what `ops.<op>(*inputs, **attrs)` must compute; gradients are checked to `order`.

    Integer and boolean inputs are constants of the graph unless `fed`, so that shapes can follow from them. `call`
    replaces the plain call; `wrt` names the inputs to differentiate by (None = all of a float dtype).
    """

    op: str
    inputs: tuple[Array, ...]
    value: Callable[..., Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    order: int = 2
    call: Callable[..., Any] | None = None
    wrt: tuple[int, ...] | None = None
    fed: bool = False
    small: bool = True            # also run in float16 and bfloat16
    partial: bool = False         # the output shape depends on values
    unknown: bool = True          # also build with unknown dimensions
    rtol: float = 1e-5
    label: str = ""

    def __str__(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op

    def build(self, *tensors: Any) -> list[Any]:
        """The output tensors over the given input tensors."""
        result = (self.call or getattr(ops, self.op))(*tensors, **self.attrs)
        return list(result) if isinstance(result, (list, tuple)) else [result]


def reals(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Array:
    """Different, irregular numbers: no ties, no kinks hit exactly."""
    count = math.prod(shape)
    grid = (np.random.default_rng(seed).permutation(count) + 0.37) / max(count, 1)
    return (low + (high - low) * grid).reshape(shape)


def positive(*shape: int, seed: int = 0) -> Array:
    return reals(*shape, low=0.3, high=2.5, seed=seed)


def ints(*values: Any, dtype: Any = np.int32) -> Array:
    return np.array(values, dtype)


A, B, ROW, COLUMN, ONE = reals(2, 3), reals(2, 3, seed=1), reals(3, seed=2), reals(2, 1, seed=3), reals(seed=4)
P, Q = positive(2, 3), positive(2, 3, seed=1)
UNIT = reals(2, 3, low=-0.9, high=0.9)
TRUTH = np.array([[True, False, True], [False, False, True]])
CASES: list[Case] = []


def case(op: str, *inputs: Any, value: Callable[..., Any], **options: Any) -> None:
    CASES.append(Case(op, tuple(np.asarray(i) for i in inputs), value, **options))
