"""Data-parallel replicas of a model: asynchronous or synchronous, one argument apart (paper §4.4)."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, ops
from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Operation, Tensor
from workbench.nn.scopes import variable_scope
from workbench.nn.variables import Variable, near, root_graph, trainable_variables
from workbench.train.optimizer import Optimizer

__all__ = ["MODES", "Replicas", "Tower", "replicate"]

MODES = ("async", "sync")


@dataclass
class Tower:
    """What a model function returns: the loss to minimise (a scalar), the tensors to feed, and named scalars to report."""

    loss: Tensor
    feeds: Sequence[Tensor]
    metrics: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class Replicas:
    """The built replicas. Async: run `steps[i]` for worker i, at its own pace. Sync: run `steps[0]`, feeding all towers."""

    mode: str
    towers: list[Tower]
    steps: list[Operation]
    variables: list[Variable]


class _Spread:
    """Device function: variables go to the parameter server that holds fewest bytes, the rest to the worker."""

    def __init__(self, servers: Sequence[str]) -> None:
        self.load = dict.fromkeys(servers, 0)

    def on(self, worker: str) -> Callable[[Operation], str]:
        def device(op: Operation) -> str:
            if op.type == "variable":
                return self._lightest(op) if self.load else worker
            return "" if any(t.dtype is resource for t in op.inputs) else worker
        return device

    def _lightest(self, op: Operation) -> str:
        server = min(self.load, key=lambda name: self.load[name])
        size = op.attrs["shape"]
        self.load[server] += (size.num_elements() or 1) * op.attrs["dtype"].size
        return server


def replicate(model: Callable[[], Tower], optimizer: Optimizer, workers: Sequence[str], servers: Sequence[str] = (),
              mode: str = "async", global_step: Variable | None = None) -> Replicas:
    """Build one tower of `model` per worker over shared variables spread across `servers` (all on one worker if
    empty).

    `workers` and `servers` are device names such as "/job:worker/task:0". `model()` makes its variables with
    get_variable. In mode "async" each worker applies its own gradients to whatever the parameters are by then; in
    mode "sync" one step feeds all towers, averages their gradients in worker order, so that results do not depend on
    timing, and applies them once. `global_step` counts the updates. Raises InvalidArgumentError for another mode or
    no workers.
    """
    if mode not in MODES:
        raise errors.InvalidArgumentError(f"replicate: mode {mode!r} is unknown; use one of {', '.join(MODES)}")
    if not workers:
        raise errors.InvalidArgumentError("replicate: there are 0 workers; pass at least one device")
    spread, graph = _Spread(servers), root_graph()
    towers, gradients = [], []
    for number, worker in enumerate(workers):
        with graph.device(spread.on(worker)), variable_scope("", reuse=number > 0), graph.name_scope(f"worker_{number}"):
            tower = model()
            towers.append(tower)
            gradients.append(optimizer.compute_gradients(tower.loss))
    if mode == "async":
        steps = []
        for number, (worker, pairs) in enumerate(zip(workers, gradients)):
            with graph.device(spread.on(worker)):      # a replica's step involves no other worker
                steps.append(optimizer.apply_gradients(pairs, global_step, name=f"apply_{number}"))
    else:
        with graph.device(spread.on(workers[0])):
            steps = [_sync(optimizer, gradients, global_step)]
    return Replicas(mode, towers, steps, trainable_variables())


def _sync(optimizer: Optimizer, gradients: Sequence[Any], global_step: Variable | None) -> Operation:
    averaged = []
    for column in zip(*gradients):
        variable = column[0][1]
        parts = [g for g, _ in column if g is not None]
        if parts:
            with near(variable), root_graph().name_scope("average"):
                averaged.append((_mean(parts, len(gradients)), variable))
    return optimizer.apply_gradients(averaged, global_step, name="apply")


def _mean(parts: list[Any], count: int) -> Any:
    scale = 1.0 / count
    if all(isinstance(p, IndexedSlices) for p in parts):
        return IndexedSlices(ops.multiply(ops.concat([p.values for p in parts], axis=0), scale),
                             ops.concat([p.indices for p in parts], axis=0), parts[0].dense_shape)
    total = ops.add_n([convert(p) for p in parts])
    return total if count == 1 else ops.multiply(total, scale)


