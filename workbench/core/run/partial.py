"""Steps in several calls: each is given more values, and computes once what they suffice for."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.fetch import flatten
from workbench.core.graph.graph import Graph, Operation, Tensor

__all__ = ["PartialStep", "PartialSteps"]

_MADE_AGAIN = ("constant", "read_variable", "variable")      # what may run as often as it likes; handles may, too

Run = Callable[[Any, Mapping[Any, Any]], Any]


class PartialSteps:
    """The steps of a session that are under way, by handle."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._steps: dict[str, PartialStep] = {}
        self._numbers = itertools.count()

    def begin(self, fetches: Any, feeds: Sequence[Any]) -> str:
        """A handle of a new step. InvalidArgumentError where fetches or feeds are none of the graph."""
        plan = flatten(self._graph, fetches)
        if not plan.tensors and not plan.operations:
            raise errors.InvalidArgumentError("partial_run_setup: there are 0 fetches; specify at least one "
                                              "target to fetch or execute.")
        given = [self._graph.as_graph_element(feed, allow_operation=False, where="partial_run_setup") for feed in feeds or ()]
        handle = f"partial_{next(self._numbers)}"
        self._steps[handle] = PartialStep(self._graph, [*plan.tensors, *plan.operations], given)
        return handle

    def go_on(self, handle: str, fetches: Any, feed_dict: Mapping[Any, Any], run: Run) -> Any:
        """The values of `fetches`; InvalidArgumentError for a handle that is unknown or whose step is over."""
        step = self._steps.get(handle)
        if step is None:
            raise errors.InvalidArgumentError(f"partial_run: {handle!r} is not a step under way; Must run 'setup' before "
                                              "performing partial runs")
        try:
            return step.go_on(fetches, feed_dict, run)
        except BaseException:
            del self._steps[handle]      # it cannot be told what of it was done
            raise
        finally:
            if step.over:
                self._steps.pop(handle, None)


class PartialStep:
    """One step: an operation runs once, in the first call after which all it needs is known."""

    def __init__(self, graph: Graph, fetches: Sequence[Tensor | Operation], feeds: Sequence[Tensor | Operation]) -> None:
        self._graph = graph
        self._fetches, self._named, self._feeds = set(fetches), frozenset(fetches), set(feeds)
        self._needs: dict[Operation, frozenset[Any]] = {}       # operation -> the feeds that it depends on
        for fetch in fetches:
            self._visit(fetch if isinstance(fetch, Operation) else fetch.op)
        self._done: set[Operation] = set()
        self._values: dict[Any, Any] = {}                       # fed so far, and what later calls read
        self._check_order()

    @property
    def over(self) -> bool:
        """Was everything asked for?"""
        return not self._fetches

    def _visit(self, last: Operation) -> None:
        """Note what `last` and all before it need; what is fed ends the search."""
        stack = [last]
        while stack:
            op = stack[-1]
            around = [t.op for t in op.inputs if t not in self._feeds] + list(op.controls)
            missing = [o for o in around if o not in self._needs]
            if op in self._needs or not missing:
                stack.pop()
                known = [self._needs[o] for o in around if o in self._needs]
                self._needs.setdefault(op, frozenset(t for t in op.inputs if t in self._feeds).union(
                    *known, [t for t in op.outputs if t in self._feeds]))
            else:
                stack.extend(missing)

    def _check_order(self) -> None:
        """UnimplementedError where a later call would run an operation again whose effect an earlier one waited for."""
        for op, needs in self._needs.items():
            for before in op.controls:
                if self._needs[before] < needs and before.definition.stateful and before.kind not in _MADE_AGAIN:
                    raise errors.UnimplementedError(f"partial_run_setup: {op.name!r} waits for {before.name!r}, which can run "
                                                    "before all feeds are known; let both need the same feeds")

    def go_on(self, fetches: Any, feed_dict: Mapping[Any, Any], run: Run) -> Any:
        """The next call of the step."""
        plan = flatten(self._graph, fetches)
        wanted: list[Tensor | Operation] = [*plan.tensors, *plan.operations]
        self._feed(feed_dict)
        known = set(self._values)
        new = [op for op, needs in self._needs.items() if op not in self._done and needs <= known]
        reachable = self._done.union(new)
        for item in wanted:
            self._check(item, reachable)
        self._compute(new, reachable, run)
        self._fetches.difference_update(wanted)
        return plan.build([self._values[t] for t in plan.tensors])

    def _feed(self, feed_dict: Mapping[Any, Any]) -> None:
        for key, value in (feed_dict or {}).items():
            tensor = self._graph.as_graph_element(key, allow_operation=False, where="partial_run")
            if tensor not in self._feeds or tensor in self._values:
                why = "has already been fed." if tensor in self._values else "was not specified in partial_run_setup."
                raise errors.InvalidArgumentError(f"partial_run: feed each tensor of the setup once; {tensor.name!r} {why}")
            self._values[tensor] = value

    def _check(self, item: Tensor | Operation, reachable: set[Operation]) -> None:
        if item not in self._fetches:
            why = "has already been fetched." if item in self._named else "was not specified in partial_run_setup."
            raise errors.InvalidArgumentError(f"partial_run: fetch what the setup names, each once; {item.name!r} {why}")
        op = item if isinstance(item, Operation) else item.op
        if op not in reachable and item not in self._values:
            missing = sorted(t.name for t in self._needs[op] if t not in self._values)
            raise errors.InvalidArgumentError(f"partial_run: {item.name!r} needs {', '.join(missing)}, which no call of this "
                                              "step has fed: You must feed a value for placeholder tensors now or before")

    def _compute(self, new: Sequence[Operation], reachable: set[Operation], run: Run) -> None:
        """Run `new`, and keep what is fetched or read by what cannot run yet."""
        later = [op for op in self._needs if op not in reachable]
        read = {t for op in later for t in op.inputs}
        keep = [t for op in new for t in op.outputs if (t in read or t in self._fetches) and t not in self._values
                and not (_made_again(t) and t not in self._fetches)]
        effects = [op for op in new if op in self._fetches]
        if keep or effects:
            found = run([keep, effects], dict(self._values))[0]
            self._values.update(zip(keep, found))
        self._done.update(new)


def _made_again(tensor: Tensor) -> bool:
    return tensor.op.kind in ("constant", "variable") or tensor.dtype.kind == "object"
