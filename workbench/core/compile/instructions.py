"""Instruction selection: each operation of a straight block becomes a line of a plan, over planned values."""
from __future__ import annotations

import functools
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from workbench import errors
from workbench.core.compile import forms
from workbench.core.compile.forms import Block, Branch, Instruction, Line, Loop
from workbench.core.compile.late import worth_asking
from workbench.core.compile.segments import is_bound
from workbench.core.compile.values import Alias, Buffer, Constant, Handle, Local, Packed, Value, is_array
from workbench.core.graph.dtype import variant
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.origin import error_of
from workbench.core.graph.program import state_name, topological
from workbench.core.kernels.choice import LASTING, Choice, Layout, Select, Spec, reorders, selectors
from workbench.core.kernels.fallback import ask
from workbench.core.kernels.options import kernel_options
from workbench.core.ops.flow_trips import trips

__all__ = ["Selector"]

TURNS = 8
"""How often a loop is taken to run of which only the step knows it."""

_SENT = 1 << 20        # bytes from which what is sent has memory of its own, which need not be copied
_TAKEN = 64 << 20      # bytes from which an array becomes a variable's buffer, where a copy would double what is held

V = TypeVar("V", bound=Value)


class Selector:
    """Chooses a form for every operation; one per plan, so that value keys are unique in it."""

    def __init__(self, device: str, written: Container[str], sent: Container[Tensor]) -> None:
        self.device = device                 # its type
        self.written = written               # names of the state that the plan changes
        self.sent = sent                     # what goes to other tasks
        self.values: list[Value] = []
        self.lasting: dict[int, Handle] = {}      # values of variables that stay from step to step, by key

    # values
    def add(self, kind: type[V], name: str, dtype: Any, shape: tuple[int, ...] | None, **more: Any) -> V:
        made = kind(len(self.values), name, np.dtype(dtype), shape, **more)
        self.values.append(made)
        return made

    def local(self, tensor: Tensor, roots: frozenset[int] = frozenset(), fresh: bool = False) -> Local:
        shape = tensor.shape.static if tensor.shape.known else None
        return self.add(Local, tensor.name, tensor.dtype.numpy, shape, array=is_array(tensor), roots=roots, fresh=fresh,
                        sent=self.sends(tensor))

    def sends(self, tensor: Tensor) -> bool:
        """Is it sent, and so large that it shall not be copied for that?"""
        return tensor in self.sent and _bytes(tensor) >= _SENT

    def offers(self, type: str) -> Sequence[tuple[str, Select]]:
        """(library, its selector) of those that serve operations of this type on this plan's kind of device."""
        return selectors.get((type, self.device), ())

    # blocks
    def block(self, operations: Sequence[Operation], known: dict[Tensor, Value], results: Sequence[Tensor],
              done: Callable[[], None] = lambda: None, around: _Around | None = None) -> Block:
        """Lines for `operations` (in order); `known` maps the tensors that exist and is extended. `done` hears of each."""
        scope = _Scope(self, known, operations, results, around)
        for op in operations:
            scope.add(op)
            done()
        scope.block.results = [scope.plain(known[t]) for t in results]
        return scope.block

    def subgraph(self, graph: Graph, arguments: Sequence[tuple[Tensor, Value]], results: Sequence[Tensor],
                 around: _Around | None = None) -> Block:
        known = dict(arguments)
        order = [op for op in topological(graph.operations) if op.kind != "argument"]
        return self.block(order, known, results, around=around)


@dataclass(frozen=True)
class _Around:
    """What the body of a loop knows of the block that the loop stands in."""

    scope: _Scope
    same: frozenset[int]      # keys of the values that are the same in every iteration
    times: int                # how often the body runs

    @classmethod
    def of(cls, scope: _Scope, op: Operation, inputs: Sequence[Value]) -> _Around:
        own = {v.key for v in inputs[:len(op.outputs)]}
        times = trips(op)
        return cls(scope, frozenset(v.key for v in inputs[len(op.outputs):]) - own, TURNS if times is None else times)


class _Scope:
    """Selection state of one block."""

    def __init__(self, selector: Selector, known: dict[Tensor, Value], operations: Sequence[Operation],
                 results: Sequence[Tensor], around: _Around | None = None) -> None:
        self.around = around
        self.selector, self.known, self.block = selector, known, Block()
        self.outside = frozenset(known)
        self.escaping = {*results, *_listed(operations)}      # what a list refers to is not overwritten
        self.consumers: dict[Tensor, list[Operation]] = {}
        for op in operations:
            for tensor in op.inputs:
                self.consumers.setdefault(tensor, []).append(op)
        self._versions: dict[tuple[int, Any], Value] = {}
        self._made_by: dict[int, Operation] = {v.key: t.op for t, v in known.items()}

    def add(self, op: Operation) -> None:
        special = _handle if is_bound(op) and op.kind != "constant" else _SPECIAL.get(op.kind)
        if self.selector.device != "CPU" and special not in (_handle, _constant, _read, _argument):
            self.call(forms.Reference if not op.dtypes else forms.DeviceCall, op)
        elif special is not None:
            special(self, op)
        elif op.definition.context:
            self.call(forms.ContextCall, op)
        elif not self.choose(op):
            self.plain_call(op)

    def plain(self, value: Value) -> Value:
        """`value` in C order: a reorder is inserted once when a library keeps it in its own layout."""
        return value if value.layout is None else self.version(value, None)

    def version(self, value: Value, layout: Layout | None) -> Value:
        """`value` in `layout`; the reorder is charged in traces to the operation that made the value."""
        if value.layout == layout:
            return value
        if self.around is not None and value.key in self.around.same:
            return self.around.scope.version(value, layout)      # once, before the loop
        key = (value.key, layout)
        if key not in self._versions:
            target = self._reordered(value, layout)
            self._versions[key] = target
            self._versions[(target.key, value.layout)] = value
        return self._versions[key]

    def _reordered(self, value: Value, layout: Layout | None) -> Value:
        assert value.shape is not None
        target, maker = Spec(value.shape, value.dtype, layout), layout or value.layout
        choice = reorders[maker.library](value.spec, target)
        if isinstance(value, Constant | Packed):
            return self.selector.add(Packed, value.name, value.dtype, value.shape, layout=layout, source=value,
                                     choice=choice)
        op = self._made_by[value.key]
        if value.key in self.selector.lasting:
            kept = self.selector.add(Local, value.name, value.dtype, value.shape, layout=layout)
            self._made_by[kept.key] = op
            self.block.lines.append(forms.PackVariable(op, [value, self.selector.lasting[value.key]], [kept], choice))
            return kept
        made = self.selector.add(Buffer, value.name, value.dtype, value.shape, layout=layout)
        self._made_by[made.key] = op
        self.emit(forms.LibraryCall(op, [value], [made], choice))
        return made

    def emit(self, line: Line) -> None:
        if isinstance(line, Instruction) and line.choice is not None and line.choice.scratch:
            line.scratch = self.selector.add(Buffer, f"{line.op.name}/scratch", np.uint8, (line.choice.scratch,))
        self.block.lines.append(line)

    # forms
    def choose(self, op: Operation) -> bool:
        """Ask the kernel libraries in order; False when all decline or fail. Where a shape is unknown the step asks them."""
        offers = self.selector.offers(op.kind)
        if not offers:
            return False
        libraries = kernel_options().libraries
        offers = [(name, s) for name, s in offers if name in libraries]
        if not offers:
            return False
        inputs = [self.known[t] for t in op.inputs]
        if not all([v.array for v in inputs]):
            return False
        if any([v.shape is None for v in inputs]) or not all([t.shape.known for t in (*op.inputs, *op.outputs)]):
            offers = [(name, s) for name, s in offers if worth_asking(name, op)]
            if offers:
                self.call(functools.partial(forms.LateCall, offers=offers), op)
            return bool(offers)
        specs = [v.read_by(self.readers(t, v)) for v, t in zip(inputs, op.inputs)]
        targets = [Spec(t.shape.static, t.dtype.numpy) for t in op.outputs]
        for library, select in offers:
            choice = ask(library, select, op.kind, op.attrs, specs, targets, [self.free(t, library) for t in op.outputs])
            if choice is not None:
                self.use(op, choice, inputs)
                return True
        return False

    def readers(self, tensor: Tensor, value: Value) -> int:
        """How often a step reads `value`, as far as this block tells; what stays from step to step is read without end."""
        if value.key in self.selector.lasting or isinstance(value, Constant):
            return LASTING
        again = 1 if self.around is None or value.key not in self.around.same else self.around.times
        return len(self.consumers[tensor]) * again

    def free(self, tensor: Tensor, library: str) -> bool:
        """May the producer leave `tensor` in a private layout? Only if someone of the same library reads it."""
        return tensor not in self.escaping and not self.selector.sends(tensor) and any(
            name == library for op in self.consumers.get(tensor, ()) for name, _ in self.selector.offers(op.kind))

    def use(self, op: Operation, choice: Choice, inputs: list[Value]) -> None:
        ready = [self.version(v, layout) for v, layout in zip(inputs, choice.inputs)]
        outputs = [self.written(t, layout) for t, layout in zip(op.outputs, choice.outputs)]
        self.bind(op, outputs)
        self.emit(forms.LibraryCall(op, ready, outputs, choice))

    def written(self, tensor: Tensor, layout: Layout | None = None) -> Value:
        """Where a kernel writes `tensor`: a planned buffer, or a new array for what outlives the step or leaves the task."""
        if (tensor in self.escaping or self.taken(tensor) or self.selector.sends(tensor)) and layout is None:
            return self.local(tensor, fresh=True)
        return self.selector.add(Buffer, tensor.name, tensor.dtype.numpy, tensor.shape.static, layout=layout)

    def taken(self, tensor: Tensor) -> bool:
        """Is it so large that the variable to which it is assigned last, and nothing reads it else, shall have its memory?"""
        if self.around is not None or tensor in self.escaping or tensor in self.outside:
            return False
        return _bytes(tensor) >= _TAKEN and {op.kind for op in self.consumers.get(tensor, ())} == {"assign"}

    def plain_call(self, op: Operation) -> None:
        d = op.definition
        view = d.view and op.outputs[0].shape.known and is_array(op.outputs[0])      # one that is none may have no output
        writes = (d.ufunc is not None or d.into is not None) and all(
            t.shape.known and t.dtype.kind not in ("object", "string") for t in op.outputs)
        if (view or writes) and not _follow(op):
            view = writes = False      # a call compares what it gives with what was said
        if view:
            self.view(op)
        elif writes:
            inputs = [self.plain(self.known[t]) for t in op.inputs]
            outputs = [self.written(t) for t in op.outputs]
            self.bind(op, outputs)
            self.emit((forms.Into if d.ufunc is None else forms.UfuncCall)(op, inputs, outputs))
        else:
            self.call(forms.Reference, op)

    def view(self, op: Operation) -> None:
        source, tensor = self.plain(self.known[op.inputs[0]]), op.outputs[0]
        if isinstance(source, Buffer | Alias) and tensor not in self.escaping:
            self.bind(op, [self.selector.add(Alias, tensor.name, tensor.dtype.numpy, tensor.shape.static,
                                             roots=source.roots, source=source, first=op.attrs.get("first"))])
            return
        output = self.local(tensor, source.roots)
        self.bind(op, [output])
        self.emit(forms.View(op, [source], [output]))

    def call(self, form: Callable[..., Instruction], op: Operation) -> None:
        """A kernel that gives its outputs; unless it promises new arrays they may be memory of its inputs."""
        inputs = [self.plain(self.known[t]) for t in op.inputs]
        fresh = op.definition.fresh
        roots = frozenset[int]() if fresh else frozenset[int]().union(*(v.roots for v in inputs))
        outputs = [self.local(t, roots, fresh) for t in op.outputs]
        self.bind(op, outputs)
        self.emit(form(op, inputs, [*outputs]))

    def local(self, tensor: Tensor, roots: frozenset[int] = frozenset(), fresh: bool = False) -> Local:
        return self.selector.local(tensor, roots, fresh)

    def bind(self, op: Operation, values: Sequence[Value]) -> None:
        self.known.update(zip(op.outputs, values))
        self._made_by.update((v.key, op) for v in values)


def _listed(operations: Sequence[Operation]) -> set[Tensor]:
    """What becomes elements of lists, and what that is a view of."""
    found = {t for op in operations if any([made.dtype is variant for made in op.outputs]) for t in op.inputs}
    for op in reversed(operations):
        if op.definition.view and op.outputs[0] in found:
            found.add(op.inputs[0])
    return found


def _bytes(tensor: Tensor) -> int:
    """As far as its shape is known."""
    return (tensor.shape.num_elements() or 0) * tensor.dtype.size if tensor.shape.known else 0


def _follow(op: Operation) -> bool:
    """Do the shapes of its outputs follow from its inputs? Otherwise the program stated them (`set_shape`, `ensure_shape`)."""
    return all([t.shape.known for t in op.graph.infer(op)])


# operations with their own form

def _constant(scope: _Scope, op: Operation) -> None:
    array = op.attrs["value"]
    # a constant that has to wait for something is made by a line, so that its readers wait for the same
    if op.controls and op.outputs[0] in scope.escaping:
        scope.call(forms.Reference, op)
        return
    scope.bind(op, [scope.selector.add(Constant, op.outputs[0].name, array.dtype, array.shape, data=array)])


def _handle(scope: _Scope, op: Operation) -> None:
    scope.bind(op, [scope.selector.add(Handle, op.outputs[0].name, object, None, array=False, op=op)])


def _read(scope: _Scope, op: Operation) -> None:
    scope.call(forms.ReadVariable, op)
    handle, value = scope.known[op.inputs[0]], scope.known[op.outputs[0]]
    if isinstance(handle, Handle) and handle.op.kind == "variable" and state_name(handle.op) not in scope.selector.written:
        scope.selector.lasting[value.key] = handle


def _argument(scope: _Scope, op: Operation) -> None:
    dtype, shape = op.outputs[0].dtype.name, op.outputs[0].shape
    theirs = {"float32": "float", "float64": "double"}.get(dtype, dtype)      # in TensorFlow's messages
    raise error_of(op, errors.InvalidArgumentError(
        f"placeholder {op.name!r}: it has no value ({dtype}{shape}); pass feed_dict={{…: value}} for it (You must feed a value "
        f"for placeholder tensor {op.name!r} with dtype {theirs}{f' and shape {shape}' if shape.known else ''})\n"
        f"  built at: {op.source}"))


def _branch(scope: _Scope, op: Operation) -> None:
    pred, *captures = (scope.plain(scope.known[t]) for t in op.inputs)
    blocks = []
    for key in ("then_branch", "else_branch"):
        graph = op.attrs[key]
        blocks.append(scope.selector.subgraph(graph, list(zip(graph.arguments, captures)), graph.results))
    outputs: list[Value] = []
    for position, tensor in enumerate(op.outputs):
        roots = frozenset[int]().union(*(b.results[position].roots for b in blocks))
        outputs.append(scope.local(tensor, roots))
    scope.bind(op, outputs)
    scope.emit(Branch(op, pred, outputs, *blocks))


def _loop(scope: _Scope, op: Operation) -> None:
    inputs = [scope.plain(scope.known[t]) for t in op.inputs]
    count = len(op.outputs)
    variables: list[Value] = [scope.local(t, v.roots) for t, v in zip(op.outputs, inputs)]
    around = _Around.of(scope, op, inputs)
    blocks = []
    for key in ("cond_graph", "body_graph"):
        graph = op.attrs[key]
        values = [*variables, *inputs[count:]]
        blocks.append(scope.selector.subgraph(graph, list(zip(graph.arguments, values)), graph.results, around))
    scope.bind(op, variables)
    scope.emit(Loop(op, variables, inputs[:count], *blocks))


def _assign(scope: _Scope, op: Operation) -> None:
    tensor, value = op.inputs[1], scope.known[op.inputs[1]]
    mine = isinstance(value, Local) and value.fresh and scope.taken(tensor) and scope.consumers[tensor][-1] is op
    scope.call(forms.TakenOver if mine else forms.Reference, op)


def _matmul_descent(scope: _Scope, op: Operation) -> None:
    """The update runs as one library kernel on the variable's own buffer when a library offers it."""
    handle, rate, a, b = (scope.known[t] for t in op.inputs)
    out = op.outputs[0]
    if isinstance(handle, Handle) and out.shape.known and all(v.shape is not None for v in (rate, a, b)):
        weight = Spec(out.shape.static, out.dtype.numpy)
        for library, select in scope.selector.offers("matmul_update"):
            if library not in kernel_options().libraries:
                continue
            choice = ask(library, select, "matmul_update", {**op.attrs, "sign": -1.0},
                         [weight, a.spec, b.spec, rate.spec], [weight], [False])
            if choice is not None and choice.inputs[0] is None and choice.outputs[0] is None:
                ready = [scope.version(v, layout) for v, layout in zip((a, b, rate), choice.inputs[1:])]
                value = scope.local(out)
                scope.bind(op, [value])
                scope.emit(forms.UpdateVariable(op, [handle, *ready], [value], choice))
                return
    scope.call(forms.Reference, op)


_SPECIAL: dict[str, Callable[[_Scope, Operation], None]] = {
    "constant": _constant, "read_variable": _read, "assign": _assign,
    "apply_matmul_descent": _matmul_descent, "argument": _argument,
    "placeholder": _argument, "if": _branch, "while": _loop,
}
