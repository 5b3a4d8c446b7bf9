"""cond, case and while_loop: Python functions become bodies of one operation."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import DType, bool_, int32
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.opdef import composed
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow_body import claim, finish, outside, trace, unify, waits
from workbench.core.ops.flow_nest import Structure, analyze, flatten_up_to, pack

__all__ = ["case", "cond", "while_loop"]


@composed
def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None = None) -> Any:
    """What `true_fn()` returns if `pred` (bool scalar) holds, else what `false_fn()` returns; only one of them runs.

    Both return the same nested structure (lists, tuples, dicts, named tuples) of tensors of the same dtypes; shapes
    may differ and are unknown then. They may use tensors and variables from outside. Where both return an operation,
    the result is the operation that stands for having run it (in TensorFlow's language the bool `pred`); where one does and
    the other a bool, the operation counts as `pred`. Raises InvalidArgumentError when they disagree.
    Source: paper §4.4.
    """
    graph = get_default_graph()
    title = claim(graph, name or "cond")
    where = f"cond {title!r}"
    predicate = _predicate(pred, where)
    branches = Subgraph(graph, title + "/then"), Subgraph(graph, title + "/else")
    for body in branches:
        body.share_names()
    traced = [trace(body, _callable(f, where), ()) for body, f in zip(branches, (true_fn, false_fn))]
    (structure, on_true), (other, on_false) = traced
    if structure != other:
        raise errors.InvalidArgumentError(f"{where}: true_fn returns {structure} but false_fn returns {other}; "
                                          "return the same structure from both")
    dtypes = [_common_dtype(a, b, where) for a, b in zip(on_true, on_false)]
    for body, leaves, done in zip(branches, (on_true, on_false), (True, False)):
        finish(body, leaves, dtypes, done)
    captures = unify(branches, 0)
    node = graph.create("if", [predicate, *captures], {"then_branch": branches[0], "else_branch": branches[1]},
                        title + "/", waits(branches))
    as_operations = "if" not in graph.language.results      # else it is the bool that TensorFlow gives
    leaves = [node if as_operations and isinstance(a, Operation) and isinstance(b, Operation) else _result(out)
              for a, b, out in zip(on_true, on_false, node.outputs)]
    return pack(structure, leaves)


def _result(output: Tensor) -> Tensor:
    """What a branch or loop gave, by the name that the graph's language has for it."""
    graph, node = output.graph, output.op
    name = graph.language.results.get(node.definition.name)
    if name is None or output.dtype.kind == "object":      # lists that loops build are nothing that programs look for
        return output
    with outside(graph), graph.name_scope(node.name + "/"):
        return ops.identity(output, name=name)      # type: ignore[no-any-return]


def _callable(function: Any, where: str) -> Callable[..., Any]:
    if not callable(function):
        raise errors.InvalidArgumentError(f"{where}: {function!r} is not a function; pass functions, for example "
                                          "lambda: x + 1")
    return function      # type: ignore[no-any-return]


def _predicate(pred: Any, where: str) -> Tensor:
    tensor = convert(pred)
    if tensor.dtype is not bool_ or not tensor.shape.compatible(Shape(())):
        raise errors.InvalidArgumentError(f"{where}: the predicate {tensor.name} is {tensor.dtype.name}"
                                          f"{tensor.shape} but one bool is needed; compare it, or reduce it with "
                                          "reduce_all or reduce_any")
    return tensor


def _common_dtype(a: Any, b: Any, where: str) -> DType | None:
    """The dtype of both leaves; a Python value takes that of the tensor opposite."""
    found = [bool_ if isinstance(leaf, Operation) else getattr(leaf, "dtype", None) for leaf in (a, b)]
    if isinstance(a, Operation) != isinstance(b, Operation) and any(d not in (bool_, None) for d in found):
        raise errors.InvalidArgumentError(f"{where}: true_fn returns {a!r} but false_fn returns {b!r}; return a tensor "
                                          "from both or an operation from both (beside an operation a bool will do)")
    known = [d for d in found if isinstance(d, DType)]
    if len(known) == 2 and known[0] is not known[1]:
        raise errors.DtypeError(f"{where}: true_fn returns {_name(a)} of {known[0].name} but false_fn "
                                f"returns {_name(b)} of {known[1].name}; cast one of them")
    return known[0] if known else _python_dtype(a, b)


def _python_dtype(a: Any, b: Any) -> DType | None:
    kinds = (bool, int, float, complex)
    if type(a) in kinds and type(b) in kinds and bool not in (type(a), type(b)):
        return convert(a + b).dtype      # 0 beside 0.5 is a float
    return None


def _name(leaf: Any) -> str:
    return getattr(leaf, "name", repr(leaf))


@composed
def case(pred_fn_pairs: Any, default: Callable[[], Any] | None = None, exclusive: bool = False,
         name: str = "case") -> Any:
    """What the function beside the first true predicate returns, or `default()`; a chain of cond.

    `pred_fn_pairs` is a list of (bool scalar, function) or a dict of them. Without `default` the last function runs
    when no predicate before it holds, which is checked; with `exclusive` two true predicates are an error at run time.
    """
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else list(pred_fn_pairs)
    if not pairs:
        raise errors.InvalidArgumentError("case: there are 0 pairs; pass at least one (predicate, function)")
    graph = get_default_graph()
    with graph.name_scope(name):
        predicates = [_predicate(p, "case") for p, _ in pairs]
        with graph.control_dependencies(_checks(predicates, default is None, exclusive)):
            if default is None:
                predicates, default, pairs = predicates[:-1], pairs[-1][1], pairs[:-1]
            return _chain(list(zip(predicates, (f for _, f in pairs))), default)


def _checks(predicates: list[Tensor], one_must_hold: bool, exclusive: bool) -> list[Operation]:
    values = ops.cast(ops.stack(predicates), "int32")
    holding = ops.reduce_sum(values)
    names = f"Conditions: ({', '.join(p.name for p in predicates)}), Values:"
    found = []
    if one_must_hold:
        found.append(ops.Assert(holding >= 1, [f"None of the conditions evaluated as True. {names}", values, "pass default="]))
    if exclusive:
        found.append(ops.Assert(holding <= 1, [f"More than one condition evaluated as True but exclusive=True. {names}",
                                               values, "make them exclusive"]))
    return [f.op if isinstance(f, Tensor) else f for f in found]


def _chain(pairs: Sequence[tuple[Tensor, Callable[[], Any]]], default: Callable[[], Any]) -> Any:
    if not pairs:
        return default()
    (predicate, function), rest = pairs[0], pairs[1:]
    return cond(predicate, function, default if not rest else lambda: _chain(rest, default))


class _Loop:
    """One while_loop while it is built."""

    def __init__(self, title: str, loop_vars: Any, shape_invariants: Any) -> None:
        self.where = f"while_loop {title!r}"
        self.structure, leaves = analyze(list(loop_vars))
        if not leaves:
            raise errors.InvalidArgumentError(f"{self.where}: there are 0 loop variables; pass at least one")
        self.initial = [convert(leaf) for leaf in leaves]
        self.shapes = [t.shape for t in self.initial]
        if shape_invariants is not None:
            found = flatten_up_to(self.structure, list(shape_invariants), f"{self.where}: shape_invariants")
            self.shapes = [as_shape(shape) for shape in found]
        for tensor, shape in zip(self.initial, self.shapes):
            self._check_shape(tensor, shape, "enters")
        graph = get_default_graph()
        self.cond_graph = self._body(Subgraph(graph, title + "/cond"))
        self.body_graph = self._body(Subgraph(graph, title + "/body"))

    def _body(self, body: Subgraph) -> Subgraph:
        body.share_names()
        with body.inside():
            for tensor, shape in zip(self.initial, self.shapes):
                body.argument(tensor.dtype, shape, tensor.op.name)
        return body

    def arguments(self, body: Subgraph) -> list[Any]:
        return list(pack(self.structure, body.arguments[:self.structure.count]))

    def trace_cond(self, function: Callable[..., Any]) -> None:
        structure, leaves = trace(self.cond_graph, function, self.arguments(self.cond_graph))
        if isinstance(leaves, list) and structure.count != 1:
            raise errors.InvalidArgumentError(f"{self.where}: cond returns {structure} but one bool is needed; "
                                              "combine conditions with logical_and")
        with self.cond_graph.as_default():
            predicate = _predicate(leaves[0], self.where)
        finish(self.cond_graph, [predicate], [None])

    def trace_body(self, function: Callable[..., Any]) -> None:
        structure, leaves = trace(self.body_graph, function, self.arguments(self.body_graph))
        structure = self._as_list(structure)
        if structure.children != self.structure.children:
            raise errors.InvalidArgumentError(f"{self.where}: loop_vars are {self.structure} but body returns "
                                              f"{structure}; return one new value for each loop variable (they must have "
                                              "the same number of elements)")
        finish(self.body_graph, leaves, [self._leaf_dtype(i, leaf) for i, leaf in enumerate(leaves)])
        for result, shape, tensor in zip(self.body_graph.results, self.shapes, self.initial):
            self._check_shape(result, shape, f"comes back as {result.name}", tensor)

    def _as_list(self, structure: Structure) -> Structure:
        """One loop variable may be returned without a list around it."""
        if len(self.structure.children) == 1 and (
                structure.kind not in ("list", "tuple") or structure == self.structure.children[0]):
            return Structure("list", (0,), (structure,))
        return structure

    def _leaf_dtype(self, position: int, leaf: Any) -> DType:
        variable = self.initial[position]
        found = getattr(leaf, "dtype", variable.dtype)
        if isinstance(leaf, Operation):
            raise errors.InvalidArgumentError(f"{self.where}: body returns operation {leaf.name!r} for loop variable "
                                              f"{position}; return a tensor and put it under control_dependencies")
        if isinstance(found, DType) and found is not variable.dtype:
            raise errors.DtypeError(f"{self.where}: loop variable {position} ({variable.name}) is {variable.dtype.name} "
                                    f"but body returns {_name(leaf)} of {found.name}; cast it")
        return variable.dtype

    def _check_shape(self, tensor: Tensor, shape: Shape, verb: str, variable: Tensor | None = None) -> None:
        if shape.common(tensor.shape) != shape:
            name = tensor.name if variable is None else variable.name
            raise errors.InvalidArgumentError(
                f"{self.where}: loop variable {name} has shape {shape} but {verb} with {tensor.shape}; pass "
                f"shape_invariants with None where a dimension changes, or set_shape ({shape} is not an invariant for the "
                f"loop: it is not compatible with {tensor.shape})")

    def limit(self, maximum: Any) -> None:
        """Count iterations in one more loop variable and stop at `maximum`."""
        self.initial.append(ops.constant(0, int32))
        self.shapes.append(Shape(()))
        with self.cond_graph.as_default(), self.cond_graph.inside():
            count = self.cond_graph.argument(int32, Shape(()), "trip_count")
            wanted = convert(maximum) if isinstance(maximum, Tensor) else ops.constant(maximum, int32)
            self.cond_graph.results = [ops.logical_and(count < ops.cast(wanted, int32), self.cond_graph.results[0])]
        with self.body_graph.as_default(), self.body_graph.inside():
            count = self.body_graph.argument(int32, Shape(()), "trip_count")
            self.body_graph.results.append(count + 1)


@composed
def while_loop(cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, shape_invariants: Any = None,
               parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False,
               name: str | None = None, maximum_iterations: Any = None, return_same_structure: bool = False) -> Any:
    """`loop_vars` after `body(*loop_vars)` was applied as long as `cond(*loop_vars)` (bool scalar) holds.

    `loop_vars` is a list or tuple of nested structures; the body returns the same structure, dtypes and shapes.
    `shape_invariants` has the structure of loop_vars and gives the shapes that hold in all iterations. Values of each
    iteration that gradients need are kept in lists (`swap_memory` has no effect: they are in host memory already);
    `back_prop=False` stops gradients. One loop variable comes back without its list unless `return_same_structure`.
    Raises InvalidArgumentError when the body returns something else than loop_vars. Source: paper §4.4.
    """
    if not isinstance(loop_vars, (list, tuple)):
        raise errors.InvalidArgumentError(f"while_loop: loop_vars is {loop_vars!r}; pass a list or tuple of values")
    graph = get_default_graph()
    title = claim(graph, name or "while")
    loop = _Loop(title, loop_vars, shape_invariants)
    loop.trace_cond(_callable(cond, loop.where))
    loop.trace_body(_callable(body, loop.where))
    count = None
    if maximum_iterations is not None:
        count = len(loop.initial)
        loop.limit(maximum_iterations)
    node = _loop_node(loop, title, {"parallel_iterations": _positive(parallel_iterations, loop.where),
                                    "back_prop": bool(back_prop), "trip_count": count})
    found = pack(loop.structure, [_result(out) for out in node.outputs[:loop.structure.count]])
    if return_same_structure:
        return type(loop_vars)(found)
    return found[0] if len(found) == 1 else found


def _loop_node(loop: _Loop, title: str, attrs: dict[str, Any]) -> Operation:
    bodies = loop.cond_graph, loop.body_graph
    leading = len(loop.initial)
    for body in bodies:       # limit() added an argument behind captures that were made before
        inner = {argument for _, argument in body.captures}
        body.arguments.sort(key=lambda argument: argument in inner)
    captures = unify(bodies, leading)
    attrs = {"cond_graph": bodies[0], "body_graph": bodies[1], **attrs}
    return get_default_graph().create("while", [*loop.initial, *captures], attrs, title + "/", waits(bodies))


def _positive(count: Any, where: str) -> int:
    if int(count) < 1:
        raise errors.InvalidArgumentError(f"{where}: parallel_iterations is {count}; pass 1 or more")
    return int(count)
