"""What a graph editor selects of a graph: lists of operations and tensors, by name, by condition, along edges."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.graph import Graph, Operation, Tensor

__all__ = ["ControlOutputs", "compute_boundary_ts", "filter_ops", "filter_ops_from_regex", "filter_ts", "filter_ts_from_regex",
           "get_backward_walk_ops", "get_consuming_ops", "get_forward_walk_ops", "get_generating_ops", "get_name_scope_ops",
           "get_ops_ios", "get_tensors", "get_unique_graph", "get_walks_intersection_ops", "get_walks_union_ops",
           "get_within_boundary_ops", "make_list_of_op", "make_list_of_t", "select_ops", "select_ops_and_ts", "select_ts"]


# lists

def get_unique_graph(tops: Any, check_types: Any = None, none_if_empty: bool = False) -> Any:
    """The graph of operations and tensors (or of `check_types` alone), or a graph itself.

    TypeError (DtypeError) for anything else among them, ValueError (InvalidArgumentError) for several graphs or none.
    """
    if isinstance(tops, Graph):
        return tops
    kinds = check_types or (Operation, Tensor)
    found: Any = None
    for top in tops:
        if not isinstance(top, kinds):
            raise errors.DtypeError(f"graph_editor: {top!r} is a {type(top).__name__}; pass tensors or operations")
        if found is not None and top.graph is not found:
            raise errors.InvalidArgumentError(f"graph_editor: {top.name!r} does not belong to given graph; pass parts of one")
        found = top.graph
    if found is None and not none_if_empty:
        raise errors.InvalidArgumentError("graph_editor: Can't find the unique graph of an empty list; pass some of its parts")
    return found


def _listed(given: Any, kind: type, check_graph: bool, ignore_others: bool) -> list[Any]:
    several = list(given) if isinstance(given, Iterable) and not isinstance(given, (Tensor, str)) else [given]
    if several and check_graph:
        get_unique_graph(several, None if ignore_others else kind)
    return [each for each in several if isinstance(each, kind)]


def _all_of(graph: Graph, allow_graph: bool, found: Callable[[Graph], list[Any]]) -> list[Any]:
    if not allow_graph:
        raise errors.DtypeError("graph_editor: allow_graph is False: cannot convert a tf.Graph; pass a list")
    return found(graph)


def make_list_of_op(ops: Any, check_graph: bool = True, allow_graph: bool = True, ignore_ts: bool = False) -> list[Operation]:
    """The operations of a graph, a list or one alone. TypeError (DtypeError) for tensors, unless they are left out."""
    if isinstance(ops, Graph):
        return _all_of(ops, allow_graph, Graph.get_operations)
    return _listed(ops, Operation, check_graph, ignore_ts)


def make_list_of_t(ts: Any, check_graph: bool = True, allow_graph: bool = True, ignore_ops: bool = False) -> list[Tensor]:
    """The tensors of a graph, a list or one alone. TypeError (DtypeError) for operations, unless they are left out."""
    if isinstance(ts, Graph):
        return _all_of(ts, allow_graph, get_tensors)
    return _listed(ts, Tensor, check_graph, ignore_ops)


def get_tensors(graph: Graph) -> list[Tensor]:
    """All tensors of a graph."""
    return [t for op in graph.get_operations() for t in op.outputs]


def get_generating_ops(ts: Any) -> list[Operation]:
    """The operation that makes each tensor."""
    return [t.op for t in make_list_of_t(ts, allow_graph=False)]


def get_consuming_ops(ts: Any) -> list[Operation]:
    """The operations that read any of the tensors."""
    return list(dict.fromkeys(op for t in make_list_of_t(ts, allow_graph=False) for op in t.consumers()))


def compute_boundary_ts(ops: Any) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """(tensors that the operations read of others, those that they make and that others read or nobody does, those that they
    make and read)."""
    chosen = dict.fromkeys(make_list_of_op(ops))
    read, made = dict.fromkeys(t for op in chosen for t in op.inputs), [t for op in chosen for t in op.outputs]
    inside = [t for t in read if t.op in chosen]
    only = {t for t in inside if all(op in chosen for op in t.consumers())}
    return [t for t in read if t.op not in chosen], [t for t in made if t not in only], inside


# by condition and by name

def filter_ts(ops: Any, positive_filter: Any) -> list[Tensor]:
    """The tensors that operations read or make for which the function (or True) holds."""
    listed = make_list_of_op(ops)
    found = dict.fromkeys([t for op in listed for t in op.inputs] + [t for op in listed for t in op.outputs])
    return [t for t in found if positive_filter is True or positive_filter(t)]


def filter_ts_from_regex(ops: Any, regex: Any) -> list[Tensor]:
    """The tensors that operations read or make in whose name the expression is found."""
    return filter_ts(ops, lambda t: re.search(regex, t.name))


def filter_ops(ops: Any, positive_filter: Any) -> list[Operation]:
    """The operations for which the function (or True) holds."""
    return [op for op in make_list_of_op(ops) if positive_filter is True or positive_filter(op)]


def filter_ops_from_regex(ops: Any, regex: Any) -> list[Operation]:
    """The operations in whose name the expression is found."""
    return filter_ops(ops, lambda op: re.search(regex, op.name))


def get_name_scope_ops(ops: Any, scope: str) -> list[Operation]:
    """The operations in a scope of names, with the one that is called as the scope."""
    return filter_ops_from_regex(ops, f"^{scope.removesuffix('/')}(/.*)?$")


def _selected(args: Sequence[Any], graph: Graph | None, keep: Any, listed: Callable[[Any], list[Any]],
              marks: tuple[str, str, bool], find: Callable[[Any, Any], list[Any]]) -> list[Any]:
    """What `listed` makes of each argument, or `find` of an expression that begins with the first mark, or with none."""
    own, others, strict = marks
    found: list[Any] = []
    for arg in args:
        if not isinstance(arg, (str, re.Pattern)):
            found += listed(arg)
            continue
        if graph is None:
            raise errors.InvalidArgumentError(f"graph_editor: {arg!r} is an expression; Use the keyword argument 'graph' to "
                                              "use regex")
        text = arg if isinstance(arg, str) else arg.pattern
        if text.startswith(own) or not (strict or text.startswith(others)):
            found += find(graph, arg)
    return [each for each in dict.fromkeys(found) if keep is None or keep(each)]


_OPS, _TS = "(?#ops)", "(?#ts)"


def select_ops(*args: Any, graph: Graph | None = None, positive_filter: Any = None,
               restrict_ops_regex: bool = False) -> list[Operation]:
    """Operations given alone, in lists, or by expressions that are found in their names in `graph`, for which the function
    holds. Tensors, and expressions that begin with "(?#ts)", are left out."""
    return _selected(args, graph, positive_filter, lambda arg: make_list_of_op(arg, ignore_ts=True),
                     (_OPS, _TS, restrict_ops_regex), filter_ops_from_regex)


def select_ts(*args: Any, graph: Graph | None = None, positive_filter: Any = None,
              restrict_ts_regex: bool = False) -> list[Tensor]:
    """As select_ops for tensors: operations, and expressions that begin with "(?#ops)", are left out."""
    return _selected(args, graph, positive_filter, lambda arg: make_list_of_t(arg, ignore_ops=True),
                     (_TS, _OPS, restrict_ts_regex), filter_ts_from_regex)


def select_ops_and_ts(*args: Any, graph: Graph | None = None, positive_filter: Any = None) -> tuple[Any, Any]:
    """(operations, tensors); expressions that begin with "(?#ts)" are of tensors."""
    return (select_ops(*args, graph=graph, positive_filter=positive_filter),
            select_ts(*args, graph=graph, positive_filter=positive_filter, restrict_ts_regex=True))


# along edges

class ControlOutputs:
    """Which operations of a graph wait for which."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.update()

    def update(self) -> ControlOutputs:
        """Look again."""
        self._found: dict[Operation, list[Operation]] = {}
        for op in self.graph.get_operations():
            for before in op.controls:
                self._found.setdefault(before, []).append(op)
        return self

    def get_all(self) -> Mapping[Operation, list[Operation]]:
        """Operation -> those that wait for it."""
        return self._found

    def get(self, op: Operation) -> Sequence[Operation]:
        """Those that wait for an operation."""
        return self._found.get(op, ())


def _control_edges(control_inputs: bool, control_outputs: Any, control_ios: Any) -> tuple[bool, Any]:
    """(whether to follow control edges back, what tells them ahead): `control_ios` stands for both."""
    if control_ios is None:
        return control_inputs, control_outputs
    if control_inputs or control_outputs is not None:
        raise errors.InvalidArgumentError("graph_editor: control_ios should be None, as control_inputs or control_outputs is "
                                          "set; pass one of them")
    return True, control_ios


def get_ops_ios(ops: Any, control_inputs: bool = False, control_outputs: ControlOutputs | None = None,
                control_ios: ControlOutputs | None = None) -> list[Operation]:
    """The neighbours of operations: what makes what they read, and what reads what they make."""
    before, after = _control_edges(control_inputs, control_outputs, control_ios)
    found: dict[Operation, None] = {}
    for op in make_list_of_op(ops):
        found |= dict.fromkeys([*(t.op for t in op.inputs), *(reader for t in op.outputs for reader in t.consumers()),
                                *(after.get(op) if after is not None else ()), *(op.controls if before else ())])
    return list(found)


def get_within_boundary_ops(ops: Any, seed_ops: Any, boundary_ops: Any = (), inclusive: bool = True,
                            control_inputs: bool = False, control_outputs: ControlOutputs | None = None,
                            control_ios: ControlOutputs | None = None) -> list[Operation]:
    """Those of `ops` that are reached from `seed_ops`, from neighbour to neighbour, without crossing `boundary_ops`; with these
    where `inclusive`. ValueError (InvalidArgumentError) where a seed is in the boundary."""
    before, after = _control_edges(control_inputs, control_outputs, control_ios)
    seeds, border = make_list_of_op(seed_ops, allow_graph=False), set(make_list_of_op(boundary_ops))
    if not border.isdisjoint(seeds):
        raise errors.InvalidArgumentError("graph_editor: Boundary is intersecting with the seeds.; begin within it")
    found = set(_walk(seeds, True, None, lambda op: () if op in border else get_ops_ios(op, before, after)))
    return [op for op in make_list_of_op(ops) if op in found and (inclusive or op not in border)]


def _seeds(given: Any, of_tensors: Callable[[Any], list[Operation]]) -> list[Operation]:
    several = list(given) if isinstance(given, Iterable) and not isinstance(given, Tensor) else [given]
    tensors = bool(several) and isinstance(several[0], Tensor)
    return of_tensors(several) if tensors else make_list_of_op(several, allow_graph=False)


def _walk(seeds: Sequence[Operation], inclusive: bool, within: Any,
          following: Callable[[Operation], Iterable[Operation]]) -> list[Operation]:
    allowed = set(make_list_of_op(within, allow_graph=False)) if within else None
    first = dict.fromkeys(op for op in seeds if allowed is None or op in allowed)
    found, left = dict(first), list(first)
    while left:
        more = dict.fromkeys(each for op in left for each in following(op)
                             if each not in found and (allowed is None or each in allowed))
        found.update(more)
        left = list(more)
    return [op for op in found if inclusive or op not in first]


def get_forward_walk_ops(seed_ops: Any, inclusive: bool = True, within_ops: Any = None, stop_at_ts: Any = (),
                         control_outputs: ControlOutputs | None = None) -> list[Operation]:
    """The operations that follow from `seed_ops`, or that read tensors given in their place, with these where `inclusive`.

    The walk stays within `within_ops`, does not pass `stop_at_ts`, and takes what waits where `control_outputs` tells it.
    """
    stops = set(make_list_of_t(stop_at_ts))

    def following(op: Operation) -> Iterable[Operation]:
        yield from (reader for t in op.outputs if t not in stops for reader in t.consumers())
        if control_outputs is not None:
            yield from control_outputs.get(op)
    return _walk(_seeds(seed_ops, get_consuming_ops), inclusive, within_ops, following)


def get_backward_walk_ops(seed_ops: Any, inclusive: bool = True, within_ops: Any = None, stop_at_ts: Any = (),
                          control_inputs: bool = False) -> list[Operation]:
    """The operations that `seed_ops`, or tensors given in their place, follow from; as get_forward_walk_ops, with what they
    wait for where `control_inputs` is true."""
    stops = set(make_list_of_t(stop_at_ts))

    def before(op: Operation) -> Iterable[Operation]:
        yield from (t.op for t in op.inputs if t not in stops)
        if control_inputs:
            yield from op.controls
    return _walk(_seeds(seed_ops, get_generating_ops), inclusive, within_ops, before)


def _walks(forward: Any, backward: Any, forward_inclusive: bool, backward_inclusive: bool, within_ops: Any,
           control_inputs: bool, control_outputs: Any, control_ios: Any) -> tuple[list[Operation], list[Operation]]:
    before, after = _control_edges(control_inputs, control_outputs, control_ios)
    return (get_forward_walk_ops(forward, forward_inclusive, within_ops, (), after),
            get_backward_walk_ops(backward, backward_inclusive, within_ops, (), before))


def get_walks_intersection_ops(forward_seed_ops: Any, backward_seed_ops: Any, forward_inclusive: bool = True,
                               backward_inclusive: bool = True, within_ops: Any = None, control_inputs: bool = False,
                               control_outputs: ControlOutputs | None = None,
                               control_ios: ControlOutputs | None = None) -> list[Operation]:
    """What get_forward_walk_ops and get_backward_walk_ops both find: what lies between."""
    ahead, behind = _walks(forward_seed_ops, backward_seed_ops, forward_inclusive, backward_inclusive, within_ops,
                           control_inputs, control_outputs, control_ios)
    both = set(behind)
    return [op for op in ahead if op in both]


def get_walks_union_ops(forward_seed_ops: Any, backward_seed_ops: Any, forward_inclusive: bool = True,
                        backward_inclusive: bool = True, within_ops: Any = None, control_inputs: bool = False,
                        control_outputs: ControlOutputs | None = None,
                        control_ios: ControlOutputs | None = None) -> list[Operation]:
    """What get_forward_walk_ops or get_backward_walk_ops finds."""
    ahead, behind = _walks(forward_seed_ops, backward_seed_ops, forward_inclusive, backward_inclusive, within_ops,
                           control_inputs, control_outputs, control_ios)
    return list(dict.fromkeys([*ahead, *behind]))
