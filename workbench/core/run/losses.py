"""Which fetched values are losses, by their names: they record themselves, so that a first program draws its curve."""
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from workbench.core.graph.graph import Tensor
from workbench.core.trace import Journal

__all__ = ["losses_of", "record"]

Losses = tuple[tuple[int, str], ...]      # (place among the fetched values, series)

_NAMED = re.compile(r"(?:^|/)(?:total_)?loss(?:_\d+)?(?:/[^/]+)?$")


def losses_of(fetched: Sequence[Tensor]) -> Losses:
    """Scalars of floating-point type named `loss`, or the value of a scope of that name: "loss", "model/loss/mean"."""
    return tuple((place, tensor.op.name) for place, tensor in enumerate(fetched)
                 if _NAMED.search(tensor.op.name) and tensor.dtype.is_floating and tensor.shape.rank == 0)


def record(losses: Losses, values: Sequence[Any], step: int, journal: Journal) -> None:
    """Points of one step; where a training loop counts, it records its own."""
    if not journal.status.counted:
        for place, series in losses:
            journal.point(series, step, float(values[place]))
