"""What the lists of a graph hold: TensorFlow's operations of lists name the dtype of elements, ours only where it matters."""
from __future__ import annotations

from workbench.core.graph.dtype import DType, as_dtype, resource, variant
from workbench.core.graph.graph import Graph, Operation, Tensor

__all__ = ["element_dtypes"]

_HOLDS = {
    "list_push": (0, 1), "list_pop": (0, ~1), "list_pop_like": (0, 1), "list_stack": (0, ~0), "list_stack_like": (0, ~0),
    "list_from_tensor": (~0, 0), "list_concat": (0, ~0), "list_concat_like": (0, ~0), "list_split_like": (~0, 0),
    "list_get": (0, ~0), "list_only": (~0, 0), "list_at": (0, ~0), "list_set": (0, 2), "tensor_array_read": (0, ~0),
    "tensor_array_added": (0, 2)}
"""Operation -> which of its tensors is a list, and which an element of it, or a row of elements; `~n` is an output."""
_HANDLES = {
    "step_array": (~0,), "step_array_gradient": (0, ~0), "step_stack": (~0,),
    **dict.fromkeys(("step_array_write", "step_array_scatter", "step_array_split", "step_array_read", "step_array_gather",
                     "step_array_concat", "step_array_size", "step_stack_push", "step_stack_pop"), (0,))}
"""Operation -> which of its tensors are handles of arrays or stacks of a step: TensorFlow's dtype of them is resource."""
_LIKE = {"list_push": (0, ~0), "list_pop": (0, ~0), "list_pop_like": (0, ~0), "list_set": (0, ~0),
         "step_stack_push": (1, ~0), "step_stack_pop": ()}
"""Operation -> which of its lists hold the same; of those that stand in neither table all do."""


class _Kind:
    """What a list holds, as far as it is known; those found to be the same are joined."""

    def __init__(self) -> None:
        self.same: _Kind | None = None
        self.element: DType | _Kind | None = None

    @property
    def last(self) -> _Kind:
        found = self
        while found.same is not None:
            found = found.same
        return found


def element_dtypes(graph: Graph) -> dict[Tensor, DType]:
    """The dtype of the elements of each list, variant where they are lists; float32 where nobody puts anything in; resource for
    handles of arrays and stacks."""
    kinds = {t: _Kind() for op in graph.operations for t in op.outputs if t.dtype is variant}

    for op in graph.operations:
        lists = [t for t in (*op.inputs, *op.outputs) if t.dtype is variant]
        if op.kind in _LIKE or op.kind in _HOLDS:
            lists = [t for place in _LIKE.get(op.kind, ()) if (t := _tensor(op, place)) in kinds]
        for place in _HANDLES.get(op.kind, ()):
            _hold(kinds[_tensor(op, place)], resource)
        for other in lists:
            _join(kinds[lists[0]], kinds[other])
        if op.kind in _HOLDS:
            holder, held = (_tensor(op, place) for place in _HOLDS[op.kind])
            _hold(kinds[holder], kinds.get(held, held.dtype))
        if op.kind == "list_pop_like" and op.inputs[1].dtype is variant:
            _join(kinds[op.inputs[1]], kinds[op.outputs[1]])
    return {tensor: _told(found.last) for tensor, found in kinds.items()}


def _tensor(op: Operation, place: int) -> Tensor:
    return op.inputs[place] if place >= 0 else op.outputs[~place]


def _hold(kind: _Kind, element: DType | _Kind | None) -> None:
    kind = kind.last
    if isinstance(kind.element, _Kind) and isinstance(element, _Kind):
        _join(kind.element, element)
    elif kind.element is None:
        kind.element = element


def _join(a: _Kind, b: _Kind) -> None:
    a, b = a.last, b.last
    if a is not b:
        b.same = a
        _hold(a, b.element)


def _told(kind: _Kind) -> DType:
    if isinstance(kind.element, DType):
        return kind.element
    return as_dtype("float32") if kind.element is None else variant
