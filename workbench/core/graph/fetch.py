"""What the user asks for, flattened: nested fetches to tensors and operations, and results back into their shape."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.slices import IndexedSlicesValue

__all__ = ["FetchPlan", "IndexedSlicesValue", "fetch_key", "flatten"]


class FetchPlan(NamedTuple):
    """`tensors` to compute, `operations` to run, and `build(values)` that puts the results in the asked form."""

    tensors: list[Tensor]
    operations: list[Operation]
    build: Callable[[Any], Any]


def fetch_key(fetches: Any) -> Any:
    """A hashable form of `fetches`, equal for equal requests."""
    kind = type(fetches)
    if kind is Tensor or kind is Operation or kind is str:
        return fetches
    if kind is list or kind is tuple:
        return (kind, *[fetch_key(f) for f in fetches])
    if isinstance(fetches, dict):
        return (kind, *[(k, fetch_key(v)) for k, v in fetches.items()])
    if isinstance(fetches, (list, tuple)):
        return (kind, *[fetch_key(f) for f in fetches])
    try:
        hash(fetches)
    except TypeError:
        raise errors.InvalidArgumentError(f"fetch: {fetches!r} is a {kind.__name__}; pass tensors, operations, names "
                                          "or (nested) lists, tuples and dicts of them") from None
    return fetches


Wrap = Callable[[Tensor, Any], Any]


class _How(NamedTuple):
    """`handle(tensor, name)` is given for fetched handles; `told` is what objects of the program, by number, say of it."""

    handle: Wrap
    told: dict[int, Any]


def flatten(graph: Graph, fetches: Any, handle: Wrap = lambda tensor, value: value) -> FetchPlan:
    """Read a fetch argument: tensors give values, operations give None, structures keep their form.

    `handle(tensor, name)` is given for the fetched handle of a value that stays where it is.

    `tensors` and `operations` are in the order of their names, each once: equal for all ways to ask for the same.
    """
    found: dict[Tensor | Operation, int] = {}
    how = _How(handle, {})
    _flatten(graph, fetches, found, how)
    tensors = sorted((t for t in found if isinstance(t, Tensor)), key=lambda t: (t.op.name, t.index))
    places: dict[Tensor | Operation, int] = {t: i for i, t in enumerate(tensors)}
    operations = sorted((op for op in found if isinstance(op, Operation)), key=lambda op: op.name)
    return FetchPlan(tensors, operations, _flatten(graph, fetches, places, how))


def _dictionary(item: dict[Any, Any], found: dict[Any, Any]) -> dict[Any, Any]:
    """The values as a dictionary of the same class as the fetch."""
    if type(item) is dict:
        return found
    made = type(item)()
    made.update(found)
    return made


def _element(graph: Graph, item: Any) -> Tensor | Operation:
    """InvalidArgumentError for a name that the graph has not."""
    try:
        return graph.as_graph_element(item, where="fetch")
    except errors.NotFoundError as error:
        raise errors.InvalidArgumentError(f"{error.message} (the name {item!r} refers to an Operation not in the "
                                          "graph)") from None


def _plain(value: Any) -> Any:
    """An array without axes as the NumPy scalar, or the text, that it holds; anything else as it is."""
    return value[()] if type(value) is np.ndarray and not value.ndim else value


def _flatten(graph: Graph, item: Any, places: dict[Tensor | Operation, int], how: _How) -> Callable[[Any], Any]:
    """The function that makes the value of `item` from those of all tensors; `places` says where each is, and takes new
    ones in."""
    if hasattr(item, "__graph_parts__"):      # several tensors that make one value, such as a sparse tensor
        tensors_of, make = item.__graph_parts__()
        pieces = [_flatten(graph, p, places, how) for p in tensors_of]
        return lambda values: make(*[b(values) for b in pieces])
    if hasattr(type(item), "__fetches__"):      # an object of the program, which says what is fetched for it
        wanted, made = how.told[id(item)] = how.told.get(id(item)) or item.__fetches__()
        given = [_flatten(graph, one, places, how) for one in wanted]
        return lambda values: made([b(values) for b in given])
    if isinstance(item, dict):
        keyed = {k: _flatten(graph, v, places, how) for k, v in item.items()}
        return lambda values: _dictionary(item, {k: b(values) for k, b in keyed.items()})
    if isinstance(item, (list, tuple)):
        members = [_flatten(graph, v, places, how) for v in item]
        if hasattr(item, "_fields"):
            return lambda values: type(item)(*[b(values) for b in members])
        kind = tuple if isinstance(item, tuple) else list
        return lambda values: kind([b(values) for b in members])
    if item is None:
        raise errors.DtypeError("fetch: None has invalid type: it is not a tensor; a gradient is None where no path leads from "
                                "x to y: leave it out")
    element = _element(graph, item)
    if not graph.is_fetchable(element):
        raise errors.InvalidArgumentError(f"fetch: {element.name!r} may not be fetched (prevent_fetching); leave it out")
    position = places.setdefault(element, len(places))
    if isinstance(element, Operation):
        return lambda values: None
    if element.op.kind == "get_session_handle":
        return lambda values: how.handle(element, _plain(values[position]))
    if element.shape.rank in (0, None):
        return lambda values: _plain(values[position])
    return lambda values: values[position]
