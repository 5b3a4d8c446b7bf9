"""Handles of values that a step left in its session: read, fed and deleted without copying them through a program."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.graph.build import ops
from workbench.core.graph.dtype import DType, string
from workbench.core.graph.graph import Operation, Tensor, get_default_graph

__all__ = ["TensorHandle", "delete_session_tensor", "get_session_handle", "get_session_tensor"]


class TensorHandle:
    """A value of `dtype` that stays in its session; it may be fed wherever the value may be."""

    def __init__(self, session: Any, handle: str, dtype: DType) -> None:
        self._session, self.handle, self.dtype = session, handle, dtype
        self._kept = True

    def eval(self) -> Any:
        """The value."""
        holder, tensor = self._built("handle_reader", get_session_tensor, self.dtype)
        return self._session.run(tensor, {holder: self.handle})

    def delete(self) -> None:
        """Forget the value; InvalidArgumentError when it is gone."""
        holder, operation = self._built("handle_deleter", delete_session_tensor)
        self._kept = False
        self._session.run(operation, {holder: self.handle})

    def get_raw_handle(self) -> str:
        """The text of the handle; who takes it deletes the value."""
        self._kept = False
        return self.handle

    def _built(self, key: str, make: Any, *more: DType) -> Any:
        """(placeholder, what it gives), made once in a graph."""
        graph = self._session.graph
        key = "_".join([key, *(dtype.name for dtype in more)])
        if not graph.get_collection(key):
            with graph.as_default():
                graph.add_to_collection(key, make(self.handle, *more))
        return graph.get_collection(key)[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.eval(), dtype)

    def __str__(self) -> str:
        return self.handle

    __repr__ = __str__


def get_session_handle(data: Any, name: str | None = None) -> Tensor:
    """What gives, when run, the TensorHandle of the value of `data`, which stays in the session."""
    found: Tensor = ops.get_session_handle(data, name=name)
    return found


def get_session_tensor(handle: str, dtype: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(placeholder of a handle's text, the tensor of `dtype` that it stands for). InvalidArgumentError in the step for one
    that is unknown; `handle` tells on which device the value is, where a task has several."""
    with get_default_graph().device(_device(handle)):
        holder = ops.placeholder(string, [])
        return holder, ops.get_session_tensor(holder, dtype=dtype, name=name)


def delete_session_tensor(handle: str, name: str | None = None) -> tuple[Tensor, Operation]:
    """(placeholder of a handle's text, what deletes its value)."""
    with get_default_graph().device(_device(handle)):
        holder = ops.placeholder(string, [])
        return holder, ops.delete_session_tensor(holder, name=name)


def _device(handle: str) -> str:
    return str(handle).rpartition(";")[2]
