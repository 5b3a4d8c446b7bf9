"""Evaluation of checkpoints: once, or of each new one as training makes them; as slim and tf.contrib.training have it."""
from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from workbench.core.graph.build import ops
from workbench.nn.initializers import Zeros
from workbench.nn.scopes import get_variable
from workbench.nn.variables import GraphKeys, get_collection
from workbench.train.optimizers.schedules import get_global_step
from workbench.train.saving import summary
from workbench.train.saving.saver import default_saver, newest_checkpoint
from workbench.train.sessions.hooks import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from workbench.train.sessions.hooks_more import FeedFnHook, FinalOpsHook
from workbench.train.sessions.managers import ChiefSessionCreator, MonitoredSession
from workbench.train.sessions.monitored import Scaffold

__all__ = ["StopAfterNEvalsHook", "SummaryAtEndHook", "checkpoints_iterator", "evaluate_once", "evaluate_repeatedly",
           "get_or_create_eval_step", "slim_evaluate_once", "slim_evaluation_loop", "wait_for_new_checkpoint"]

_EVAL_STEP = "eval_step"
_ALL: Any = object()      # summaries: those of the graph


def get_or_create_eval_step() -> Any:
    """The local counter of evaluations of the default graph, made at the first call."""
    found = get_collection(_EVAL_STEP)
    return found[0] if found else get_variable("eval_step", [], "int64", Zeros(), trainable=False,
                                               collections=[GraphKeys.LOCAL_VARIABLES, _EVAL_STEP])


def wait_for_new_checkpoint(checkpoint_dir: Any, last_checkpoint: str | None = None, seconds_to_sleep: float = 1,
                            timeout: float | None = None) -> str | None:
    """The newest checkpoint as soon as it is another than `last_checkpoint`; None after `timeout` seconds without one."""
    until = None if timeout is None else time.monotonic() + timeout
    while (found := newest_checkpoint(checkpoint_dir)) is None or found == last_checkpoint:
        if until is not None and time.monotonic() + seconds_to_sleep > until:
            return None
        time.sleep(seconds_to_sleep)
    return found


def checkpoints_iterator(checkpoint_dir: Any, min_interval_secs: float = 0, timeout: float | None = None,
                         timeout_fn: Callable[[], bool] | None = None) -> Iterator[str]:
    """Each new checkpoint, at most one every `min_interval_secs`. After `timeout` seconds without one it ends, or, with
    `timeout_fn`, when that says so."""
    last = None
    while True:
        found = wait_for_new_checkpoint(checkpoint_dir, last, timeout=timeout)
        if found is None:
            if timeout_fn is None or timeout_fn():
                return
            continue
        began, last = time.monotonic(), found
        yield found
        time.sleep(max(0.0, began + min_interval_secs - time.monotonic()))


class StopAfterNEvalsHook(SessionRunHook):
    """Stop after `num_evals` evaluations (None: at the end of the input)."""

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        self._count, self._step = num_evals, None

    def begin(self) -> None:
        self._step = get_or_create_eval_step().assign_add(1)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if self._count is not None and int(run_values.results) >= self._count:
            run_context.request_stop()


class SummaryAtEndHook(SessionRunHook):
    """Write summaries (default: all of the graph) once, at the end, to `summary_writer` or the folder `log_dir`."""

    def __init__(self, log_dir: Any = None, summary_writer: Any = None, summary_op: Any = None, feed_dict: Any = None) -> None:
        self._folder, self._writer, self._summary, self._feeds = log_dir, summary_writer, summary_op, feed_dict

    def begin(self) -> None:
        self._summary = summary.merge_all() if self._summary is None else self._summary
        self._step = get_global_step()

    def end(self, session: Any) -> None:
        if self._summary is None or (self._writer is None and self._folder is None):
            return
        writer = self._writer if self._folder is None else summary.FileWriter(self._folder)
        made = session.run(self._summary, self._feeds)
        writer.add_summary(made, 0 if self._step is None else int(session.run(self._step)))
        (writer.flush if self._folder is None else writer.close)()


def evaluate_once(checkpoint_path: str, master: Any = "", scaffold: Scaffold | None = None, eval_ops: Any = None,
                  feed_dict: Any = None, final_ops: Any = None, final_ops_feed_dict: Any = None,
                  hooks: Sequence[SessionRunHook] | None = None, config: Any = None) -> Any:
    """Restore one checkpoint, run `eval_ops` until a hook stops or the input ends, then `final_ops`; what they gave."""
    get_or_create_eval_step()
    last = FinalOpsHook(final_ops, final_ops_feed_dict)
    every: list[SessionRunHook] = [*(hooks or ()), last]
    if feed_dict is not None:
        every.append(FeedFnHook(lambda: feed_dict))
    creator = ChiefSessionCreator(scaffold, master, config, checkpoint_filename_with_path=checkpoint_path)
    with MonitoredSession(creator, every) as session:
        while eval_ops is not None and not session.should_stop():
            session.run(eval_ops)
    return last.final_ops_values


def evaluate_repeatedly(checkpoint_dir: Any, master: Any = "", scaffold: Scaffold | None = None, eval_ops: Any = None,
                        feed_dict: Any = None, final_ops: Any = None, final_ops_feed_dict: Any = None,
                        eval_interval_secs: float = 60, hooks: Sequence[SessionRunHook] | None = None, config: Any = None,
                        max_number_of_evaluations: int | None = None, timeout: float | None = None,
                        timeout_fn: Callable[[], bool] | None = None) -> Any:
    """evaluate_once of each new checkpoint, `max_number_of_evaluations` at most; what the last one gave."""
    found = None
    paths = checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn)
    for path in itertools.islice(paths, max_number_of_evaluations):
        found = evaluate_once(path, master, scaffold, eval_ops, feed_dict, final_ops, final_ops_feed_dict, hooks, config)
    return found


def _slim_hooks(count: int | None, more: Sequence[SessionRunHook], folder: Any, summaries: Any,
                feeds: Any) -> list[SessionRunHook]:
    """What ends an evaluation after `count` batches, `more`, and what writes summaries (None: none) at its end."""
    own = [] if summaries is None else [SummaryAtEndHook(folder, None, None if summaries is _ALL else summaries, feeds)]
    return [StopAfterNEvalsHook(count), *more, *own]


def slim_evaluate_once(master: Any, checkpoint_path: str, logdir: Any, num_evals: int | None = 1, initial_op: Any = None,
                       initial_op_feed_dict: Any = None, eval_op: Any = None, eval_op_feed_dict: Any = None,
                       final_op: Any = None, final_op_feed_dict: Any = None, summary_op: Any = _ALL,
                       summary_op_feed_dict: Any = None, variables_to_restore: Any = None, session_config: Any = None) -> Any:
    """evaluate_once of `num_evals` batches after `initial_op`, with summaries in `logdir`."""
    hooks = _slim_hooks(num_evals, (), logdir, summary_op, summary_op_feed_dict)
    saver = None if variables_to_restore is None else default_saver(variables_to_restore)
    scaffold = Scaffold(init_op=initial_op, init_feed_dict=initial_op_feed_dict, saver=saver)
    return evaluate_once(checkpoint_path, master, scaffold, ops.no_op() if eval_op is None else eval_op, eval_op_feed_dict,
                         final_op, final_op_feed_dict, hooks, session_config)


def slim_evaluation_loop(master: Any, checkpoint_dir: Any, logdir: Any, num_evals: int | None = 1, initial_op: Any = None,
                         initial_op_feed_dict: Any = None, init_fn: Any = None, eval_op: Any = None,
                         eval_op_feed_dict: Any = None, final_op: Any = None, final_op_feed_dict: Any = None,
                         summary_op: Any = _ALL, summary_op_feed_dict: Any = None, variables_to_restore: Any = None,
                         eval_interval_secs: float = 60, max_number_of_evaluations: int | None = None,
                         session_config: Any = None, timeout: float | None = None, hooks: Any = None) -> Any:
    """slim_evaluate_once of each new checkpoint, `max_number_of_evaluations` at most; what the last one gave."""
    every = _slim_hooks(num_evals, hooks or (), logdir, summary_op, summary_op_feed_dict)
    saver = None if variables_to_restore is None else default_saver(variables_to_restore)
    scaffold = Scaffold(initial_op, initial_op_feed_dict, init_fn and (lambda _, session: init_fn(session)), saver=saver)
    return evaluate_repeatedly(checkpoint_dir, master, scaffold, ops.no_op() if eval_op is None else eval_op,
                               eval_op_feed_dict, final_op, final_op_feed_dict, eval_interval_secs, every, session_config,
                               max_number_of_evaluations, timeout)
