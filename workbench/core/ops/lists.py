"""Immutable lists of tensors as values of dtype variant: what loops save for their gradients and stack at the end."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, ops
from workbench.core.graph.chains import EMPTY, Chain, chain
from workbench.core.graph.dtype import DType, variant
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.opdef import op, selective
from workbench.core.graph.shape import Shape, as_shape


def _zeros(like: Any) -> Any:
    return EMPTY if isinstance(like, Chain) else np.zeros_like(like)


def _add(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return _add_chains(a, b) if isinstance(a, Chain) else np.add(a, b)


def _add_chains(a: Chain, b: Chain) -> Chain:
    long, short = (a, b) if a.length >= b.length else (b, a)
    elements = list(long)
    for position, element in enumerate(short):
        elements[position] = _add(elements[position], element)
    return chain(elements[::-1])


def _element_shape(attrs: Any) -> Shape:
    return as_shape(attrs["shape"])


def _like(tensor: Tensor) -> Tensor:
    """A stand-in of `tensor` for its shape and dtype; zeros when that shape is known, so that nothing is kept."""
    if tensor.shape.known and tensor.dtype.kind in ("float", "int", "complex", "bool"):
        return ops.zeros(tensor.shape.static, tensor.dtype)      # type: ignore[no-any-return]
    return tensor


def _zero_gradient(tensor: Tensor) -> Tensor:
    return ops.list_new() if tensor.dtype is variant else ops.zeros_like(_like(tensor))      # type: ignore[no-any-return]


@op("-> []", types="-> variant")
def list_new() -> Any:
    """The empty list."""
    return EMPTY


@op("list? value? -> []", types="variant T -> variant")
def list_push(list: Any, value: Any) -> Any:
    """`list` with `value` (any dtype) at its end; `list` itself does not change."""
    return Chain(value, list)


@list_push.gradient
def _(node: Operation, dy: Tensor) -> Any:
    rest, value = ops.list_pop_like(dy, _like(node.inputs[1]))
    return rest, value if node.inputs[1].dtype.is_differentiable or node.inputs[1].dtype is variant else None


def _popped(inputs: Sequence[Tensor], attrs: Any) -> list[Shape]:
    return [Shape(()), _element_shape(attrs)]


@op("list? -> [] ?", types="variant -> variant @dtype", shape=_popped)
def list_pop(list: Any, *, dtype: DType, shape: Any = None) -> Any:
    """(list without its last element, that element, of `dtype` and static `shape`); zeros where it was never written."""
    if not list.length:
        raise errors.OutOfRangeError("list_pop: the list is empty; pop no more often than was pushed")
    return list.rest, _unwritten("list_pop", dtype, shape) if list.head is None else list.head


def _unwritten(where: str, dtype: DType, shape: Any) -> Any:
    known = as_shape(shape)
    if not known.known:
        raise errors.FailedPreconditionError(f"{where}: the element was never written, and its shape {known} is not fully "
                                             "known; write it first")
    return EMPTY if dtype is variant else np.zeros(known.static, dtype.numpy)


@list_pop.gradient
@selective
def _(node: Operation, drest: Tensor | None, dvalue: Any, needed: tuple[bool, ...]) -> Any:
    value = node.outputs[1]
    if drest is None and dvalue is None:
        return None
    return ops.list_push(ops.list_new() if drest is None else drest,
                         _zero_gradient(value) if dvalue is None else dvalue)


@op("list? like? -> [] ?", types="variant T -> variant T", shape=lambda inputs, attrs: [Shape(()), inputs[1].shape])
def list_pop_like(list: Any, like: Any) -> Any:
    """As list_pop, but a missing element is zeros of the shape of `like`."""
    if not list.length:
        return list, _zeros(like)
    return list.rest, _zeros(like) if list.head is None else list.head


@list_pop_like.gradient
@selective
def _(node: Operation, drest: Tensor | None, dvalue: Any, needed: tuple[bool, ...]) -> Any:
    value = node.outputs[1]
    if drest is None and dvalue is None:
        return None, None
    return ops.list_push(ops.list_new() if drest is None else drest,
                         _zero_gradient(value) if dvalue is None else dvalue), None


@op("list? -> []", types="variant -> int32", differentiable=False)
def list_length(list: Any) -> Any:
    """Number of elements, int32."""
    return np.asarray(list.length, np.int32)


def _stack_into(list: Any, out: Any, *, dtype: DType, shape: Any, reverse: bool, length: int | None) -> None:
    """Only where `length` is known, and is found of lists that are never of another."""
    elements = _written(list, reverse)
    if len(elements) != length:
        raise errors.ShapeError(f"list_stack: the list has {len(elements)} elements, not {length} as was found")
    if elements:
        np.stack(elements, out=out)


@op("list? -> ?", types="variant -> @dtype", into=_stack_into,
    shape=lambda inputs, attrs: [Shape([attrs["length"]]) + _element_shape(attrs)])
def list_stack(list: Any, *, dtype: DType, shape: Any = None, reverse: bool = False, length: int | None = None) -> Any:
    """[n, ...]: the elements in the order they were pushed, or newest first. An empty list needs a full `shape`."""
    if list.length:
        return np.stack(_written(list, reverse))
    if not as_shape(shape).known:
        raise errors.InvalidArgumentError(f"list_stack: the list is empty and its elements have shape "
                                          f"{as_shape(shape)}; give the full shape of an element")
    return np.zeros((0, *as_shape(shape).static), dtype.numpy)


def _written(list: Chain, reverse: bool) -> Sequence[Any]:
    """The elements, none of which is missing."""
    elements = [*list][::-1]
    missing = next((i for i, element in enumerate(elements) if element is None), None)
    if missing is not None:
        raise errors.FailedPreconditionError(f"list_stack: element {missing} of {len(elements)} was never written; "
                                             "write it first")
    return elements[::-1] if reverse else elements


@list_stack.gradient
def _(node: Operation, dy: Any) -> Any:
    return ops.list_from_tensor(dy, reverse=node.attrs["reverse"])


@op("tensor? -> []", types="T -> variant")
def list_from_tensor(tensor: Any, *, reverse: bool = False) -> Any:
    """The list of tensor[0], tensor[1], … in that order, or last row first (so that pops go from the first row on)."""
    rows = tensor[::-1] if reverse else tensor
    return chain([np.array(row, object) for row in rows] if tensor.dtype == object else rows)      # not plain bytes


@list_from_tensor.gradient
def _(node: Operation, dy: Tensor) -> Any:
    return ops.list_stack_like(dy, node.inputs[0], reverse=node.attrs["reverse"])


def _stack_like_into(list: Any, like: Any, out: Any, *, reverse: bool) -> None:
    elements: Iterator[Any] = iter(list)
    for row in range(len(out)) if reverse else range(len(out))[::-1]:
        element = next(elements, None)
        out[row] = 0 if element is None else element


@op("list? like? -> ?", types="variant T -> T", shape=lambda inputs, attrs: [inputs[1].shape], into=_stack_like_into)
def list_stack_like(list: Any, like: Any, *, reverse: bool = False) -> Any:
    """As list_stack, into the shape of `like`; missing elements, counted from the head, are zeros."""
    result = np.empty_like(like)
    _stack_like_into(list, like, result, reverse=reverse)
    return result


@list_stack_like.gradient
def _(node: Operation, dy: Any) -> Any:
    return ops.list_from_tensor(dy, reverse=node.attrs["reverse"]), None


def _concat_into(list: Any, out: Any, *, dtype: DType, shape: Any, rows: int | None) -> None:
    """Only where `rows` are known, which is found of lists that are never of another length."""
    if list.length:
        np.concatenate([*list][::-1], out=out)


@op("list? -> ?", types="variant -> @dtype", into=_concat_into,
    shape=lambda inputs, attrs: [Shape([attrs["rows"]]) + _element_shape(attrs)])
def list_concat(list: Any, *, dtype: DType, shape: Any = None, rows: int | None = None) -> Any:
    """[n1+n2+…, ...]: the elements joined along their first axis; `shape` is that of one row, of `rows` if that is known."""
    if not list.length:
        return np.zeros((0, *(d or 0 for d in as_shape(shape).sizes or ())), dtype.numpy)
    if np.ndim(next(iter(list))) == 0:
        raise errors.ShapeError("TensorArray: Concat saw a scalar shape but requires at least vectors; use stack")
    return np.concatenate([*list][::-1])


@list_concat.gradient
def _(node: Operation, dy: Any) -> Any:
    return ops.list_split_like(dy, node.inputs[0])


@op("tensor? list? -> []", types="T variant -> variant")
def list_split_like(tensor: Any, list: Any) -> Any:
    """`tensor` cut along its first axis into the lengths of the elements of `list`."""
    cuts = np.cumsum([len(element) for element in [*list][::-1]])[:-1]
    return chain(np.split(tensor, cuts)) if list.length else EMPTY


@list_split_like.gradient
def _(node: Operation, dy: Tensor) -> Any:
    return ops.list_concat_like(dy, node.inputs[0], node.inputs[1]), None


@op("list? like? sizes? -> ?", types="variant T variant -> T", shape=lambda inputs, attrs: [inputs[1].shape])
def list_concat_like(list: Any, like: Any, sizes: Any) -> Any:
    """As list_concat, into the shape of `like`; missing elements are zeros with the lengths of those of `sizes`."""
    result, stop, pieces = np.zeros_like(like), len(like), iter(list)
    for size in sizes:
        piece = next(pieces, None)
        if piece is not None:
            result[stop - len(size):stop] = piece
        stop -= len(size)
    return result


@list_concat_like.gradient
def _(node: Operation, dy: Any) -> Any:
    return ops.list_split_like(dy, node.inputs[2]), None, None


@op("*lists? -> []", types="variant -> variant")
def list_add_n(*lists: Any) -> Any:
    """The sum of gradient lists, element by element from the head."""
    total = lists[0]
    for other in lists[1:]:
        total = _add_chains(total, other)
    return total


@list_add_n.gradient
def _(node: Operation, dy: Tensor) -> Any:
    return [dy] * len(node.inputs)


def _at(chain_: Chain, index: Any, where: str) -> Chain:
    """The cell that holds element `index`, counted from the first pushed; negative from the end."""
    position = int(index) + (chain_.length if index < 0 else 0)
    if not 0 <= position < chain_.length:
        raise errors.OutOfRangeError(f"{where}: index {int(index)} is outside a list of {chain_.length}; "
                                     "read only what was written")
    cell = chain_
    while cell.length > position + 1:
        cell = cell.jump if cell.jump.length > position else cell.rest      # type: ignore[assignment]
    return cell


@op("list? index[] -> ?", types="variant int -> @dtype", shape=lambda inputs, attrs: [_element_shape(attrs)])
def list_get(list: Any, index: Any, *, dtype: DType, shape: Any = None) -> Any:
    """Element `index` (int scalar, negative from the end), found in O(log n)."""
    found = _at(list, index, "list_get").head
    if found is None:
        raise errors.FailedPreconditionError(f"list_get: element {int(index)} was never written; write it first")
    return found


def _depth(list: Tensor, index: Tensor) -> Tensor:
    """How far element `index` is from the head of `list`, int32."""
    known = constant_value(index)
    length = ops.list_length(list)
    if known is not None:
        return length - int(known) - 1 if known >= 0 else ops.constant(-int(known) - 1)      # type: ignore[no-any-return]
    place: Any = ops.cast(index, "int32")
    return ops.where(place < 0, -place - 1, length - place - 1)      # type: ignore[no-any-return]


@list_get.gradient
def _(node: Operation, dy: Any) -> Any:
    return ops.list_only(dy, _depth(*node.inputs)), None


@op("value? depth[] -> []", types="T int -> variant")
def list_only(value: Any, depth: Any) -> Any:
    """The gradient list that is `value` at `depth` from the head and zero elsewhere; empty for a negative depth."""
    return chain([value] + [None] * int(depth)) if depth >= 0 else EMPTY


@list_only.gradient
def _(node: Operation, dy: Tensor) -> Any:
    return ops.list_at(dy, node.inputs[1], _like(node.inputs[0])), None


@op("list? depth[] like? -> ?", types="variant int T -> T", shape=lambda inputs, attrs: [inputs[2].shape])
def list_at(list: Any, depth: Any, like: Any) -> Any:
    """Element at `depth` from the head of a gradient list; zeros of the shape of `like` where it is missing."""
    found = None if not 0 <= depth < list.length else _at(list, list.length - 1 - int(depth), "list_at").head
    return _zeros(like) if found is None else found


@list_at.gradient
def _(node: Operation, dy: Any) -> Any:
    return ops.list_only(dy, node.inputs[1]), None, None


@op("list? index[] value? -> []", types="variant int T -> variant")
def list_set(list: Any, index: Any, value: Any, *, grows: bool = True) -> Any:
    """`list` with element `index` replaced; an index at or beyond the end makes it longer, if it `grows`."""
    if index < 0:
        raise errors.OutOfRangeError(f"list_set: index {int(index)} is negative; write at 0 or later")
    missing = int(index) - list.length
    if missing >= 0 and not grows:
        raise errors.InvalidArgumentError(f"list_set: Trying to modify element {int(index)} in a list with {list.length} "
                                          "elements; write below its length, or make it longer first")
    if missing >= 0:
        for _ in range(missing):
            list = Chain(None, list)
        return Chain(value, list)
    return _onto(Chain(value, _at(list, index, "list_set").rest), [*list][:-missing - 1])


def _onto(base: Chain, newer: Sequence[Any]) -> Chain:
    for element in reversed(newer):
        base = Chain(element, base)
    return base


@list_set.gradient
def _(node: Operation, dy: Tensor) -> Any:
    before, index, value = node.inputs
    depth = _depth(node.outputs[0], index)
    dvalue = ops.list_at(dy, depth, _like(value)) if value.dtype.is_differentiable or value.dtype is variant else None
    return ops.list_without(dy, depth, node.outputs[0], before), None, dvalue


@op("list? depth[] after? before? -> []", types="variant int variant variant -> variant")
def list_without(list: Any, depth: Any, after: Any, before: Any) -> Any:
    """A gradient list for `before`, from which writing at `depth` made `after`: zero there, cut to its length."""
    elements = [*list]
    if depth < len(elements):
        elements[int(depth)] = None
    return chain(elements[after.length - before.length:][::-1])


@list_without.gradient
def _(node: Operation, dy: Tensor) -> Any:
    return ops.list_within(dy, *node.inputs[1:]), None, None, None


@op("list? depth[] after? before? -> []", types="variant int variant variant -> variant")
def list_within(list: Any, depth: Any, after: Any, before: Any) -> Any:
    """The reverse of list_without: as long as `after`, zero at `depth`."""
    elements = [None] * (after.length - before.length) + [*list]
    if depth < len(elements):
        elements[int(depth)] = None
    return chain(elements[::-1])


@list_within.gradient
def _(node: Operation, dy: Tensor) -> Any:
    return ops.list_without(dy, *node.inputs[1:]), None, None, None
