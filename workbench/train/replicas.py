"""Data-parallel replicas of a model: asynchronous, synchronous, with backups, stale, mirrored; one argument apart."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench import errors
from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.subgraph import root_graph
from workbench.nn.scopes import AUTO_REUSE, variable_scope
from workbench.nn.variables import Variable, group, near, trainable_variables
from workbench.train.mirrors import BUCKET_BYTES, Mirrors, begin_mirrors, mean_of, mean_of_all
from workbench.train.optimizers.optimizer import Optimizer
from workbench.train.pushing import ordered, pushed
from workbench.train.sessions.coordinator import Coordinator
from workbench.train.staleness import Staleness
from workbench.train.sync import SyncReplicasOptimizer

__all__ = ["MODES", "Replicas", "Tower", "check_mode", "check_step", "replicate"]

MODES = ("async", "sync", "backup", "stale", "mirror")


@dataclass
class Tower:
    """What a model function returns: the loss to minimise (a scalar), the tensors to feed, and named scalars to report."""

    loss: Tensor
    feeds: Sequence[Tensor]
    metrics: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class Replicas:
    """The built replicas. Sync and mirror: run `steps[0]`, feeding all towers. Else: run `steps[i]` for worker i, at its own
    pace.

    In the modes "backup", "stale" and "mirror" call `start` first, `leave` for a worker that goes, and `finish` at the end:
    then a step that waits for others ends, with OutOfRangeError where its gradient counts no more. To change the mode while
    training, end the workers' loops, `finish` these replicas and `start` the others, which were built in the same graph.
    """

    mode: str
    towers: list[Tower]
    steps: list[Operation]
    variables: list[Variable]
    global_step: Variable | None = None
    _optimizer: SyncReplicasOptimizer | None = None
    begin: Operation | None = None
    """What `start` runs; in mode "mirror" all that it does, so that `wb.train.run` does it by `init=[replicas.begin]`."""
    _end: Operation | None = None
    _leaves: list[Operation] = field(default_factory=list)
    _gone: set[int] = field(default_factory=set)
    _applying: threading.Thread | None = None      # takes the means of gradients and applies them
    _fixed: int = 0      # backups of those that have no optimizer to ask

    @property
    def backups(self) -> int:
        """How many of the workers are not waited for; with `backups="auto"` it changes while they train."""
        return self._fixed if self._optimizer is None else self._optimizer.backups

    def start(self, session: Any, coordinator: Coordinator | None = None) -> None:
        """The variables have their values: begin, or begin anew after they were restored or another mode has trained."""
        if self._applying is not None:
            self.finish(session)
        if self.begin is not None:
            session.run(self.begin)
        if self._optimizer is not None:
            self._gone.clear()
            self._optimizer.begin_membership()
            self._applying = self._optimizer.get_chief_queue_runner().create_threads(session, coordinator, start=True)[0]

    def leave(self, session: Any, worker: int) -> None:
        """Worker number `worker` goes: the others wait for it no more. In mode "stale" it comes back with `start`."""
        if self._optimizer is not None:
            self._gone.add(worker)
            self._optimizer.lose_workers(session, len(self._gone))
        elif self._leaves:
            session.run(self._leaves[worker])

    def finish(self, session: Any) -> None:
        """Training is over, or goes on in another mode: nobody waits for anybody, and no gradients are kept."""
        if self._end is not None:
            session.run(self._end)
        applying, self._applying = self._applying, None
        if applying is not None:      # it would take what the next `start` begins for its own
            applying.join()


class _Spread:
    """Device function: variables go to the parameter server that holds fewest bytes, the rest to the worker."""

    def __init__(self, servers: Sequence[str]) -> None:
        self.load = dict.fromkeys(servers, 0)

    def on(self, worker: str) -> Callable[[Operation], str]:
        def device(op: Operation) -> str:
            if op.kind == "variable":
                return self._lightest(op) if self.load else worker
            return "" if any(t.dtype is resource for t in op.inputs) else worker
        return device

    def _lightest(self, op: Operation) -> str:
        server = min(self.load, key=lambda name: self.load[name])
        size = op.attrs["shape"]
        self.load[server] += (size.num_elements() or 1) * op.attrs["dtype"].size
        return server


def replicate(model: Callable[[], Tower], optimizer: Optimizer, workers: Sequence[str], servers: Sequence[str] = (),
              mode: str = "async", global_step: Variable | None = None, backups: Any = 0, staleness: int = 0,
              bucket_bytes: int = BUCKET_BYTES) -> Replicas:
    """Build one tower of `model` per worker over shared variables spread across `servers` (all on one worker if empty).

    `workers` and `servers` are device names such as "/job:worker/task:0". `model()` makes its variables with get_variable. In
    mode "async" each worker applies its own gradients to whatever the parameters are by then; in mode "sync" one step feeds
    all towers, averages their gradients in worker order, so that results do not depend on timing, and applies them once. In
    mode "backup" the gradients of the first n - `backups` workers of each step count (SyncReplicasOptimizer); `backups="auto"`
    begins with none and chooses anew while they train. In mode "stale" a worker applies its own gradients, but begins no step
    that is more than `staleness` steps ahead of the slowest worker's (Ho et al. 2013). In mode "mirror" each worker has copies
    of all variables that `model` trains, and their slots, so that no server is in the way: one step feeds all towers, their
    mean gradients go around the ring of workers (all_sum), and each worker applies them to its own copies, which stay the same
    bits. Those of the first worker are the variables that other modes and checkpoints know. Dense gradients that are ready one
    after the other travel together, up to `bucket_bytes` (0: each alone): there are fewer messages, but the first waits for
    the last. `global_step` counts the updates.

    Checkpoints hold of each update all or nothing, on all servers, whatever the mode (docs/recovery.md).

    Replicas of several modes may be built in one graph with one optimizer: they share variables and slots, so that
    training changes its mode by running the other steps. Raises InvalidArgumentError for another mode, no workers, or
    numbers that do not fit the mode.
    """
    check_mode(mode, len(workers), len(servers), backups, staleness, bucket_bytes)
    check_step(mode, global_step)
    spread = _Spread(servers)
    if mode == "mirror":
        return _mirror(model, optimizer, list(workers), global_step, bucket_bytes)
    if mode in ("backup", "stale"):
        with variable_scope("", reuse=AUTO_REUSE):
            if mode == "backup":
                return _backup(model, optimizer, list(workers), spread, global_step, backups)
            return _stale(model, optimizer, list(workers), spread, global_step, staleness)
    return _own_pace_or_one_step(model, optimizer, list(workers), spread, mode, global_step)


def _own_pace_or_one_step(model: Callable[[], Tower], optimizer: Optimizer, workers: list[str], spread: _Spread, mode: str,
                          global_step: Variable | None) -> Replicas:
    towers, gradients, graph = [], [], root_graph()
    for number, worker in enumerate(workers):
        with _asking(spread.on(worker)), variable_scope("", reuse=AUTO_REUSE), graph.name_scope(f"worker_{number}"):
            tower = model()
            towers.append(tower)
            gradients.append(optimizer.compute_gradients(tower.loss))
    if mode == "async":
        steps = []
        for number, (worker, pairs) in enumerate(zip(workers, gradients)):
            with _asking(spread.on(worker)):           # a replica's step involves no other worker
                steps.append(_push(optimizer, pairs, global_step, number))
    else:
        with _asking(spread.on(workers[0])):
            steps = [_sync(optimizer, gradients, global_step)]
    return Replicas(mode, towers, steps, trainable_variables(), global_step)


@contextlib.contextmanager
def _asking(device: Callable[[Operation], str]) -> Iterator[None]:
    """What is made in it asks for `device`; in the body of a loop variables do too, which are made around it."""
    root, here = root_graph(), get_default_graph()
    with root.device(device), contextlib.nullcontext() if here is root else here.device(device):
        yield


def check_mode(mode: str, workers: int, servers: int = 0, backups: Any = 0, staleness: int = 0,
               bucket_bytes: int = BUCKET_BYTES) -> None:
    """InvalidArgumentError where `replicate` has no such mode, or not for so many workers and servers and these numbers."""
    if mode not in MODES:
        raise errors.InvalidArgumentError(f"replicate: mode {mode!r} is unknown; use one of {', '.join(MODES)}")
    if not workers:
        raise errors.InvalidArgumentError("replicate: there are 0 workers; pass at least one device")
    if mode == "mirror" and servers:
        raise errors.InvalidArgumentError(f"replicate: mode 'mirror' has no servers but {servers} are passed; leave them out")
    for name, number, usual, owner, more in (("backups", backups, 0, "backup", ', or "auto"'),
                                             ("staleness", staleness, 0, "stale", ""),
                                             ("bucket_bytes", bucket_bytes, BUCKET_BYTES, "mirror", "")):
        if number != usual and mode != owner:
            raise errors.InvalidArgumentError(f"replicate: {name} is {number!r} but mode is {mode!r}; use mode {owner!r}")
        if (name, number) != ("backups", "auto") and (type(number) is not int or number < 0):
            raise errors.InvalidArgumentError(f"replicate: {name} is {number!r}; use 0 or more{more}")
    if backups != "auto" and backups >= workers:
        raise errors.InvalidArgumentError(f"replicate: {backups} of {workers} workers are backups; one must count")


def check_step(mode: str, global_step: Variable | None) -> None:
    """InvalidArgumentError where the mode needs a global step and there is none."""
    if global_step is None and mode in ("backup", "stale"):
        raise errors.InvalidArgumentError(f"replicate: mode {mode!r} needs global_step; pass the variable that counts updates")


def _backup(model: Callable[[], Tower], optimizer: Optimizer, workers: list[str], spread: _Spread, global_step: Any,
            backups: Any) -> Replicas:
    fixed = 0 if backups == "auto" else backups
    auto = "auto" if backups == "auto" else None
    graph, together = root_graph(), SyncReplicasOptimizer(optimizer, len(workers) - fixed, len(workers), backups=auto)
    towers, steps = [], []
    for number, worker in enumerate(workers):
        with graph.device(spread.on(worker)), graph.name_scope(f"worker_{number}"):
            tower = model()
            towers.append(tower)
            steps.append(together.apply_gradients(together.compute_gradients(tower.loss), global_step))
    runner = together.get_chief_queue_runner()
    init = group(together.chief_init_op, name="begin")
    return Replicas("backup", towers, steps, trainable_variables(), global_step, together, init, runner.cancel_op)


def _stale(model: Callable[[], Tower], optimizer: Optimizer, workers: list[str], spread: _Spread, global_step: Any,
           staleness: int) -> Replicas:
    graph, bound = root_graph(), Staleness(workers, staleness, global_step)
    towers, steps = [], []
    for number, worker in enumerate(workers):
        clock = bound.wait(number)
        with graph.device(spread.on(worker)), graph.name_scope(f"worker_{number}"), graph.control_dependencies([clock]):
            tower = model()
            update = _push(optimizer, optimizer.compute_gradients(tower.loss), global_step, number)
        steps.append(bound.advance(number, clock, update))
        towers.append(tower)
    return Replicas("stale", towers, steps, trainable_variables(), global_step, begin=bound.begin, _end=bound.end,
                    _leaves=bound.leaves)


def _mirror(model: Callable[[], Tower], optimizer: Optimizer, workers: list[str], global_step: Variable | None,
            bucket_bytes: int) -> Replicas:
    graph, all_mirrors, towers, gradients = root_graph(), [], [], []
    for number, worker in enumerate(workers):
        mirrors = Mirrors(number)
        with (graph.device(_Spread(()).on(worker)), graph.name_scope(f"worker_{number}"),
              variable_scope("", reuse=AUTO_REUSE, custom_getter=mirrors.get if number else None)):
            tower = model()
            own = [mirrors.of.get(variable, variable) for variable in trainable_variables()]
            gradients.append(optimizer.compute_gradients(tower.loss, own))
        all_mirrors.append(mirrors)
        towers.append(tower)
    columns = [column for column in zip(*gradients) if any(gradient is not None for gradient, _ in column)]
    means = mean_of_all(columns, workers, bucket_bytes)
    updated = dict.fromkeys(variable for column in columns for _, variable in column)
    with ordered():      # as in mode "sync"
        step = optimizer.apply_gradients([(means[variable], variable) for variable in updated], global_step, name="apply")
    return Replicas("mirror", towers, [step], trainable_variables(), global_step,
                    begin=begin_mirrors(all_mirrors, optimizer))


def _push(optimizer: Optimizer, pairs: Any, global_step: Variable | None, number: int) -> Operation:
    """A worker applies its gradients, in a push that no checkpoint cuts in two."""
    return pushed(f"worker {number}", lambda: optimizer.apply_gradients(pairs, global_step, name=f"apply_{number}"))


def _sync(optimizer: Optimizer, gradients: Sequence[Any], global_step: Variable | None) -> Operation:
    averaged = []
    for column in zip(*gradients):
        variable = column[0][1]
        parts = [g for g, _ in column if g is not None]
        if parts:
            with near(variable), root_graph().name_scope(f"average/{variable.op.name}"):
                averaged.append((mean_of(parts, len(gradients)), variable))
    with ordered():      # one thread runs all towers' step, between two of which it saves
        return optimizer.apply_gradients(averaged, global_step, name="apply")
