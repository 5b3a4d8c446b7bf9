"""Two small evaluators over reference kernels: one runs bodies, one moves tokens with dead values and frames."""
from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import Program, is_back_edge, needed, topological
from workbench.core.graph.shape import Shape
from workbench.core.passes.lower import ambient, lower
from workbench.core.state.container import Container, Context

Values = dict[Tensor, Any]


def run_kernel(op: Operation, inputs: Sequence[Any], container: Container) -> list[Any]:
    """The outputs of `op` by its reference kernel, checked against its static dtypes and shapes."""
    context = [Context(container, node=op.name)] if op.definition.context else []
    result = op.definition.reference(*context, *inputs, **op.attrs)
    single = [result[0] if isinstance(result, (tuple, list)) and result else result]
    outputs = single if len(op.outputs) == 1 else list(result or ())
    return [_checked(tensor, value) for tensor, value in zip(op.outputs, outputs, strict=True)]


def _checked(tensor: Tensor, value: Any) -> Any:
    if tensor.dtype.kind == "object":
        return value
    value = np.asarray(value)
    assert value.dtype == tensor.dtype.numpy, f"{tensor!r} became {value.dtype}"
    assert tensor.shape.compatible(Shape(value.shape)), f"{tensor!r} became {value.shape}"
    return value


def evaluate(graph: Graph, feeds: Mapping[Tensor, Any], fetches: Sequence[Any],
             container: Container | None = None) -> list[Any]:
    """The values of `fetches`; `if` and `while` run their bodies."""
    container = container or Container()
    values: Values = {t: _checked(t, v) for t, v in feeds.items()}
    roots = [f.op if isinstance(f, Tensor) else f for f in fetches if f not in values]
    for op in topological(needed(roots, lambda t: t in feeds)):
        if not all(t in values for t in op.outputs) or not op.outputs:
            inputs = [values[t] for t in op.inputs]
            values.update(zip(op.outputs, _structural(op, inputs, container)))
    return [values[f] if isinstance(f, Tensor) else None for f in fetches]


def _structural(op: Operation, inputs: list[Any], container: Container) -> list[Any]:
    if op.type == "if":
        body = op.attrs["then_branch" if inputs[0] else "else_branch"]
        return [_checked(t, v) for t, v in zip(op.outputs, _call(body, inputs[1:], container))]
    if op.type != "while":
        return run_kernel(op, inputs, container)
    count = len(op.outputs)
    while _call(op.attrs["cond_graph"], inputs, container)[0]:
        inputs[:count] = _call(op.attrs["body_graph"], inputs, container)
    return [_checked(t, v) for t, v in zip(op.outputs, inputs)]


def _call(body: Any, arguments: Sequence[Any], container: Container) -> list[Any]:
    return evaluate(body, dict(zip(body.arguments, arguments, strict=True)), body.results, container)


class Token(NamedTuple):
    value: Any
    dead: bool


Tag = tuple[tuple[str, int], ...]      # the frames around an operation, each with its iteration
DEAD = Token(None, True)


class _Instance:
    """An operation in one tag: what has arrived so far."""

    def __init__(self) -> None:
        self.inputs: dict[int, Token] = {}
        self.controls: list[bool] = []
        self.fired = False


class Tokens:
    """The textbook machine (paper §3.4, W§4.4): tokens move along edges, one operation at a time, no limits."""

    def __init__(self, graph: Graph, feeds: Mapping[Tensor, Any], roots: Sequence[Operation],
                 container: Container) -> None:
        self.container, self.feeds, self.runs = container, feeds, []
        self.operations = topological(needed(roots, lambda t: t in feeds))
        self.queue: deque[tuple[Operation, Tag]] = deque()
        self.instances: dict[tuple[Operation, Tag], _Instance] = {}
        self.values: dict[tuple[Tensor, Tag], Token] = {}
        self.constants: dict[tuple[Tag, str], list[tuple[Operation, Token]]] = {}
        self.opened: dict[tuple[Tag, str], int] = {}
        self.entered: dict[tuple[Tag, str], int] = {}
        self.dead_exits: dict[tuple[Tag, str], dict[Operation, None]] = {}
        self.live_exits: set[tuple[Tag, str, Operation]] = set()
        self.enters: dict[str, int] = {}
        self.ambient: Values = {}      # constants and handles: known before the step, no tokens
        for op in self.operations:
            if ambient(op) and not all(t in feeds for t in op.outputs):
                self.ambient.update(zip(op.outputs, run_kernel(op, [], container)))
        self._connect()

    def _connect(self) -> None:
        self.data: dict[Tensor, list[tuple[Operation, int]]] = {}
        self.control: dict[Operation, list[Operation]] = {}
        for op in self.operations:
            for position, tensor in enumerate(op.inputs):
                self.data.setdefault(tensor, []).append((op, position))
            for before in op.controls:
                self.control.setdefault(before, []).append(op)
            if op.type == "enter":
                name = op.attrs["frame_name"]
                self.enters[name] = self.enters.get(name, 0) + 1

    def run(self) -> None:
        for tensor, value in self.feeds.items():
            self.emit(tensor.op, (), [Token(value, False)])
        for op in self.operations:
            known = all(t in self.ambient for t in op.inputs) and not ambient(op)
            if known and not op.controls and op.type != "placeholder":
                self.queue.append((op, ()))
        while self.queue or self._end_a_frame():
            if self.queue:
                self.fire(*self.queue.popleft())

    def _end_a_frame(self) -> bool:
        """Nothing moves: the innermost complete frame is over and lets go of its dead exits."""
        for key in sorted(self.dead_exits, key=lambda k: -len(k[0])):
            tag, name = key
            if self.entered[key] == self.enters[name] and self.dead_exits[key]:
                for op in self.dead_exits.pop(key):
                    self.emit(op, tag, [DEAD])
                return True
        return False

    def emit(self, op: Operation, tag: Tag, tokens: Sequence[Token], dead: bool = False) -> None:
        for tensor, token in zip(op.outputs, tokens):
            self.values[tensor, tag] = token
            for consumer, position in self.data.get(tensor, ()):
                self.deliver(consumer, tag, position, token)
        dead = dead or (bool(tokens) and all(t.dead for t in tokens))
        for consumer in self.control.get(op, ()):
            instance = self.instance(consumer, tag)
            instance.controls.append(dead)
            self.consider(consumer, tag, instance)

    def instance(self, op: Operation, tag: Tag) -> _Instance:
        return self.instances.setdefault((op, tag), _Instance())

    def deliver(self, op: Operation, tag: Tag, position: int, token: Token) -> None:
        instance = self.instance(op, tag)
        assert position not in instance.inputs, f"{op.name} got input {position} twice in {tag}"
        instance.inputs[position] = token
        self.consider(op, tag, instance)

    def consider(self, op: Operation, tag: Tag, instance: _Instance) -> None:
        if instance.fired or len(instance.controls) < len(op.controls):
            return
        expected = [i for i, t in enumerate(op.inputs) if t not in self.ambient]
        if op.type == "merge":
            back = {i for i, t in enumerate(op.inputs) if is_back_edge(op, t)}
            if back:
                expected = [i for i in expected if (i in back) == (tag[-1][1] > 0)]
        arrived = all(i in instance.inputs for i in expected)
        if arrived or (op.type == "merge" and any(not t.dead for t in instance.inputs.values())):
            instance.fired = True
            self.queue.append((op, tag))

    def fire(self, op: Operation, tag: Tag) -> None:
        instance = self.instance(op, tag)
        instance.fired = True
        tokens = [Token(self.ambient[t], False) if t in self.ambient else instance.inputs.get(i, DEAD)
                  for i, t in enumerate(op.inputs)]
        if op.type == "merge":
            live = [i for i, t in enumerate(tokens) if not t.dead]
            assert len(live) <= 1, f"{op.name}: inputs {live} are alive"
            dead = not live or any(instance.controls)
            return self.emit(op, tag, [DEAD] * 2 if dead else [tokens[live[0]], Token(np.int32(live[0]), False)])
        dead = (any(t.dead for t in tokens) or any(instance.controls)) and op.type != "control_trigger"
        steer = getattr(self, f"_{op.type}", None)
        if steer is not None:
            return steer(op, tag, DEAD if dead else tokens[0], tokens)
        if dead:
            return self.emit(op, tag, [DEAD] * len(op.outputs), dead=True)
        self.runs.append(op.name)
        results = run_kernel(op, [t.value for t in tokens], self.container)
        return self.emit(op, tag, [Token(v, False) for v in results])

    def _switch(self, op: Operation, tag: Tag, token: Token, tokens: Sequence[Token]) -> None:
        taken = None if token.dead else bool(tokens[1].value)
        self.emit(op, tag, [token if taken is False else DEAD, token if taken is True else DEAD])

    def _enter(self, op: Operation, tag: Tag, token: Token, _: Any) -> None:
        key = tag, op.attrs["frame_name"]
        self.entered[key] = self.entered.get(key, 0) + 1
        self.opened.setdefault(key, 1)
        iterations = range(self.opened[key]) if op.attrs["is_constant"] else range(1)
        if op.attrs["is_constant"]:
            self.constants.setdefault(key, []).append((op, token))
        for iteration in iterations:
            self.emit(op, (*tag, (key[1], iteration)), [token])

    def _exit(self, op: Operation, tag: Tag, token: Token, _: Any) -> None:
        outside, (name, _iteration) = tag[:-1], tag[-1]
        held = self.dead_exits.setdefault((outside, name), {})
        if not token.dead:
            held.pop(op, None)
            self.live_exits.add((outside, name, op))
            self.emit(op, outside, [token])
        elif (outside, name, op) not in self.live_exits:      # an early iteration may come late
            held[op] = None

    def _next_iteration(self, op: Operation, tag: Tag, token: Token, _: Any) -> None:
        if token.dead:
            return
        outside, (name, iteration) = tag[:-1], tag[-1]
        following = (*outside, (name, iteration + 1))
        key = outside, name
        if self.opened[key] == iteration + 1:
            self.opened[key] += 1
            for constant, value in self.constants.get(key, ()):
                self.emit(constant, following, [value])
        self.emit(op, following, [token])


def evaluate_tokens(graph: Graph, feeds: Mapping[Tensor, Any], fetches: Sequence[Any],
                    container: Container | None = None) -> list[Any]:
    """The values of `fetches` when tokens flow through `graph`: None for operations, the string dead for dead ones."""
    roots = [f.op if isinstance(f, Tensor) else f for f in fetches]
    machine = Tokens(graph, feeds, roots, container or Container())
    machine.run()
    return [_fetched(machine, f) for f in fetches]


def _fetched(machine: Tokens, fetch: Any) -> Any:
    if not isinstance(fetch, Tensor):
        return None
    if fetch in machine.feeds:
        return machine.feeds[fetch]
    if fetch in machine.ambient:
        return machine.ambient[fetch]
    assert (fetch, ()) in machine.values, f"{fetch.name} never got a value"
    token = machine.values[fetch, ()]
    return "dead" if token.dead else token.value


def lowered(graph: Graph, feeds: Mapping[Tensor, Any], fetches: Sequence[Any],
            choose: Any = lambda op: True) -> tuple[Graph, dict[Tensor, Any], list[Any]]:
    """The same step with its `if` and `while` taken apart."""
    tensors = tuple(f for f in fetches if isinstance(f, Tensor))
    targets = tuple(f for f in fetches if not isinstance(f, Tensor))
    program = lower(Program(graph, tuple(feeds), tensors, targets), choose)
    return program.graph, dict(zip(program.feeds, feeds.values())), [*program.fetches, *program.targets]
