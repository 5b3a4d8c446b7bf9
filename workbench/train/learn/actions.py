"""Training, evaluation and single runs of a graph that the program built, by the names of tf.contrib.learn.graph_actions."""
from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from workbench.core.graph.graph import Graph
from workbench.core.run.session import Session
from workbench.nn.contrib.framework import get_graph_from_inputs
from workbench.nn.variables import global_variables_initializer, local_variables_initializer
from workbench.train.optimizers.schedules import assert_or_get_global_step
from workbench.train.saving import summary
from workbench.train.saving.saver import default_saver, newest_checkpoint
from workbench.train.sessions.coordinator import Coordinator, start_queue_runners
from workbench.train.sessions.hooks import StopAtStepHook
from workbench.train.sessions.hooks_more import NanTensorHook
from workbench.train.sessions.monitored import MonitoredTrainingSession, Scaffold

__all__ = ["evaluate", "infer", "run_feeds", "run_feeds_iter", "run_n", "train"]

logger = logging.getLogger("workbench")


def _folder(where: str, output_dir: Any) -> str:
    if not output_dir:
        raise ValueError(f"{where}: Output directory should be non-empty {output_dir}.")
    return str(output_dir)


def train(graph: Graph, output_dir: Any, train_op: Any, loss_op: Any, global_step_tensor: Any = None, init_op: Any = None,
          init_feed_dict: Any = None, init_fn: Any = None, log_every_steps: int = 10, supervisor_is_chief: bool = True,
          supervisor_master: str = "", supervisor_save_model_secs: float = 600, keep_checkpoint_max: int = 5,
          supervisor_save_summaries_steps: int = 100, feed_fn: Callable[[], Any] | None = None, steps: int | None = None,
          fail_on_nan_loss: bool = True, monitors: Iterable[Any] | None = None, max_steps: int | None = None) -> Any:
    """Run `train_op` for `steps` steps, or until `max_steps` in all, or to the end of the input; the last loss.

    `feed_fn()` gives what each step is fed. Checkpoints and summaries go to `output_dir`, where training goes on.
    NanLossDuringTrainingError where the loss is no number, unless `fail_on_nan_loss` is false: then training ends. ValueErrors
    without a folder, a training operation or a loss, and for both numbers of steps.
    """
    folder = _folder("train", output_dir)
    if train_op is None or loss_op is None:
        raise ValueError(f"train: Missing {'train_op' if train_op is None else 'loss_op'}.; build the model first")
    if steps is not None and max_steps is not None:
        raise ValueError("train: Can not provide both steps and max_steps.")
    loss = None
    with graph.as_default():
        assert_or_get_global_step(graph, global_step_tensor)
        hooks = [NanTensorHook(loss_op, fail_on_nan_loss), *(monitors or ())]
        if steps is not None or max_steps is not None:
            hooks.append(StopAtStepHook(num_steps=steps, last_step=max_steps))
        scaffold = Scaffold(init_op=init_op, init_feed_dict=init_feed_dict, init_fn=init_fn,
                            saver=default_saver(max_to_keep=keep_checkpoint_max))
        with MonitoredTrainingSession(
                supervisor_master, supervisor_is_chief, folder, scaffold, hooks,
                save_checkpoint_secs=supervisor_save_model_secs, save_summaries_steps=supervisor_save_summaries_steps,
                log_step_count_steps=log_every_steps) as session:
            while not session.should_stop():
                loss = session.run([loss_op, train_op], feed_dict=None if feed_fn is None else feed_fn())[0]
    return loss


def evaluate(graph: Graph, output_dir: Any, checkpoint_path: Any, eval_dict: Mapping[str, Any], update_op: Any = None,
             global_step_tensor: Any = None, supervisor_master: str = "", log_every_steps: int = 10,
             feed_fn: Callable[[], Any] | None = None, max_steps: int | None = None) -> tuple[dict[str, Any] | None, int]:
    """(values of `eval_dict` after `max_steps` runs of `update_op` or to the end of the input, global step).

    Variables begin as the checkpoint (a path, or the newest of a folder) says, without one as they are initialized.
    `feed_fn()` gives what each run is fed. The values are also written as summaries to `output_dir`. ValueError without a
    folder.
    """
    folder, values, count = _folder("evaluate", output_dir), None, 0
    with graph.as_default():
        step = assert_or_get_global_step(graph, global_step_tensor)
        with _started(checkpoint_path, supervisor_master) as session:
            number = int(session.run(step))
            try:
                while max_steps is None or count < max_steps:
                    feeds = None if feed_fn is None else feed_fn()
                    if update_op is not None:
                        session.run(update_op, feed_dict=feeds)
                    last = count + 1 == max_steps or (count + 1) % log_every_steps == 0
                    if update_op is None or last:
                        values = session.run(dict(eval_dict), feed_dict=feeds)
                    count += 1
            except (StopIteration, IndexError) as ended:      # the end of the input, as generators and queues tell it
                logger.info("evaluation ended after %d runs: %s", count, ended)
    with summary.FileWriter(folder) as writer:
        writer.add_summary(summary.numbers(values or {}), number)
    return values, number


@contextlib.contextmanager
def _started(checkpoint_path: Any, master: str) -> Iterator[Session]:
    """A session in which variables are initialized, or as the checkpoint says, and queues are filled until the block ends."""
    with Session(master) as session:
        session.run([global_variables_initializer(), local_variables_initializer()])
        if checkpoint_path:
            default_saver().restore(session, newest_checkpoint(str(checkpoint_path)) or str(checkpoint_path))
        coordinator = Coordinator()
        threads = start_queue_runners(session, coordinator)
        try:
            yield session
        finally:
            coordinator.request_stop()
            coordinator.join(threads)


def run_feeds_iter(output_dict: Mapping[str, Any], feed_dicts: Iterable[Any],
                   restore_checkpoint_path: Any = None) -> Iterator[dict[str, Any]]:
    """The values of `output_dict` for each of `feed_dicts`, after the checkpoint was restored, or all variables initialized.

    ValueErrors for an empty dictionary, and for no feeds.
    """
    if not output_dict:
        raise ValueError(f"run_feeds: output_dict is invalid: {output_dict}.; name what shall be computed")
    if not feed_dicts:
        raise ValueError(f"run_feeds: feed_dicts is invalid: {feed_dicts}.; give a dictionary, or None, for each run")
    graph = get_graph_from_inputs(list(output_dict.values()))
    with graph.as_default(), _started(restore_checkpoint_path, "") as session:
        for feeds in feed_dicts:
            yield session.run(dict(output_dict), feeds)


def run_feeds(output_dict: Mapping[str, Any], feed_dicts: Iterable[Any], restore_checkpoint_path: Any = None) -> list[Any]:
    """The list of what run_feeds_iter gives."""
    return list(run_feeds_iter(output_dict, feed_dicts, restore_checkpoint_path))


def run_n(output_dict: Mapping[str, Any], feed_dict: Any = None, restore_checkpoint_path: Any = None, n: int = 1) -> list[Any]:
    """The values of `output_dict` of `n` runs with the same feeds."""
    return run_feeds(output_dict, itertools.repeat(feed_dict, n), restore_checkpoint_path)


def infer(restore_checkpoint_path: Any, output_dict: Mapping[str, Any], feed_dict: Any = None) -> dict[str, Any]:
    """The values of `output_dict` of one run."""
    return run_feeds(output_dict, [feed_dict], restore_checkpoint_path)[0]
