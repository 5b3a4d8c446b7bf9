"""Parts of a graph transformed operation by operation, by functions that a program gives."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import is_back_edge, topological
from workbench.nn.contrib.graph_copies import SHARED_COLLECTIONS, TransformerInfo, same_order
from workbench.nn.contrib.graph_reroute import make_placeholder_from_tensor
from workbench.nn.contrib.graph_views import SubGraphView, make_view

__all__ = ["Transformer", "assign_renamed_collections_handler", "copy_op_handler", "keep_t_if_possible_handler",
           "replace_t_with_placeholder_handler", "transform_op_if_inside_handler"]


class Transform:
    """One call of a transformer, as its functions see it: the part `sgv` of `graph` becomes a part of `graph_`, from the scope
    `scope` to `scope_`; `transformed_ops` and `transformed_ts` are what became of what there was so far."""

    def __init__(self, view: SubGraphView, target: Graph, new: str, old: str) -> None:
        self.sgv, self.sgv_inputs_set, self.ops = view, frozenset(view.inputs), frozenset(view.ops)
        self.graph, self.graph_, self.scope, self.scope_ = view.graph, target, old, new
        self.transformed_ops: dict[Operation, Operation] = {}
        self.transformed_ts: dict[Tensor, Tensor] = {}
        self.collections = {key: self.graph.get_collection(key) for key in self.graph.get_all_collection_keys()}
        self.read: dict[Tensor, Tensor] = {}      # what stands for each tensor that is read so far

    def new_name(self, name: str) -> str:
        """What something of that name is called; InvalidArgumentError (a ValueError) outside of the scope."""
        if not name.startswith(self.scope):
            raise errors.InvalidArgumentError(f"graph_editor: {name} does not belong to source scope: {self.scope}; name the "
                                              "scope of all, or none")
        return self.scope_ + name.removeprefix(self.scope)


# what a transformer does unless it is told otherwise

def replace_t_with_placeholder_handler(info: Transform, t: Tensor) -> Tensor:
    """A placeholder in place of a tensor."""
    with info.graph_.as_default(), info.graph_.name_scope(None), info.graph_.control_dependencies(None):
        return make_placeholder_from_tensor(t, info.scope_)


def keep_t_if_possible_handler(info: Transform, t: Tensor) -> Tensor:
    """The tensor itself; in another graph a placeholder."""
    return t if info.graph is info.graph_ else replace_t_with_placeholder_handler(info, t)


def transform_op_if_inside_handler(info: Transform, op: Operation, keep_if_possible: bool = True) -> Operation | None:
    """What became of an operation of the part; of another one itself if that may be, else None."""
    if op in info.ops:
        return info.transformed_ops.get(op)
    return op if keep_if_possible and info.graph is info.graph_ else None


def assign_renamed_collections_handler(info: Transform, elem: Any, elem_: Any) -> None:
    """What something became stands in the collections in which it stands; a program's own are called as operations are."""
    for name, found in info.collections.items():
        if any(each is elem for each in found):
            own = name not in SHARED_COLLECTIONS and isinstance(name, str)
            info.graph_.add_to_collection(info.new_name(name) if own else name, elem_)


def copy_op_handler(info: Transform, op: Operation, copy_shape: bool = True) -> tuple[Operation, list[Tensor]]:
    """(a copy of an operation over what its inputs became, its outputs). Without `copy_shape` their shapes are what follows
    from the inputs alone."""
    made = ops.copy_operations([op], info.graph_, dict(info.read), info.new_name)[op]
    if not copy_shape:
        for output, inferred in zip(made.outputs, info.graph_.infer(made)):
            output.shape = inferred.shape
    return made, list(made.outputs)


class Transformer:
    """Copies a part of a graph, with functions of a program in the place of what is done with each piece of it.

    `transform_op_handler(info, operation)` gives (what it becomes, its outputs), `transform_control_input_handler(info,
    operation)` what is waited for in its place (None: nothing), `transform_external_input_handler(info, tensor)` and
    `transform_external_hidden_input_handler(info, tensor)` what is read for the inputs of the part and for others from outside,
    `assign_collections_handler(info, piece, what it became)` its collections.
    """

    def __init__(self) -> None:
        self.transform_op_handler: Callable[..., Any] = copy_op_handler
        self.transform_control_input_handler: Callable[..., Any] = transform_op_if_inside_handler
        self.assign_collections_handler: Callable[..., Any] = assign_renamed_collections_handler
        self.transform_external_input_handler: Callable[..., Any] = replace_t_with_placeholder_handler
        self.transform_external_hidden_input_handler: Callable[..., Any] = keep_t_if_possible_handler

    def __call__(self, sgv: Any, dst_graph: Graph, dst_scope: str, src_scope: str = "",
                 reuse_dst_scope: bool = False) -> tuple[SubGraphView, TransformerInfo]:
        """(a view of what the part became, what became of each piece). ValueError (InvalidArgumentError) for names outside of
        `src_scope` and for what becomes itself, UnimplementedError for loops of primitives."""
        view = make_view(sgv)
        if not isinstance(dst_graph, Graph):
            raise errors.DtypeError(f"graph_editor: Expected a tf.Graph, got: {type(dst_graph).__name__}; pass a graph")
        new, old = (scope and scope.removesuffix("/") + "/" for scope in (dst_scope, src_scope))
        if new and not reuse_dst_scope:
            with dst_graph.name_scope(None):
                new = dst_graph.unique_name(new[:-1]) + "/"
        info = Transform(view, dst_graph, new, old)
        for op in topological(view.ops):
            self._transform(info, op)
        made = TransformerInfo(info.transformed_ops, info.transformed_ts)
        return same_order(view, made, info.read), made

    def _transform(self, info: Transform, op: Operation) -> None:
        if any(is_back_edge(op, t) for t in op.inputs):
            raise errors.UnimplementedError(f"graph_editor: {op.name} closes a loop of primitives, which has no first "
                                            "operation; use copy, or while_loop")
        for t in op.inputs:
            if t not in info.read:
                info.read[t] = self._read(info, t)
        made, outputs = self.transform_op_handler(info, op)
        if made is op:
            raise errors.InvalidArgumentError(f"graph_editor: {op.name} becomes itself (In-place transformation not "
                                              "allowed.); give another operation")
        info.transformed_ops[op] = made
        self.assign_collections_handler(info, op, made)
        for output, other in zip(op.outputs, outputs):
            info.transformed_ts[output] = info.read[output] = other
            self.assign_collections_handler(info, output, other)
        before = [self.transform_control_input_handler(info, c) for c in op.controls]
        if op.controls:
            ops.rewire({made: (made.inputs, [c for c in before if c is not None])})

    def _read(self, info: Transform, t: Tensor) -> Tensor:
        """What stands for a tensor from outside."""
        inputs = t in info.sgv_inputs_set
        handler = self.transform_external_input_handler if inputs else self.transform_external_hidden_input_handler
        found: Tensor = handler(info, t)
        return found
