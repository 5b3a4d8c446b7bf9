"""Iterator: a place in a dataset; what a dataset describes as an operation's attributes, sources and functions."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.subgraph import Subgraph
from workbench.train.input.data_structures import Elements, flatten, rebuilt, tensors

__all__ = ["Iterator", "resolved"]


def resolved(program: Any) -> tuple[Any, list[Tensor]]:
    """(the program with ("source", i) for each tensor, the tensors). A body becomes ("function", body, its captures)."""
    sources: dict[Tensor, int] = {}

    def source(tensor: Tensor) -> tuple[str, int]:
        return "source", sources.setdefault(tensor, len(sources))

    def visit(value: Any) -> Any:
        if isinstance(value, Tensor):
            return source(value)
        if isinstance(value, Subgraph):
            return "function", value, tuple(source(outer) for outer, _ in value.captures)
        if isinstance(value, tuple) and value[:1] != ("function",):      # those are of a dataset inside a function
            return tuple(visit(part) for part in value)
        return value
    return visit(program), list(sources)


def _described(program: Any) -> dict[str, Any]:
    """What an operation takes of a program: it, its sources, its functions by number."""
    bodies: list[Subgraph] = []

    def visit(value: Any) -> Any:
        if isinstance(value, Subgraph):
            if value not in bodies:
                bodies.append(value)
            return bodies.index(value)
        return tuple(visit(part) for part in value) if isinstance(value, tuple) else value
    plain, sources = resolved(program)
    return {"program": visit(plain), "sources": sources, "functions": tuple(bodies)}


class Iterator(Elements):
    """A place in a dataset: `get_next()` gives the next element at each run, and OutOfRangeError at the end.

    Datasets make them, from_structure and from_string_handle.
    """

    def __init__(self, iterator_resource: Tensor, initializer: Operation | None, output_types: Any, output_shapes: Any,
                 output_classes: Any = None) -> None:
        self._handle, self._initializer = iterator_resource, initializer
        self._parts = rebuilt(output_types, output_shapes, output_classes)
        self._begun: dict[str, Any] = {"sources": []}      # what a first run of get_next begins with

    @classmethod
    def over(cls, dataset: Any, once: bool = False, shared_name: str | None = None) -> Iterator:
        """An iterator over a dataset, which begins by itself `once`, or by its initializer."""
        with get_default_graph().name_scope("iterator"):
            handle: Tensor = ops.dataset_iterator(shared_name=shared_name or "")
            made = cls(handle, None if once else _starting(handle, dataset, None), (), ())
        made._parts = dataset._parts
        if once:
            made._begun = _described(dataset._program)
        return made

    @staticmethod
    def from_structure(output_types: Any, output_shapes: Any = None, shared_name: str | None = None,
                       output_classes: Any = None) -> Iterator:
        """An iterator over any dataset of these dtypes and shapes, chosen by running what make_initializer gives."""
        _dense("Iterator.from_structure", output_classes)
        with get_default_graph().name_scope("iterator"):
            handle = ops.dataset_iterator(shared_name=shared_name or "")
        return Iterator(handle, None, output_types, output_shapes)

    @staticmethod
    def from_string_handle(string_handle: Any, output_types: Any, output_shapes: Any = None,
                           output_classes: Any = None) -> Iterator:
        """The iterator whose string_handle() is fed in a step: a string scalar. NotFoundError in the step for any other."""
        _dense("Iterator.from_string_handle", output_classes)
        return Iterator(convert(string_handle, "string"), None, output_types, output_shapes)

    def string_handle(self, name: str | None = None) -> Tensor:
        """What from_string_handle takes: fetch it once in the session, and feed it."""
        begun = self._begun
        made: Tensor = ops.iterator_string_handle(self._handle, begun["sources"], program=begun.get("program", ()),
                                                  functions=begun.get("functions", ()), name=name)
        return made

    def make_initializer(self, dataset: Any, name: str | None = None) -> Operation:
        """An operation that begins with `dataset`. DtypeError or ShapeError when it has other elements."""
        ours, theirs = flatten(self._parts), flatten(dataset._parts)
        if [part.dtype for part in theirs] != [part.dtype for part in ours] or any(part.sparse for part in theirs):
            raise errors.DtypeError(f"make_initializer: the dataset gives {', '.join(p.dtype.name for p in theirs)} but "
                                    f"the iterator {', '.join(p.dtype.name for p in ours)}; make them agree")
        for mine, other in zip(ours, theirs):
            mine.shape.merge(other.shape, "make_initializer: shapes of the iterator and the dataset")
        return _starting(self._handle, dataset, name)

    @property
    def initializer(self) -> Operation:
        """The operation that begins anew; ValueError (InvalidArgumentError) for iterators without one."""
        if self._initializer is None:
            raise errors.InvalidArgumentError("Iterator.initializer: a one-shot iterator begins by itself, and one from a "
                                              "structure by make_initializer(dataset)")
        return self._initializer

    def get_next(self, name: str | None = None) -> Any:
        """The next element, another one at each run. OutOfRangeError at the end."""
        stored = [part.stored for part in flatten(self._parts)]
        announced = {"dtypes": tuple(d for d, _ in stored), "shapes": tuple(s for _, s in stored), "name": name}
        if self._handle.dtype.name == "string":
            found = ops.iterator_next_of(self._handle, **announced)
        else:
            begun = self._begun
            found = ops.iterator_next(self._handle, begun["sources"], program=begun.get("program", ()),
                                      functions=begun.get("functions", ()), **announced)
        return tensors(self._parts, _several(found))


def _several(found: Any) -> Sequence[Tensor]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


def _dense(where: str, classes: Any) -> None:
    if any(found is not Tensor for found in flatten(classes or ())):
        raise errors.UnimplementedError(f"{where}: output_classes is {classes!r}; elements are dense tensors here")


def _starting(handle: Tensor, dataset: Any, name: str | None) -> Operation:
    how = _described(dataset._program)
    return ops.iterator_initialize(handle, how["sources"], program=how["program"], functions=how["functions"], name=name)
