"""Python functions as operations: named in this process, run by the step that needs them, errors with their own kind."""
from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops, returns_list
from workbench.core.graph.dtype import DType, as_dtype, bare, to_array
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape
from workbench.core.graph.subgraph import root_graph
from workbench.core.run.interrupts import by_signal


class _Held:
    """A function that a graph calls, known as long as the graph lives."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.token = f"pyfunc_{next(_numbers)}@{os.getpid()}"


_functions: dict[str, Callable[..., Any]] = {}      # those that were given a name
_held: weakref.WeakValueDictionary[str, _Held] = weakref.WeakValueDictionary()      # the others, by token
_numbers = itertools.count()
_lock = threading.Lock()

# What an exception of the function is in the step, as TensorFlow maps them; others keep their class's name in the text.
_KINDS: tuple[tuple[type[BaseException], type[errors.Error]], ...] = (
    (StopIteration, errors.OutOfRangeError), (ValueError, errors.InvalidArgumentError),
    (TypeError, errors.InvalidArgumentError), (MemoryError, errors.ResourceExhaustedError),
    (NotImplementedError, errors.UnimplementedError))


@composed
def register_py_func(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Give `function` a name by which py_func finds it in this process: call it in every process of a cluster.

    AlreadyExistsError where the name stands for another function.
    """
    with _lock:
        if _functions.setdefault(name, function) is not function:
            raise errors.AlreadyExistsError(f"register_py_func: {name!r} stands for another function; choose another name")
    return function


@composed
def py_func(func: Callable[..., Any] | str, inp: Any, Tout: Any, stateful: bool = True, name: str | None = None) -> Any:
    """func(*arrays of inp) in a step: NumPy arrays in, arrays of the dtypes `Tout` out (a list, or one of them).

    A tensor of rank 0 comes as a NumPy scalar, a string of rank 0 as bytes (TensorFlow 1.4, `py_func.cc`).
    It runs once whenever the step needs a result, on the thread of the step, which may be several steps' threads at once:
    a function with state locks it itself. With `stateful=False` equal calls may be merged and calls of constants made
    once. Shapes are unknown (set_shape them); there is no gradient unless gradient_override_map gives "PyFunc" one. A
    function is known in this process only, as long as the graph lives: on a cluster pass the name that register_py_func gave it
    in every process.
    """
    if not callable(func) and func not in _functions:
        raise errors.NotFoundError(f"py_func: {func!r} is neither a function nor a registered name; call "
                                   "register_py_func first")
    single = not isinstance(Tout, (list, tuple))
    dtypes = [as_dtype(dtype) for dtype in ([Tout] if single else Tout)]
    token = _named(func) if callable(func) else str(func)
    found = (ops.call_python if stateful else ops.call_python_once)(
        [convert(x) for x in inp], token=token, dtypes=dtypes, name=name or "PyFunc")
    if isinstance(found, Operation):
        return found
    results = found if isinstance(found, list) else [found]
    return results[0] if single else results


def _named(function: Callable[..., Any]) -> str:
    """The function's own name here, with the process in it: another process that is asked says so."""
    with _lock:
        known = next((name for name, other in _functions.items() if other is function), None)
        if known is None:
            held, key = root_graph().held, ("py_func", id(function))
            if key not in held:
                held[key] = _Held(function)
                _held[held[key].token] = held[key]
            known = held[key].token
        return known


def _dtypes(inputs: Sequence[DType], attrs: Any) -> list[DType]:
    return [as_dtype(dtype) for dtype in attrs["dtypes"]]


def _shapes(inputs: Sequence[Tensor], attrs: Any) -> list[Shape]:
    return [Shape(None) for _ in attrs["dtypes"]]


def _call(values: Sequence[Any], token: str, dtypes: Sequence[Any]) -> Any:
    held = _held.get(token)
    function = _functions.get(token) if held is None else held.function
    title = token.partition("@")[0]
    if function is None:
        raise errors.FailedPreconditionError(f"py_func: {title!r} is a function of another process than {os.getpid()}; on a "
                                             "cluster call register_py_func in every process and pass the name")
    try:
        found = function(*[np.array(value)[()] for value in values])      # one number is no array, one string is bytes
    except errors.Error:
        raise
    except BaseException as error:
        if by_signal(error):
            raise
        kind = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), errors.UnknownError)
        raise kind(f"py_func: {title} raised {type(error).__name__}: {error}; see its own traceback above") from error
    results = [] if found is None else list(found) if isinstance(found, (list, tuple)) else [found]
    if len(dtypes) == 1 and len(results) != 1 and found is not None:
        results = [found]      # one result that is a list is an array
    if len(results) != len(dtypes):
        raise errors.InvalidArgumentError(f"py_func: {title} returns {len(results)} values, but expects to see {len(dtypes)} "
                                          "values; return one for each dtype of Tout")
    arrays = [_fitting(i, value, as_dtype(dtype), title) for i, (value, dtype) in enumerate(zip(results, dtypes))]
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def _fitting(number: int, value: Any, wanted: DType, title: str) -> Any:
    plain = isinstance(value, (bool, int, float, complex, list, tuple)) and not isinstance(value, np.generic)
    array = bare(value, f"py_func: the {number}-th value returned by {title}")
    if getattr(getattr(value, "dtype", None), "names", None):
        raise errors.UnimplementedError(f"py_func: Unsupported numpy type: {number}-th value returned by {title} is "
                                        f"{value.dtype}, a record; return an array for each field")
    if isinstance(value, (dict, set)):
        raise errors.UnimplementedError(f"py_func: Unsupported object type {type(value).__name__}: {number}-th value returned "
                                        f"by {title}; return arrays, numbers or text")
    if plain or not isinstance(value, np.ndarray) or wanted.kind == "string":      # Python numbers have no width of their own
        array = to_array(value, wanted if plain else None, "py_func")
    if array.dtype != wanted.numpy:
        raise errors.InvalidArgumentError(f"py_func: {number}-th value returned by {title} is {array.dtype}, but expects "
                                          f"{wanted.name}; return that dtype")
    return np.ascontiguousarray(array).reshape(array.shape)


@op("*values? -> ?", types=_dtypes, shape=_shapes, stateful=True, differentiable=False)
def call_python(*values: Any, token: str, dtypes: Any) -> Any:
    """What the function `token` returns for `values`, anew in each step."""
    return _call(values, token, dtypes)


@op("*values? -> ?", types=_dtypes, shape=_shapes, differentiable=False)
def call_python_once(*values: Any, token: str, dtypes: Any) -> Any:
    """As call_python, for a function whose results depend on its arguments alone."""
    return _call(values, token, dtypes)


def _same_dtypes(inputs: Sequence[DType], attrs: Any) -> list[DType]:
    return list(inputs)


@returns_list
def _same_shapes(inputs: Sequence[Tensor], attrs: Any) -> list[Shape]:
    return [tensor.shape for tensor in inputs]


@op("*input? -> ?", types=_same_dtypes, shape=_same_shapes)
def identity_together(*input: Any) -> Any:
    """The same tensors by one operation, so that one gradient can be given for all of them."""
    return input[0] if len(input) == 1 else tuple(input)


@identity_together.gradient
def _(node: Any, *dys: Any) -> Any:
    return list(dys)
