"""Critical sections: parts of a graph of which one at a time runs, in whatever step."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.program import state_name
from workbench.core.graph.subgraph import root_graph
from workbench.nn.nest import flatten, pack_sequence_as

__all__ = ["CriticalSection"]


@dataclass(frozen=True)
class _Execution:
    """What one call of `execute` uses."""

    section: str
    mutex: Tensor
    state: frozenset[str]
    exclusive: bool


class CriticalSection:
    """A mutex for parts of a graph: of all that `execute` built, in all steps of all sessions of a task, one runs at a time.

    It is free again when the step that holds it ends, however it ends. `shared_name` lets several be one.
    """

    def __init__(self, name: str | None = None, shared_name: str | None = None) -> None:
        self._handle: Tensor = ops.mutex(shared_name=shared_name or "", name=name or "critical_section")

    @property
    def name(self) -> str:
        """The name of its operation."""
        return self._handle.op.name

    def execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What `fn(*args, **kwargs)` returns: tensors, nested in lists and dictionaries, or an operation; what leads to them
        runs while nothing else of this section does. It waits for what it reads from outside before it asks for the mutex.

        `exclusive_resource_access` (True): InvalidArgumentError (a ValueError) where another section reads or writes the same
        variables or queues. The same for calls within calls, which would wait for themselves.
        """
        exclusive, name = kwargs.pop("exclusive_resource_access", True), kwargs.pop("name", None)
        graph = get_default_graph()
        with graph.name_scope(name or "critical_section_execute") as scope:
            lock = ops.mutex_lock(self._handle, holder=scope, name="lock")
            before = len(graph.operations)
            with graph.control_dependencies([lock]):
                found = fn(*args, **kwargs)
                leaves = [each if isinstance(each, Operation) else ops.identity(convert(each)) for each in _flat(found)]
            made = graph.operations[before:]
            self._check(made, bool(exclusive))
            _wait_for_what_is_read(lock, made)
            with graph.control_dependencies([lock, *(leaves or made)]):
                unlock = ops.mutex_unlock(self._handle, holder=scope, name="unlock")
            with graph.control_dependencies([unlock]):
                given = [ops.no_op() if isinstance(each, Operation) else ops.identity(each) for each in leaves]
        if found is None or isinstance(found, Operation):
            return given[0] if given else unlock
        return pack_sequence_as(found, given)

    def _check(self, made: Iterable[Operation], exclusive: bool) -> None:
        """Is this call around one of the same section, or does another section use its state?"""
        held: list[_Execution] = root_graph(self._handle.graph).held.setdefault("critical sections", [])
        if any(op.kind == "mutex_lock" and op.inputs[0] is self._handle for op in made):
            raise errors.InvalidArgumentError(f"{self.name}: a call of execute within another one would wait for itself for "
                                              "ever; call it outside")
        handles = {t.op for op in made for t in op.inputs if t.dtype is resource and t.op.kind != "mutex"}
        mine = _Execution(self.name, self._handle, frozenset(map(state_name, handles)), exclusive)
        for other in held:
            both = mine.state & other.state
            if other.mutex is not mine.mutex and both and (exclusive or other.exclusive):
                raise errors.InvalidArgumentError(f"{self.name}: This execution would access resources {sorted(both)}, which "
                                                  f"{other.section} uses, and one of them requested exclusive resource "
                                                  "access; use one section for both, or exclusive_resource_access=False")
        held.append(mine)


def _flat(found: Any) -> list[Any]:
    return [] if found is None else [found] if isinstance(found, Operation) else flatten(found)


def _wait_for_what_is_read(lock: Operation, made: Iterable[Operation]) -> None:
    """What is computed outside may need the mutex itself, so it comes before."""
    inside = {*made, lock}
    outside = dict.fromkeys(t.op for op in inside for t in op.inputs if t.op not in inside and t.dtype is not resource)
    if outside:
        ops.rewire({lock: (lock.inputs, [*lock.controls, *outside])})
