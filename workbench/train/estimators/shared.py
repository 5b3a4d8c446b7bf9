"""What the ready estimators of tf.estimator and of tf.contrib.learn share: optimizers by name, rates, labels as columns."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.partitions import min_max_variable_partitioner
from workbench.train.optimize import OPTIMIZER_CLS_NAMES
from workbench.train.optimizers.optimizer import Optimizer

__all__ = ["LARGE", "cut", "linear_rate", "optimizer_of", "two_ranks"]

LARGE = 64 << 20
"""Bytes from which on the tables of an input are cut, when there are several parameter servers."""


def cut(config: Any, least: int = 256 << 10) -> Any:
    """How the variables of a ready estimator are cut where nobody says it: into one part for each parameter server of the
    configuration at most, none smaller than `least` bytes."""
    return min_max_variable_partitioner(getattr(config, "num_ps_replicas", 0), min_slice_size=least)


def optimizer_of(opt: Any, learning_rate: float | None = None) -> Optimizer:
    """An Optimizer: the given one, what a function gives, or that of a name with `learning_rate`. InvalidArgumentError (a
    ValueError) for others, and for a name without a rate."""
    if isinstance(opt, str) and opt in OPTIMIZER_CLS_NAMES:
        if not learning_rate:
            raise errors.InvalidArgumentError(f"estimator: learning_rate must be specified when opt is string. opt is {opt!r}, "
                                              f"learning_rate {learning_rate}; pass a rate")
        return OPTIMIZER_CLS_NAMES[opt](learning_rate)
    if isinstance(opt, str):
        raise errors.InvalidArgumentError(f"estimator: Unsupported optimizer name: {opt}. Supported names are: "
                                          f"{', '.join(OPTIMIZER_CLS_NAMES)}")
    made = opt() if callable(opt) and not isinstance(opt, Optimizer) else opt
    if not isinstance(made, Optimizer):
        raise errors.InvalidArgumentError(f"estimator: The given object is not an Optimizer instance. Given: {made!r}; pass "
                                          f"one, or one of the names {', '.join(OPTIMIZER_CLS_NAMES)}")
    return made


def linear_rate(columns: Sequence[Any]) -> float:
    """The learning rate of linear models: lower for more columns."""
    return min(0.2, 1.0 / math.sqrt(max(len(columns), 1)))


def two_ranks(value: Any) -> Tensor:
    """A column of numbers, where there is one an example."""
    x = convert(value)
    return ops.expand_dims(x, 1) if x.shape.rank == 1 else x
