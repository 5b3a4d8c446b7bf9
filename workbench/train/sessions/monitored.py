"""A session that initialises, restores or waits, calls hooks around each step, recovers from lost tasks, and stops."""
from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from workbench import errors
from workbench.core import trace
from workbench.core.graph.graph import get_default_graph
from workbench.core.run.session import Session
from workbench.nn.variables import GraphKeys, global_variables, global_variables_initializer, report_uninitialized_variables
from workbench.train.optimizers.schedules import get_global_step, get_local_step
from workbench.train.patience import wait_until
from workbench.train.saving import summary
from workbench.train.saving.checkpoints import Checkpointer
from workbench.train.saving.intervals import Interval
from workbench.train.saving.saver import default_saver
from workbench.train.sessions.coordinator import Coordinator, start_queue_runners
from workbench.train.sessions.ending import Ending
from workbench.train.sessions.hooks import (
    CheckpointSaverHook,
    SessionRunArgs,
    SessionRunHook,
    SummarySaverHook,
)
from workbench.train.sessions.hooks_more import StepCounterHook
from workbench.train.sessions.recovery import (
    LOSSES,
    Attempts,
    Event,
    Hands,
    Lost,
    Mark,
    Progress,
    Recovery,
    Reopened,
    follow,
)
from workbench.train.sessions.scaffold import Scaffold, kept, local_init
from workbench.train.sessions.wrapped import run_with, told

__all__ = ["MonitoredTrainingSession", "Scaffold"]

logger = logging.getLogger("workbench")


class MonitoredTrainingSession:
    """The chief initialises, or restores the newest checkpoint of `checkpoint_dir`, and saves there; other workers wait
    until the variables have values. Both start queue runners and call hooks; one `run` is one step.

    Use: `with MonitoredTrainingSession(...) as session: while not session.should_stop(): session.run(train_op)`. The
    end of the input (OutOfRangeError), and StopIteration, end the block without an error.

    Checkpoints are written beside the steps, every `save_checkpoint_secs` seconds ("auto": as often as costs 2 % at most) or
    `save_checkpoint_steps` global steps, and hold how far random generators and dataset iterators are. Summaries are
    written to `checkpoint_dir` every `save_summaries_steps` steps or `save_summaries_secs` seconds (None: not), with
    `log_step_count_steps` also how many steps a second makes. When a task of a cluster is lost, the chief
    opens the cluster's tasks anew on the Dask workers that are left, restores the newest checkpoint that is whole and runs
    the step again; without a `checkpoint_dir` there is nothing to go on from and the error is raised. A loss before the
    session is made is no exception: where there is no checkpoint yet it begins anew with initial values. In a process of its
    own AbortedError and UnavailableError, of hooks and operations, are followed by a new session with the newest checkpoint or
    else initial values. Nothing is saved where no interval is given.
    DeadlineExceededError when the chief's variables have no values within `max_wait_secs`.
    """
    _writer: summary.FileWriter | None = None
    _number: int | None      # the next step's, once somebody asked for it

    def __init__(self, master: Any = None, is_chief: bool = True, checkpoint_dir: Any = None,
                 scaffold: Scaffold | None = None, hooks: Sequence[SessionRunHook] | None = (),
                 chief_only_hooks: Sequence[SessionRunHook] | None = (), save_checkpoint_secs: Any = 600,
                 save_summaries_steps: int | None = None, save_summaries_secs: float | None = None, config: Any = None,
                 stop_grace_period_secs: float = 120, log_step_count_steps: int | None = None,
                 save_checkpoint_steps: int | None = None, max_wait_secs: float = 7200,
                 restore_from: str | None = None) -> None:
        self._chief, self._folder, self._grace, self._patience = (
            is_chief, checkpoint_dir or None, stop_grace_period_secs, max_wait_secs)
        self._scaffold = scaffold or Scaffold()
        self._saver = kept(self._scaffold.saver, "saver", GraphKeys.SAVERS) or (
            default_saver() if self._folder is not None and global_variables() else None)
        if self._saver is not None:
            self._saver.build()
        self._service: CheckpointSaverHook | None = None
        self._opening, self._anew, self._closed, self._restore_from = (master, config), 0, False, restore_from
        self._hooks = [*(hooks or ()), *((chief_only_hooks or ()) if is_chief else ())]
        if is_chief and self._folder is not None:
            self._hooks += self._services(save_checkpoint_secs, save_checkpoint_steps)
            self._hooks += self._reports(save_summaries_steps, save_summaries_secs, log_step_count_steps)
        for hook in self._hooks:
            hook.begin()
        self._checkpoints = self._service.checkpoints if self._service is not None else self._restoring()
        self._counter, self._local, self._number = get_global_step(), get_local_step(), None
        made = self._scaffold
        init, missing = kept(made.init_op, "init_op", GraphKeys.INIT_OP), kept(made.ready_op, "ready_op", GraphKeys.READY_OP)
        self._init = global_variables_initializer() if init is None else init
        self._local_init = local_init(made)
        self._missing = report_uninitialized_variables(global_variables()) if missing is None else missing
        self._ending = Ending(get_default_graph())
        self._session = self._opened(master, config)
        self._recovery = Recovery(led=not is_chief, alone=self._cluster() is None)
        self._hands = Hands(self._reopen, self._restore, lambda: self._can_recover())
        self._attempts = Attempts(lambda: self._generation())
        self._coord, self._stop, self._threads = Coordinator(), False, list[threading.Thread]()
        with contextlib.ExitStack() as undone:
            undone.callback(self._close)
            self._follow(Reopened(self._candidates()))
            undone.pop_all()

    def _services(self, seconds: Any, steps: int | None) -> list[SessionRunHook]:
        """What the chief does besides: save."""
        given = next((hook for hook in self._hooks if isinstance(hook, CheckpointSaverHook)), None)
        if given is not None and not seconds and not steps:      # who asks for no other interval has a hook of his own
            self._service = given
            return []
        if self._saver is None or not (seconds or steps):      # nothing is saved that nobody asked for
            return []
        self._service = CheckpointSaverHook(self._folder, None if steps else seconds, steps, self._saver)
        return [self._service]

    def _restoring(self) -> Checkpointer | None:
        """What restores the checkpoints of a folder to which this session saves none."""
        found = self._chief and self._folder is not None and self._saver is not None
        return Checkpointer(f"{self._folder}/model.ckpt", self._saver, Interval(None)) if found else None

    def _reports(self, steps: int | None, seconds: float | None, count: int | None) -> list[SessionRunHook]:
        """What the chief writes besides: summaries, and how fast steps are."""
        merged = None
        if steps or seconds:
            merged = kept(self._scaffold.summary_op, "summary_op", GraphKeys.SUMMARY_OP)
            merged = summary.merge_all() if merged is None else merged
        if merged is not None or count:
            self._writer = summary.FileWriter(self._folder)
        reports: list[SessionRunHook] = [] if merged is None else [
            SummarySaverHook(steps or None, seconds or None, summary_writer=self._writer, summary_op=merged)]
        return [*reports, StepCounterHook(count, summary_writer=self._writer)] if count else reports

    # the model
    def _opened(self, master: Any, config: Any) -> Session:
        """The session whose variables are to have values."""
        return self._ending.made(Session(master, config=config))

    def _prepare(self, path: str | None) -> None:
        """Make the model ready, and start what feeds the queues."""
        self._make_ready(path)
        self._number = None
        for hook in self._hooks:
            hook.after_create_session(self._session, self._coord)
        self._threads = start_queue_runners(self._session, self._coord)

    def _make_ready(self, path: str | None) -> None:
        """Give the variables values, those of a checkpoint if there is one, or wait for them."""
        if self._chief:
            self._fill(path)
        else:
            self._await_model()
        self._session.run(self._local_init)
        if path is not None and self._checkpoints is not None:
            self._checkpoints.refill(self._session, path)

    def _fill(self, path: str | None) -> None:
        if path is not None and self._checkpoints is not None:
            self._checkpoints.restore(self._session, path)
            if not len(self._session.run(self._missing)):
                return
        self._session.run(self._init, self._scaffold.init_feed_dict)
        if self._scaffold.init_fn is not None:
            self._scaffold.init_fn(self._scaffold, self._session)
        if self._restore_from is not None and self._saver is not None:
            self._saver.restore(self._session, self._restore_from)
        if path is not None and self._checkpoints is not None:      # again, over what the checkpoint does not know
            self._checkpoints.restore(self._session, path)

    def _await_model(self) -> None:
        if not wait_until(lambda: not len(self._session.run(self._missing)), self._patience, 0.2, self._coord.wait_for_stop,
                          "for the chief, which gives the variables their values"):
            missing = [name.decode() for name in self._session.run(self._missing)] or ["a variable"]
            raise errors.DeadlineExceededError(f"MonitoredTrainingSession: {missing[0]!r} and {len(missing) - 1} more "
                                               f"variables have no value after {self._patience:g} s; start the chief")

    @property
    def graph(self) -> Any:
        """The graph that the session runs."""
        return self._session.graph

    def _tf_sess(self) -> Any:
        """The session itself, for what programs run past the hooks."""
        return self._session

    @property
    def _sess(self) -> Any:
        """The session itself, which programs look for by going down until a class is called Session."""
        return self._session

    # steps
    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """One step, with what the hooks fetch and feed besides; after the loss of a task it is run again.

        `feed_dict` may be a function of the global step that the step begins with, with SyncReplicasOptimizer that for which
        its gradients count: after a loss that is an earlier one, and the step gets the input of then. It is for programs of
        which one thread counts steps.
        """
        self._ending.check()
        with self._tries() as tries:
            while True:
                mark = self._attempts.mark()
                try:
                    self._check_threads()
                    values = self._run(SessionRunArgs(fetches, self._fed(feed_dict)), options, run_metadata, tries)
                    self._recovery.handle(Progress())
                    self._tell_of_input(over=False)
                    return values
                except errors.OutOfRangeError:
                    lost = self._lost_in_a_thread()      # then a queue was closed because nobody fills it any more
                    if lost is None:
                        self._tell_of_input(over=True)
                        raise
                    self._recover(mark, lost)
                except LOSSES as loss:
                    self._recover(mark, loss)

    @contextlib.contextmanager
    def _tries(self) -> Iterator[contextlib.AbstractContextManager[Any]]:
        """What each try of a step stands in: where the chief restores nothing, the parameter servers count it once."""
        if self._chief or self._cluster() is None or not self._can_recover():
            yield contextlib.nullcontext()
            return
        tries = self._cluster().tries()
        try:
            yield tries
        finally:
            tries.over()

    def _tell_of_input(self, over: bool) -> None:
        if self._checkpoints is not None:
            self._checkpoints.input_over = over

    def _fed(self, feed_dict: Any) -> Any:
        if not callable(feed_dict):
            return feed_dict
        if self._counter is None:
            raise errors.FailedPreconditionError("MonitoredTrainingSession.run: feed_dict is a function of the global step but "
                                                 "there is none; call get_or_create_global_step() and pass it to minimize")
        if self._local is not None:      # not counted here: a worker that came late goes on with the newest step
            return feed_dict(int(self._session.run(self._local)))
        if self._number is None:
            self._number = int(self._session.run(self._counter))
        return feed_dict(self._number)

    def _run(self, asked: SessionRunArgs, options: Any, run_metadata: Any,
             tries: contextlib.AbstractContextManager[Any]) -> Any:
        values, stop = run_with(self._hooks, self._session, asked, options, run_metadata, tries)
        if self._number is not None:
            self._number += 1
        self._stop |= stop
        return values

    # losses
    def _check_threads(self) -> None:
        """What a thread that feeds a queue lost is lost for this step too, which might wait for its elements for ever."""
        if (loss := self._lost_in_a_thread()) is not None:
            raise loss

    def _lost_in_a_thread(self) -> errors.Error | None:
        """The loss that ended a thread which feeds a queue, if training can be brought back."""
        if self._coord.should_stop():
            try:
                self._coord.raise_requested_exception()
            except LOSSES as loss:
                return loss if self._can_recover() else None
            except Exception:      # raised by close()
                pass
        return None

    def _cluster(self) -> Any:
        """The cluster that the session's tasks are in, None where this process is alone."""
        return getattr(self._session.backend, "cluster", None)

    def _can_recover(self) -> bool:
        cluster = self._cluster()
        if cluster is None:      # another session takes the place of this one
            return True
        if not self._chief:      # the chief recovers what both see; a cluster of its own, this one reconnects to
            return getattr(cluster, "keeps_state", False)
        return hasattr(cluster, "recover") and (not self._recovery.begun or bool(self._candidates()))

    def _candidates(self) -> tuple[str, ...]:
        """The checkpoints there are to go on from, newest first."""
        return tuple(self._checkpoints.candidates()) if self._checkpoints is not None else ()

    def _generation(self) -> int:
        return self._anew if self._cluster() is None else getattr(self._cluster(), "generation", 0)

    def _recover(self, mark: Mark, loss: errors.Error) -> None:
        """Bring training back after a loss, unless another thread has done so, or tried, since."""
        if not self._can_recover():
            if self._checkpoints is not None and hasattr(self._cluster(), "recover"):
                loss.add_note(f"there is no checkpoint in {self._folder} to go on from")
            raise loss
        self._attempts.bring_back(mark, loss, lambda: self._follow(Lost(loss)))

    def _follow(self, event: Event) -> None:
        """Do what follows `event` until training can go on."""
        with told():
            follow(self._recovery, event, self._hands)

    def _restore(self, path: str | None) -> None:
        """Bring back the state of a checkpoint, begin without one, or wait for the chief, who does."""
        if path is not None and self._recovery.loss is not None:
            trace.journal.set_status(state="recovering", what=f"restoring {PurePath(path).name}", part=2, parts=2)
        self._prepare(path)

    def _reopen(self, because: errors.Error) -> tuple[str, ...]:
        fact = because.message.partition(";")[0]      # what else it says is for programs that do not go on
        logger.warning("workbench: %s; training goes on from %s", fact,
                       "the newest checkpoint" if self._chief else "what the chief restores")
        self._stop_threads()
        if self._checkpoints is not None:
            self._checkpoints.drop()
        if self._cluster() is None:
            with contextlib.suppress(errors.Error):      # of a session that is lost already
                self._session.close()
            self._session = self._opened(*self._opening)
            self._anew += 1
        else:
            self._cluster().recover(empty=self._chief)
        self._coord.clear_stop()
        return self._candidates()

    def _stop_threads(self) -> None:
        self._coord.request_stop()
        for thread in self._coord.feeding():      # those of hooks, too: else they would cancel what begins anew
            thread.join(self._grace)

    def should_stop(self) -> bool:
        """Has a hook, or a thread that feeds a queue, asked to stop?"""
        return self._stop or (self._coord.should_stop() and self._lost_in_a_thread() is None)

    def close(self) -> None:
        """Let the hooks end, stop the threads and close the session; closing twice is fine, except in TensorFlow's language."""
        self._ending.check()
        if self._closed:
            return
        try:
            for hook in self._hooks:
                hook.end(self._session)
        finally:
            self._close()

    def _close(self) -> None:
        self._closed = True
        self._ending.end()
        self._coord.request_stop()
        self._coord.join(self._threads, self._grace, ignore_live_threads=True)
        self._session.close()
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> MonitoredTrainingSession:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        clean = kind is None or issubclass(kind, (errors.OutOfRangeError, StopIteration))
        self._ending.check()
        if clean:
            self.close()
        elif not self._closed:
            self._close()
        return clean and kind is not None
