"""Take `if` and `while` apart into switch, merge and frames where their bodies span devices or may block."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from workbench.core.graph import device as devices
from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import Program, is_back_edge, needed, topological
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow import BODIES, bodies, set_back_edge
from workbench.core.passes.rewrite import Rewrite, walked

__all__ = ["lower", "must_lower"]

Choose = Callable[[Operation], bool]


def must_lower(op: Operation) -> bool:
    """Do the bodies of `op` hold an operation that may block, or one that asks for more than the device of `op`?

    State that a body uses counts as asking for its device.
    """
    inner = list(_inside(op))
    if any(node.definition.blocking for node in inner):
        return True
    asked = {node.device for node in inner} | {t.device for t in op.inputs if t.dtype is resource}
    return any(devices.merge(op.device, request) != devices.merge("", op.device) for request in asked)


def ambient(op: Operation) -> bool:
    """Is it a constant or a handle of state? Its value is known before a step, valid in every frame, and never a dead token."""
    if op.inputs or op.controls:
        return False
    return op.kind == "constant" or (op.definition.context and not op.definition.blocking and len(op.outputs) == 1
                                     and op.outputs[0].dtype is resource)


def _inside(op: Operation) -> Iterator[Operation]:
    for body in bodies(op.attrs):
        for node in body.operations:
            yield node
            yield from _inside(node)


def lower(program: Program, choose: Choose = must_lower) -> Program:
    """Replace each `if` and `while` for which `choose(op)` holds by primitives (paper §3.4, W§4.4).

    Operations of the bodies keep their names and device requests; what a body captures enters its frame as a constant.
    """
    reserved = {op.name for op in program.graph.operations}

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.kind not in BODIES or not choose(op):
            return None
        inliner = _Inliner(state.graph, choose, reserved)
        return inliner.operation(op, inputs, state.controls(op), op.device)

    if not any(op.kind in BODIES and choose(op) for op in program.graph.operations):
        return program
    return walked(program, visit)


class _Inliner:
    """Builds operations of bodies into `graph`; names in `reserved` belong to operations that are still to come."""

    def __init__(self, graph: Graph, choose: Choose, reserved: set[str]) -> None:
        self.graph, self.choose, self.reserved = graph, choose, reserved

    def name(self, wanted: str) -> str:
        """`wanted`, or with a number behind it when that is taken, in the form that `create` takes literally."""
        name = self.graph.unique_name(wanted)
        while name in self.reserved or self.graph.has(name):
            name = self.graph.unique_name(wanted)
        return name + "/"

    def operation(self, op: Operation, inputs: Sequence[Tensor], control: Sequence[Operation],
                  device: str) -> list[Tensor]:
        """`op` over `inputs`, taken apart if it is to be."""
        if op.kind in BODIES and self.choose(op):
            build = _branch if op.kind == "if" else _loop
            return build(self, op, list(inputs), tuple(control), device)
        new = self.graph.create(op.definition, inputs, op.attrs, self.name(op.name), control, device=device,
                                colocation=op.colocation, derived=op.derived, source=op.source)
        for old, tensor in zip(op.outputs, new.outputs):
            tensor.shape = tensor.shape.merge(old.shape, f"lower of {op.name}")
        return list(new.outputs)

    def body(self, body: Subgraph, arguments: Sequence[Tensor], live: set[Tensor], pivot: Operation,
             device: str) -> list[Tensor]:
        """The results of `body` over `arguments`; `live` are those that die with it, others hang on `pivot`."""
        tensors = dict(zip(body.arguments, arguments))
        producers: dict[Operation, tuple[Operation, ...]] = {}
        late: list[tuple[Tensor, int, Tensor]] = []
        for op in topological(needed(t.op for t in body.results)):
            if op.kind == "argument":
                continue
            waits = dict.fromkeys(new for c in op.controls for new in producers.get(c, ()))
            inputs = [tensors[t] if t in tensors else tensors[op.inputs[0]] for t in op.inputs]
            free = ambient(op)
            apart = op.kind in BODIES and self.choose(op)      # some of its parts may see constants alone
            if not free and (apart or (not waits and live.isdisjoint(inputs))):
                waits[pivot] = None
            outputs = self.operation(op, inputs, tuple(waits), devices.merge(device, op.device))
            late += [(outputs[0], i, t) for i, t in enumerate(op.inputs) if is_back_edge(op, t) and t not in tensors]
            producers[op] = tuple(dict.fromkeys(t.op for t in outputs)) or (self.graph.operations[-1],)
            tensors.update(zip(op.outputs, outputs))
            live.update(() if free else outputs)
        for value, position, tensor in late:
            set_back_edge(value, tensors[tensor], position)
        return [self.gated(tensors[t], live, pivot, body.name) for t in body.results]

    def gated(self, tensor: Tensor, live: set[Tensor], pivot: Operation, name: str) -> Tensor:
        """`tensor`, or a copy that dies with the body when it lives on outside."""
        if tensor in live:
            return tensor
        return self.graph.create("identity", [tensor], {}, self.name(f"{name}/result"), [pivot],
                                 device=tensor.op.device, colocation=frozenset(), source=pivot.source).outputs[0]


def _maker(inliner: _Inliner, op: Operation, device: str) -> Callable[..., Operation]:
    """Adds primitives that stand for `op`; values that hold state stay with it."""
    def make(kind: str, inputs: Sequence[Tensor], control: Sequence[Operation] = (), **attrs: object) -> Operation:
        where = inputs[0].op.device if inputs[0].dtype is resource else device
        return inliner.graph.create(kind, inputs, attrs, inliner.name(f"{op.name}/{kind}"), control, device=where,
                                    colocation=frozenset(), source=op.source)
    return make


def _used(body: Subgraph) -> set[Tensor]:
    """The arguments that the results of `body` depend on."""
    keep = needed(t.op for t in body.results)
    return {t for t in body.arguments if t.op in keep}


def _branch(inliner: _Inliner, op: Operation, inputs: list[Tensor], control: tuple[Operation, ...],
            device: str) -> list[Tensor]:
    make = _maker(inliner, op, device)
    pred, captures = inputs[0], inputs[1:]
    sides = op.attrs["else_branch"], op.attrs["then_branch"]      # in the order of switch's outputs
    used = [_used(body) for body in sides]
    choice = make("switch", [pred, pred], control)
    switched: list[tuple[Tensor, ...]] = []
    for position, tensor in enumerate(captures):
        wanted = any(body.arguments[position] in found for body, found in zip(sides, used))
        if ambient(tensor.op):
            switched.append((tensor, tensor))
        else:
            switched.append(make("switch", [tensor, pred], control).outputs if wanted else choice.outputs)
    results = []
    for side, body in enumerate(sides):
        pivot = make("identity", [choice.outputs[side]])
        arguments = [outputs[side] for outputs in switched]
        live = {t for t in arguments if t.op.kind == "switch"}
        results.append(inliner.body(body, arguments, {pivot.outputs[0], *live}, pivot, device))
    merged = []
    for on_false, on_true, out in zip(*results, op.outputs):
        merged.append(make("merge", [on_false, on_true]).outputs[0])
        merged[-1].shape = merged[-1].shape.merge(out.shape, f"lower of {op.name}")
    return merged


def _loop(inliner: _Inliner, op: Operation, inputs: list[Tensor], control: tuple[Operation, ...],
          device: str) -> list[Tensor]:
    make = _maker(inliner, op, device)
    test, body, count = op.attrs["cond_graph"], op.attrs["body_graph"], len(op.outputs)
    frame = {"frame_name": inliner.graph.unique_name(f"{op.name}/frame"),
             "parallel_iterations": op.attrs["parallel_iterations"]}
    used = {i for graph in (test, body) for i, t in enumerate(graph.arguments) if t in _used(graph)}
    entered = [make("enter", [t], control, **frame, is_constant=False, shape=out.shape).outputs[0]
               for t, out in zip(inputs, op.outputs)]
    merges = [make("merge", [t, t]) for t in entered]
    values = [merge.outputs[0] for merge in merges]
    constants = []
    for i, tensor in enumerate(inputs[count:], count):
        through = i in used and not ambient(tensor.op)
        constants.append(make("enter", [tensor], control, **frame, is_constant=True, shape=None).outputs[0]
                         if through else tensor)
    entering = {t for t in constants if t.op.kind == "enter" and t.op.attrs["frame_name"] == frame["frame_name"]}
    decided, = inliner.body(test, [*values, *constants], {*values, *entering}, merges[0], device)
    goes_on = make("loop_cond", [decided]).outputs[0]
    pivot = make("identity", [make("switch", [goes_on, goes_on]).outputs[1]])
    switched = [make("switch", [t, goes_on]).outputs for t in values]
    again = [on_true for _, on_true in switched]
    results = inliner.body(body, [*again, *constants], set(again), pivot, device)
    for merge, result in zip(merges, results):
        set_back_edge(merge, make("next_iteration", [result]).outputs[0])
    return [make("exit", [on_false]).outputs[0] for on_false, _ in switched]
