"""Graphs within graphs: the bodies of branches, loops and functions."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.dtype import DType
from workbench.core.graph.graph import Graph, Operation, Tensor, get_default_graph
from workbench.core.graph.origin import asked_by_ours
from workbench.core.graph.scopes import Scope
from workbench.core.graph.shape import Shape

__all__ = ["Subgraph", "around", "root_graph"]


class Subgraph(Graph):
    """The body of a branch or loop; tensors of the outer graph become captures (extra arguments), constants `copies`.

    `arguments` are its `argument` placeholders in order, `captures` pairs (outer tensor, inner argument), `results`
    the tensors it returns. Control dependencies on operations outside gather in `waits`, by the operation inside that has them:
    of those that the results need they hold the whole body up.
    """

    def __init__(self, outer: Graph, name: str) -> None:
        super().__init__()
        self.outer, self.name, self.language = outer, name, outer.language
        self.place, self._entry = name, ""      # where its operations stand; what tensors from outside are called in it
        self.arguments: list[Tensor] = []
        self.captures: list[tuple[Tensor, Tensor]] = []
        self.copies: list[tuple[Tensor, Tensor]] = []      # (constant outside, the same inside)
        self.results: list[Tensor] = []
        self.waits: dict[Operation, list[Operation]] = {}
        self.seed, self.collected = outer.seed, outer.collected
        self._scopes.overrides, self._scopes.container = outer._scopes.overrides, outer._scopes.container
        self._arguments: dict[Tensor, Tensor] = {}      # the first `_count` of `_numbered`, which was `captures`
        self._numbered, self._count = self.captures, 0
        self._stands_for: dict[Tensor, Tensor] = {}

    def __getattr__(self, name: str) -> Any:
        """What the program's own graphs have besides ours: a method is this body's, anything else that of the graph around."""
        if name.startswith("__") or "outer" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        root = root_graph(self)
        method: Any = getattr(type(root), name, None)
        return method.__get__(self) if hasattr(method, "__get__") else getattr(root, name)

    def __eq__(self, other: object) -> bool:
        """A program of TensorFlow has one graph, of which its bodies are parts: libraries compare where they are with where
        they were. Code of ours tells bodies apart."""
        if asked_by_ours():
            return self is other
        return isinstance(other, Graph) and root_graph(self) is root_graph(other)

    def __hash__(self) -> int:
        return hash(root_graph(self))

    def operation(self, name: str) -> Operation:
        """The operation of that name, here or in the graphs around; NotFoundError where none has it."""
        return super().operation(name) if self.has(name) else self.outer.operation(name)

    get_operation_by_name = operation

    def get_tensor_by_name(self, name: str) -> Any:
        """The tensor of that name, or what the graphs around have for it."""
        return self.tensor(name) if self.has(name.partition(":")[0]) else self.outer.get_tensor_by_name(name)

    def within(self, graph: Graph) -> bool:
        return any(graph is each for each in around(self))

    def _own(self, graph: Graph) -> bool:
        return any(graph is each for each in around(self))

    @property
    def building_function(self) -> bool:
        return True

    def fresh(self) -> Graph:
        return self.outer.fresh()

    def share_names(self) -> None:
        """Where the language of the graph has one scope for all bodies of an operation, stand in it from here on."""
        above, _, side = self.name.rpartition("/")
        self._entry = self.language.entries.get(side, "")
        if self._entry:
            self.place, self._names, self._lock = above, self.outer._names, self.outer._lock

    def inside(self) -> Scope:
        """The scope that the operations of this body stand in."""
        return self.name_scope(self.place + "/")

    def argument(self, dtype: DType, shape: Shape, name: str = "argument") -> Tensor:
        """A new argument, named after what it is of outside."""
        name = self._entry or name.rpartition("/")[2]
        tensor = self.create("argument", (), {"dtype": dtype, "shape": shape}, name).outputs[0]
        self.arguments.append(tensor)
        return tensor

    def capture(self, tensor: Tensor) -> Tensor:
        if tensor.graph is self:
            return tensor
        known = self._captured(tensor)
        if known is not None:
            return known
        self._check_outside(tensor)
        with self.control_dependencies(None), self.inside(), self.device(None):
            if tensor.op.kind == "constant":
                name = self._entry or tensor.op.name.rpartition("/")[2]
                inner = self.create("constant", (), tensor.op.attrs, name).outputs[0]
                self.copies.append((tensor, inner))
                return inner
            inner = self.argument(tensor.dtype, tensor.shape, tensor.op.name)
        self.captures.append((tensor, inner))
        self._stands_for[inner] = tensor
        return inner

    def outside(self, tensor: Tensor) -> Tensor | None:
        return self._stands_for.get(tensor)

    def _controls(self, op: Operation, extra: Sequence[Operation]) -> tuple[Operation, ...]:
        given = [c for c in dict.fromkeys((*self._scopes.controls, *extra)) if c.graph is not self]
        if given:
            self.waits[op] = given
        return super()._controls(op, extra)

    def _captured(self, tensor: Tensor) -> Tensor | None:
        """The argument that stands for `tensor`, the first where there are several."""
        if self._numbered is not self.captures or len(self.captures) < self._count:
            self._numbered, self._count, self._arguments = self.captures, 0, {}
        for outer, inner in self.captures[self._count:]:
            self._arguments.setdefault(outer, inner)
        self._count = len(self.captures)
        return self._arguments.get(tensor)

    def _check_outside(self, tensor: Tensor) -> None:
        if self._own(tensor.graph):
            return
        raise errors.InvalidArgumentError(f"{self.name}: {tensor.name} lives in another body or graph; a value leaves "
                                          "a branch or loop only as its result: return it there")


def around(graph: Graph) -> Iterator[Graph]:
    """`graph`, and if it is a body the graphs around it, from the nearest to the one that is no body."""
    yield graph
    while isinstance(graph, Subgraph):
        graph = graph.outer
        yield graph


def root_graph(graph: Graph | None = None) -> Graph:
    """The graph around all branch and loop bodies that `graph` (the default one) stands in: variables live there."""
    *_, root = around(graph or get_default_graph())
    return root
