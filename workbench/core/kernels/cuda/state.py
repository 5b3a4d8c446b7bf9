"""Variables on a CUDA device: assignments, additions, rows that are read and written."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.graph.arrays import check_rows
from workbench.core.graph.opdef import registry
from workbench.core.kernels.cuda.rows import by_segment
from workbench.core.kernels.cuda.values import ALL, REALS, cupy, on_device, up
from workbench.core.ops.state import _same_shape

__all__ = ["HANDLED", "hosted", "stateful"]

HANDLED = ("resource",)


def stateful(name: str, dtypes: tuple[str, ...] = REALS) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function computes an operation on variables, whose handles it gets; other inputs come as they are."""
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__name__ = name
        return registry[name].kernel("gpu", (*HANDLED, *dtypes))(function)
    return register


registry["is_variable_initialized"].kernel("gpu", (*HANDLED, "bool"))(registry["is_variable_initialized"].reference)


@stateful("assign", ALL)
def _assign(handle: Any, value: Any) -> Any:
    return handle.assign(value)


def _changed(name: str, function: str) -> None:
    def write(old: Any, value: Any, out: Any) -> None:
        getattr(cupy, function)(old, value, out=out)

    @stateful(name)
    def run(handle: Any, value: Any) -> Any:
        _same_shape(name, handle, value)
        return handle.update(write, up(value))


_changed("assign_add", "add")
_changed("assign_sub", "subtract")


@stateful("resource_gather", ALL)
def _resource_gather(handle: Any, indices: Any, *, dtype: Any, shape: Any = None) -> Any:
    check_rows("resource_gather", indices, handle.dims()[0], f"variable {handle.name!r} has {{}} rows")
    return cupy.take(handle.read(), up(indices), 0)


def hosted(rows: Any) -> Any:
    """Rows for a variable's account of what changed, which the host keeps; None, all of them, where only the device knows."""
    return None if on_device(rows) else rows


def _by_rows(name: str, combine: Callable[[Any, Any, Any], None]) -> None:
    def write(old: Any, places: Any, values: Any, out: Any) -> None:
        if out is not old:
            cupy.copyto(out, old)
        combine(out, places, values)

    @stateful(name)
    def run(handle: Any, indices: Any, values: Any) -> Any:
        check_rows(name, indices, handle.dims()[0], f"variable {handle.name!r} has {{}} rows")
        values = cupy.ascontiguousarray(cupy.broadcast_to(up(values), (*indices.shape, *handle.dims()[1:])))
        return handle.update(write, indices, values, rows=hosted(indices))


def _set(out: Any, places: Any, values: Any) -> None:
    """Of repeated places the last wins: those before are not written."""
    flat, rows = places.reshape(-1), values.reshape(-1, *out.shape[1:])
    library = cupy if on_device(flat) else np
    kept, last = library.unique(flat[::-1], return_index=True)
    out[up(kept)] = rows[up(len(flat) - 1 - last)]


_by_rows("scatter_add", lambda out, places, values: by_segment("sum", out, places, values))
_by_rows("scatter_sub", lambda out, places, values: by_segment("sum", out, places, cupy.negative(values)))
_by_rows("scatter_update", _set)
