"""map_fn, foldl, foldr and scan: loops over the first axis, written with while_loop and lists."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.opdef import composed
from workbench.core.graph.shape import Shape
from workbench.core.ops.flow_nest import Structure, analyze, flatten_up_to, pack

__all__ = ["foldl", "foldr", "map_fn", "scan"]


class _Rows:
    """The elements of a nested structure of tensors along their first axis."""

    def __init__(self, elems: Any, where: str, reverse: bool = False) -> None:
        self.where = where
        self.structure, leaves = analyze(elems)
        if _holds(self.structure, "SparseTensor"):
            raise TypeError(f"{where}: elems hold a SparseTensor, which has no rows to go along; pass its values, or make it "
                            "dense")
        self.tensors = [convert(leaf) for leaf in leaves]
        if not self.tensors or any(t.shape.rank == 0 for t in self.tensors):
            raise errors.InvalidArgumentError(f"{where}: elems is {elems!r}; pass tensors with a first axis to go "
                                              "along")
        lengths = {t.shape[0].value for t in self.tensors} - {None}
        if len(lengths) > 1:
            raise errors.ShapeError(f"{where}: elems have first axes {sorted(lengths)}; make them equally long")
        self.static = lengths.pop() if lengths else None
        self.lists = [ops.list_from_tensor(t, reverse=not reverse) for t in self.tensors]

    @property
    def length(self) -> Tensor:
        if self.static is not None:
            return ops.constant(self.static)      # type: ignore[no-any-return]
        return ops.gather(ops.shape(self.tensors[0]), 0)      # type: ignore[no-any-return]

    def pop(self, lists: Sequence[Tensor]) -> tuple[list[Tensor], Any]:
        """(rest of the lists, the next element in the structure of elems)."""
        pairs = [ops.list_pop(rest, dtype=t.dtype, shape=t.shape[1:]) for rest, t in zip(lists, self.tensors)]
        return [rest for rest, _ in pairs], pack(self.structure, [value for _, value in pairs])


def _holds(structure: Structure, kind: str) -> bool:
    return structure.kind == kind or any(_holds(child, kind) for child in structure.children)


class _Stacks:
    """What an iteration gives out, pushed and in the end stacked; the shapes become known while tracing."""

    def __init__(self) -> None:
        self.shapes: list[Shape] = []

    def push(self, lists: Sequence[Tensor], values: Sequence[Tensor]) -> list[Tensor]:
        self.shapes = [value.shape for value in values]
        return [ops.list_push(rest, value) for rest, value in zip(lists, values)]

    def stack(self, lists: Sequence[Tensor], dtypes: Sequence[Any], reverse: bool, length: int | None) -> list[Tensor]:
        return [ops.list_stack(rest, dtype=dtype, shape=shape, reverse=reverse, length=length)
                for rest, dtype, shape in zip(lists, dtypes, self.shapes)]


@composed
def map_fn(fn: Callable[[Any], Any], elems: Any, dtype: Any = None, parallel_iterations: int = 10,
           back_prop: bool = True, swap_memory: bool = False, infer_shape: bool = True, name: str = "map") -> Any:
    """`fn` of each element along the first axis of `elems` (nested tensors [n, ...]), stacked to [n, ...].

    `dtype` has the structure of what `fn` returns, when that is not the structure and dtypes of `elems`.
    """
    with get_default_graph().name_scope(name):
        rows = _Rows(elems, "map_fn")
        structure, dtypes = rows.structure, [t.dtype for t in rows.tensors]
        if dtype is not None:
            structure, given = analyze(dtype)
            dtypes = [as_dtype(d) for d in given]
        stacks, count = _Stacks(), rows.length

        def body(i: Tensor, lists: list[Tensor], outs: list[Tensor]) -> Any:
            lists, element = rows.pop(lists)
            values = [convert(v, d) for v, d in zip(flatten_up_to(structure, fn(element), "map_fn"), dtypes)]
            return i + 1, lists, stacks.push(outs, values)

        _, _, outs = ops.while_loop(lambda i, *_: i < count, body, (0, rows.lists, [ops.list_new() for _ in dtypes]),
                                    parallel_iterations=parallel_iterations, back_prop=back_prop)
        return pack(structure, stacks.stack(outs, dtypes, False, rows.static))


@composed
def foldl(fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None, parallel_iterations: int = 10,
          back_prop: bool = True, swap_memory: bool = False, name: str = "foldl") -> Any:
    """fn(…fn(fn(initializer, elems[0]), elems[1])…, elems[n-1]); without `initializer` it begins with elems[0]."""
    options = {"parallel_iterations": parallel_iterations, "back_prop": back_prop}
    return _fold(fn, elems, initializer, False, options, name)


@composed
def foldr(fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None, parallel_iterations: int = 10,
          back_prop: bool = True, swap_memory: bool = False, name: str = "foldr") -> Any:
    """As foldl, from the last element to the first."""
    options = {"parallel_iterations": parallel_iterations, "back_prop": back_prop}
    return _fold(fn, elems, initializer, True, options, name)


def _fold(fn: Callable[[Any, Any], Any], elems: Any, initializer: Any, reverse: bool, options: Any, name: str) -> Any:
    with get_default_graph().name_scope(name):
        rows = _Rows(elems, name, reverse)
        lists, start, first = _begin(rows, initializer)
        count = rows.length

        def body(i: Tensor, lists: list[Tensor], value: Any) -> Any:
            lists, element = rows.pop(lists)
            return i + 1, lists, fn(value, element)

        return ops.while_loop(lambda i, *_: i < count, body, (start, lists, first), **options)[2]


def _begin(rows: _Rows, initializer: Any) -> tuple[list[Tensor], int, Any]:
    """(lists to go on with, elements used, first accumulated value)."""
    if initializer is not None:
        structure, leaves = analyze(initializer)
        return rows.lists, 0, pack(structure, [convert(leaf) for leaf in leaves])
    if rows.static == 0:
        raise errors.InvalidArgumentError(f"{rows.where}: elems have 0 elements; pass initializer=")
    lists, first = rows.pop(rows.lists)
    return lists, 1, first


@composed
def scan(fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None, parallel_iterations: int = 10,
         back_prop: bool = True, swap_memory: bool = False, infer_shape: bool = True, reverse: bool = False,
         name: str = "scan") -> Any:
    """All partial results of foldl, stacked to [n, ...] in the order of `elems` (`reverse`: of foldr)."""
    with get_default_graph().name_scope(name):
        rows = _Rows(elems, "scan", reverse)
        lists, start, first = _begin(rows, initializer)
        structure, leaves = analyze(first)
        stacks, count = _Stacks(), rows.length
        outs: list[Any] = [ops.list_new() for _ in leaves]
        if start:
            outs = stacks.push(outs, leaves)

        def body(i: Tensor, lists: list[Tensor], value: Any, outs: list[Tensor]) -> Any:
            lists, element = rows.pop(lists)
            found = flatten_up_to(structure, fn(value, element), "scan")
            values = [convert(v, leaf.dtype) for v, leaf in zip(found, leaves)]
            return i + 1, lists, pack(structure, values), stacks.push(outs, values)

        outs = ops.while_loop(lambda i, *_: i < count, body, (start, lists, first, outs), back_prop=back_prop,
                              parallel_iterations=parallel_iterations)[3]
        return pack(structure, stacks.stack(outs, [leaf.dtype for leaf in leaves], reverse, rows.static))
