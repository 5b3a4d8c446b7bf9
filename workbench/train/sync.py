"""Synchronous replicas with backup workers: accumulators, a token queue, a chief that applies (paper §4.4)."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices, ops
from workbench.core.graph.graph import Operation, get_default_graph
from workbench.core.graph.subgraph import root_graph
from workbench.core.names import task_of
from workbench.nn.variables import GraphKeys, Variable, global_variables, group, near, report_uninitialized_variables
from workbench.train.input.accumulators import ConditionalAccumulator, SparseConditionalAccumulator
from workbench.train.input.input_state import BEGUN_ANEW
from workbench.train.input.queues import FIFOQueue, StepTokens, WorkerPushes
from workbench.train.optimizers.loss_scale import loss_scale_of
from workbench.train.optimizers.optimizer import Optimizer
from workbench.train.optimizers.schedules import LOCAL_STEP
from workbench.train.pushing import ordered
from workbench.train.sessions.coordinator import Coordinator, QueueRunner
from workbench.train.sessions.hooks import SessionRunHook
from workbench.train.stragglers import choose_backups

_LOOK_ROUNDS = 50          # between two looks at how many workers are better not waited for

__all__ = ["SyncReplicasOptimizer", "applied", "gathering", "sent"]


class SyncReplicasOptimizer(Optimizer):
    """All of n workers compute; the first `replicas_to_aggregate` = m gradients of a step count, later ones are
    dropped.

    Each variable has an accumulator that drops gradients of older steps. The chief (one queue runner,
    `get_chief_queue_runner`) takes the mean of m gradients, applies it with the inner optimizer, adds 1 to the global
    step and releases the new step; a worker's step ends by taking that token, which is the step its next gradient counts
    for.

    With m ≤ n a worker has each token once, and only the newest: those that a dead or slow worker leaves behind make
    nobody compute gradients that are dropped. And of each worker one gradient counts per step, so that a step that was
    aborted half-way and tried again counts once. With m > n, or on request by `keep_stale_tokens`, max(n, m) tokens a step
    go through a queue and everything counts, as in TensorFlow 1.x.
    With `backups="auto"` training begins with m; every 50 rounds the number that counts is chosen anew, at most m, from how
    long each worker's gradients took (`workbench/train/stragglers.py`). `backups` is how many of the n are not waited for now.
    `lose_workers(session, k)` tells that k of n workers are gone for good: no more gradients than there are workers are
    waited for. `follow(session)` does so by itself when a cluster loses the task of a worker.
    `ready_for_local_init_op` names the global variables that have no value yet: a worker's local step begins with one of them.
    Run `chief_init_op` and `get_init_tokens_op()` on the chief, `local_step_init_op` on each worker.
    """

    def __init__(self, opt: Optimizer, replicas_to_aggregate: int, total_num_replicas: int | None = None,
                 variable_averages: Any = None, variables_to_average: Any = None, use_locking: bool = False,
                 name: str = "sync_replicas", keep_stale_tokens: bool = False, backups: Any = None) -> None:
        super().__init__(use_locking, name)
        self._opt, self._aggregate = opt, replicas_to_aggregate
        self._total = replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        if self._aggregate < 1 or self._total < 1:
            raise errors.InvalidArgumentError(f"SyncReplicasOptimizer: replicas_to_aggregate is {self._aggregate}, "
                                              f"total_num_replicas {self._total}; use at least 1 of each")
        self._tokens_per_step = max(self._total, self._aggregate)
        self._fresh = not keep_stale_tokens and self._aggregate <= self._total
        if backups not in (None, "auto"):
            raise errors.InvalidArgumentError(f"SyncReplicasOptimizer: backups is {backups!r}; use \"auto\", or "
                                              "replicas_to_aggregate for a fixed number")
        if backups == "auto" and not self._fresh:
            raise errors.InvalidArgumentError("SyncReplicasOptimizer: backups is 'auto' but tokens of old steps are kept, so "
                                              "that every gradient counts; leave one of both out")
        self._adapts = backups == "auto"
        self._averages, self._averaged = variable_averages, variables_to_average
        self._global_step: Variable | None = None
        self._accumulators: dict[Variable, Any] = {}
        self._local_inits: list[Operation] = []
        self._workers: list[str] = []             # the device of each worker's gradients
        self._gone: set[str] = set()              # tasks of a cluster that were lost
        self._losing = threading.RLock()          # two may be at once, and a look at stragglers on a thread of its own
        self._lost, self._counted = 0, replicas_to_aggregate      # workers that are gone; gradients that are waited for

    def compute_gradients(self, *args: Any, **options: Any) -> list[tuple[Any, Variable]]:
        """The inner optimizer's."""
        return self._opt.compute_gradients(*args, **options)

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Variable]], global_step: Variable | None = None,
                        name: str | None = None) -> Operation:
        """The step of one worker; needs `global_step`. The first call also builds the chief's part."""
        if global_step is None:
            raise errors.InvalidArgumentError("SyncReplicasOptimizer: global_step is None; pass the variable that "
                                              "counts updates")
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if not pairs:
            raise errors.InvalidArgumentError("SyncReplicasOptimizer: no gradient reaches any of the variables; check "
                                              "that the loss depends on them")
        with root_graph().name_scope(name or self._name) as scope:
            if self._global_step is None:
                self.ready_for_local_init_op = report_uninitialized_variables(global_variables())
                self._make_chief(pairs, global_step)
            local_step = self._make_local_step(pairs[0][0], global_step)
            worker = f"{pairs[0][0].op.device}#{len(self._workers)}" if self._fresh else ""
            self._workers.append(pairs[0][0].op.device)
            waiting = [sent(grad, variable, self._accumulators[variable], local_step.value(), worker)
                       for grad, variable in pairs]
            with root_graph().control_dependencies(waiting), near(global_step):
                token = self._tokens.take(local_step.value()) if self._fresh else self._tokens.dequeue()
            return local_step.assign(token, name=scope).op

    def _make_local_step(self, grad: Any, global_step: Variable) -> Variable:
        """The step that a worker's gradients count for, on the device of its gradients."""
        graph = root_graph()
        with graph.name_scope(None), graph.only_device(grad.op.device):
            made = Variable(0, trainable=False, dtype=global_step.dtype, name="sync_rep_local_step",
                            collections=[GraphKeys.LOCAL_VARIABLES])
        self.local_step_init_op = made.assign(global_step.value()).op
        self._local_inits.append(self.local_step_init_op)
        graph.add_to_collection(GraphKeys.LOCAL_INIT_OP, self.local_step_init_op)
        graph.add_to_collection(LOCAL_STEP, made)
        return made

    def _take(self, grad: Any, variable: Variable) -> Any:
        """The mean gradient of `variable`; its accumulator is made beside it."""
        self._accumulators[variable] = made = gathering(grad, variable, "grad_accum")
        with near(variable):
            return made.take_grad(self._aggregate)

    def _make_chief(self, pairs: Sequence[tuple[Any, Variable]], global_step: Variable) -> None:
        graph, self._global_step = root_graph(), global_step
        with near(global_step):
            if self._fresh:
                self._tokens: Any = StepTokens(global_step.dtype, "sync_tokens", "sync_tokens")
            else:
                self._tokens = FIFOQueue(-1, global_step.dtype, [()], shared_name="sync_token_q", name="sync_token_q")
                graph.add_to_collection(BEGUN_ANEW, self._tokens.queue_ref)
            pushes = WorkerPushes(f"rounds at {global_step.op.device}", f"rounds at {global_step.op.device}", "sync_pushes")
        means = [(self._take(g, v), v) for g, v in pairs]
        with graph.control_dependencies([m.values if isinstance(m, IndexedSlices) else m for m, _ in means]), near(global_step):
            began = pushes.begin("chief", [pushes.place])
        with graph.control_dependencies([began]), ordered():      # a checkpoint sees all of the update or nothing of it
            update = applied(self._opt, means, global_step)
        if self._averages is not None:
            with graph.control_dependencies([update]):
                update = self._averages.apply(self._averaged)
        with graph.control_dependencies([update]), near(global_step):      # the push ends after it
            release = self._release(self._tokens_per_step, global_step)
        with near(global_step):
            self._runner = _Applying(self._adapt if self._adapts else None, self._tokens, [release], self._make_end(),
                                     self._make_end(), (errors.OutOfRangeError, errors.CancelledError))
        self._make_membership()

    def _make_end(self) -> Operation:
        """Training is over: workers need not wait for a token, nor the chief for gradients."""
        closing = [self._tokens.close()]
        for variable, accumulator in self._accumulators.items():
            with near(variable):
                closing.append(accumulator.close())
        return group(*closing, name="end")

    def _release(self, tokens: int, step: Variable) -> Operation:
        if self._fresh:
            return self._tokens.release(step.value())
        return self._tokens.enqueue_many([ops.fill([tokens], step.value())])

    def _make_membership(self) -> None:
        self._members = ops.placeholder("int32", [])
        resizes, dropped = [], []
        for variable, accumulator in self._accumulators.items():
            with near(variable):
                resizes.append(accumulator.set_members(self._members))
                dropped.append(accumulator.num_dropped())
        first, accumulator = next(iter(self._accumulators.items()))
        with near(first):
            self.arrivals = accumulator.arrivals()
            """(workers, seconds): how long the newest gradients took, those that came too late as well."""
        self._resize, self.dropped_gradients = group(*resizes, name="set_members"), ops.add_n(dropped)
        """int64 scalar: gradients of all variables that came too late or twice."""

    @property
    def chief_init_op(self) -> Operation:
        """Brings the accumulators and all local steps to the global step; run it once, after initialisation or
        restore."""
        step = self._built("chief_init_op")
        resets = []
        if self._fresh:
            with near(step):
                resets.append(self._tokens.begin(step.value()))
        for variable, accumulator in self._accumulators.items():
            with near(variable):
                resets.append(accumulator.begin(step.value()))
        return group(*resets, *self._local_inits, name="chief_init")

    def begin_membership(self) -> None:
        """Training begins anew, with all workers: chief_init_op forgets who was gone."""
        self._lost, self._counted = 0, self._aggregate
        self._gone.clear()

    def lose_workers(self, session: Any, lost: int) -> None:
        """`lost` of the workers are gone for good; a round that waits for them goes on with those that are left.

        FailedPreconditionError when nobody is.
        """
        self._built("lose_workers")
        if lost >= self._total:
            raise errors.FailedPreconditionError(f"SyncReplicasOptimizer: {lost} of {self._total} workers are gone; "
                                                 "restore the newest checkpoint with new ones")
        with self._losing:
            self._lost = lost
            self._wait_for(session)

    def count_first(self, session: Any, gradients: int) -> None:
        """From now on the first `gradients` of a step count, at most `replicas_to_aggregate`: the rest are backups."""
        self._built("count_first")
        if not 1 <= gradients <= self._aggregate:
            raise errors.InvalidArgumentError(f"SyncReplicasOptimizer: {gradients} gradients are to count, but it was made for "
                                              f"1 to {self._aggregate}")
        with self._losing:
            self._counted = gradients
            self._wait_for(session)

    @property
    def backups(self) -> int:
        """How many of all workers the newest rounds do not wait for."""
        return max(0, self._total - self._counted)

    def _adapt(self, session: Any) -> None:
        """Choose anew how many gradients count, from how long the newest ones took."""
        taken: dict[str, list[float]] = {}
        for name, seconds in zip(*session.run(self.arrivals)):
            if task_of(name.decode()) not in self._gone:      # its old times say nothing of the rounds to come
                taken.setdefault(name.decode(), []).append(float(seconds))
        if taken:
            counted = min(self._aggregate, self._total - choose_backups(taken, self._total))
            if counted != self._counted:
                self.count_first(session, counted)

    def _wait_for(self, session: Any) -> None:
        session.run(self._resize, {self._members: min(self._total - self._lost, self._counted)})

    def follow(self, session: Any) -> None:
        """Until `session` is closed, lose a worker when its cluster loses the task that its gradients come from, or has lost
        it already."""
        self._built("follow")
        if not hasattr(session.backend, "cluster"):
            raise errors.InvalidArgumentError("SyncReplicasOptimizer.follow: the session runs in this process, whose "
                                              "workers are threads; it is for sessions on a cluster")

        def lost(task: str) -> None:
            with self._losing:
                self._gone.add(task)
                count = sum(task_of(worker) in self._gone for worker in self._workers)
                if count:
                    self.lose_workers(session, count)
        session.backend.when_lost(lost)

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SessionRunHook:
        """For MonitoredTrainingSession: on the chief it starts what applies the means, on each worker the worker's steps.
        `num_tokens` as in get_init_tokens_op."""
        return _SyncHook(self, is_chief, num_tokens)

    def get_chief_queue_runner(self) -> QueueRunner:
        """Applies the means, step after step; start it on the chief."""
        self._built("get_chief_queue_runner")
        return self._runner

    def get_init_tokens_op(self, num_tokens: int = -1) -> Operation:
        """Puts the first tokens (default: m) into the queue; run once, on the chief. With m ≤ n it is needed by nobody:
        workers begin with the step that they are initialised to."""
        step = self._built("get_init_tokens_op")
        count = self._aggregate if num_tokens < 0 else num_tokens
        if count < self._aggregate - self._total:
            raise errors.InvalidArgumentError(f"get_init_tokens_op: {count} tokens for {self._total} workers cannot "
                                              f"make {self._aggregate} gradients; use {self._aggregate - self._total} "
                                              "or more")
        if count == 0:
            return group(name="no_tokens")
        with near(step):
            return self._release(count, step)

    def _built(self, where: str) -> Variable:
        if self._global_step is None:
            raise errors.FailedPreconditionError(f"{where}: there is no training step yet; call minimize or "
                                                 "apply_gradients first")
        return self._global_step

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """The inner optimizer's."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """The inner optimizer's."""
        return self._opt.get_slot_names()

    def variables(self) -> list[Variable]:
        """The inner optimizer's."""
        return self._opt.variables()


class _Applying(QueueRunner):
    """Applies the means, round after round; its end cancels who waits for gradients. `look(session)` is called now and then."""

    def __init__(self, look: Callable[[Any], None] | None, *queue_and_operations: Any) -> None:
        super().__init__(*queue_and_operations)
        self._look, self._rounds = look, 0

    def _step(self, sess: Any, enqueue_op: Any) -> None:
        super()._step(sess, enqueue_op)
        self._rounds += 1
        if self._look is not None and self._rounds % _LOOK_ROUNDS == 0:
            self._look(sess)


def gathering(grad: Any, variable: Variable, name: str) -> ConditionalAccumulator:
    """An accumulator beside `variable` for gradients such as `grad`; it is empty when training is brought back. What it gives
    may be infinite where losses are scaled: such a round is left out."""
    kind = SparseConditionalAccumulator if isinstance(grad, IndexedSlices) else ConditionalAccumulator
    with near(variable):
        made = kind(variable.dtype, variable.shape, f"{variable.op.name}/{name}", name="accumulator")
    root_graph().add_to_collection(BEGUN_ANEW, made.accumulator_ref)
    if loss_scale_of() is not None:
        root_graph().loss_scales.add(made.accumulator_ref.op.name)
    return made


def sent(grad: Any, variable: Variable, accumulator: Any, step: Any, worker: str) -> Operation:
    """`worker` adds its gradient of `variable` at `step`."""
    with near(variable):
        if isinstance(grad, IndexedSlices):
            return accumulator.apply_indexed_slices_grad(grad, step, worker=worker)
        return accumulator.apply_grad(grad, step, worker=worker)


def applied(optimizer: Optimizer, means: Sequence[tuple[Any, Variable]], global_step: Variable) -> Operation:
    """The update of a round, after which there is a next one to wait for, even where it was left out since a gradient was not
    finite."""
    if loss_scale_of() is None:
        return optimizer.apply_gradients(means, global_step)
    with near(global_step):
        following = global_step.value() + 1
    with get_default_graph().control_dependencies([following]):
        update = optimizer.apply_gradients(means, global_step)
    with get_default_graph().control_dependencies([update]), near(global_step):
        return global_step.assign(following).op


class _SyncHook(SessionRunHook):
    """What makes a worker's session take part in synchronous training."""

    def __init__(self, optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int) -> None:
        self._optimizer, self._chief, self._tokens = optimizer, is_chief, num_tokens

    def begin(self) -> None:
        if self._chief:
            self._init, self._first = self._optimizer.chief_init_op, self._optimizer.get_init_tokens_op(self._tokens)
            self._runner = self._optimizer.get_chief_queue_runner()
        else:
            self._optimizer.get_chief_queue_runner()            # refuses an optimizer without a training step
            self._init = self._optimizer.local_step_init_op

    def after_create_session(self, session: Any, coord: Coordinator | None) -> None:
        if self._chief:
            self._optimizer.begin_membership()
        session.run(self._init)
        if self._chief:
            session.run(self._first)
            self._runner.create_threads(session, coord, daemon=True, start=True)
