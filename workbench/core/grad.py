"""gradients(ys, xs): one reverse walk over the graph that adds the gradient operations; gradients that users register."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from workbench import errors
from workbench.core.graph.build import FLAT, IndexedSlices, convert, on_values, ops
from workbench.core.graph.dtype import variant
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.opdef import OpDef, composed, from_outside, registry
from workbench.core.graph.subgraph import Subgraph
from workbench.core.recomputed import Recomputed

__all__ = ["AggregationMethod", "NotDifferentiable", "RegisterGradient", "gradients", "registered_name"]

Grad = Tensor | IndexedSlices | None
Function = TypeVar("Function", bound=Callable[..., Any])


_registered: dict[str, Callable[..., Any]] = {}

# Types whose names in TensorFlow are other words than ours; where only case and underscores differ, none is needed.
_HISTORIC = {
    "Const": "constant", "Mul": "multiply", "Sub": "subtract", "RealDiv": "divide", "Neg": "negative", "Sum": "reduce_sum",
    "Mean": "reduce_mean", "Max": "reduce_max", "Min": "reduce_min", "Prod": "reduce_prod", "All": "reduce_all",
    "Any": "reduce_any", "PyFunc": "call_python", "PyFuncStateless": "call_python_once", "ConcatV2": "concat",
    "Pack": "stack", "Unpack": "unstack", "Inv": "reciprocal", "ReverseV2": "reverse", "GatherV2": "gather",
    "TopKV2": "top_k", "StopGradient": "stop_gradient",
}


class AggregationMethod:
    """How partial gradients of one tensor are summed: the sum is the same, in a fixed order, whichever is named."""

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


class RegisterGradient:
    """Decorator: `function(op, *grads)` is the gradient called `op_type`, for Graph.gradient_override_map, or of the
    operation of that name that has none. It returns a gradient for each input, None where there is none.

    AlreadyExistsError (a KeyError) for a name that is taken.
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._name = op_type

    def __call__(self, function: Function) -> Function:
        definition = _definition(self._name)
        if self._name in _registered or (definition is not None and definition.gradient_function is not None):
            raise RegisteredTwiceError(f"RegisterGradient: Registering two gradient with name {self._name!r}!; choose "
                                       "another name")
        _registered[self._name] = function
        if definition is not None:
            definition.gradient_function, definition.differentiable = _padded(function), True
        return function


class RegisteredTwiceError(errors.AlreadyExistsError, KeyError):
    """A second gradient under one name."""

    def __str__(self) -> str:      # KeyError would print the repr
        return self.message


def NotDifferentiable(op_type: str) -> None:
    """Gradients stop at operations of this type: by them, the gradient is None."""
    definition = _definition(op_type)
    if definition is None:
        _registered.setdefault(op_type, lambda op, *dys: [None] * len(op.inputs))
    elif definition.gradient_function is None:
        definition.differentiable = False


def _spelling(name: str) -> str:
    return _HISTORIC.get(name, name).replace("_", "").lower()


def _definition(name: str) -> OpDef | None:
    return next((found for key, found in registry.copy().items() if _spelling(key) == _spelling(name)), None)


def _padded(function: Callable[..., Any]) -> Callable[..., Any]:
    """TensorFlow's operations have more inputs than ours, where ours have attributes: gradients of those are None."""
    def gradient(op: Operation, *dys: Any) -> list[Any]:
        found = function(op, *dys)
        listed = list(found) if isinstance(found, (list, tuple)) else [found]
        while len(listed) > len(op.inputs) and listed[-1] is None:
            listed.pop()
        return listed
    gradient.__module__ = function.__module__      # what a user's gives is checked
    return gradient


def registered_name(op: Operation) -> tuple[str, str] | None:
    """(Its type as the program calls it, the name of the registered gradient that it was told to take), None where it has its
    own."""
    return next((pair for pair in (op.overrides or {}).items() if _spelling(pair[0]) == _spelling(op.kind)), None)


def _rule(op: Operation) -> Callable[..., Any] | None:
    """The gradient of an operation: registered for it where it was made, or there that of another kind, else its own; None
    when it has none."""
    told = registered_name(op)
    if told is not None:
        kind, name = told
        given = _registered.get(name) or getattr(_definition(name), "gradient_function", None)
        if given is None:
            raise errors.NotFoundError(f"gradients: No gradient defined for operation {op.name!r} (op type: {kind}) under "
                                       f"the name {name!r}; register it with RegisterGradient")
        return _padded(given)
    return op.definition.gradient_function if op.definition.differentiable else None


@composed
def gradients(ys: Any, xs: Any, grad_ys: Any = None, name: str = "gradients", colocate_gradients_with_ops: bool = False,
              gate_gradients: bool = False, aggregation_method: int | None = None,
              stop_gradients: Sequence[Tensor] | None = None) -> list[Grad]:
    """Symbolic derivatives of sum(ys) with respect to each of xs (paper §4.1).

    Returns one tensor per x, with x's shape and dtype; IndexedSlices where x is only gathered from; None where no path
    leads from x to ys, of which those of integers do not count. `grad_ys` replaces the ones that seed the walk. The result
    is ordinary graph, so gradients of gradients are one more call. Operations lie where the ones they differentiate lie
    (`colocate_gradients_with_ops` or not); with `gate_gradients` no gradient of an operation is used before all of them are
    there; `aggregation_method` is one of AggregationMethod. Raises UnimplementedError naming the operation on the path that
    has no gradient.
    """
    graph = get_default_graph()       # inside a body's gradient this is not the graph of ys, which it captures
    targets = [convert(y) for y in _listed(ys)]
    if any(y.graph is not targets[0].graph for y in targets):
        targets = [graph.capture(y) for y in targets]
    sources = [_source(x) for x in _listed(xs)]
    if aggregation_method not in (None, 0, 1, 2):
        raise errors.InvalidArgumentError(f"gradients: Invalid aggregation_method specified {aggregation_method}.; use one of "
                                          "AggregationMethod")
    seeds = _listed(grad_ys) if grad_ys is not None else [None] * len(targets)
    if len(seeds) != len(targets):
        raise errors.InvalidArgumentError(f"gradients: {len(targets)} ys but {len(seeds)} grad_ys; pass one for each")
    for x in sources:
        if x.op.kind == "constant" and x.dtype.is_differentiable:
            ops.capture_constant(x)
    counted = [(y, seed) for y, seed in zip(targets, seeds) if seed is not None or not y.dtype.is_integer]
    with graph.name_scope(name), graph.control_dependencies(None):
        return _derivatives([y for y, _ in counted], [_seed(y, seed) for y, seed in counted], sources, stop_gradients or (),
                            gate_gradients)


def _derivatives(targets: list[Tensor], seeds: list[Grad], sources: list[Tensor],
                 stops: Sequence[Tensor], gate: bool = False) -> list[Grad]:
    """By `sources` in the graph of the targets, or in one around the body that this is: on through what it captures."""
    if not targets:
        return [None] * len(sources)
    body = targets[0].graph
    captures = list(body.captures) if isinstance(body, Subgraph) and any(x.graph is not body for x in sources) else []
    held, copies = set(stops), [(outer, inner) for outer, inner in getattr(body, "copies", ()) if outer in sources]
    walk = _Walk(targets, sources + [inner for _, inner in (*captures, *copies)],
                 held | {inner for outer, inner in captures if outer in held}, gate)
    for y, seed in zip(targets, seeds):
        walk.add(y, seed)
    walk.run()
    inside = [_total([walk.total(t) for t in (x, *(inner for outer, inner in copies if outer is x))]) for x in sources]
    reached = [(outer, walk.total(inner)) for outer, inner in captures]
    around = [(outer, seed) for outer, seed in reached if seed is not None]
    if not around:
        return inside
    outside = _derivatives([outer for outer, _ in around], [seed for _, seed in around], sources, stops, gate)
    return [_total(pair) for pair in zip(inside, outside)]


def _total(grads: Sequence[Grad]) -> Grad:
    """The sum of those there are."""
    found = [g for g in grads if g is not None]
    return _sum(found) if found else None


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _source(x: Any) -> Tensor:
    """The tensor to differentiate by; a variable, and in some languages each of its reads, stands for its handle, whose
    gradient sums over all of them."""
    handle = getattr(x, "handle", None)
    found = handle if isinstance(handle, Tensor) else convert(x)
    one = found.op.kind == "read_variable" and found.graph.language.reads_are_one
    return found.op.inputs[0] if one else found


def _seed(y: Tensor, seed: Any) -> Grad:
    if seed is None:
        if not y.dtype.is_differentiable:
            raise errors.DtypeError(f"gradients: {y.name} is {y.dtype.name}; only float tensors have gradients: "
                                    "cast it")
        if y.dtype.is_complex:
            raise errors.DtypeError(f"gradients: Gradients of complex tensors must set grad_ys (y.dtype = {y.dtype.name}): "
                                    f"which direction of {y.name} counts is not said; pass grad_ys, or a real part of it")
        return ops.ones_like(y)      # type: ignore[no-any-return]
    given = seed if isinstance(seed, IndexedSlices) else convert(seed, y.dtype)
    if isinstance(given, Tensor) and not given.shape.compatible(y.shape):
        raise errors.ShapeError(f"gradients: {y.name} has shape {y.shape} but its grad_ys {given.shape}; pass one gradient for "
                                "each element")
    return given


class _Walk:
    """Reverse topological walk over the operations between sources and targets."""

    def __init__(self, targets: list[Tensor], sources: list[Tensor], stops: set[Tensor],
                 gate: bool = False) -> None:
        self.gate = gate
        self.partials: dict[Tensor, list[Any]] = {}
        self.flat: dict[Tensor, Tensor] = {}       # reached by zeros alone, so far: what has the shape of their sum
        self.sources, self.stops, self.recomputed = set(sources), stops, Recomputed()
        self.between = _between([x.op for x in sources], [y.op for y in targets])

    def add(self, tensor: Tensor, grad: Grad) -> None:
        if grad is not None:
            self.partials.setdefault(tensor, []).append(grad)

    def total(self, tensor: Tensor) -> Grad:
        parts = self.partials.get(tensor, [])
        if parts:
            parts[:] = [_sum(parts)]
        elif tensor in self.sources and tensor in self.flat:
            parts = [ops.zeros_like(self.flat[tensor])]
        return parts[0] if parts else None

    def run(self) -> None:
        for op in sorted(self.between, key=lambda o: o.id, reverse=True):
            if not any(t.op in self.between for t in op.inputs):
                continue
            if any(t in self.partials for t in op.outputs):
                self._differentiate(op)
            elif any(t in self.flat for t in op.outputs) and _rule(op) is not None:
                self._pass_on(op, op.inputs)

    def _pass_on(self, op: Operation, inputs: Sequence[Tensor]) -> None:
        """Zeros arrive at these inputs of the operation."""
        for tensor in inputs:
            if tensor.dtype.is_differentiable:
                self.flat.setdefault(tensor, tensor)
            elif op.kind == "read_variable":
                self.flat.setdefault(tensor, op.outputs[0])

    def _differentiate(self, op: Operation) -> None:
        function = _rule(op)
        if function is None and not op.definition.differentiable:
            return
        if function is None:
            raise errors.UnimplementedError(
                f"gradients: operation {op.name!r} ({op.kind}) has no gradient but lies between x and y; define it "
                f"with @{op.kind}.gradient or cut the path with stop_gradient\n  built at: {op.source}")
        graph = get_default_graph()
        near = graph.colocate_with(op) if op.graph is graph else graph.device(op.device)
        with graph.name_scope(op.name + "_grad"), near, graph.derivation(op.name):
            dys = [None if t in self.stops else self.total(t) for t in op.outputs]
            if all(d is None for d in dys):
                return
            own = function is op.definition.gradient_function      # of a user's, the conjugates are his
            turn = _conjugate if own and _takes_conjugates(op) else _same
            dys = [turn(d) for d in dys]
            made = self.recomputed.of(op, dys)
            if getattr(function, "selective", False):
                needed = tuple(t.op in self.between and (t not in self.stops or t in self.sources) for t in op.inputs)
                dxs = function(made, *dys, needed=needed)
            else:
                dys = [ops.zeros_like(t) if d is None and t.dtype.is_differentiable and len(dys) > 1 else d
                       for d, t in zip(dys, made.outputs)]
                dxs = function(made, *dys)
            dxs = list(dxs) if isinstance(dxs, (list, tuple)) else [dxs]
            self._pass_on(op, [t for t, d in zip(op.inputs, dxs) if d is FLAT])
            dxs = [None if d is FLAT else turn(d) for d in dxs]
        if len(dxs) != len(op.inputs):
            raise errors.InternalError(f"gradients: the gradient of {op.kind} returned {len(dxs)} values for "
                                       f"{len(op.inputs)} inputs; return one for each, None where there is none")
        if from_outside(function):
            dxs = [_fitting(op, number, dx) for number, dx in enumerate(dxs)]
        for tensor, dx in zip(op.inputs, _gated(dxs) if self.gate else dxs):
            self.add(tensor, _shaped(tensor, dx))


def _shaped(tensor: Tensor, dx: Grad) -> Grad:
    """A gradient with all that is known of the shape of what it is the gradient of, which may be more than its rule knew; what
    a branch or loop gives has the shape of each of its turns."""
    if (isinstance(dx, Tensor) and tensor.dtype.is_number and not dx.shape.known and dx.shape.compatible(tensor.shape)
            and not dx.op.has_bodies):
        dx.set_shape(tensor.shape)
    return dx


def _fitting(op: Operation, number: int, dx: Any) -> Any:
    """What a user's gradient gave for that input, of the input's dtype and shape as far as they are known, or an error."""
    tensor = op.inputs[number]
    if dx is None or not tensor.dtype.is_number:      # of a handle it is the gradient of what the handle stands for
        return dx
    if not isinstance(dx, (Tensor, IndexedSlices)):
        dx = convert(dx, tensor.dtype)
    given, rows = dx.dtype, isinstance(dx, IndexedSlices)
    shape, wanted = (dx.values.shape[1:], tensor.shape[1:]) if rows else (dx.shape, tensor.shape)
    what = f"gradients: the gradient of {op.kind} gave for its input {tensor.name}"
    if given is not tensor.dtype:
        raise errors.DtypeError(f"{what} {given.name} but the input is {tensor.dtype.name}; cast it\n  built at: {op.source}")
    if not shape.compatible(wanted):
        raise errors.ShapeError(f"{what} {'rows of ' * rows}shape {shape} but the input has {wanted}; return that shape: what "
                                f"was broadcast is summed with ops.reduce_to\n  built at: {op.source}")
    return dx


def _takes_conjugates(op: Operation) -> bool:
    """Gradients are written with plain derivatives; of complex numbers it is the conjugate of the derivative that counts."""
    tensors = (*op.inputs, *op.outputs)
    return (op.definition.analytic and any(t.dtype.is_complex for t in tensors)
            and not any(t.dtype.kind == "object" for t in tensors)
            and not op.has_bodies)      # a body has turned its own


def _same(grad: Any) -> Any:
    return grad


def _conjugate(grad: Any) -> Any:
    return None if grad is None else on_values(lambda x: ops.conj(x) if convert(x).dtype.is_complex else x, grad)


def _gated(grads: list[Any]) -> list[Any]:
    """The same gradients, each available only after all of them."""
    made = [g.values if isinstance(g, IndexedSlices) else g for g in grads if g is not None]
    if len(made) < 2:
        return grads
    with get_default_graph().control_dependencies(made):
        return [g if g is None else IndexedSlices(ops.identity(g.values), ops.identity(g.indices), g.dense_shape)
                if isinstance(g, IndexedSlices) else ops.identity(g) for g in grads]


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
    readers: dict[Operation, list[Operation]] = {}      # of what lies above the targets
    stack = list(dict.fromkeys(targets))
    above = set(stack)
    while stack:
        op = stack.pop()
        for before in {t.op for t in op.inputs}:
            readers.setdefault(before, []).append(op)
            if before not in above:
                above.add(before)
                stack.append(before)
    stack = [op for op in dict.fromkeys(sources) if op in above]
    reached = set(stack)
    while stack:
        for op in readers.get(stack.pop(), ()):      # a merge of an imported loop reads what was made after it
            if op not in reached:
                reached.add(op)
                stack.append(op)
    return reached
