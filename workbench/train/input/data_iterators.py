"""Iterator: a place in a dataset; what a dataset describes as an operation's attributes, sources and functions."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Graph, Operation, Tensor, get_default_graph
from workbench.core.graph.subgraph import Subgraph, around
from workbench.nn.saveables import SaveableObject, SaveSpec
from workbench.train.input.data_structures import Elements, flatten, rebuilt, tensors

__all__ = ["Iterator", "get_single_element", "make_saveable_from_iterator", "resolved"]


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


def _by_value(tensor: Tensor, graph: Graph, made: dict[Tensor, Tensor]) -> Tensor:
    """A source of a dataset that another graph describes, made again in `graph` with all it is computed from.

    InvalidArgumentError for what has state, which stays where it is.
    """
    if any(tensor.graph is each for each in around(graph)):
        return tensor
    if tensor not in made:
        op = tensor.op
        if op.definition.stateful or op.kind == "placeholder":
            raise errors.InvalidArgumentError(
                f"Dataset.make_one_shot_iterator: Cannot capture a stateful node (name:{op.name}, type:{op.type}) by value.; "
                "make the dataset in the graph that reads it")
        inputs = [_by_value(each, graph, made) for each in op.inputs]
        again = graph.create(op.definition, inputs, op.attrs, op.name)
        made.update(zip(op.outputs, again.outputs))
    return made[tensor]


class Iterator(Elements):
    """A place in a dataset: `get_next()` gives the next element at each run, and OutOfRangeError at the end.

    Datasets make them, from_structure and from_string_handle.
    """

    def __init__(self, iterator_resource: Tensor, initializer: Operation | None, output_types: Any, output_shapes: Any,
                 output_classes: Any = None) -> None:
        self._iterator_resource, self._initializer = iterator_resource, initializer
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
            graph, copies = handle.graph, dict[Tensor, Tensor]()
            made._begun = _described(dataset._program)
            made._begun["sources"] = [_by_value(source, graph, copies) for source in made._begun["sources"]]
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
        made: Tensor = ops.iterator_string_handle(self._iterator_resource, begun["sources"], program=begun.get("program", ()),
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
        return _starting(self._iterator_resource, dataset, name)

    @property
    def initializer(self) -> Operation:
        """The operation that begins anew; ValueError (InvalidArgumentError) for iterators without one."""
        if self._initializer is None:
            raise errors.InvalidArgumentError("Iterator.initializer: a one-shot iterator begins by itself, and one from a "
                                              "structure by make_initializer(dataset)")
        return self._initializer

    def get_next(self, name: str | None = None) -> Any:
        """The next element, another one at each run. OutOfRangeError at the end."""
        announced = {**_announced(self._parts), "name": name}
        if self._iterator_resource.dtype.name == "string":
            found = ops.iterator_next_of(self._iterator_resource, **announced)
        else:
            begun = self._begun
            found = ops.iterator_next(self._iterator_resource, begun["sources"], program=begun.get("program", ()),
                                      functions=begun.get("functions", ()), **announced)
        return tensors(self._parts, _several(found))


def _announced(parts: Any) -> dict[str, Any]:
    stored = [part.stored for part in flatten(parts)]
    return {"dtypes": tuple(d for d, _ in stored), "shapes": tuple(s for _, s in stored)}


def _several(found: Any) -> Sequence[Tensor]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


def _dense(where: str, classes: Any) -> None:
    if any(found is not Tensor for found in flatten(classes or ())):
        raise errors.UnimplementedError(f"{where}: output_classes is {classes!r}; elements are dense tensors here")


def _starting(handle: Tensor, dataset: Any, name: str | None) -> Operation:
    how = _described(dataset._program)
    return ops.iterator_initialize(handle, how["sources"], program=how["program"], functions=how["functions"], name=name)


# what tf.contrib.data has beside iterators

def get_single_element(dataset: Any) -> Any:
    """The one element of a dataset, made anew in each step from what the dataset reads then. InvalidArgumentError in the step
    where it has none, or several. TypeError (DtypeError) for what is no dataset."""
    if not hasattr(dataset, "_program"):
        raise errors.DtypeError(f"get_single_element: `dataset` must be a Dataset, but it is a {type(dataset).__name__}")
    return tensors(dataset._parts, _several(ops.dataset_element(**_described(dataset._program), **_announced(dataset._parts))))


class _Saved(SaveableObject):
    """An iterator in checkpoints: where it is, under the name of its operation."""

    def __init__(self, iterator: Iterator) -> None:
        self._iterator, handle = iterator, iterator._iterator_resource
        with handle.graph.colocate_with(handle.op):
            position = ops.iterator_position(handle)
        super().__init__(handle, [SaveSpec(position, "", f"{handle.op.name}-state")], handle.op.name)

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Operation:
        first, begun = self._iterator._initializer, self._iterator._begun
        how = begun if first is None else {**first.attrs, "sources": list(first.inputs[1:])}
        with self.op.graph.colocate_with(self.op.op):
            made: Operation = ops.iterator_resume(self.op, restored_tensors[0], how["sources"], program=how.get("program", ()),
                                                  functions=how.get("functions", ()))
        return made


def make_saveable_from_iterator(iterator: Iterator) -> SaveableObject:
    """What a Saver needs to keep where an iterator is: add it to the collection SAVEABLE_OBJECTS.

    Restored, it goes on behind the elements that were read, of its own dataset and in the order that this had; one that has
    not begun begins by that. TypeError (DtypeError) for what is no iterator of this graph, as one from a string handle.
    """
    if not isinstance(iterator, Iterator) or iterator._iterator_resource.dtype.name == "string":
        raise errors.DtypeError(f"make_saveable_from_iterator: {iterator!r} does not hold a place in a dataset; pass an "
                                "iterator that a dataset or from_structure made")
    return _Saved(iterator)
