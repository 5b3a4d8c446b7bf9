"""Parts of a graph copied: into the same graph or another one, over placeholders or other tensors."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.nn.contrib.graph_reroute import make_placeholder_from_tensor
from workbench.nn.contrib.graph_select import ControlOutputs, get_unique_graph, get_walks_intersection_ops
from workbench.nn.contrib.graph_views import SubGraphView, make_view
from workbench.nn.variables import GraphKeys

__all__ = ["TransformerInfo", "copy", "copy_with_input_replacements", "graph_replace"]

SHARED_COLLECTIONS = {value for name, value in vars(GraphKeys).items() if name.isupper()}
"""Collections that the library fills; others are a program's own."""


class TransformerInfo:
    """What became of the operations and tensors of a part that was copied."""

    def __init__(self, operations: dict[Operation, Operation], tensors: dict[Tensor, Tensor] | None = None) -> None:
        self._transformed_ops = operations
        self._transformed_ts = tensors or {
            t: made for op, other in operations.items() for t, made in zip(op.outputs, other.outputs)}

    def transformed(self, original: Any, missing_fn: Any = None) -> Any:
        """The copy of an operation or tensor, or of each in a structure; else what the function makes of it, or None."""
        return _mapped(original, lambda top: _found(top, {**self._transformed_ops, **self._transformed_ts}, missing_fn))

    def original(self, transformed: Any, missing_fn: Any = None) -> Any:
        """What an operation or tensor is the copy of; as `transformed` otherwise."""
        known = {made: top for top, made in [*self._transformed_ops.items(), *self._transformed_ts.items()]}
        return _mapped(transformed, lambda top: _found(top, known, missing_fn))

    def __str__(self) -> str:
        return "Transform result info:\n  Operations mapping:\n" + "".join(
            f"  {op.name} => {made.name}\n" for op, made in self._transformed_ops.items())


def _found(top: Any, known: Mapping[Any, Any], missing_fn: Any) -> Any:
    if not isinstance(top, (Operation, Tensor)):
        raise errors.DtypeError(f"graph_editor: Expected a tf.Tensor or a tf.Operation, got a {type(top).__name__}; pass one")
    return missing_fn(top) if top not in known and missing_fn is not None else known.get(top)


def _mapped(tree: Any, function: Callable[[Any], Any]) -> Any:
    """A structure with what the function makes of each leaf. Keys of dictionaries may be tensors, which have no order."""
    if isinstance(tree, dict):
        return type(tree)((key, _mapped(child, function)) for key, child in tree.items())
    if isinstance(tree, Tensor) or not isinstance(tree, Iterable):
        return function(tree)
    children = [_mapped(child, function) for child in tree]
    if hasattr(tree, "_fields"):
        return type(tree)(*children)
    return children if isinstance(tree, list) else tuple(children)


def copy(sgv: Any, dst_graph: Graph | None = None, dst_scope: str = "", src_scope: str = "",
         reuse_dst_scope: bool = False) -> tuple[SubGraphView, TransformerInfo]:
    """(a view of a copy of a part, what became of it): what it read from outside are placeholders for the copy.

    The copy stands in `dst_graph`, by default the same. An operation called `src_scope`/name becomes `dst_scope`/name, with
    a number behind the scope where that is taken, unless `reuse_dst_scope`. Variables outside stay what they are; in another
    graph they have to be copied, too: InvalidArgumentError. ValueError (InvalidArgumentError) for names outside of `src_scope`.
    """
    return _copied(make_view(sgv), None, dst_graph, dst_scope, src_scope, reuse_dst_scope)


def copy_with_input_replacements(sgv: Any, replacement_ts: Mapping[Tensor, Tensor], dst_graph: Graph | None = None,
                                 dst_scope: str = "", src_scope: str = "",
                                 reuse_dst_scope: bool = False) -> tuple[SubGraphView, TransformerInfo]:
    """As `copy`, but what the part reads from outside is what `replacement_ts` has for it, or else the same tensor; in another
    graph a placeholder."""
    return _copied(make_view(sgv), replacement_ts, dst_graph, dst_scope, src_scope, reuse_dst_scope)


def _copied(view: SubGraphView, instead: Mapping[Tensor, Tensor] | None, graph: Graph | None, dst_scope: str, src_scope: str,
            reuse: bool) -> tuple[SubGraphView, TransformerInfo]:
    target = view.graph if graph is None else graph
    if not isinstance(target, Graph):
        raise errors.DtypeError(f"graph_editor: Expected a tf.Graph, got: {type(target).__name__}; pass a graph, and a part "
                                "that is not empty")
    new, old = (scope and scope.removesuffix("/") + "/" for scope in (dst_scope, src_scope))
    strange = next((op for op in view.ops if not op.name.startswith(old)), None)
    if strange is not None:
        raise errors.InvalidArgumentError(f"graph_editor: {strange.name} does not belong to source scope: {old}; name the "
                                          "scope of all, or none")
    if new and not reuse:
        with target.name_scope(None):
            new = target.unique_name(new[:-1]) + "/"
    tensors = _entering(view, instead, target, new)
    made = TransformerInfo(ops.copy_operations(view.ops, target, tensors, lambda name: new + name.removeprefix(old)))
    _collect(made, view.graph, target, new, old)
    return same_order(view, made, tensors), made


def _entering(view: SubGraphView, instead: Mapping[Tensor, Tensor] | None, target: Graph, scope: str) -> dict[Tensor, Tensor]:
    """What stands in the copy for each tensor that the part reads from outside."""
    chosen, shown, found = set(view.ops), set(view.inputs), dict[Tensor, Tensor]()
    for t in dict.fromkeys(t for op in view.ops for t in op.inputs if t.op not in chosen):
        keep = t.graph is target and (instead is not None or t not in shown or t.dtype is resource)
        if instead is not None and t in instead and t in shown:
            found[t] = instead[t]
        elif keep:
            found[t] = t
        elif t.dtype is resource:
            raise errors.InvalidArgumentError(f"graph_editor: {t.op.name} is a variable of another graph; copy it, too")
        else:
            with target.as_default(), target.name_scope(None), target.control_dependencies(None):
                found[t] = make_placeholder_from_tensor(t, scope)
    return found


def _collect(made: TransformerInfo, source: Graph, target: Graph, new: str, old: str) -> None:
    """Copies stand in the collections of what they are copies of; a program's own collections are called as operations are."""
    known: dict[Any, Any] = {**made._transformed_ops, **made._transformed_ts}
    for name in source.get_all_collection_keys():
        wanted = name if name in SHARED_COLLECTIONS or not isinstance(name, str) else new + name.removeprefix(old)
        for each in source.get_collection(name):
            if isinstance(each, (Operation, Tensor)) and each in known:
                target.add_to_collection(wanted, known[each])


def same_order(view: SubGraphView, made: TransformerInfo, tensors: Mapping[Tensor, Tensor]) -> SubGraphView:
    """A view of the copies, with inputs and outputs in the order of the original's."""
    copies = SubGraphView(list(made._transformed_ops.values()))
    inputs = dict.fromkeys(tensors[t] for t in view.inputs if t in tensors)
    outputs = [made._transformed_ts[t] for t in view.outputs if t in made._transformed_ts]
    return copies.remap([t for t in inputs if t in copies.inputs], [t for t in outputs if t in copies.outputs])


def graph_replace(target_ts: Any, replacement_ts: Mapping[Tensor, Tensor], dst_scope: str = "", src_scope: str = "",
                  reuse_dst_scope: bool = False) -> Any:
    """`target_ts`, a tensor or a structure of them, computed from other tensors: what lies between is copied, with what
    `replacement_ts` has for a tensor in its place. A value of a variable stands for every read of it. Targets that do not
    follow from any of them stay. ValueError (InvalidArgumentError) where none does.
    """
    targets: list[Any] = []
    _mapped(target_ts, targets.append)
    graph = get_unique_graph(targets, Tensor)
    instead = {read: new for t, new in replacement_ts.items() for read in _reads(t)}
    between = get_walks_intersection_ops(list(instead), targets, control_ios=ControlOutputs(graph))
    if not between:
        raise errors.InvalidArgumentError("graph_replace: Targets and replacements are not connected!; replace what targets "
                                          "follow from")
    _, info = copy_with_input_replacements(between, instead, None, dst_scope, src_scope, reuse_dst_scope)
    return info.transformed(target_ts, lambda original: original)


def _reads(t: Tensor) -> list[Tensor]:
    """`t`; the read of a variable with the others that wait for the same, which a program takes for one tensor."""
    if t.op.kind != "read_variable":
        return [t]
    return [op.outputs[0] for op in t.op.inputs[0].consumers() if op.kind == "read_variable" and op.controls == t.op.controls]
