"""Training and evaluation of an estimator, in one process by turns or in the tasks of a cluster side by side."""
from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.train.estimators.estimator import Estimator
from workbench.train.estimators.run_config import TaskType
from workbench.train.estimators.specs import EvalSpec, TrainSpec
from workbench.train.saving.saver import checkpoint_exists
from workbench.train.sessions.hooks import CheckpointSaverListener, SessionRunContext, SessionRunHook, SessionRunValues
from workbench.train.sessions.timer import SecondOrStepTimer

__all__ = ["train_and_evaluate"]

logger = logging.getLogger("workbench")
Results = tuple[dict[str, Any], list[Any]]


def train_and_evaluate(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec,
                       server: Callable[..., Any] | None = None) -> Results | None:
    """Train, evaluate and export, in the part that TF_CONFIG gives this process.

    Without a cluster it trains for `throttle_secs`, evaluates and exports, and so on until `max_steps` or the end of the input.
    In a cluster a task of variables ("ps") serves the others until the job is over, "chief" and "worker" train, "master" trains
    and evaluates its checkpoints, and "evaluator" evaluates each new checkpoint beside them, until one has `max_steps`; their
    `model_dir` must be one folder. `server(cluster_spec, task_type, task_id)` starts a server there, as wb.Server does.

    Who evaluates gets the metrics of the last evaluation and the paths of the last exports. TypeError for other arguments,
    InvalidArgumentErrors for a task that has no part, and without a `server` in a cluster.
    """
    for given, wanted in ((estimator, Estimator), (train_spec, TrainSpec), (eval_spec, EvalSpec)):
        if not isinstance(given, wanted):
            raise TypeError(f"train_and_evaluate: expected {wanted.__name__}, given {type(given).__name__}")
    kind, config = estimator.config.task_type, estimator.config
    evaluation = _Evaluation(estimator, train_spec, eval_spec)
    if kind == TaskType.EVALUATOR:
        if config.task_id > 0:
            raise errors.InvalidArgumentError("train_and_evaluate: For distributed training, there can only be one `evaluator` "
                                              f"task (with task id 0).  Given task id {config.task_id}")
        return _beside(evaluation, eval_spec)
    if not config.cluster_spec:
        return _by_turns(estimator, train_spec, eval_spec, evaluation)
    if kind not in (TaskType.PS, TaskType.CHIEF, TaskType.WORKER, TaskType.MASTER):
        raise errors.InvalidArgumentError(f"train_and_evaluate: Task type {kind} is not supported. Supported task types are "
                                          "chief, evaluator, master, ps and worker; look at the environment variable TF_CONFIG")
    if not config.master and kind != TaskType.PS:      # the only task of its cluster
        return _trained(estimator, train_spec, eval_spec, evaluation if kind == TaskType.MASTER else None)
    if server is None:
        raise errors.InvalidArgumentError(f"train_and_evaluate: TF_CONFIG makes this {kind} {config.task_id} of a cluster, "
                                          "whose tasks need a server; pass server=wb.Server")
    started = server(config.cluster_spec, kind, config.task_id)
    if kind == TaskType.PS:
        started.join()
        return None
    return _trained(estimator, train_spec, eval_spec, evaluation if kind == TaskType.MASTER else None)


class _Evaluation:
    """Evaluates and exports checkpoints, each once; `final` says that it was the last that there will be."""

    def __init__(self, estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec) -> None:
        self._estimator, self._train, self._eval = estimator, train_spec, eval_spec
        self._before: str | None = None
        self.final = False
        self.results: Results | None = None

    def newest(self, final: bool = False) -> None:
        """The newest checkpoint, where there is one that was not evaluated yet. It is the last where it has all its steps; and
        where `final` says so, and then it is evaluated again. One that the training removes meanwhile, for it has newer ones,
        is left for the newest of them."""
        path, spec = self._estimator.latest_checkpoint(), self._eval
        if (path is None or path == self._before) and not final:
            logger.info("evaluation waits for a %scheckpoint", "" if path is None else "new ")
            return
        self._before = path
        try:
            found = self._estimator.evaluate(spec.input_fn, spec.steps, spec.hooks, path, spec.name)
            most = self._train.max_steps
            self.final = final or (most is not None and found["global_step"] >= most)
            made = [exporter.export(self._estimator, os.path.join(self._estimator.model_dir, "export", exporter.name), path,
                                    found, self.final) for exporter in spec.exporters]
        except errors.NotFoundError:
            if checkpoint_exists(path) or self._estimator.latest_checkpoint() == path:
                raise
            logger.info("evaluation goes on with a newer checkpoint: the training has removed %s", path)
            return self.newest(final)
        self.results = found, made


class _StopAfter(SessionRunHook):
    """Stops when so many seconds are over; `stopped` says that it did."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self.stopped = seconds, False

    def begin(self) -> None:
        self._until = time.monotonic() + self._seconds

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self.stopped = time.monotonic() >= self._until
        if self.stopped:
            run_context.request_stop()


class _Evaluates(CheckpointSaverListener):
    """Evaluates the checkpoints of its own training, but not more often than every so many seconds."""

    def __init__(self, evaluation: _Evaluation, seconds: float) -> None:
        self._evaluation, self._timer = evaluation, SecondOrStepTimer(every_secs=seconds)

    def after_save(self, session: Any, global_step_value: int) -> None:
        if self._timer.should_trigger_for_step(global_step_value):
            self._timer.update_last_triggered_step(global_step_value)
            self._evaluation.newest()


def _by_turns(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec, evaluation: _Evaluation) -> Results | None:
    while not evaluation.final:
        pause = _StopAfter(eval_spec.throttle_secs)
        estimator.train(train_spec.input_fn, [*train_spec.hooks, pause], max_steps=train_spec.max_steps)
        evaluation.newest(final=not pause.stopped)
    return evaluation.results


def _trained(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec,
             evaluation: _Evaluation | None) -> Results | None:
    listeners = [] if evaluation is None else [_Evaluates(evaluation, eval_spec.throttle_secs)]
    estimator.train(train_spec.input_fn, train_spec.hooks, max_steps=train_spec.max_steps, saving_listeners=listeners)
    if evaluation is None:
        return None
    if not evaluation.final:
        evaluation.newest(final=True)
    return evaluation.results


def _beside(evaluation: _Evaluation, eval_spec: EvalSpec) -> Results | None:
    time.sleep(eval_spec.start_delay_secs)
    while True:
        began = time.monotonic()
        evaluation.newest()
        if evaluation.final:
            return evaluation.results
        time.sleep(max(0.0, eval_spec.throttle_secs - (time.monotonic() - began)))
