"""Values that stay where they are between steps, known by handles."""
from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.graph import Tensor
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape
from workbench.core.state.container import Context

_numbers = itertools.count()


class _Kept:
    """A value that a step left behind."""

    def __init__(self, value: Any) -> None:
        self.value = value


@op("value? -> []", types="any -> string", context=True, stateful=True, differentiable=False)
def get_session_handle(context: Context, value: Any) -> Any:
    """Keep the value; gives the handle by which later steps find it."""
    name = f"{context.node};{next(_numbers)};{context.device}"
    context.container.get(name, _Kept, lambda: _Kept(value))
    return np.asarray(name.encode(), object)


def _unknown(inputs: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Shape]:
    return [Shape(None)]


@op("handle[] -> ?", types="string -> @dtype", shape=_unknown, context=True, stateful=True, differentiable=False)
def get_session_tensor(context: Context, handle: Any, *, dtype: Any) -> Any:
    """The value of a handle. InvalidArgumentError for one that is unknown or deleted, DtypeError where it has another dtype."""
    name = _text(handle)
    found = context.container.of(_Kept).get(name)
    if found is None:
        raise errors.InvalidArgumentError(f"get_session_tensor: The tensor with handle {name!r} is not in the session store; "
                                          "it was deleted, or is another session's")
    if found.value.dtype != dtype.numpy:
        raise errors.DtypeError(f"get_session_tensor: {name!r} is {found.value.dtype} but {dtype.name} is asked; ask for its "
                                "dtype")
    return found.value


@op("handle[] ->", types="string ->", context=True, stateful=True, differentiable=False)
def delete_session_tensor(context: Context, handle: Any) -> tuple[()]:
    """Forget the value of a handle. InvalidArgumentError for one that is unknown."""
    if not context.container.drop(name := _text(handle), _Kept):
        raise errors.InvalidArgumentError(f"delete_session_tensor: Failed to delete a tensor with handle {name!r} in the "
                                          "session store; delete it once")
    return ()


def _text(handle: Any) -> str:
    return bytes(handle[()] if isinstance(handle, np.ndarray) else handle).decode()
