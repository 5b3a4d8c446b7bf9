"""What a caller feeds: keys become tensors of the graph, values arrays of their dtypes."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import feed_array, string
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.shape import Shape

__all__ = ["check_feed", "feed_arrays", "feed_tensor", "read_feeds"]


def read_feeds(graph: Graph, feed_dict: Mapping[Any, Any]) -> tuple[tuple[Tensor, ...], list[Any], tuple[Any, ...]]:
    """The tensors that are fed, their values as arrays, and the shapes of these."""
    if type(feed_dict) is not dict and not isinstance(feed_dict, Mapping):
        raise errors.InvalidArgumentError(f"feed_dict: it is a {type(feed_dict).__name__}; pass a dict from "
                                          "tensors to values")
    tensors, given = [], []
    for key, value in feed_dict.items():
        if type(key) is not Tensor and (isinstance(key, tuple) or hasattr(key, "__graph_parts__") or (
                hasattr(type(key), "__feeds__"))):
            return read_feeds(graph, _in_parts(feed_dict))
        for tensor in [key] if type(key) is Tensor else key.__reads__() if hasattr(key, "__reads__") else _named(graph, key):
            tensors.append(tensor)
            given.append(value)
    return tuple(tensors), *feed_arrays(tensors, given)


def feed_arrays(tensors: Sequence[Tensor], given: Iterable[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    """The fed values as arrays of their tensors' dtypes, rows one behind the other; and their shapes."""
    values = []
    for tensor, value in zip(tensors, given):
        if type(value) is not np.ndarray or value.dtype != tensor.dtype.numpy or not value.flags.c_contiguous or (
                tensor.dtype is string):
            value = _array(tensor, value)
        values.append(value)
    return values, tuple([value.shape for value in values])


def check_feed(tensor: Tensor, value: Any) -> None:
    """ShapeError when the value's shape contradicts what is known of the tensor's."""
    if not tensor.shape.compatible(Shape(np.shape(value))):
        raise errors.ShapeError(f"feed of {tensor.name!r}: Cannot feed value of shape {list(np.shape(value))}, its shape is "
                                f"{tensor.shape}; reshape the value or relax the placeholder's shape\n  built at: "
                                f"{tensor.op.source}")


def feed_tensor(graph: Graph, key: Any) -> Tensor:
    """The tensor that a key of a feed names."""
    element = graph.as_graph_element(key, where="feed")
    if isinstance(element, Operation):
        raise errors.DtypeError(f"feed: {element.name!r} is an operation (Cannot interpret feed_dict key as Tensor); feed one "
                                f"of its tensors, such as '{element.name}:0'")
    return element


def _named(graph: Graph, key: Any) -> list[Tensor]:
    """The tensors fed by a key that is not a tensor: a variable, or the name of it or of one of its reads, means all reads."""
    found = feed_tensor(graph, key)
    if found.op.kind != "read_variable":
        return [found]
    return [op.outputs[0] for op in found.op.inputs[0].consumers() if op.kind == "read_variable"]


def _array(tensor: Tensor, value: Any) -> Any:
    if isinstance(value, Tensor) or hasattr(value, "__tensor__"):
        raise errors.DtypeError(f"feed of {tensor.name!r}: the value cannot be a tf.Tensor object; feed an array, or "
                                "Session.run the tensor first")
    try:
        array = feed_array(value, tensor.dtype, f"feed of {tensor.name!r}")
    except errors.DtypeError as error:
        raise errors.DtypeError(f"{error.message} (its type is not compatible with Tensor type {tensor.dtype.name})") from error
    return np.ascontiguousarray(array) if array.ndim else array


def _in_parts(feed_dict: Mapping[Any, Any]) -> dict[Any, Any]:
    """Feeds of sparse tensors, of tuples as states are, and of objects of the program as feeds of the tensors behind them."""
    found: dict[Any, Any] = {}
    for key, value in feed_dict.items():
        if hasattr(type(key), "__feeds__"):
            found.update(_in_parts(dict(key.__feeds__(value))))
            continue
        sparse = hasattr(key, "__graph_parts__")
        if not sparse and not isinstance(key, tuple):
            found[key] = value
            continue
        parts = key.__graph_parts__()[0] if sparse else key
        if sparse and isinstance(value, (tuple, list)) and len(value) == 2:
            parts = parts[:2]      # its shape is not fed, or it has none
        if not isinstance(value, (tuple, list, np.ndarray)) or not (
                len(value) == len(parts) or (sparse and len(value) > len(parts))):
            count = len(value) if hasattr(value, "__len__") else 1
            raise errors.InvalidArgumentError(f"feed of {key!r}: {count} values were fed but it has {len(parts)} "
                                              f"parts; feed {'(indices, values, dense_shape)' if sparse else 'one for each'}")
        found.update((part, one) for part, one in _in_parts(dict(zip(parts, value))).items()
                     if not sparse or (part.op.kind != "constant" and one is not None))
    return found
