"""Functions of the default graph: scopes for names, devices and order, seeds, conversion."""
from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, ops
from workbench.core.graph.graph import Graph, Operation, Tensor, get_default_graph
from workbench.core.graph.subgraph import root_graph

__all__ = ["after", "colocate_with", "control_dependencies", "convert_to_tensor", "device", "name_scope", "set_random_seed",
           "tuple"]


def device(request: str | Callable[[Operation], str] | None) -> contextlib.AbstractContextManager[None]:
    """Operations below ask for this device, such as "/job:ps/task:0" or "/gpu:0"; fields not given stay open."""
    return get_default_graph().device(request)


@contextlib.contextmanager
def name_scope(name: str | None, default_name: str | None = None, values: Any = None) -> Iterator[str]:
    """Names of operations below carry `name/` (`default_name/` when it is None), in the graph of the tensors among `values`.

    InvalidArgumentError for values of several graphs, or without a name.
    """
    if name is None and default_name is None and values is not None:
        raise errors.InvalidArgumentError("name_scope: At least one of name (None) and default_name (None) must be provided")
    given: Sequence[Any] = values if isinstance(values, (list, builtins.tuple)) else [values]
    graphs = {root_graph(found) for value in given if isinstance(found := getattr(value, "graph", None), Graph)}
    if len(graphs) > 1:
        names = ", ".join(getattr(value, "name", repr(value)) for value in given if hasattr(value, "graph"))
        raise errors.InvalidArgumentError(f"name_scope: {names} must be from the same graph; build them in one")
    other = graphs - {root_graph()}
    with other.pop().as_default() if other else contextlib.nullcontext(), \
            get_default_graph().name_scope(name if name is not None else default_name) as scope:
        yield scope


def control_dependencies(control_inputs: Sequence[Any] | None) -> contextlib.AbstractContextManager[None]:
    """Operations below start after these tensors and operations are done; None clears."""
    return get_default_graph().control_dependencies(control_inputs)


def after(control_inputs: Sequence[Operation], value: Tensor) -> Tensor:
    """`value`, once these operations are done: where they are assertions, its steps raise what these raise."""
    with control_dependencies(control_inputs):
        found: Tensor = ops.identity(value)
    return found


def colocate_with(op: Any, ignore_existing: bool = False) -> contextlib.AbstractContextManager[None]:
    """Operations below go to the device of `op`; with `ignore_existing` whatever outer scopes colocate them with."""
    return get_default_graph().colocate_with(getattr(op, "op", op), ignore_existing)


def set_random_seed(seed: int | None) -> None:
    """Make the default graph's random operations repeatable; operations made before keep their seeds."""
    get_default_graph().seed = seed


def convert_to_tensor(value: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None) -> Tensor:
    """A tensor from a tensor, a variable, or Python/NumPy data. Raises DtypeError when it does not fit `dtype`.

    Without `dtype`, `preferred_dtype` is taken where the value fits it.
    """
    if dtype is None and preferred_dtype is not None:
        with contextlib.suppress(errors.DtypeError):
            return convert(value, preferred_dtype, name)
    return convert(value, dtype, name)


def tuple(tensors: Sequence[Any], name: str = "tuple", control_inputs: Sequence[Any] = ()) -> list[Any]:
    """The same tensors, each available only after all of them (and `control_inputs`) are done."""
    graph = get_default_graph()
    with graph.name_scope(name):
        before = [t.values if isinstance(t, IndexedSlices) else t for t in tensors if t is not None]
        with graph.control_dependencies([*before, *control_inputs]):
            return [_gated(t) for t in tensors]


def _gated(tensor: Any) -> Any:
    if tensor is None:
        return None
    if isinstance(tensor, IndexedSlices):
        return IndexedSlices(ops.identity(tensor.values), ops.identity(tensor.indices), tensor.dense_shape)
    return ops.identity(tensor)
