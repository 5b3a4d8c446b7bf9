"""Gradients of `if`, `while` and calls: bodies of gradients, and the forward values that they need."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph import program
from workbench.core.graph.build import IndexedSlices, constant_value, convert, ops
from workbench.core.graph.dtype import resource, variant
from workbench.core.graph.graph import Graph, Operation, Tensor, get_default_graph
from workbench.core.graph.opdef import selective
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow import call, if_
from workbench.core.ops.flow_body import claim, copy_body, extend, outside, unify

__all__ = ["GradientBody", "body_gradients", "carries", "dense_shape_as", "zero", "zero_as"]


def carries(tensor: Tensor) -> bool:
    """May a gradient flow through `tensor`? (floats, lists of them, handles of variables)"""
    return tensor.dtype.is_differentiable or tensor.dtype in (variant, resource)


def zero(tensor: Tensor) -> Tensor:
    """The gradient that is zero for `tensor`; one of known shape does not keep the tensor alive."""
    if tensor.dtype is variant:
        return ops.list_new()      # type: ignore[no-any-return]
    if tensor.shape.known:
        return ops.zeros(tensor.shape.static, tensor.dtype)      # type: ignore[no-any-return]
    return ops.zeros_like(tensor)      # type: ignore[no-any-return]


class GradientBody(Subgraph):
    """The body of a gradient, built beside the forward body `forward`, whose tensors it may use.

    What it uses comes through `provide(tensor)`: an argument, or what the loop popped from a list. Constants and
    handles made in the forward body are made again.
    """

    def __init__(self, forward: Subgraph, name: str, provide: Callable[[GradientBody, Tensor], Tensor]) -> None:
        super().__init__(forward, name)
        self.provide = provide
        self.known: dict[Tensor, Tensor] = {}

    def capture(self, tensor: Tensor) -> Tensor:
        if tensor.graph is self:
            return tensor
        if tensor not in self.known:
            self._check_outside(tensor)
            with self.control_dependencies(None), self.device(None), self.colocate_with(None):
                again = self._again(tensor)
                self.known[tensor] = self.provide(self, tensor) if again is None else again
        return self.known[tensor]

    def _again(self, tensor: Tensor) -> Tensor | None:
        op = tensor.op
        if op.kind == "constant" or (tensor.dtype is resource and not op.inputs and op.kind != "argument"):
            again = self.create(op.definition, (), op.attrs, _short(op), device=op.device).outputs[tensor.index]
            self.copies += [(outer, again) for outer, inner in getattr(tensor.graph, "copies", ()) if inner is tensor]
            return again
        return None

    def closed(self, outer: Graph) -> Subgraph:
        """The complete gradient as an ordinary body of `outer`, without what its results do not need."""
        self.outer = outer
        return copy_body(self)[0]


def _short(op: Operation) -> str:
    return op.name.rpartition("/")[2]


def body_gradients(forward: Subgraph, wanted: Sequence[int], seeds: dict[int, Any]) -> list[Any]:
    """Gradients of `forward`'s results with respect to its arguments `wanted`, built into the default graph."""
    ys = [forward.results[k] for k in seeds]
    return ops.gradients(ys, [forward.arguments[i] for i in wanted], grad_ys=list(seeds.values()), name="body")      # type: ignore[no-any-return]


# branches and calls

@dataclass
class _Seeds:
    """The gradients that come in, as captures of the gradient bodies (IndexedSlices are two tensors)."""

    given: dict[int, Any]

    def inside(self, body: GradientBody) -> dict[int, Any]:
        return {k: self._one(body, seed) for k, seed in self.given.items()}

    def _one(self, body: GradientBody, seed: Any) -> Any:
        if not isinstance(seed, IndexedSlices):
            return self._argument(body, seed)
        shape = None if seed.dense_shape is None else self._argument(body, seed.dense_shape)
        return IndexedSlices(self._argument(body, seed.values), self._argument(body, seed.indices), shape)

    @staticmethod
    def _argument(body: GradientBody, tensor: Tensor) -> Tensor:
        inner = body.argument(tensor.dtype, tensor.shape, "dy")
        body.captures.append((tensor, inner))
        return inner


_SIDES = {"if": {"then_branch": "then", "else_branch": "else"}, "call": {"body": "body"}}
_OWN = {"if": 1, "call": 0}      # inputs before those that the bodies take


@selective
def _gradient(node: Operation, *dys: Any, needed: tuple[bool, ...]) -> list[Any]:
    """`if` over the gradients of the branches, or a call of the gradient of what was called; the forward operation gives out
    what they need (paper §4.1)."""
    own, names = _OWN[node.kind], _SIDES[node.kind]
    seeds = _Seeds({k: dy for k, dy in enumerate(dys) if dy is not None and carries(node.outputs[k])})
    wanted = [i for i, t in enumerate(node.inputs) if i >= own and needed[i] and carries(t)]
    if not seeds.given or not wanted:
        return [None] * len(node.inputs)
    graph = get_default_graph()
    title = claim(graph, node.kind)
    forwards = [copy_body(node.attrs[key])[0] for key in names]
    saved = _Saved(node, forwards)
    sides = [GradientBody(f, f"{title}/{side}", saved.provide) for f, side in zip(forwards, names.values())]
    found = []
    for body, forward in zip(sides, forwards):
        with body.as_default(), body.inside():
            found.append(body_gradients(forward, [i - own for i in wanted], seeds.inside(body)))
    kept = [p for p in range(len(wanted)) if any(grads[p] is not None for grads in found)]
    forms = [_agree(sides, forwards, found, p, wanted[p] - own) for p in kept]
    for body in sides:
        used = program.needed(t.op for t in body.results)
        body.captures = [(saved.place(tensor), inner) for tensor, inner in body.captures if inner.op in used]
    saved.extend_node()
    for body in sides:
        body.captures = [(saved.outer(place), inner) for place, inner in body.captures]
        body.arguments = [inner for _, inner in body.captures]
    closed = [body.closed(graph) for body in sides]
    captures = unify(closed, 0)
    attrs = {**node.attrs, **dict(zip(names, closed))}
    if node.kind == "call":
        attrs |= {"function": f"{node.attrs['function']}_grad", "results": [f"dx_{i}" for i in range(len(closed[0].results))]}
    new = graph.create(node.kind, [*node.inputs[:own], *captures], attrs, title + "/")
    return _scatter(node, [wanted[p] for p in kept], forms, list(new.outputs))


def _agree(sides: Sequence[GradientBody], forwards: Sequence[Subgraph], found: Sequence[list[Any]], position: int,
           argument: int) -> Any:
    """Append one gradient to the results of both sides in one form; returns one of them, as an example of the form."""
    grads = [values[position] for values in found]
    like = next(g for g in grads if g is not None)
    sparse = all(g is None or isinstance(g, IndexedSlices) for g in grads)
    for body, forward, grad in zip(sides, forwards, grads):
        with body.as_default(), body.inside():
            if sparse:
                slices = _no_slices(like) if grad is None else grad
                parts = [slices.values, slices.indices]
            else:
                parts = [zero_as(like, forward.arguments[argument]) if grad is None else convert(grad)]
            body.results += [body.capture(part) for part in parts]
    return like if sparse else parts[0]


def _no_slices(like: IndexedSlices) -> IndexedSlices:
    rows = [d or 0 for d in like.values.shape[1:].sizes or ()]
    return IndexedSlices(ops.zeros((0, *rows), like.values.dtype), ops.zeros((0,), like.indices.dtype))


def zero_as(like: Tensor, tensor: Tensor) -> Tensor:
    """The zero gradient of `tensor`, which may be a handle; `like` is another gradient of it."""
    if tensor.dtype is not resource:
        return zero(tensor)
    if like.shape.known:
        return ops.zeros(like.shape.static, like.dtype)      # type: ignore[no-any-return]
    return ops.zeros_like(ops.read_variable(tensor, dtype=like.dtype, shape=like.shape))      # type: ignore[no-any-return]


def dense_shape_as(like: IndexedSlices, tensor: Tensor) -> Tensor | None:
    """The dense_shape of other slices of `tensor`, which may be a handle, built in the default graph."""
    if like.dense_shape is None:
        return None
    known = constant_value(like.dense_shape)
    if known is not None:
        return ops.constant(known, like.dense_shape.dtype)      # type: ignore[no-any-return]
    if tensor.dtype is resource:
        tensor = ops.read_variable(tensor, dtype=like.dtype, shape=None)
    return ops.shape(tensor, out_type=like.dense_shape.dtype)      # type: ignore[no-any-return]


def _scatter(node: Operation, positions: Sequence[int], forms: Sequence[Any], outputs: list[Tensor]) -> list[Any]:
    """The gradient of each input of `node` from the outputs of the gradient's node."""
    grads: list[Any] = [None] * len(node.inputs)
    for position, form in zip(positions, forms):
        grads[position] = outputs.pop(0)
        if isinstance(form, IndexedSlices):
            shape = dense_shape_as(form, node.inputs[position])
            grads[position] = IndexedSlices(grads[position], outputs.pop(0), shape)
    return grads


class _Saved:
    """Values inside the branches of an `if`, or of a call, that its gradient uses: they become more outputs of it."""

    def __init__(self, node: Operation, forwards: Sequence[Subgraph]) -> None:
        self.node, self.forwards = node, forwards
        self.places: dict[Tensor, int] = {}     # tensor of a branch -> output of the node
        self.added: list[Tensor] = []
        for forward in forwards:
            for position, tensor in enumerate(forward.results):
                self.places.setdefault(tensor, position)

    def provide(self, body: GradientBody, tensor: Tensor) -> Tensor:
        inner = body.argument(tensor.dtype, tensor.shape, _short(tensor.op))
        body.captures.append((tensor, inner))
        return inner

    def place(self, tensor: Tensor) -> Tensor:
        """`tensor`, which becomes an output of the node if it is made in a branch and is none yet."""
        made = any(tensor.graph is forward and tensor not in forward.arguments for forward in self.forwards)
        if made and tensor not in self.places:
            self.places[tensor] = len(self.node.outputs) + len(self.added)
            self.added.append(tensor)
        return tensor

    def extend_node(self) -> None:
        for tensor in self.added:
            for forward in self.forwards:
                with outside(forward), forward.inside():
                    forward.results.append(tensor if tensor.graph is forward else _placeholder(tensor))
        extend(self.node, self.node.inputs, {**self.node.attrs, **dict(zip(_SIDES[self.node.kind], self.forwards))})

    def outer(self, tensor: Tensor) -> Tensor:
        """What carries `tensor` beside the node."""
        for forward in self.forwards:
            if tensor in forward.arguments:
                return self.node.inputs[_OWN[self.node.kind] + forward.arguments.index(tensor)]
        return self.node.outputs[self.places[tensor]] if tensor in self.places else tensor


def _placeholder(tensor: Tensor) -> Tensor:
    """A stand-in for `tensor` from the branch that did not compute it: both need the same outputs, and this one is not read."""
    if tensor.dtype is variant:
        return ops.list_new()      # type: ignore[no-any-return]
    if tensor.dtype is resource:
        raise errors.UnimplementedError(f"gradients: {tensor.name} is a handle computed inside a branch; make it "
                                        "outside")
    dims = [d or 0 for d in tensor.shape.sizes] if tensor.shape.sizes is not None else [0]
    if tensor.dtype.kind == "string":
        return ops.constant(np.full(dims, b"", object), tensor.dtype)      # type: ignore[no-any-return]
    return ops.zeros(dims, tensor.dtype)      # type: ignore[no-any-return]


if_.gradient(_gradient)
call.gradient(_gradient)
