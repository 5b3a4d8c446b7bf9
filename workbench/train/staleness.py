"""Bounded staleness: a worker begins no step that is too far ahead of the slowest one's."""
from __future__ import annotations

from collections.abc import Sequence

from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.nn.variables import Variable, group, near
from workbench.train.input.queues import WorkerClocks

__all__ = ["Staleness"]


class Staleness:
    """Clocks beside `global_step` by which none of `workers` begins a step more than `bound` steps ahead of the slowest
    (Ho et al. 2013); a worker's number is its place among them.

    `begin`, to be run before training, admits all; after an element of `leaves` nobody waits for that worker, after `end` for
    any.
    """

    def __init__(self, workers: Sequence[str], bound: int, global_step: Variable) -> None:
        self._bound, self._global_step = bound, global_step
        self._titles = [f"{worker}#{number}" for number, worker in enumerate(workers)]
        with near(global_step):
            self._clocks = WorkerClocks("worker_clocks")
            self.leaves = [self._clocks.leave(title) for title in self._titles]
            self.begin = group(*[self._clocks.admit(title) for title in self._titles], name="begin")
            self.end = self._clocks.close()

    def wait(self, number: int) -> Tensor:
        """The clock of a worker (int64 scalar) when it may begin. What reads variables must wait for it: they could be older
        than the bound."""
        with near(self._global_step):
            return self._clocks.wait(self._titles[number], self._bound)

    def advance(self, number: int, clock: Tensor, step: Operation) -> Operation:
        """`step`, which the worker began at `clock`, counts as done after it; once, if it is tried again."""
        with near(self._global_step), get_default_graph().control_dependencies([step]):
            return self._clocks.advance(self._titles[number], clock)

    def rest(self, number: int, last: Operation) -> Operation:
        """Nobody waits for the worker between `last`, the end of what it does in a run, and its next step: who joined later or
        has more to do would never be let through."""
        with near(self._global_step), get_default_graph().control_dependencies([last]):
            return self._clocks.rest(self._titles[number])
