"""The gradient of `while`: the forward loop pushes what is needed on lists, a backward loop pops it."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph import program
from workbench.core.graph.build import FLAT, convert, ops
from workbench.core.graph.dtype import int32, resource, variant
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.opdef import selective
from workbench.core.graph.shape import Shape
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow import while_
from workbench.core.ops.flow_body import claim, copy_body, extend, outside
from workbench.core.ops.flow_grad import GradientBody, body_gradients, carries, zero
from workbench.core.ops.flow_grad_totals import Total, total_of
from workbench.core.ops.flow_trips import trips

__all__: list[str] = []

_SCALAR = Shape(())


@selective
def _while_gradient(node: Operation, *dys: Any, needed: tuple[bool, ...]) -> list[Any]:
    """A loop that runs the gradient of the body as often as the body ran, last iteration first (paper §4.1)."""
    for position, tensor in enumerate(node.inputs[:len(node.outputs)]):
        if tensor.dtype is resource and needed[position]:
            raise errors.UnimplementedError(f"gradients: loop variable {position} of {node.name!r} is the handle "
                                            f"{tensor.name}; use the variable inside the body instead of passing it on")
    flow = _Flow(node, dys, needed)
    if not node.attrs["back_prop"]:
        return [None] * len(node.inputs)
    grads = _Backward(node, flow, dys).build() if flow.active else [None] * len(node.inputs)
    return [FLAT if position in flow.flat else grad for position, grad in enumerate(grads)]


class _Flow:
    """Which loop variables and captures gradients go through: a fixed point over the body."""

    def __init__(self, node: Operation, dys: Sequence[Any], needed: Sequence[bool]) -> None:
        count, reaches = len(node.outputs), _reaches(node.attrs["body_graph"])
        wanted = {i for i, t in enumerate(node.inputs) if needed[i] and carries(t)}
        depends, before = set(wanted), -1
        while len(depends) != before:
            before = len(depends)
            depends |= {j for j in range(count) if carries(node.outputs[j]) and any(reaches[j] >> i & 1 for i in depends)}
        given = {j for j, dy in enumerate(dys) if dy is not None}
        active = _upstream(given & depends, reaches, {i for i in depends if i < count})
        states = {i for i in range(count) if carries(node.outputs[i])}
        leads = _upstream(given, _reaches(node.attrs["body_graph"], past_stops=True), states)
        self.active = sorted(active)
        self.captures = sorted(i for i in wanted if i >= count and any(reaches[j] >> i & 1 for j in active))
        self.flat = wanted & leads - active
        """Variables of the loop that its results depend on without a gradient, as behind stop_gradient: theirs is zero."""


def _upstream(given: set[int], reaches: Sequence[int], allowed: set[int]) -> set[int]:
    """`given`, and those of `allowed` that some number of turns lead from to them."""
    found, before = set(given), -1
    while len(found) != before:
        before = len(found)
        found |= {i for i in allowed if any(reaches[j] >> i & 1 for j in found)}
    return found


def _reaches(body: Subgraph, past_stops: bool = False) -> list[int]:
    """For each result of `body` the set of arguments, as bits, whose gradient it may carry; or could, were there gradients
    of all operations."""
    bits = {t: 1 << i for i, t in enumerate(body.arguments) if carries(t)}
    for op in body.operations:
        if past_stops or op.definition.differentiable:
            found = 0
            for tensor in op.inputs:
                found |= bits.get(tensor, 0)
            if found:
                bits.update((t, found) for t in op.outputs if carries(t))
    return [bits.get(t, 0) for t in body.results]


class _Backward:
    """Builds the backward loop of `node` and gives the forward loop what it takes."""

    def __init__(self, node: Operation, flow: _Flow, dys: Sequence[Any]) -> None:
        self.node, self.flow = node, flow
        self.forward, _ = copy_body(node.attrs["body_graph"])
        self.test, _ = copy_body(node.attrs["cond_graph"])
        self.count = len(node.outputs)
        self.dys = {j: convert(dys[j]) if dys[j] is not None else zero(node.outputs[j]) for j in flow.active}
        self.graph = get_default_graph()
        self.title = claim(self.graph, "while")
        self.body = GradientBody(self.forward, f"{self.title}/body", self.provide)
        self.constants: dict[int, Tensor] = {}              # input of the node -> argument of the backward body
        self.stacks: dict[Tensor, tuple[Tensor, Tensor]] = {}   # forward tensor -> (list argument, rest of the list)
        self.saved: dict[Tensor, int] = {}                  # forward tensor -> output of the node that lists it
        self.trip_count = node.attrs["trip_count"]
        self.new: list[tuple[Tensor, Tensor, Tensor]] = []  # what the forward loop gains: (initial, argument, result)

    # what the body of the gradient uses of the forward body
    def provide(self, body: GradientBody, tensor: Tensor) -> Tensor:
        position = self._invariant(tensor)
        if position is not None:
            if position not in self.constants:
                self.constants[position] = body.argument(tensor.dtype, tensor.shape, "capture")
            return self.constants[position]
        stack = body.argument(variant, _SCALAR, "stack")
        with body.as_default():
            rest, value = ops.list_pop(stack, dtype=tensor.dtype, shape=tensor.shape)
        self.stacks[tensor] = stack, rest
        return value      # type: ignore[no-any-return]

    def _invariant(self, tensor: Tensor) -> int | None:
        """The input of the loop that `tensor` equals in every iteration."""
        if tensor not in self.forward.arguments:
            return None
        position = self.forward.arguments.index(tensor)
        if position >= self.count or self.forward.results[position] is tensor:
            return position
        return None

    def build(self) -> list[Any]:
        body, flow = self.body, self.flow
        with body.as_default(), body.inside():
            count = body.argument(int32, _SCALAR, "trip_count")
            seeds = {j: body.argument(self.dys[j].dtype, self.forward.arguments[j].shape, "dy") for j in flow.active}
            wanted = [*flow.active, *flow.captures]
            grads = body_gradients(self.forward, wanted, seeds)
            split = len(flow.active)
            news = [self._next(j, grad) for j, grad in zip(flow.active, grads[:split])]
            sums = [total_of(self.node.inputs[i], self.forward.arguments[i], grad, body, trips(self.node))
                    for i, grad in zip(flow.captures, grads[split:])]
            body.results = [ops.subtract(count, 1), *news, *(t for s in sums for t in s.results)]
        self._forget_unused()
        self._extend_forward()
        with self.graph.name_scope(self.title + "/"):
            initial = [*self.dys.values(), *(t for s in sums for t in s.initial())]
        arguments = [count, *seeds.values(), *(t for s in sums for t in s.arguments)]
        outputs = self._loop(initial, arguments)
        return self._gradients(outputs, sums)

    def _forget_unused(self) -> None:
        """Gradients that nobody asked for were built too: what only they use is not saved."""
        used = program.needed(t.op for t in self.body.results)
        self.stacks = {t: pair for t, pair in self.stacks.items() if pair[0].op in used}
        self.constants = {i: t for i, t in self.constants.items() if t.op in used}

    def _next(self, position: int, grad: Any) -> Tensor:
        return self.body.capture(zero(self.forward.arguments[position]) if grad is None else convert(grad))

    # the forward loop
    def _extend_forward(self) -> None:
        with outside(self.forward), self.forward.inside():
            if self.trip_count is None:
                self.trip_count = self.count
                argument = self.forward.argument(int32, _SCALAR, "trip_count")
                self._gain(lambda: ops.constant(0, int32), argument, argument + 1)
            for tensor in self.stacks:
                place = self._listed(tensor)
                if place is None:
                    place = self.count + len(self.new)
                    argument = self.forward.argument(variant, _SCALAR, "stack")
                    self._gain(ops.list_new, argument, ops.list_push(argument, tensor))
                self.saved[tensor] = place
        node, captures = self.node, self.node.inputs[self.count:]
        initial = [t for t, _, _ in self.new]
        for body, gained in ((self.forward, [a for _, a, _ in self.new]), (self.test, self._unused(self.test))):
            own = [a for a in body.arguments if a not in set(gained)]
            body.arguments = own[:self.count] + gained + own[self.count:]
        self.forward.results += [result for _, _, result in self.new]
        attrs = {**node.attrs, "cond_graph": self.test, "body_graph": self.forward, "trip_count": self.trip_count}
        extend(node, [*node.inputs[:self.count], *initial, *captures], attrs, [t.op for t in initial])

    def _gain(self, initial: Any, argument: Tensor, result: Tensor) -> None:
        graph = self.node.graph
        with outside(graph), graph.name_scope(self.node.name + "/"):
            self.new.append((initial(), argument, result))

    def _unused(self, test: Subgraph) -> list[Tensor]:
        with outside(test), test.inside():
            return [test.argument(t.dtype, t.shape, "unused") for _, t, _ in self.new]

    def _listed(self, tensor: Tensor) -> int | None:
        """The loop variable that already lists `tensor`, from an earlier gradient."""
        for position, result in enumerate(self.forward.results):
            pushed = result.op.kind == "list_push" and result.op.inputs == (self.forward.arguments[position], tensor)
            if pushed and self.node.inputs[position].op.kind == "list_new":
                return position
        return None

    # the backward loop
    def _loop(self, initial: list[Tensor], arguments: list[Tensor]) -> list[Tensor]:
        node: Operation = self.node
        body: Subgraph = self.body
        stacks = [stack for stack, _ in self.stacks.values()]
        body.results += [rest for _, rest in self.stacks.values()]
        gained = len(self.new)
        inputs = [node.outputs[self.trip_count], *initial, *(node.outputs[self.saved[t]] for t in self.stacks)]
        constants = [node.inputs[i if i < self.count else i + gained] for i in self.constants]
        body.arguments = [*arguments, *stacks, *self.constants.values()]
        body.captures = list(zip(constants, self.constants.values()))
        body = self.body.closed(self.graph)
        test = Subgraph(self.graph, f"{self.title}/cond")
        with outside(test), test.inside():
            for argument in body.arguments:
                test.argument(argument.dtype, argument.shape, "argument")
            test.results = [ops.greater(test.arguments[0], 0)]
        attrs = {"cond_graph": test, "body_graph": body, "trip_count": None, "back_prop": True,
                 "parallel_iterations": node.attrs["parallel_iterations"]}
        return list(self.graph.create("while", [*inputs, *constants], attrs, self.title + "/").outputs)

    def _gradients(self, outputs: list[Tensor], sums: Sequence[Total]) -> list[Any]:
        grads: list[Any] = [None] * len(self.node.inputs)
        rest = outputs[1:]
        for position in self.flow.active:
            grads[position] = rest.pop(0)
        for position, total in zip(self.flow.captures, sums):
            grads[position + len(self.new)] = total.total([rest.pop(0) for _ in total.arguments])
        return grads


while_.gradient(_while_gradient)
