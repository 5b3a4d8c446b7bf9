"""Mutexes as operations: a handle, a lock that waits, and its end, which comes with the step's at the latest."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.opdef import op
from workbench.core.state.container import Context
from workbench.core.state.mutexes import Mutex

STATE: dict[str, Any] = {"context": True, "stateful": True, "differentiable": False}


@op("-> []", types="-> resource", **STATE)
def mutex(context: Context, *, shared_name: str = "", container: str = "") -> Mutex:
    """The handle of a mutex."""
    name = shared_name or context.node
    return context.container.get(name, Mutex, lambda: Mutex(name), container)


@op("handle[] ->", types="resource ->", blocking=True, **STATE)
def mutex_lock(context: Context, handle: Mutex, *, holder: str) -> None:
    """The step holds the mutex as `holder`; waits until nobody else does."""
    context.on_cancel(handle.lock((context.step, holder), context.done, context.fail, context.on_end))


@op("handle[] ->", types="resource ->", **STATE)
def mutex_unlock(context: Context, handle: Mutex, *, holder: str) -> tuple[()]:
    """The step holds the mutex no more as `holder`."""
    handle.unlock((context.step, holder))
    return ()
