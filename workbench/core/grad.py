"""gradients(ys, xs): one reverse walk over the graph that adds the gradient operations."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, ops
from workbench.core.graph.dtype import variant
from workbench.core.graph.graph import Graph, Operation, Subgraph, Tensor, get_default_graph
from workbench.core.graph.opdef import composed

__all__ = ["gradients"]

Grad = Tensor | IndexedSlices | None


@composed
def gradients(ys: Any, xs: Any, grad_ys: Any = None, name: str = "gradients",
              stop_gradients: Sequence[Tensor] = ()) -> list[Grad]:
    """Symbolic derivatives of sum(ys) with respect to each of xs (paper §4.1).

    Returns one tensor per x, with x's shape and dtype; IndexedSlices where x is only gathered from; None where no
    path leads from x to ys. `grad_ys` replaces the ones that seed the walk. The result is ordinary graph, so gradients
    of gradients are one more call. Raises UnimplementedError naming the operation on the path that has no gradient.
    """
    graph = get_default_graph()       # inside a body's gradient this is not the graph of ys, which it captures
    targets = [convert(y) for y in _listed(ys)]
    if any(y.graph is not targets[0].graph for y in targets):
        targets = [graph.capture(y) for y in targets]
    sources = [_source(x) for x in _listed(xs)]
    seeds = _listed(grad_ys) if grad_ys is not None else [None] * len(targets)
    if len(seeds) != len(targets):
        raise errors.InvalidArgumentError(f"gradients: {len(targets)} ys but {len(seeds)} grad_ys; pass one for each")
    for x in sources:
        if x.op.type == "constant" and x.dtype.is_differentiable:
            ops.capture_constant(x)
    with graph.name_scope(name), graph.control_dependencies(None):
        return _derivatives(targets, [_seed(y, seed) for y, seed in zip(targets, seeds)], sources, stop_gradients)


def _derivatives(targets: list[Tensor], seeds: list[Grad], sources: list[Tensor],
                 stops: Sequence[Tensor]) -> list[Grad]:
    """By `sources` in the graph of the targets, or in one around the body that this is: on through what it captures."""
    if not targets:
        return [None] * len(sources)
    body = targets[0].graph
    captures = list(body.captures) if isinstance(body, Subgraph) and any(x.graph is not body for x in sources) else []
    held = set(stops)
    walk = _Walk(targets, sources + [inner for _, inner in captures],
                 held | {inner for outer, inner in captures if outer in held})
    for y, seed in zip(targets, seeds):
        walk.add(y, seed)
    walk.run()
    inside = [walk.total(x) for x in sources]
    reached = [(outer, walk.total(inner)) for outer, inner in captures]
    around = [(outer, seed) for outer, seed in reached if seed is not None]
    if not around:
        return inside
    outside = _derivatives([outer for outer, _ in around], [seed for _, seed in around], sources, stops)
    return [_sum([g for g in pair if g is not None]) if any(g is not None for g in pair) else None
            for pair in zip(inside, outside)]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _source(x: Any) -> Tensor:
    """The tensor to differentiate by; a variable stands for its handle, whose gradient sums over all its reads."""
    handle = getattr(x, "handle", None)
    return handle if isinstance(handle, Tensor) else convert(x)


def _seed(y: Tensor, seed: Any) -> Grad:
    if seed is None:
        if not y.dtype.is_differentiable:
            raise errors.DtypeError(f"gradients: {y.name} is {y.dtype.name}; only float tensors have gradients: "
                                    "cast it")
        return ops.ones_like(y)      # type: ignore[no-any-return]
    return seed if isinstance(seed, IndexedSlices) else convert(seed, y.dtype)


class _Walk:
    """Reverse topological walk over the operations between sources and targets."""

    def __init__(self, targets: list[Tensor], sources: list[Tensor], stops: set[Tensor]) -> None:
        self.partials: dict[Tensor, list[Any]] = {}
        self.sources, self.stops = set(sources), stops
        self.between = _between([x.op for x in sources], [y.op for y in targets])

    def add(self, tensor: Tensor, grad: Grad) -> None:
        if grad is not None:
            self.partials.setdefault(tensor, []).append(grad)

    def total(self, tensor: Tensor) -> Grad:
        parts = self.partials.get(tensor, [])
        if parts:
            parts[:] = [_sum(parts)]
        return parts[0] if parts else None

    def run(self) -> None:
        for op in sorted(self.between, key=lambda o: o.id, reverse=True):
            if not any(t in self.partials for t in op.outputs):
                continue
            if any(t.op in self.between for t in op.inputs):
                self._differentiate(op)

    def _differentiate(self, op: Operation) -> None:
        if not op.definition.differentiable:
            return
        function = op.definition.gradient_function
        if function is None:
            raise errors.UnimplementedError(
                f"gradients: operation {op.name!r} ({op.type}) has no gradient but lies between x and y; define it "
                f"with @{op.type}.gradient or cut the path with stop_gradient\n  built at: {op.source}")
        graph = get_default_graph()
        near = graph.colocate_with(op) if op.graph is graph else graph.device(op.device)
        with graph.name_scope(op.name.rpartition("/")[2] + "_grad"), near, graph.derivation():
            dys = [None if t in self.stops else self.total(t) for t in op.outputs]
            if all(d is None for d in dys):
                return
            turn = _conjugate if _takes_conjugates(op) else _same
            dys = [turn(d) for d in dys]
            if getattr(function, "selective", False):
                needed = tuple(t.op in self.between and (t not in self.stops or t in self.sources) for t in op.inputs)
                dxs = function(op, *dys, needed=needed)
            else:
                dys = [ops.zeros_like(t) if d is None and t.dtype.is_differentiable and len(dys) > 1 else d
                       for d, t in zip(dys, op.outputs)]
                dxs = function(op, *dys)
            dxs = [turn(d) for d in (dxs if isinstance(dxs, (list, tuple)) else [dxs])]
        if len(dxs) != len(op.inputs):
            raise errors.InternalError(f"gradients: the gradient of {op.type} returned {len(dxs)} values for "
                                       f"{len(op.inputs)} inputs; return one for each, None where there is none")
        for tensor, dx in zip(op.inputs, dxs):
            self.add(tensor, dx)


def _takes_conjugates(op: Operation) -> bool:
    """Gradients are written with plain derivatives; of complex numbers it is the conjugate of the derivative that counts."""
    tensors = (*op.inputs, *op.outputs)
    return (op.definition.analytic and any(t.dtype.is_complex for t in tensors)
            and not any(t.dtype.kind == "object" for t in tensors)
            and not any(isinstance(value, Graph) for value in op.attrs.values()))      # a body has turned its own


def _same(grad: Any) -> Any:
    return grad


def _conjugate(grad: Any) -> Any:
    if isinstance(grad, IndexedSlices):
        return IndexedSlices(_conjugate(grad.values), grad.indices, grad.dense_shape)
    return ops.conj(grad) if grad is not None and convert(grad).dtype.is_complex else grad


def _alike(indices: list[Tensor]) -> list[Tensor]:
    """Indices of one dtype: a table may be read by int32 numbers here and int64 ones there."""
    return indices if len({t.dtype for t in indices}) == 1 else [ops.cast(t, "int64") for t in indices]


def _sum(parts: list[Any]) -> Any:
    """The sum of partial gradients; sparse ones are concatenated, never densified unless a dense one joins."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(p, IndexedSlices) for p in parts):
        return IndexedSlices(ops.concat([p.values for p in parts], axis=0),
                             ops.concat(_alike([p.indices for p in parts]), axis=0), parts[0].dense_shape)
    if parts[0].dtype is variant:
        return ops.list_add_n(parts)
    return ops.add_n([convert(p) for p in parts])


def _between(sources: list[Operation], targets: list[Operation]) -> set[Operation]:
    """The operations on the paths of data from `sources` to `targets`, both included."""
    above: set[Operation] = set()
    stack = list(targets)
    while stack:
        op = stack.pop()
        if op not in above:
            above.add(op)
            stack += [t.op for t in op.inputs]
    reached = above.intersection(sources)
    for op in sorted(above, key=lambda o: o.id):
        if op not in reached and any([t.op in reached for t in op.inputs]):
            reached.add(op)
    return reached
