"""The main job in one call: train a digit classifier on parameter servers and report as it goes."""
from __future__ import annotations

import collections
import contextlib
import queue
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from workbench import errors
from workbench.core import trace
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.core.names import task_of
from workbench.core.run.session import Session
from workbench.nn.initializers import Zeros, glorot_uniform_initializer
from workbench.nn.scopes import get_variable, variable_scope
from workbench.nn.variables import global_variables_initializer
from workbench.train.divergence import Divergence
from workbench.train.optimizers.rules import GradientDescentOptimizer
from workbench.train.optimizers.schedules import get_or_create_global_step
from workbench.train.progress import Progress
from workbench.train.replicas import Replicas, Tower, replicate
from workbench.train.sessions.background import Training
from workbench.train.sessions.coordinator import Coordinator
from workbench.train.sessions.finite import first_not_finite
from workbench.train.sessions.hooks import SessionRunHook
from workbench.train.sessions.monitored import MonitoredTrainingSession
from workbench.train.sessions.recovery import LOSSES

__all__ = ["classifier", "fit", "start", "train"]

_HIDDEN = 128
_EVALUATE_SECONDS = 5.0    # between evaluations, where a tenth of the run takes longer
_REPORT_SECONDS = 0.1      # between progress records, and between the step numbers that views are told


def classifier() -> Tower:
    """784 pixels, one hidden layer of ReLU units, 10 classes; softmax cross-entropy averaged over the batch."""
    images = ops.placeholder("float32", [None, 784], name="images")
    labels = ops.placeholder("float32", [None, 10], name="labels")
    with variable_scope("hidden"):
        weights = get_variable("weights", [784, _HIDDEN], initializer=glorot_uniform_initializer())
        bias = get_variable("bias", [_HIDDEN], initializer=Zeros())
        hidden = ops.relu(ops.bias_add(ops.matmul(images, weights), bias))
    with variable_scope("output"):
        weights = get_variable("weights", [_HIDDEN, 10], initializer=glorot_uniform_initializer())
        bias = get_variable("bias", [10], initializer=Zeros())
        logits = ops.bias_add(ops.matmul(hidden, weights), bias)
    with logits.graph.name_scope("loss"):
        loss = ops.reduce_mean(ops.softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    with logits.graph.name_scope("accuracy"):
        right = ops.equal(ops.argmax(logits, 1), ops.argmax(labels, 1))
        accuracy = ops.reduce_mean(ops.cast(right, "float32"))
    return Tower(loss, (images, labels), {"accuracy": accuracy})


def train(data: Any, cluster: Any = None, *, mode: str = "async", steps: int = 1000, batch_size: int = 100,
          learning_rate: float = 0.1, seed: int = 0, checkpoint_dir: str | None = None, backups: Any = 0,
          staleness: int = 0) -> Iterator[Progress]:
    """Train on `data` (train/test parts with images, one-hot or class labels, next_batch) and yield Progress records.

    `cluster` is a `wb.Cluster` or None for this process; mode "mirror" leaves its servers alone. `mode`, `backups` and
    `staleness` are those of `replicate`. `steps` counts updates of
    the parameters. Closing the iterator ends training cleanly. Series "loss" and "accuracy" go to the journal for every view.
    Where all tasks are on this machine training goes on when one is lost, from checkpoints in a folder that is gone
    afterwards; elsewhere the loss is raised.
    """
    workers, servers = _tasks(cluster)
    servers = [] if mode == "mirror" else servers
    graph = Graph()
    graph.seed = seed
    with graph.as_default():
        with graph.device(servers[0] if servers else workers[0]):
            global_step = get_or_create_global_step()
        replicas = replicate(classifier, GradientDescentOptimizer(learning_rate), workers, servers, mode, global_step, backups,
                             staleness)
        initializer = global_variables_initializer()
    if cluster is not None and _is_here(cluster):
        yield from _surviving(cluster, graph, replicas, data, steps, batch_size, checkpoint_dir)
        return
    with Session(cluster, graph=graph) as session:
        session.run(initializer)
        yield from fit(session, replicas, data, steps, batch_size, checkpoint_dir)


def _is_here(cluster: Any) -> bool:
    """Are all tasks on this machine, so that they and this process see the same temporary folder?"""
    return all(urlsplit(address).hostname in ("127.0.0.1", "::1", "localhost") for address in cluster.addresses.values())


def _surviving(cluster: Any, graph: Graph, replicas: Replicas, data: Any, steps: int, batch_size: int,
               checkpoint_dir: str | None) -> Iterator[Progress]:
    """As `fit`, in a session that brings training back after a loss."""
    run, ended = _Run(None, replicas, data, steps, batch_size, stop_at_nan=True), None
    with tempfile.TemporaryDirectory(prefix="workbench-train-") as folder, contextlib.ExitStack() as stack:
        with graph.as_default():
            run.session = stack.enter_context(MonitoredTrainingSession(
                cluster, checkpoint_dir=folder, save_checkpoint_secs="auto", hooks=[_Begins(run)]))
        try:
            yield from run.progress(checkpoint_dir)
        except errors.OutOfRangeError as error:      # the session's block would end without it
            ended = error
    if ended is not None:
        raise ended
    if trace.journal.status.session == run._plain.name:      # as it ended: its session ran once more, to save
        trace.journal.set_status(state=run.outcome)


class _Begins(SessionRunHook):
    """Begins a run where its session does, at first and after each loss."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._run.begin(session, coord)


def fit(session: Session, replicas: Replicas, data: Any, steps: int = 1000, batch_size: int = 100,
        checkpoint_dir: str | None = None, stop_at_nan: bool = True) -> Iterator[Progress]:
    """Train `replicas`, in any mode, of a model of your own, whose towers feed (images, labels) and report "accuracy";
    variables go on from what they are. Yields Progress; closing the iterator ends training cleanly.

    A loss that is no finite number ends it, unless `stop_at_nan` is False, with an InvalidArgumentError that names the
    first operation whose value is not finite; so does one that has run away (`workbench/train/divergence.py`).
    """
    return _Run(session, replicas, data, steps, batch_size, stop_at_nan).progress(checkpoint_dir)


def start(session: Session, replicas: Replicas, data: Any, steps: int = 1000, batch_size: int = 100,
          stop_at_nan: bool = True) -> Training:
    """`fit` in a thread of its own: returns at once."""
    return Training(fit(session, replicas, data, steps, batch_size, stop_at_nan=stop_at_nan))


def _tasks(cluster: Any) -> tuple[list[str], list[str]]:
    if cluster is None:
        return ["/job:localhost/task:0"], []
    tasks = list(cluster.tasks)
    workers = [t for t in tasks if t.startswith("/job:worker")]
    return workers or tasks, [t for t in tasks if t.startswith("/job:ps")]


class _Run:
    """One training run: threads that step, and the records they leave.

    Its session may be one that brings training back after a loss and then calls `begin` again; `_plain` is the one inside.
    """

    session: Any
    _plain: Any

    def __init__(self, session: Any, replicas: Replicas, data: Any, steps: int, batch: int, stop_at_nan: bool) -> None:
        self.session = self._plain = session
        self.replicas, self.data, self.steps, self.batch, self._stop_at_nan = replicas, data, steps, batch, stop_at_nan
        self.loss: float | None = None
        self._data_lock, self._count_lock = threading.Lock(), threading.Lock()
        self._claimed = self._before = 0      # steps begun; global step
        self.done = self._inside = self._lives = 0      # steps done; those begun and not ended; how often it began
        self._left: set[int] = set()          # workers that are through
        self._coordinator: Any = None
        self._recent: collections.deque[float] = collections.deque(maxlen=200)
        self._tenth, self._evaluated, self._told = -1, 0.0, 0.0    # tenth of the run; when evaluated; when views heard
        self._stop = threading.Event()
        self._ended: queue.Queue[BaseException | None] = queue.Queue()
        self._at, self.outcome = ("", ""), "stopped"      # task and operation where a loss was no number
        self._divergence = Divergence()

    def progress(self, checkpoint_dir: str | None) -> Iterator[Progress]:
        if not self._lives:
            self.begin(self.session, Coordinator())
        self._tell(0, begins=True)
        trace.journal.set_status(state="running")
        threads = self._started()
        running, failed = len(threads), None
        try:
            while running or self._short():
                if not running:
                    again = self._started()
                    threads, running = [*threads, *again], len(again)
                try:
                    error = self._ended.get(timeout=_REPORT_SECONDS)
                    running -= 1
                    if error is not None:
                        self._explain(error)
                        raise error
                except queue.Empty:
                    pass
                self._look_after()
                yield self._record(self._accuracy(2000) if self._due() else None)
            final = self._record(self._accuracy(None), self._save(checkpoint_dir))
            self.outcome = "finished" if self.done >= self.steps else "stopped"
            trace.journal.set_status(state=self.outcome)
            yield final
        except GeneratorExit:
            trace.journal.set_status(state="stopped", cause="the program ended the training before its last step")
            raise
        except BaseException as error:
            failed = error
            raise
        finally:
            self._finish(threads, failed)

    def _started(self) -> list[threading.Thread]:
        found = [threading.Thread(target=self._work, args=(i,), name=f"wb-replica-{i}", daemon=True)
                 for i in range(len(self.replicas.steps))]
        for thread in found:
            thread.start()
        return found

    def _finish(self, threads: list[threading.Thread], failed: BaseException | None) -> None:
        """Nothing of the run goes on; a failure is the news again, though steps that were under way said that they run."""
        self._stop.set()
        self._release()
        for thread in threads:
            thread.join()
        with contextlib.suppress(errors.Error):                 # raised already, where it was the first
            self._coordinator.join()
        self._tell(self.done)
        if failed is not None:
            trace.journal.fail(self._plain.name, self.done, failed, *self._at)

    def begin(self, session: Session, coordinator: Coordinator) -> None:
        """The variables of `session` have their values: those to begin with, or those of a checkpoint after a loss."""
        self._plain, self._coordinator = session, coordinator
        self.replicas.start(session, coordinator)
        step = self.replicas.global_step
        reached = 0 if step is None else int(session.run(step))
        with self._count_lock:
            self._lives += 1
            if self._lives == 1:
                self._before = reached
            elif self.replicas.mode != "backup" or self.done < self.steps:      # else it is over
                self.done = reached - self._before
                self._claimed = self.done + self._inside      # which are tried again
        for worker in list(self._left):
            self.replicas.leave(session, worker)

    def _short(self) -> bool:
        """After a loss: have all workers ended without the last update, as they had counted a step that no checkpoint knows? In
        mode "backup" they end with the update itself."""
        if self._lives == 1 or self._stop.is_set() or self.replicas.mode == "backup":
            return False
        self.done = self._claimed = int(self.session.run(self.replicas.global_step)) - self._before
        if self._left and self.done < self.steps:
            self._left.clear()
            self.replicas.start(self._plain, self._coordinator)      # they come back
        return self.done < self.steps

    def _look_after(self) -> None:
        """What applies gradients of several workers may have failed."""
        if self._coordinator.should_stop() and not self._stop.is_set():
            try:
                self._coordinator.raise_requested_exception()
            except LOSSES:
                if self.session is self._plain:      # else the next step brings training back
                    raise

    def _explain(self, error: BaseException) -> None:
        """A step that waits for gradients to be applied finds its queue closed when they no longer are: raise why."""
        if isinstance(error, errors.OutOfRangeError) and self.replicas.mode == "backup":
            self._coordinator.raise_requested_exception()

    def _release(self) -> None:
        """Nobody waits for anybody any more."""
        self._coordinator.request_stop()
        if self.replicas.mode == "backup":
            with contextlib.suppress(errors.Error):             # the cluster may be lost
                self.replicas.finish(self._plain)

    def _due(self) -> bool:
        """Is it time to evaluate: after the first step, each tenth of the run, and some seconds?"""
        tenth, now = self.done * 10 // max(1, self.steps), time.perf_counter()
        if self.done == 0 or (tenth == self._tenth and now - self._evaluated < _EVALUATE_SECONDS):
            return False
        self._tenth, self._evaluated = tenth, now
        return True

    # stepping
    def _work(self, number: int) -> None:
        try:
            try:
                while not self._stop.is_set() and self._claim():
                    self._step(number)
            finally:
                self._leave(number)
        except BaseException as error:
            over = isinstance(error, (errors.OutOfRangeError, errors.CancelledError)) and self._over()
            self._stop.set()
            self._ended.put(None if over else error)
        else:
            self._ended.put(None)

    def _over(self) -> bool:
        """Has the last update been made, so that a step that waited for more gradients ends for nothing?"""
        return self.replicas.mode == "backup" and (self.done >= self.steps or self._stop.is_set())

    def _leave(self, number: int) -> None:
        """A worker is through; those that go on need not wait for it."""
        with contextlib.suppress(errors.Error):                 # the cluster may be lost, and this is no news
            if self.replicas.mode == "stale":
                self._left.add(number)
                self.replicas.leave(self._plain, number)
            elif self.replicas.mode == "backup" and self.done >= self.steps:
                self.replicas.finish(self._plain)

    def _claim(self) -> bool:
        with self._count_lock:
            if self.replicas.mode == "backup":                  # several workers' gradients are one update
                return self.done < self.steps
            self._claimed += 1
            self._inside += self._claimed <= self.steps
            return self._claimed <= self.steps

    def _step(self, number: int) -> None:
        towers = self.replicas.towers if len(self.replicas.steps) == 1 else [self.replicas.towers[number]]
        feed: dict[Any, Any] = {}
        for tower in towers:
            with self._data_lock:
                images, labels = self.data.train.next_batch(self.batch)
            feed.update(zip(tower.feeds, (images, one_hot(labels))))
        operation = self.replicas.steps[number]
        wanted = operation.outputs[0] if self.replicas.mode == "backup" else operation      # the step that its worker is at now
        losses, reached = self.session.run([[t.loss for t in towers], wanted], feed)
        times = self._count(float(np.mean(losses)), None if reached is None else int(reached) - self._before)
        for tower, loss in zip(towers, losses):
            if self._stop_at_nan and (times or not np.isfinite(loss)):
                raise self._diverged(tower, float(loss), feed, times)

    def _diverged(self, tower: Tower, loss: float, feed: dict[Any, Any], times: float) -> errors.InvalidArgumentError:
        """What to raise for a loss that is no number, said on every screen with the operation where that began, and for one
        that is so many times what it was."""
        first = first_not_finite(self._plain, tower.loss, feed)
        grown = f", {times:,.0f} times what it began with" if times else ""
        where = f", first in {first.words}" if first is not None else grown
        error = errors.InvalidArgumentError(f"training: the loss is {loss} at step {self.done} of {self.steps}{where}; lower "
                                            "the learning rate or check the input, or go on with stop_at_nan=False")
        at = (first.op if first is not None and first.op.device else tower.loss).device
        self._at = task_of(at), first.op.name if first is not None else ""
        trace.journal.fail(self._plain.name, self.done, error, *self._at)
        return error

    def _count(self, loss: float, reached: int | None) -> float:
        """Take in a step; see Divergence.times."""
        with self._count_lock:
            times = self._divergence.times(loss)
            self._inside -= reached is None
            self.done = self.done + 1 if reached is None else max(self.done, reached)
            step, self.loss = self.done, loss
            now = time.perf_counter()
            self._recent.append(now)
            tell = now - self._told > _REPORT_SECONDS
            self._told = now if tell else self._told
        if tell:
            self._tell(step)
        trace.journal.point("loss", step, loss)
        return times

    def _tell(self, step: int, begins: bool = False) -> None:
        trace.journal.count(step, self.steps, self._plain.name, begins)

    # reporting
    def _record(self, accuracy: float | None, message: str = "") -> Progress:
        with self._count_lock:
            recent = list(self._recent)
            rate = (len(recent) - 1) / (recent[-1] - recent[0]) if len(recent) > 1 and recent[-1] > recent[0] else None
            return Progress(self.done, self.steps, self.loss, accuracy, rate, message)

    def _accuracy(self, most: int | None) -> float:
        tower = self.replicas.towers[0]
        images, labels = self.data.test.images[:most], self.data.test.labels[:most]
        value = float(self.session.run(tower.metrics["accuracy"], dict(zip(tower.feeds, (images, one_hot(labels))))))
        trace.journal.point("accuracy" if most else "accuracy (test)", self.done, value)
        return value

    def _save(self, directory: str | None) -> str:
        if directory is None:
            return ""
        from workbench.train.saving.saver import Saver
        path = Saver(self.replicas.variables).save(self._plain, f"{directory}/model.ckpt", self.done)
        return f"checkpoint {path}"


def one_hot(labels: Any) -> Any:
    """Class numbers as one-hot float32 rows; rows that are one-hot already pass through."""
    if labels.ndim == 2:
        return np.asarray(labels, np.float32)
    if labels.size and int(labels.max()) > 9:
        raise errors.InvalidArgumentError(f"mnist: label {int(labels.max())} is not a digit; labels are 0 … 9")
    return np.eye(10, dtype=np.float32)[labels]
