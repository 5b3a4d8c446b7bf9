"""Graph, Operation and Tensor: records of what to compute; building them runs nothing."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.arithmetic import Arithmetic
from workbench.core.graph.collecting import Collections
from workbench.core.graph.contents import Contents
from workbench.core.graph.dtype import DType
from workbench.core.graph.entered import default_session, entered
from workbench.core.graph.language import NATIVE, listen
from workbench.core.graph.naming import checked, text_name
from workbench.core.graph.opdef import OpDef, registry
from workbench.core.graph.origin import asked_by_ours, caller, error_of, explain
from workbench.core.graph.permissions import Permissions
from workbench.core.graph.rules import infer_dtypes, infer_shapes
from workbench.core.graph.scopes import Scope, Scoped
from workbench.core.graph.shape import Shape, as_shape

__all__ = ["Graph", "Operation", "Tensor", "default_graphs", "get_default_graph", "reset_default_graph"]


class Tensor(Arithmetic):
    """Output `index` of an operation: a dtype and a static shape, no value.

    Programs and libraries above keep attributes of their own on it.
    """

    __slots__ = ("__dict__", "__weakref__", "dtype", "index", "op", "shape")
    __array_priority__ = 100      # NumPy arrays on the left defer to our operators

    def __init__(self, op: Operation, index: int, dtype: DType, shape: Shape) -> None:
        self.op, self.index, self.dtype, self.shape = op, index, dtype, shape

    @property
    def name(self) -> str:
        """The operation's name and the output's number: "product:0"."""
        return f"{self.op.name}:{self.index}"

    @property
    def graph(self) -> Graph:
        """The graph that it belongs to."""
        return self.op.graph

    @property
    def device(self) -> str:
        """The device asked for, "" when none was."""
        return self.op.device

    def get_shape(self) -> Shape:
        """The static shape."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Add what is known about the shape; ShapeError when it contradicts."""
        merged = self.shape.merge(as_shape(shape), f"set_shape of {self.name}")
        if merged != self.shape:
            self.graph.changing(self.op)
            self.shape = merged

    @property
    def _shape(self) -> Shape:
        """The static shape; a program that sets it by this name says another, less known perhaps, for what is built after."""
        return self.shape

    @_shape.setter
    def _shape(self, shape: Any) -> None:
        self.graph.changing(self.op)
        self.graph.said_less.add(self.op)
        self.shape = as_shape(shape)

    def consumers(self) -> list[Operation]:
        """The operations that take this tensor as an input."""
        return self.graph.readers(self)

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """The value, computed in `session` or the default session."""
        return (session or default_session()).run(self, feed_dict)

    def __repr__(self) -> str:
        return self.graph.language.tensor(self, True)

    def __str__(self) -> str:
        return self.graph.language.tensor(self, False)

    def __iter__(self) -> Iterator[Tensor]:
        if self.shape.sizes is None or not self.shape.sizes or self.shape.sizes[0] is None:
            raise TypeError(f"iter: {self!r} is not iterable: its first dimension is not known; use unstack(num=…) or map_fn "
                            "('Tensor' object is not iterable)")
        return (self[i] for i in range(self.shape.sizes[0]))

    def __bool__(self) -> bool:
        raise errors.DtypeError(f"bool: {self!r} has no value while the graph is built; use cond / logical_and, or Session.run "
                                "it first")


class Operation:
    """A node: a type, attributes, inputs, control inputs, a device request; it belongs to one graph."""

    __slots__ = ("attrs", "colocation", "controls", "definition", "derived", "device", "graph", "id", "inputs", "kind",
                 "name", "outputs", "overrides", "recomputed", "source", "swapped")

    def __init__(self, graph: Graph, definition: OpDef, name: str, inputs: tuple[Tensor, ...], attrs: dict[str, Any],
                 controls: tuple[Operation, ...], device: str, colocation: frozenset[str], source: str) -> None:
        self.graph, self.definition, self.name, self.id = graph, definition, name, 0
        self.kind = definition.name      # such as "matmul", whatever the language of its graph
        self.inputs, self.attrs, self.controls = inputs, attrs, controls
        self.device, self.colocation, self.source = device, colocation, source
        self.outputs: tuple[Tensor, ...] = ()
        self.derived = ""      # made for the gradient of this operation: lies on its device unless placed elsewhere
        self.overrides: dict[str, str] | None = None      # see Graph.gradient_override_map
        self.recomputed = 0      # the group with which its gradients compute it again, 0 for none (recompute)
        self.swapped = False      # its values wait on disk for their gradients (swap)

    @property
    def type(self) -> str:
        """What the language of its graph calls an operation of this kind: "matmul", in a program of TensorFlow's "MatMul"."""
        return self.graph.language.type(self)

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """Of its inputs and outputs: what a kernel has to cope with."""
        return tuple(t.dtype for t in (*self.inputs, *self.outputs))

    @property
    def has_bodies(self) -> bool:
        """Does it run graphs of its own, as branches and loops do?"""
        return any(isinstance(value, Graph) for value in self.attrs.values())

    @property
    def control_inputs(self) -> list[Operation]:
        """The operations that it waits for, as a list of the caller's own; `controls` is what the graph keeps."""
        return list(self.controls)

    def get_attr(self, name: str) -> Any:
        """The attribute `name`; KeyError when there is none."""
        return self.attrs[name]

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run it once, in `session` or the default session."""
        (session or default_session()).run(self, feed_dict)

    def __repr__(self) -> str:
        return self.graph.language.operation(self, True)

    def __str__(self) -> str:
        return self.graph.language.operation(self, False)


class Graph(Contents[Operation], Collections, Scoped, Permissions):
    """Operations in construction order, by name; collections; scopes for names, devices, control inputs and colocation.

    Safe to extend from several threads; each thread has its own scopes.
    """

    language = NATIVE

    def __init__(self) -> None:
        Contents.__init__(self)
        Collections.__init__(self)
        Scoped.__init__(self)
        Permissions.__init__(self)
        self.seed: int | None = None
        self.said_less: set[Operation] = set()      # of whose results a program said less than follows from their inputs
        self.held: dict[Any, Any] = {}    # what lives as long as the graph: functions that its operations call, by key

    # lookup
    def tensor(self, name: str) -> Tensor:
        """The tensor called `name`, "operation:output"; NotFoundError when there is none."""
        base, colon, index = text_name(name).partition(":")
        if not colon:
            raise errors.InvalidArgumentError(f"graph: {name!r} names an operation, not a tensor; write '{name}:0'")
        op = self.operation(base)
        if not index.isdigit() or int(index) >= len(op.outputs):
            raise errors.NotFoundError(f"graph: no tensor {name!r}; {base!r} has {len(op.outputs)} outputs, "
                                       "write 'name:index'")
        return op.outputs[int(index)]

    get_tensor_by_name = tensor

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True,
                         where: str = "fetch") -> Tensor | Operation:
        """A tensor or operation of this graph from itself or its name; errors name the mistake, or the kind not allowed."""
        found = self._element(obj, where)
        if not (allow_tensor if isinstance(found, Tensor) else allow_operation):
            kind = "a tensor" if isinstance(found, Tensor) else "an operation"
            raise errors.DtypeError(f"{where}: {found.name!r} is {kind}, which is not allowed here; pass the other kind")
        return found

    def within(self, graph: Graph) -> bool:
        """Is this `graph`, or a body in it?"""
        return graph is self

    def _own(self, graph: Graph) -> bool:
        """Do elements of `graph` count as this one's?"""
        return graph is self

    def _element(self, element: Any, where: str) -> Tensor | Operation:
        if isinstance(element, (str, bytes)):
            name = element if isinstance(element, str) else element.decode()
            return self._value(self.tensor(name)) if ":" in name else self.operation(name)
        element = _stood_for(element)
        if not isinstance(element, (Tensor, Operation)):
            raise errors.DtypeError(f"{where}: {element!r} is a {type(element).__name__}, not a tensor or operation; pass one, "
                                    "or a name")
        if not self._own(element.graph):
            if element.graph.within(self):
                raise errors.InvalidArgumentError(f"{where}: {element.name} stands in a branch or loop (Operation "
                                                  f"{element.name!r} has been marked as not fetchable.); return it from there, "
                                                  "and ask for that")
            raise errors.InvalidArgumentError(f"{where}: {element.name} belongs to another graph; build it in this "
                                              "session's graph (with graph.as_default()) or use that graph's session")
        return element

    @staticmethod
    def _value(tensor: Tensor) -> Tensor:
        """The first read of a variable, by whose name a program means the value; any other tensor as it is."""
        return next((op.outputs[0] for op in tensor.consumers() if op.kind == "read_variable"), tensor) if (
            tensor.op.kind == "variable") else tensor

    # building
    def create(self, type: str | OpDef, inputs: Sequence[Tensor] = (), attrs: Mapping[str, Any] | None = None,
               name: str | None = None, control: Sequence[Operation] = (), *, device: str | None = None,
               colocation: frozenset[str] | None = None, derived: str | None = None,
               source: str | None = None) -> Operation:
        """Add one operation; dtype and shape rules run now, so errors arise at the user's line.

        `name` ending in "/" is taken literally (copies keep their names); otherwise it is made unique in the scope.
        """
        definition = type if isinstance(type, OpDef) else registry.find(type)
        if definition.specialize is not None:
            definition = definition.specialize(attrs)
        if self.finalized:
            raise errors.FailedPreconditionError(f"graph: it is finalized but {definition.name} was added (Graph is "
                                                 "finalized and cannot be modified.); build before finalize()")
        where = source or caller()
        with self._lock:
            inputs, scopes = tuple([self.capture(tensor) for tensor in inputs]), self._scopes
            attrs = dict(attrs or {})
            if scopes.container and "container" in definition.attrs:
                attrs["container"] = attrs.get("container") or scopes.container
            full = self._full_name(name or self.language.title(definition.name), scopes.name)
            op = Operation(self, definition, full, inputs, attrs, (), "", frozenset(), where)
            op.outputs = self.infer(op)
            op.controls = self._controls(op, control)
            op.device = self._requested(op) if device is None else device
            op.colocation = scopes.colocation if colocation is None else colocation
            op.derived = scopes.derived if derived is None else derived
            op.overrides = scopes.overrides
            self._add(op)
        return op

    def adopt(self, op: Operation, inputs: Sequence[Tensor], control: tuple[Operation, ...] = (), *,
              device: str | None = None, colocation: frozenset[str] | None = None) -> Operation:
        """Add a copy of `op` of another graph, under its name, over `inputs` of the same dtypes and shapes.

        Nothing is inferred, and scopes do not count: `device` and `colocation` are by default those of `op`.
        """
        name = op.name
        if name in self._nodes_by_name:
            self._new(name)
        new = Operation(self, op.definition, name, tuple(inputs), op.attrs, control,
                        op.device if device is None else device,
                        op.colocation if colocation is None else colocation, op.source)
        new.derived, new.overrides = op.derived, op.overrides
        new.outputs = tuple([Tensor(new, t.index, t.dtype, t.shape) for t in op.outputs])
        self._add(new)
        return new

    def capture(self, tensor: Tensor) -> Tensor:
        """`tensor` as seen in this graph; the base graph accepts only its own."""
        if tensor.op.graph is not self:
            raise errors.InvalidArgumentError(f"graph: {tensor.name} belongs to another graph; build both operations "
                                              "in one graph (with graph.as_default())")
        return tensor

    def outside(self, tensor: Tensor) -> Tensor | None:
        """The tensor of the graph around for which an argument of a body stands, None where there is none."""
        return None

    def infer(self, op: Operation, inputs: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
        """Outputs of `op` as the rules of its definition make them from its inputs, or from `inputs` in their place; the
        errors of these rules."""
        definition, inputs = op.definition, op.inputs if inputs is None else inputs
        try:
            shapes = infer_shapes(definition, [t.shape for t in inputs], op.attrs)
            if definition.shape is not None:
                shapes = definition.shape(inputs, op.attrs)
                if not isinstance(shapes, (list, tuple)):
                    raise errors.InvalidArgumentError(f"{op.kind}: its rule of shapes gave a {type(shapes).__name__}; return a "
                                                      "list with a shape for each output")
            dtypes = infer_dtypes(definition, [t.dtype for t in inputs], op.attrs, len(shapes))
        except errors.Error as error:
            raise error_of(op, type(error)(explain(op, error.message, inputs))) from None
        return tuple([Tensor(op, i, d, as_shape(s)) for i, (d, s) in enumerate(zip(dtypes, shapes))])

    def _controls(self, op: Operation, extra: Sequence[Operation]) -> tuple[Operation, ...]:
        """What `op`, which is being made, has to wait for here."""
        return tuple([c for c in dict.fromkeys((*self._scopes.controls, *extra)) if c.graph is self])

    # names
    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """`name` in the current scope, or `name_1` … when taken (case does not count); taken from now on if marked."""
        with self._lock:
            return (self._names.next if mark_as_used else self._names.following)(self.scope + name)

    # scopes
    def name_scope(self, name: str | None) -> Scope:
        """Names below carry `name/`; "" or None goes to the root, a name ending in "/" re-enters that scope."""
        here = self._inmost()
        with here._lock:
            full = name if not name or name.endswith("/") else here.unique_name(checked(name, bool(here.scope))) + "/"
        return Scope(here._scopes, "name", full or "", full or "")

    def control_dependencies(self, control_inputs: Sequence[Any] | None) -> Scope:
        """Operations below start after `control_inputs` finished; None clears."""
        here = self._inmost()
        if control_inputs is None:
            return Scope(here._scopes, "controls", ())
        found = []
        for element in control_inputs:
            item = _stood_for(element)
            item = here._element(item, "control_dependencies") if isinstance(item, (str, bytes)) else (
                item.values if hasattr(item, "__graph_parts__") else item)
            if not isinstance(item, (Tensor, Operation)):
                raise errors.DtypeError(f"control_dependencies: {element!r} is neither a tensor nor an operation; "
                                        "pass a list of them")
            found.append(item.op if isinstance(item, Tensor) else item)
        return Scope(here._scopes, "controls", (*here._scopes.controls, *found))

    def _inmost(self) -> Graph:
        """The body that a program is building inside of this graph, of whose graphs it knows the outermost; else the graph."""
        here = entered.graphs[-1] if entered.graphs else self
        return here if here is not self and here.within(self) and not asked_by_ours(3) else self

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Graph]:
        """New operations of this thread go into this graph."""
        entered.graphs.append(self)
        try:
            yield self
        finally:
            last = len(entered.graphs) - 1 - entered.graphs[::-1].index(self)     # a graph may be entered twice
            del entered.graphs[last]

    def fresh(self) -> Graph:
        """An empty graph in the language of this one."""
        return type(self)()

    @property
    def building_function(self) -> bool:
        """Is it the body of a function, a branch or a loop?"""
        return False


def _stood_for(element: Any) -> Any:
    """The tensor or operation that a variable, or an object of a program (`_as_graph_element`), stands for."""
    for title in ("__graph_element__", "_as_graph_element"):
        if hasattr(element, title):
            return getattr(element, title)()
    return element


_root = Graph()


def get_default_graph() -> Graph:
    """The graph that new operations of this thread go into."""
    return entered.graphs[-1] if entered.graphs else _root


def default_graphs() -> list[Graph]:
    """The graphs that are, or will be again, the default one of this thread."""
    return [_root, *entered.graphs]


def reset_default_graph(kind: type[Graph] = Graph) -> None:
    """Start over with an empty default graph (not inside `as_default`)."""
    global _root
    if entered.graphs:
        raise errors.FailedPreconditionError("reset_default_graph: a graph is in use (as_default); leave the with "
                                             "block first")
    _root = kind()


listen(get_default_graph)
