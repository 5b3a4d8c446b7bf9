"""Program: a graph with what is fed, fetched and run; and the order its operations can run in."""
from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from workbench import errors
from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.graph.subgraph import Subgraph

__all__ = ["FREED", "Program", "changes", "has_effect", "is_back_edge", "needed", "state_name", "state_names", "told",
           "topological", "written"]

_READERS = frozenset({"read_variable", "resource_gather", "is_variable_initialized"})
_WITH_BODIES = frozenset({"call", "if", "while"})
FREED = "variables whose shape may change"      # what a graph holds under this: a set of the operations that make them
_MAY_REFUSE = ("check_numerics",)      # raises on purpose, so that what comes after it does not happen


@dataclass(frozen=True)
class Program:
    """A graph with the tensors that are fed (its `argument` operations), fetched, and the operations to run.

    Passes are functions Program -> Program; they never change the graph they are given. What is fetched keeps its name, but
    for a program that stands `inside` another one, as the body of a branch or loop.
    """

    graph: Graph
    feeds: tuple[Tensor, ...]
    fetches: tuple[Tensor, ...]
    targets: tuple[Operation, ...] = ()
    inside: bool = False

    @cached_property
    def order(self) -> tuple[Operation, ...]:
        """What its results need, and its feeds, each after its inputs; of a program that is complete, as what passes get is."""
        roots = [*self.roots, *[t.op for t in self.feeds]]
        return tuple(_back_from(roots, self.graph.operations) or topological(needed(roots)))

    @property
    def roots(self) -> list[Operation]:
        return [t.op for t in self.fetches] + list(self.targets)


def is_back_edge(consumer: Operation, tensor: Tensor) -> bool:
    return consumer.kind == "merge" and tensor.op.kind == "next_iteration"


def has_effect(op: Operation) -> bool:
    """Does it do more than compute its outputs? What uses named state is asked for that instead."""
    return op.definition.stateful or op.kind in _MAY_REFUSE


def state_names(op: Operation) -> list[str]:
    """The state behind the handles it takes; handles of one name in one container are the same state."""
    return [state_name(t.op) for t in op.inputs if t.dtype is resource]


def state_name(made: Operation) -> str:
    """What tells the state apart whose handle `made` gives."""
    return f"{made.attrs.get('container', '')}/{made.attrs.get('shared_name') or made.name}"


def told(made: Operation | None) -> Shape:
    """The shape that a variable keeps, as far as it is known: nothing of one that may take another."""
    return Shape(None) if made is None or made.attrs.get("freed") else as_shape(made.attrs["shape"])


def written(program: Program) -> frozenset[str]:
    """The state that operations may change; what takes a handle and is not known to read only may."""
    return frozenset([state_name(t.op) for op in program.graph.operations for t in changes(op)])


def changes(op: Operation) -> list[Tensor]:
    """The handles through which `op` may change state."""
    if op.kind in _READERS:
        return []
    if op.kind not in _WITH_BODIES:
        return [t for t in op.inputs if t.dtype is resource]
    pairs = [pair for value in op.attrs.values() if isinstance(value, Subgraph)      # arguments are the last inputs
             for pair in zip(reversed(op.inputs), reversed(value.arguments))]
    inside = {t for value in op.attrs.values() if isinstance(value, Subgraph) for o in value.operations for t in changes(o)}
    return [outer for outer, inner in pairs if inner in inside]


def needed(roots: Iterable[Operation], stop: Callable[[Tensor], bool] | None = None) -> set[Operation]:
    """The backward closure over data and control edges; edges for which `stop(tensor)` holds are not followed."""
    seen: set[Operation] = set()
    stack = list(roots)
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        stack += [t.op for t in op.inputs if stop is None or not stop(t)]
        stack += op.controls
    return seen


def _back_from(roots: Iterable[Operation], operations: Sequence[Operation]) -> list[Operation] | None:
    """What `roots` need in construction order, where that serves; None where it does not, or they are not all of `operations`,
    which are those of a graph."""
    wanted, found = set(roots), []
    for op in reversed(operations):
        if op in wanted:
            found.append(op)
            for tensor in op.inputs:
                before = tensor.op
                if before.id >= op.id:
                    return None
                wanted.add(before)
            for before in op.controls:
                if before.id >= op.id:
                    return None
                wanted.add(before)
    found.reverse()
    return found if len(found) == len(wanted) else None


def topological(operations: Iterable[Operation]) -> list[Operation]:
    """Every operation after its inputs; construction order breaks ties; loops enter through their merges."""
    chosen = set(operations)
    order = sorted(chosen, key=_construction)
    return order if _in_order(order, chosen) else _sorted(chosen)


def _construction(op: Operation) -> int:
    return op.id


def _in_order(order: Sequence[Operation], chosen: Set[Operation]) -> bool:
    """Does construction order serve? It does unless something was given inputs that were made after it."""
    done: set[Operation] = set()
    for op in order:
        for tensor in op.inputs:
            before = tensor.op
            if before not in done and before in chosen and not is_back_edge(op, tensor):
                return False
        for before in op.controls:
            if before not in done and before in chosen:
                return False
        done.add(op)
    return True


def _sorted(chosen: Set[Operation]) -> list[Operation]:
    waiting: dict[Operation, int] = {}
    after: dict[Operation, list[Operation]] = {}
    for op in chosen:
        before = {t.op for t in op.inputs if not is_back_edge(op, t)} | set(op.controls)
        before &= chosen
        waiting[op] = len(before)
        for earlier in before:
            after.setdefault(earlier, []).append(op)
    ready = [(op.id, op.name, op) for op, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        op = heapq.heappop(ready)[2]
        order.append(op)
        for later in after.get(op, ()):
            waiting[later] -= 1
            if waiting[later] == 0:
                heapq.heappush(ready, (later.id, later.name, later))
    if len(order) != len(chosen):
        stuck = min((op for op, count in waiting.items() if count > 0), key=lambda op: op.id)
        raise errors.InvalidArgumentError(f"graph: {stuck.name!r} waits for itself; remove the cycle of data or "
                                          "control edges (loops are written with while_loop)")
    return order
