"""Rounds of synchronous training in one run of a session: workers and what applies their gradients are loops of their own."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.subgraph import root_graph
from workbench.nn.contrib.graph_reroute import add_control_inputs
from workbench.nn.variables import Variable, near
from workbench.train.input.queues import StepTokens
from workbench.train.optimizers.optimizer import Optimizer
from workbench.train.sync import applied, gathering, sent

__all__ = ["Rounds", "WorkerOfRounds"]


class Rounds:
    """Rounds from the global step on: the first `counted` gradients of each count, their mean is applied and the next begins;
    a worker that was slower goes on with the newest one.

    `first` (a scalar) is the round with which a run begins, once what an earlier run left behind that ended in the middle of a
    round is forgotten. Build the turns of all workers, then `apply`, then `forget`.
    """

    def __init__(self, optimizer: Optimizer, counted: int, global_step: Variable) -> None:
        self.optimizer, self.counted, self.global_step = optimizer, counted, global_step
        self.gathered: dict[Variable, Any] = {}
        with near(global_step):
            self.tokens = StepTokens(global_step.dtype, "round_tokens", "round_tokens")
            self._before = global_step.value()
            self.first: Tensor = ops.identity(self._before, name="first_round")

    def accumulator(self, grad: Any, variable: Variable) -> Any:
        """That of `variable`, which outlives the turns of loops."""
        if variable not in self.gathered:
            root = root_graph()
            with root.as_default(), root.control_dependencies(None):
                self.gathered[variable] = gathering(grad, variable, "round_accum")
        return self.gathered[variable]

    def apply(self) -> Operation:
        """The update of one round, which waits for its gradients; the next round begins after it."""
        means = []
        for variable, accumulator in self.gathered.items():
            with near(variable):
                means.append((accumulator.take_grad(self.counted), variable))
        update = applied(self.optimizer, means, self.global_step)
        with get_default_graph().control_dependencies([update]), near(self.global_step):
            return self.tokens.release(self.global_step.value())

    def forget(self) -> None:
        """Have `first` wait until all accumulators are empty and nobody waits for a round any more."""
        with near(self.global_step):
            resets = [self.tokens.begin(self._before)]
        for variable, accumulator in self.gathered.items():
            with near(variable):
                resets.append(accumulator.begin(self._before))
        add_control_inputs(self.first.op, resets)


class WorkerOfRounds(Optimizer):
    """The optimizer of a worker in its turn of `number` (a scalar): a step sends its gradients, and waits until a newer round
    begins, which `following` names then."""

    def __init__(self, rounds: Rounds, worker: str, number: Tensor) -> None:
        super().__init__(False, "rounds")
        self._rounds, self._worker, self._turn = rounds, worker, number
        self.following: Tensor | None = None

    def compute_gradients(self, *args: Any, **options: Any) -> list[tuple[Any, Variable]]:
        """Those of the optimizer whose updates the rounds make."""
        return self._rounds.optimizer.compute_gradients(*args, **options)

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Variable]], global_step: Variable | None = None,
                        name: str | None = None) -> Operation:
        """The worker's part of the round; `global_step` is counted by the one that applies it."""
        rounds = self._rounds
        if global_step is not None and global_step is not rounds.global_step:
            raise errors.InvalidArgumentError(f"rounds: global_step is {global_step!r}, but they count {rounds.global_step!r}; "
                                              "leave it out")
        waiting = [sent(grad, variable, rounds.accumulator(grad, variable), self._turn, self._worker)
                   for grad, variable in grads_and_vars if grad is not None]
        with get_default_graph().control_dependencies(waiting), near(rounds.global_step):
            self.following = rounds.tokens.take(self._turn, name=name)
        return self.following.op
