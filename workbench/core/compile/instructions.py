"""Instruction selection: each operation of a straight block becomes a line of a plan, over planned values."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.compile.segments import is_bound
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import topological
from workbench.core.kernels.choice import Choice, Spec, reorders, selectors
from workbench.core.kernels.options import kernel_options

__all__ = ["Block", "Branch", "Instruction", "Loop", "Selector", "Value"]


@dataclass(eq=False)
class Value:
    """One runtime value: a planned buffer, a Python local, a constant, or a handle known when the plan is bound."""

    key: int
    name: str
    storage: str                              # "buffer" | "alias" | "local" | "constant" | "resource"
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None             # None: known only at run time
    layout: Any = None                        # a library's private layout
    roots: frozenset[int] = frozenset()       # keys of buffers whose memory it may share
    data: Any = None                          # constant's array, alias' source Value, resource's Operation

    @property
    def static(self) -> bool:
        """Same address at every run of one instance."""
        return self.storage in ("buffer", "alias", "constant")

    @property
    def spec(self) -> Spec:
        assert self.shape is not None
        return Spec(self.shape, self.dtype, self.layout)

    @property
    def symbol(self) -> str:
        return {"buffer": "b", "alias": "b", "local": "t", "constant": "c", "resource": "r"}[self.storage] + str(self.key)


@dataclass
class Instruction:
    """One call. `form` says how it is written: see codegen.py."""

    form: str                                 # "choice" "ufunc" "into" "reference" "context" "read" "update" "view" "send"
    op: Operation
    inputs: list[Value]
    outputs: list[Value]
    choice: Choice | None = None
    scratch: Value | None = None
    fresh: list[Value] = field(default_factory=list)     # outputs to allocate at run time, because they outlive the step


@dataclass
class Branch:
    """`if pred: then… else: otherwise…`; both end by giving the outputs their values."""

    op: Operation
    pred: Value
    outputs: list[Value]
    then: Block
    otherwise: Block


@dataclass
class Loop:
    """`while condition: body`; `variables` are the loop's locals, set from `initial` and then from `body.results`."""

    op: Operation
    variables: list[Value]
    initial: list[Value]
    condition: Block
    body: Block


@dataclass
class Block:
    """A straight sequence of lines with the values it yields."""

    lines: list[Instruction | Branch | Loop] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)


class Selector:
    """Chooses a form for every operation; one per plan, so that value keys are unique in it."""

    def __init__(self) -> None:
        self.values: list[Value] = []

    # values
    def value(self, name: str, storage: str, dtype: Any, shape: tuple[int, ...] | None, **more: Any) -> Value:
        made = Value(len(self.values), name, storage, np.dtype(dtype), shape, **more)
        if storage == "buffer":
            made.roots = frozenset({made.key})
        self.values.append(made)
        return made

    def local(self, tensor: Tensor, roots: frozenset[int] = frozenset()) -> Value:
        shape = tensor.shape.static if tensor.shape.known else None
        return self.value(tensor.name, "local", tensor.dtype.numpy, shape, roots=roots)

    # blocks
    def block(self, operations: Sequence[Operation], known: dict[Tensor, Value], results: Sequence[Tensor]) -> Block:
        """Lines for `operations` (in order); `known` maps the tensors that exist and is extended."""
        scope = _Scope(self, known, operations, results)
        for op in operations:
            scope.add(op)
        scope.block.results = [scope.plain(known[t]) for t in results]
        return scope.block

    def subgraph(self, graph: Graph, arguments: Sequence[tuple[Tensor, Value]], results: Sequence[Tensor]) -> Block:
        known = dict(arguments)
        order = [op for op in topological(graph.operations) if op.type != "argument"]
        return self.block(order, known, results)


class _Scope:
    """Selection state of one block."""

    def __init__(self, selector: Selector, known: dict[Tensor, Value], operations: Sequence[Operation],
                 results: Sequence[Tensor]) -> None:
        self.selector, self.known, self.block = selector, known, Block()
        self.escaping = set(results)
        self.consumers: dict[Tensor, list[Operation]] = {}
        for op in operations:
            for tensor in op.inputs:
                self.consumers.setdefault(tensor, []).append(op)
        self._plain: dict[int, Value] = {}
        self._versions: dict[tuple[int, Any], Value] = {}

    def add(self, op: Operation) -> None:
        special = _handle if is_bound(op) and op.type != "constant" else _SPECIAL.get(op.type)
        if special is not None:
            special(self, op)
        elif op.definition.context:
            self.call("context", op)
        elif not self.choose(op):
            self.plain_call(op)

    def plain(self, value: Value) -> Value:
        """`value` in C order: a reorder is inserted once when a library keeps it in its own layout."""
        return value if value.layout is None else self.version(value, None)

    def version(self, value: Value, layout: Any) -> Value:
        """`value` in `layout`."""
        if value.layout == layout:
            return value
        key = (value.key, layout)
        if key not in self._versions:
            library = (layout or value.layout).library
            target = self.selector.value(value.name, "buffer", value.dtype, value.shape, layout=layout)
            choice = reorders[library](value.spec, target.spec)
            self.emit(Instruction("choice", self.block_op(value), [value], [target], choice))
            self._versions[key] = target
            self._versions[(target.key, value.layout)] = value
        return self._versions[key]

    def block_op(self, value: Value) -> Operation:
        """The operation to which a reorder of `value` is charged in traces."""
        return next(t.op for t, v in self.known.items() if v.name == value.name)

    def emit(self, line: Instruction | Branch | Loop) -> None:
        if isinstance(line, Instruction) and line.choice is not None and line.choice.scratch:
            line.scratch = self.selector.value(f"{line.op.name}/scratch", "buffer", np.uint8, (line.choice.scratch,))
        self.block.lines.append(line)

    # forms
    def choose(self, op: Operation) -> bool:
        """Ask the kernel libraries in order; False when all decline or a shape is unknown."""
        offers = [(name, s) for name, s in selectors.get(op.type, ()) if name in kernel_options().libraries]
        if not offers or not all(t.shape.known for t in (*op.inputs, *op.outputs)):
            return False
        inputs = [self.known[t] for t in op.inputs]
        if any(v.shape is None or v.storage == "resource" for v in inputs):
            return False
        specs = [v.spec for v in inputs]
        targets = [Spec(t.shape.static, t.dtype.numpy) for t in op.outputs]
        for library, select in offers:
            choice = select(op.attrs, specs, targets, [self.free(t, library) for t in op.outputs])
            if choice is not None:
                self.use(op, choice, inputs)
                return True
        return False

    def free(self, tensor: Tensor, library: str) -> bool:
        """May the producer leave `tensor` in a private layout? Only if someone of the same library reads it."""
        return tensor not in self.escaping and any(
            name == library for op in self.consumers.get(tensor, ()) for name, _ in selectors.get(op.type, ()))

    def use(self, op: Operation, choice: Choice, inputs: list[Value]) -> None:
        ready = [self.version(v, layout) for v, layout in zip(inputs, choice.inputs)]
        outputs = []
        for tensor, layout in zip(op.outputs, choice.outputs):
            fresh = tensor in self.escaping and layout is None
            outputs.append(self.local(tensor) if fresh else self.buffer(tensor, layout))
        self.bind(op, outputs)
        self.emit(Instruction("choice", op, ready, outputs, choice, fresh=[v for v in outputs if v.storage == "local"]))

    def plain_call(self, op: Operation) -> None:
        d = op.definition
        inputs = [self.plain(self.known[t]) for t in op.inputs]
        view = d.view and op.outputs[0].shape.known      # an operation that is none may have no output
        if view and inputs[0].static and inputs[0].storage != "constant" and op.outputs[0] not in self.escaping:
            self.alias(op, inputs[0])
        elif view:
            output = self.local(op.outputs[0], inputs[0].roots)
            self.bind(op, [output])
            self.emit(Instruction("view", op, [inputs[0]], [output]))
        elif (d.ufunc is not None or d.into is not None) and all(
                t.shape.known and t.dtype.kind not in ("object", "string") for t in op.outputs):
            self.write(op, "ufunc" if d.ufunc is not None else "into", inputs)
        else:
            self.call("reference", op)

    def write(self, op: Operation, form: str, inputs: list[Value]) -> None:
        outputs = [self.local(t) if t in self.escaping else self.buffer(t) for t in op.outputs]
        self.bind(op, outputs)
        self.emit(Instruction(form, op, inputs, outputs, fresh=[v for v in outputs if v.storage == "local"]))

    def call(self, form: str, op: Operation) -> None:
        """The reference kernel; its results may share memory with any of its inputs."""
        inputs = [self.plain(self.known[t]) for t in op.inputs]
        roots = frozenset().union(*(v.roots for v in inputs)) if form == "reference" else frozenset()
        outputs = [self.local(t, roots) for t in op.outputs]
        self.bind(op, outputs)
        self.emit(Instruction(form, op, inputs, outputs))

    def alias(self, op: Operation, source: Value) -> None:
        tensor = op.outputs[0]
        value = self.selector.value(tensor.name, "alias", tensor.dtype.numpy, tensor.shape.static, roots=source.roots,
                                    data=source)
        self.bind(op, [value])

    def buffer(self, tensor: Tensor, layout: Any = None) -> Value:
        return self.selector.value(tensor.name, "buffer", tensor.dtype.numpy, tensor.shape.static, layout=layout)

    def local(self, tensor: Tensor, roots: frozenset[int] = frozenset()) -> Value:
        return self.selector.local(tensor, roots)

    def bind(self, op: Operation, values: Sequence[Value]) -> None:
        self.known.update(zip(op.outputs, values))


# operations with their own form

def _constant(scope: _Scope, op: Operation) -> None:
    array = op.attrs["value"]
    if op.control_inputs and op.outputs[0] in scope.escaping:      # who reads it has to wait, or to die, with it
        scope.call("reference", op)
        return
    scope.bind(op, [scope.selector.value(op.outputs[0].name, "constant", array.dtype, array.shape, data=array)])


def _handle(scope: _Scope, op: Operation) -> None:
    scope.bind(op, [scope.selector.value(op.outputs[0].name, "resource", object, None, data=op)])


def _read(scope: _Scope, op: Operation) -> None:
    scope.call("read", op)


def _argument(scope: _Scope, op: Operation) -> None:
    raise errors.InvalidArgumentError(
        f"placeholder {op.name!r}: it has no value ({op.outputs[0].dtype.name}{op.outputs[0].shape}); pass "
        f"feed_dict={{…: value}} for it\n  built at: {op.source}")


def _branch(scope: _Scope, op: Operation) -> None:
    pred, *captures = (scope.plain(scope.known[t]) for t in op.inputs)
    blocks = []
    for key in ("then_branch", "else_branch"):
        graph = op.attrs[key]
        blocks.append(scope.selector.subgraph(graph, list(zip(graph.arguments, captures)), graph.results))
    outputs = []
    for position, tensor in enumerate(op.outputs):
        roots = frozenset().union(*(b.results[position].roots for b in blocks))
        outputs.append(scope.local(tensor, roots))
    scope.bind(op, outputs)
    scope.emit(Branch(op, pred, outputs, *blocks))


def _loop(scope: _Scope, op: Operation) -> None:
    inputs = [scope.plain(scope.known[t]) for t in op.inputs]
    count = len(op.outputs)
    variables = [scope.local(t, v.roots) for t, v in zip(op.outputs, inputs)]
    blocks = []
    for key in ("cond_graph", "body_graph"):
        graph = op.attrs[key]
        values = [*variables, *inputs[count:]]
        blocks.append(scope.selector.subgraph(graph, list(zip(graph.arguments, values)), graph.results))
    scope.bind(op, variables)
    scope.emit(Loop(op, variables, inputs[:count], *blocks))


def _matmul_descent(scope: _Scope, op: Operation) -> None:
    """The update runs as one library kernel on the variable's own buffer when a library offers it."""
    handle, rate, a, b = (scope.known[t] for t in op.inputs)
    out = op.outputs[0]
    if handle.storage == "resource" and out.shape.known and all(v.shape is not None for v in (rate, a, b)):
        weight = Spec(out.shape.static, out.dtype.numpy)
        for library, select in selectors.get("matmul_update", ()):
            if library not in kernel_options().libraries:
                continue
            choice = select({**op.attrs, "sign": -1.0}, [weight, a.spec, b.spec, rate.spec], [weight], [False])
            if choice is not None and choice.inputs[0] is None and choice.outputs[0] is None:
                ready = [scope.version(v, layout) for v, layout in zip((a, b, rate), choice.inputs[1:])]
                value = scope.local(out)
                scope.bind(op, [value])
                scope.emit(Instruction("update", op, [handle, *ready], [value], choice))
                return
    scope.call("reference", op)


_SPECIAL: dict[str, Callable[[_Scope, Operation], None]] = {
    "constant": _constant, "read_variable": _read,
    "apply_matmul_descent": _matmul_descent, "argument": _argument,
    "placeholder": _argument, "if": _branch, "while": _loop,
}
