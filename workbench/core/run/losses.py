"""Which fetched values are losses, by their names or because they are minimized: they record themselves."""
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
    """Scalars of floating-point type that the graph follows, are named `loss`, or the value of a scope of that name: "loss",
    "model/loss/mean". One that is only followed is called "loss", with its own name behind it where there are several."""
    scalars = [(place, t) for place, t in enumerate(fetched) if t.dtype.is_floating and t.shape.rank == 0]
    named = tuple((place, t.op.name) for place, t in scalars if _NAMED.search(t.op.name))
    others = [(place, t.op.name) for place, t in scalars if t.name in t.op.graph.followed and not _NAMED.search(t.op.name)]
    alone = len(others) == 1 and all(name != "loss" for _, name in named)
    return (*named, *((place, "loss" if alone else f"loss {name}") for place, name in others))


def record(losses: Losses, values: Sequence[Any], step: int, journal: Journal) -> None:
    """Points of one step; where a training loop counts, it records its own."""
    if not journal.status.counted:
        for place, series in losses:
            journal.point(series, step, float(values[place]))
