"""Values of the forward pass that wait on disk until gradients read them: what is marked so, and the pass that moves them."""
from __future__ import annotations

import functools
import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.dtype import resource, variant
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.program import Program, topological
from workbench.core.passes.rewrite import Rewrite
from workbench.core.passes.waits import CONTROL_FLOW

__all__ = ["SWAP", "mark", "swap", "swapped"]

SWAP = "swap", "Values that wait for gradients wait on disk, from their last reader before to the first gradient."
_KEPT = frozenset({"argument", "placeholder", "constant", "read_variable", "variable", "swap_in", "swap_out"})


def mark(what: Callable[..., Any] | str) -> Any:
    """Values of `what` wait for their gradients on disk, not in memory: memory for time, as with `recompute`, but nothing is
    computed twice. On a CPU the memory of the host is the one that is short, so values go to disk.

    `what` is a function: the result is the same function, and what each of its calls builds is marked; or a scope of names:
    what stands in it by now is. A marked value that gradients of the same step read is written to the task's swap file once it
    is computed, and read back, the same bits, when the first gradient it belongs to is there. The file has no name, lies in
    the folder WB_SWAP (default: the system's for temporary files; one in memory saves none), takes WB_SWAP_BYTES at most, and
    is gone when the session is closed or its process ends. What is fetched, and values in loops and branches, stay in memory.

    InvalidArgumentError where `what` is neither, NotFoundError where the scope has no values.
    """
    graph = get_default_graph()
    if isinstance(what, str):
        scope = what.rstrip("/") + "/"
        if not _mark([op for op in graph.operations if op.name.startswith(scope)]):
            raise errors.NotFoundError(f"swap: no operation in the scope {what!r} has a value that can leave memory; name a "
                                       "scope of the default graph after what is in it was built")
        return None
    if not callable(what):
        raise errors.InvalidArgumentError(f"swap: {what!r} is of {type(what).__name__}; pass a function, or a scope of names")

    @functools.wraps(what)
    def call(*args: Any, **kwargs: Any) -> Any:
        graph = get_default_graph()
        before = len(graph.operations)
        result = what(*args, **kwargs)
        _mark(graph.operations[before:])
        return result
    return call


def _mark(operations: Sequence[Operation]) -> int:
    count = 0
    for op in operations:
        if op.kind not in _KEPT and any(map(_movable, op.outputs)):
            op.graph.changing(op)
            op.swapped, count = True, count + 1
    return count


def swapped(operations: Sequence[Operation]) -> frozenset[str]:
    """The names of those that are marked."""
    return frozenset([op.name for op in operations if op.swapped])


def _movable(tensor: Tensor) -> bool:
    return tensor.dtype not in (resource, variant) and tensor.dtype.kind not in ("string", "object")


def swap(program: Program, names: Collection[str]) -> Program:
    """`program`, in which gradients read the values of the operations `names` back from disk.

    A value is read when what its first gradient reads beside it is there, so it is away as long as may be; where nothing tells
    when that is, it stays in memory. Values are the same, bit for bit. A program with control flow that is taken apart is
    returned as it is.
    """
    order = topological(program.graph.operations)
    if not names or any(op.kind in CONTROL_FLOW for op in order):
        return program
    chosen = _chosen(order, names, frozenset(program.fetches))
    return _moved(program, _ordered(order, chosen), chosen) if chosen else program


Awaited = dict[Tensor, list[Operation]]


def _chosen(order: Sequence[Operation], names: Collection[str], fetched: Collection[Tensor]) -> Awaited:
    """The values to move, each with what the reading back waits for."""
    readers: dict[Operation, list[Operation]] = defaultdict(list)
    for op in order:
        for before in _before(op):
            readers[before].append(op)
    chosen: Awaited = {}
    for tensor in [t for op in order if op.name in names and not op.derived and op.kind not in _KEPT for t in op.outputs]:
        gradients = [op for op in readers[tensor.op] if op.derived and tensor in op.inputs]
        after = _awaited(gradients, readers) if _movable(tensor) and tensor not in fetched else []
        if after:
            chosen[tensor] = after
            for op in after:      # so that what is chosen later waits for nothing that waits for it
                readers[op] += gradients
    return chosen


def _before(op: Operation) -> dict[Operation, None]:
    return dict.fromkeys([*(t.op for t in op.inputs), *op.controls])


def _awaited(gradients: Sequence[Operation], readers: Mapping[Operation, Sequence[Operation]]) -> list[Operation]:
    """What the first of `gradients`, or a reader of that one, reads beside it; nothing where all of it comes of `gradients`."""
    below, left = set[Operation](), list(gradients)
    while left:
        op = left.pop()
        if op not in below:
            below.add(op)
            left += readers[op]
    seen, left = set[Operation](), list(gradients[:1])
    while left:
        op = left.pop(0)
        if op not in seen:
            seen.add(op)
            found = [t.op for t in op.inputs if t.op.derived and t.op not in below and t.op.kind not in _KEPT]
            if found:
                return found
            left += readers[op]
    return []


def _ordered(order: Sequence[Operation], chosen: Awaited) -> list[Operation]:
    """`order`, in which gradients stand behind what the values wait for that they read; else as it was."""
    place = {op: number for number, op in enumerate(order)}
    before = {op: {*_before(op), *(after for t in op.inputs if op.derived for after in chosen.get(t, ()))} for op in order}
    behind: dict[Operation, list[Operation]] = defaultdict(list)
    for op in order:
        for earlier in before[op]:
            behind[earlier].append(op)
    waiting = {op: len(earlier) for op, earlier in before.items()}
    ready = [place[op] for op in order if not waiting[op]]      # sorted, so a heap
    found = []
    while ready:
        op = order[heapq.heappop(ready)]
        found.append(op)
        for later in behind[op]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, place[later])
    return found


def _moved(program: Program, order: Sequence[Operation], chosen: Awaited) -> Program:
    state = Rewrite(op.name for op in program.graph.operations)
    away: dict[Tensor, Tensor] = {}      # what is chosen -> where it is
    back: dict[Tensor, Tensor] = {}
    for op in order:
        inputs = state.inputs(op)
        if op.derived:
            for tensor in op.inputs:
                if tensor in away and tensor not in back:
                    back[tensor] = _back(state, tensor, away[tensor], chosen[tensor])
            inputs = [back.get(old, new) for old, new in zip(op.inputs, inputs)]
        state.place(op, inputs)
        for tensor in op.outputs:
            if tensor in chosen:
                away[tensor], = _near(state, "swap_out", [state.tensors[tensor]], {}, op, ()).outputs
    return state.program(program)


def _back(state: Rewrite, tensor: Tensor, place: Tensor, after: Sequence[Operation]) -> Tensor:
    attrs = {"dtype": tensor.dtype, "shape": tensor.shape}
    controls = [new for op in after for new in state.operations[op]]
    return _near(state, "swap_in", [place], attrs, tensor.op, controls).outputs[0]


def _near(state: Rewrite, kind: str, inputs: Sequence[Tensor], attrs: dict[str, Any], op: Operation,
          controls: Sequence[Operation]) -> Operation:
    """An operation beside `op`."""
    return state.graph.create(kind, inputs, attrs, state.free_name(f"{kind}/{op.name}") + "/", tuple(controls),
                              device=op.device, colocation=op.colocation | {op.name}, source=op.source,
                              derived=op.name if kind == "swap_in" else "")
