"""Values that leave memory between forward pass and gradients; passes/swap.py places these, users never do."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.graph.graph import Tensor
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.state.container import Context
from workbench.core.state.swapfile import SwapFile, Swapped
from workbench.settings import settings


@op("value? -> []", types="any -> variant", context=True, stateful=True, keeps=False, differentiable=False)
def swap_out(context: Context, value: Any) -> Swapped:
    """`value`, any array of numbers, goes to the task's swap file; gives what `swap_in` finds it by.

    ResourceExhaustedError where there is no room for it.
    """
    file = context.container.get("swap file", SwapFile, lambda: SwapFile(settings.swap, settings.swap_bytes))
    return file.write(value, context.node)


def _declared(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    return [as_shape(attrs["shape"])]


@op("place[] -> ?", types="variant -> @dtype", shape=_declared, context=True, stateful=True, keeps=False, fresh=True,
    differentiable=False)
def swap_in(context: Context, place: Swapped, *, dtype: Any, shape: Any) -> Any:
    """The value that `swap_out` put there, of dtype `dtype` and shape `shape`, the same bits."""
    return place.read()
