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


def optimizer_of(given: Any, rate: float) -> Optimizer:
    """An Optimizer: the given one, what a function gives, or that of a name with `rate`. InvalidArgumentError for others."""
    if isinstance(given, Optimizer):
        return given
    if isinstance(given, str) and given in OPTIMIZER_CLS_NAMES:
        return OPTIMIZER_CLS_NAMES[given](rate)
    if callable(given):
        made: Optimizer = given()
        return made
    raise errors.InvalidArgumentError(f"estimator: optimizer {given!r} is unknown; use an Optimizer or one of "
                                      f"{', '.join(OPTIMIZER_CLS_NAMES)}")


def linear_rate(columns: Sequence[Any]) -> float:
    """The learning rate of linear models: lower for more columns."""
    return min(0.2, 1.0 / math.sqrt(max(len(columns), 1)))


def two_ranks(value: Any) -> Tensor:
    """A column of numbers, where there is one an example."""
    x = convert(value)
    return ops.expand_dims(x, 1) if x.shape.rank == 1 else x
