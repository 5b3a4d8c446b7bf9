"""slim.learning.train: a loop of training steps under a Supervisor; programs may bring their own step."""
from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import get_default_graph
from workbench.core.graph.subgraph import root_graph
from workbench.nn.lookups import local_initializer
from workbench.nn.variables import group
from workbench.train.config import RunMetadata, RunOptions
from workbench.train.optimizers.schedules import get_or_create_global_step
from workbench.train.saving.saver import default_saver
from workbench.train.saving.timeline import Timeline
from workbench.train.sessions.supervisor import Supervisor
from workbench.train.sync import SyncReplicasOptimizer

__all__ = ["train", "train_step"]

logger = logging.getLogger("workbench")

_DEFAULT = Supervisor.USE_DEFAULT      # what is made from the graph; None leaves it out


def train_step(sess: Any, train_op: Any, global_step: Any, train_step_kwargs: dict[str, Any]) -> tuple[Any, bool]:
    """One step of `train`: (the loss, is it the end?). What of `train_step_kwargs` is there is asked: the tensors
    `should_log`, `should_stop`, and `should_trace`, which needs the folder `logdir` and may have a `summary_writer`."""
    if "should_trace" in train_step_kwargs and "logdir" not in train_step_kwargs:
        raise errors.InvalidArgumentError("train_step: logdir must be present in train_step_kwargs when should_trace is "
                                          "present; add the folder of the traces")
    began, traced = time.perf_counter(), None
    if "should_trace" in train_step_kwargs and sess.run(train_step_kwargs["should_trace"]):
        traced = RunMetadata()
        loss = sess.run(train_op, options=RunOptions(trace_level=RunOptions.FULL_TRACE), run_metadata=traced)
    else:
        loss = sess.run(train_op)
    took = time.perf_counter() - began
    asked: dict[str, Any] = {"step": global_step}
    asked.update((name, train_step_kwargs[name]) for name in ("should_log", "should_stop") if name in train_step_kwargs)
    told = sess.run(asked)
    if traced is not None:
        _keep_trace(traced, int(told["step"]), train_step_kwargs)
    if told.get("should_log"):
        logger.info("global step %d: loss = %.4f (%.3f sec/step)", told["step"], loss, took)
    return loss, bool(told.get("should_stop", False))


def _keep_trace(traced: RunMetadata, step: int, keywords: dict[str, Any]) -> None:
    path = os.path.join(os.fsdecode(keywords["logdir"]), f"tf_trace-{step}.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(Timeline(traced.step_stats).generate_chrome_trace_format())
    if keywords.get("summary_writer") is not None:
        keywords["summary_writer"].add_run_metadata(traced, f"run_metadata-{step}", step)


def train(train_op: Any, logdir: Any, train_step_fn: Callable[..., Any] = train_step, train_step_kwargs: Any = _DEFAULT,
          log_every_n_steps: int = 1, graph: Any = None, master: Any = "", is_chief: bool = True, global_step: Any = None,
          number_of_steps: int | None = None, init_op: Any = _DEFAULT, init_feed_dict: Any = None,
          local_init_op: Any = _DEFAULT, init_fn: Any = None, ready_op: Any = _DEFAULT, summary_op: Any = _DEFAULT,
          save_summaries_secs: float = 600, summary_writer: Any = _DEFAULT, startup_delay_steps: int = 0, saver: Any = None,
          save_interval_secs: float = 600, sync_optimizer: Any = None, session_config: Any = None,
          session_wrapper: Callable[[Any], Any] | None = None, trace_every_n_steps: int | None = None) -> Any:
    """Run `train_op` until the global step is `number_of_steps` (None: until the input ends); the last loss.

    Checkpoints and summaries go to `logdir`, the loss of every `log_every_n_steps`-th global step to the log (0: of none), the
    times of every `trace_every_n_steps`-th to a file of `logdir`. `train_step_fn(session, train_op, global_step,
    train_step_kwargs)` makes a step and says, beside the loss, whether it was the last. Workers begin when the chief has made
    `startup_delay_steps`. The graph is finalized. InvalidArgumentErrors (ValueErrors) for arguments that contradict each other.
    """
    optimizers = [sync_optimizer] if isinstance(sync_optimizer, SyncReplicasOptimizer) else list(sync_optimizer or ())
    _check(train_op, number_of_steps, startup_delay_steps, optimizers, None if logdir is not None else {
        "summary_op": summary_op is not _DEFAULT, "saver": saver is not None, "trace_every_n_steps": trace_every_n_steps})
    with (graph or get_default_graph()).as_default() as graph:
        step = get_or_create_global_step() if global_step is None else global_step
        keywords = train_step_kwargs
        local_init_op = local_initializer() if local_init_op is _DEFAULT else local_init_op
        local_init_op, ready_for_local = _together(optimizers, is_chief, local_init_op) if optimizers else (local_init_op, None)
        begins = [(one.get_init_tokens_op(), one.get_chief_queue_runner()) for one in optimizers if is_chief]
        if keywords is _DEFAULT:
            keywords = _asked(step, number_of_steps, log_every_n_steps, trace_every_n_steps if is_chief else None, logdir)
        supervisor = Supervisor(
            graph, ready_op, ready_for_local, is_chief, init_op, init_feed_dict, local_init_op, logdir, summary_op,
            saver or default_saver(), step, save_summaries_secs, save_interval_secs, summary_writer=summary_writer,
            init_fn=init_fn)
    if summary_writer is not None and isinstance(keywords, dict):
        keywords["summary_writer"] = supervisor.summary_writer
    loop = _Loop(supervisor, lambda session: train_step_fn(session, train_op, step, keywords), begins, session_wrapper,
                 0 if is_chief else min(startup_delay_steps, number_of_steps or startup_delay_steps))
    return loop.run(master, session_config)


def _check(train_op: Any, steps: int | None, delay: int, optimizers: Sequence[Any],
           without_folder: dict[str, Any] | None) -> None:
    wrong = next((name for name, given in (without_folder or {}).items() if given), None)
    if train_op is None:
        raise errors.InvalidArgumentError("slim.learning.train: train_op cannot be None; make one with create_train_op")
    if wrong is not None:
        raise errors.InvalidArgumentError(f"slim.learning.train: Cannot provide {wrong} because logdir=None; give a folder")
    if optimizers and delay > 0:
        raise errors.InvalidArgumentError(f"slim.learning.train: startup_delay_steps is {delay} but startup_delay_steps must "
                                          "be zero when sync_optimizer is supplied; workers wait for each other")
    if not all(isinstance(one, SyncReplicasOptimizer) for one in optimizers):
        raise errors.InvalidArgumentError(f"slim.learning.train: sync_optimizer is {optimizers}; `sync_optimizer` must be a "
                                          "tf.train.SyncReplicasOptimizer, or a list of them")
    if steps is not None and steps <= 0:
        raise errors.InvalidArgumentError(f"slim.learning.train: number_of_steps is {steps}; `number_of_steps` must be either "
                                          "None or a positive number")


def _together(optimizers: Sequence[SyncReplicasOptimizer], is_chief: bool, first: Any) -> tuple[Any, Any]:
    """(how local variables begin, what must be ready before) where replicas wait for each other."""
    with root_graph().control_dependencies([] if first is None else [first]):
        begin = group(*[one.chief_init_op if is_chief else one.local_step_init_op for one in optimizers])
    return begin, ops.concat([one.ready_for_local_init_op for one in optimizers], axis=0)


def _asked(step: Any, last: int | None, log_every: int, trace_every: int | None, logdir: Any) -> dict[str, Any]:
    """What `train_step` asks after each step."""
    with root_graph().name_scope("train_step"):
        made = {"should_stop": ops.greater_equal(step, last) if last else ops.constant(False)}
        if log_every > 0:
            made["should_log"] = ops.equal(ops.mod(step, log_every), 0)
        if trace_every is not None:
            made.update(should_trace=ops.equal(ops.mod(step, trace_every), 0), logdir=logdir)
    return made


class _Loop:
    """Sessions of a supervisor, one after the other where one was lost, and the steps in them."""

    def __init__(self, supervisor: Supervisor, step: Callable[[Any], tuple[Any, Any]], begins: Sequence[tuple[Any, Any]],
                 wrapper: Callable[[Any], Any] | None, delay: int) -> None:
        self._supervisor, self._step, self._begins, self._wrapper, self._delay = supervisor, step, begins, wrapper, delay
        self._loss: Any = None

    def run(self, master: Any, config: Any) -> Any:
        """The last loss."""
        while True:
            try:
                with self._supervisor.managed_session(master, config, start_standard_services=False) as session:
                    self._in_session(session if self._wrapper is None else self._wrapper(session))
                return self._loss
            except (errors.AbortedError, errors.UnavailableError) as lost:
                logger.info("slim.learning.train: the session was lost, training goes on with a new one (%s)", lost)

    def _in_session(self, session: Any) -> None:
        supervisor = self._supervisor
        if supervisor.is_chief:
            supervisor.start_standard_services(session)
            supervisor.start_queue_runners(session)
        while self._delay and int(session.run(supervisor.global_step)) < self._delay:
            if supervisor.coord.wait_for_stop(1.0):
                return
        for tokens, runner in self._begins:
            supervisor.start_queue_runners(session, [runner])
            session.run(tokens)
        self._steps(session)
        if supervisor.save_path is not None and supervisor.is_chief:
            supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)

    def _steps(self, session: Any) -> None:
        try:
            ended = False
            while not ended and not self._supervisor.should_stop():
                self._loss, ended = self._step(session)
            self._supervisor.request_stop()
        except errors.OutOfRangeError:
            logger.info("slim.learning.train: the input has ended")
