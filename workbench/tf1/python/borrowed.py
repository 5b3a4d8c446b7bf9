"""What libraries borrow of TensorFlow's inner modules: arguments of functions, files of events, summaries."""
from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import workbench.tf1 as tf
from workbench.core.graph.build import ops as _ops
from workbench.core.state import tfrecord as _records
from workbench.formats.messages import message as _message
from workbench.train.saving import tags as _tags

__all__ = ["ARRAYS", "BY_HANDLE", "CONSTANTS", "CONTEXT", "FUNCTIONS", "GRAPHS", "HANDLES", "PLACES", "SUMMARIES",
           "EventsWriter"]


# functions of programs

def _bare(fn: Any) -> Any:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def _parameters(fn: Any) -> Mapping[str, inspect.Parameter]:
    """What a function takes, or a callable object; of a partial one what that of its function does."""
    inner = _bare(fn)
    return inspect.signature(inner if inspect.isroutine(inner) or inspect.isclass(inner) else inner.__call__).parameters


def _fn_args(fn: Any) -> tuple[str, ...]:
    """The names of the arguments that a call of `fn` still has to give, without self."""
    given = len(fn.args) if isinstance(fn, functools.partial) else 0
    named = set(fn.keywords) if isinstance(fn, functools.partial) else set()
    names = [name for name, one in _parameters(fn).items() if one.kind not in (
        inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)]
    return tuple(name for name in names[given:] if name not in named)


def _has_kwargs(fn: Any) -> bool:
    """Does it take any arguments by name? TypeError for what cannot be called."""
    if not callable(_bare(fn)):
        raise TypeError(f"fn should be a function-like object, but is of type {type(fn)}.")
    return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in _parameters(fn).values())


def _name_of(func: Any) -> str:
    """The name of a function, or of the class of a callable object."""
    return str(getattr(_bare(func), "__name__", type(func)))


FUNCTIONS = {"fn_args": _fn_args, "has_kwargs": _has_kwargs, "get_func_name": _name_of}
"""Name in `util.function_utils` -> function."""


# graphs

_numbers = itertools.count(1)


def _element(value: Any) -> Any:
    """The tensor or operation that an object stands for, None where it stands for none."""
    for title in ("_as_graph_element", "__graph_element__"):
        if hasattr(value, title):
            return getattr(value, title)()
    return None


class _Eager:
    """A value outside of graphs: there is none here, so nothing is an instance of it."""


GRAPHS = {"uid": lambda: next(_numbers), "_as_graph_element": _element, "_TensorLike": tf.Tensor, "EagerTensor": _Eager,
          "is_dense_tensor_like": lambda t: isinstance(t, (tf.Tensor, tf.Variable))}
"""Name in `framework.ops` -> thing."""


@contextlib.contextmanager
def _in_graphs() -> Iterator[None]:
    """Programs build graphs here anyway."""
    yield


CONTEXT = {"executing_eagerly": lambda: False, "in_eager_mode": lambda: False, "in_graph_mode": lambda: True,
           "graph_mode": _in_graphs, "num_gpus": lambda: 0}
"""Name in `eager.context` -> function."""


# arrays and variables

def _shape_of(input: Any, name: str | None = None, optimize: bool = True, out_type: Any = tf.int32) -> Any:
    """The shape as a tensor; a constant where it is known and `optimize` is set."""
    x = tf.convert_to_tensor(input)
    if optimize and x.shape.is_fully_defined():
        return tf.constant(x.shape.as_list(), out_type, name=name)
    return tf.shape(x, name=name, out_type=out_type)


def _of_shape(s: Any, dtype: Any = None, name: str | None = None, _as_ref: bool = False) -> Any:
    """A shape that is known as a tensor of int32, or int64. ValueError where it is not known."""
    if not s.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape to a Tensor: {s}")
    return tf.constant(s.as_list(), dtype or tf.int32, name=name or "shape_as_tensor")


def _replaced(x: Any, i: Any, v: Any) -> Any:
    """`x` with the rows `i` (or one row) replaced by `v`: a tensor of its own."""
    x, rows = tf.convert_to_tensor(x), tf.reshape(tf.convert_to_tensor(i), [-1, 1])
    values = tf.convert_to_tensor(v, x.dtype)
    if values.shape.ndims is not None and values.shape.ndims == (x.shape.ndims or 0) - 1:
        values = tf.expand_dims(values, 0)
    return _ops.tensor_scatter_update(x, rows, values)


ARRAYS = {"shape_internal": _shape_of}
"""Name in `ops.array_ops` -> function."""
CONSTANTS = {"_tensor_shape_tensor_conversion_function": _of_shape}
"""Name in `framework.constant_op` -> function."""
OPERATORS = {**vars(tf.linalg), "matmul_with_broadcast": tf.matmul}
"""Name in `ops.linalg.linear_operator_util` -> thing: `matmul` broadcasts batches itself."""
PLACES = {"alias_inplace_update": _replaced, "inplace_update": _replaced}
"""Name in `ops.inplace_ops` -> function."""
HANDLES = {f"resource_scatter_{rule}": functools.partial(
    lambda operation, resource, indices, updates, name=None: operation(resource, indices, updates, name=name),
    getattr(_ops, f"scatter_{rule}")) for rule in ("add", "sub", "update")}
"""Name in `ops.resource_variable_ops` -> function."""
BY_HANDLE = ("assign_add_variable_op", "assign_sub_variable_op", "assign_variable_op", "read_variable_op", "resource_gather",
             "var_handle_op", "var_is_initialized_op", "variable_shape")
"""Names in `ops.resource_variable_ops` that are those of the generated module."""


# summaries

SUMMARIES = {"summary_scope": _tags.scope, "collect": _tags.collected, "skip_summary": lambda: False,
             "clean_tag": _tags.clean}
"""Name in `ops.summary_op_util` -> function."""


class EventsWriter:
    """Writes events to the file `prefix`.out.tfevents.<seconds>.<host>, whatever the prefix is."""

    def __init__(self, file_prefix: Any) -> None:
        self._path = Path(f"{os.fsdecode(file_prefix)}.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}")
        self._file = self._path.open("ab")
        self.WriteEvent(_message("Event")(wall_time=time.time(), file_version="brain.Event:2"))

    def FileName(self) -> bytes:
        """The path of the file."""
        return os.fsencode(self._path)

    def WriteEvent(self, event: Any) -> None:
        """Append an Event."""
        self._file.write(_records.frame(event.SerializeToString()))

    def Flush(self) -> bool:
        """Bring what was written to the file."""
        self._file.flush()
        return True

    def Close(self) -> bool:
        """Flush, and end the file."""
        self._file.close()
        return True
