"""`workbench train`: run a trainer, show it, stop it cleanly on Ctrl-C, and write the report."""
from __future__ import annotations

import json
import math
import os
import signal
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from workbench import errors
from workbench.commands.screen import duration, number, percent, screen
from workbench.core.run.gate import gate
from workbench.core.run.interrupts import deferred_interrupt
from workbench.core.trace import Journal, journal
from workbench.train.progress import Progress, Trainer

__all__ = ["STOPPED", "Options", "train_mnist"]

OK, FAILED, STOPPED = 0, 1, 130      # 128 + SIGINT, as shells have it
WriteReport = Callable[[Path, Journal, str, dict[str, str]], Any]


@dataclass(frozen=True)
class Options:
    """What the user chose."""

    ps: int = 2
    worker: int = 2
    mode: str = "async"
    steps: int = 1000
    batch_size: int = 100
    learning_rate: float = 0.1
    seed: int = 0
    local: bool = False
    report: Path | None = None
    trace: Path | None = None
    checkpoint_dir: Path | None = None
    backups: int | str = 0
    staleness: int = 0

    @property
    def processes(self) -> str:
        """"2 ps, 1 worker", as headlines have it."""
        return f"{f'{self.ps} ps, ' if self.ps else ''}{self.worker} worker{'s' if self.worker != 1 else ''}"

    @property
    def way(self) -> str:
        """The mode and its number, as headlines have them: "sync", "backup 1", "stale 3"."""
        number = {"backup": f" {self.backups}", "stale": f" {self.staleness}"}.get(self.mode, "")
        return f"{self.mode}{number}"

    @property
    def title(self) -> str:
        where = "this process" if self.local else self.processes.replace(",", " ·")
        return f"Training MNIST · {where} · {'one replica' if self.local else self.way} · " \
               f"{self.steps} steps of {self.batch_size}"


@dataclass
class _Run:
    """What happened so far, for the summary."""

    begin: float = field(default_factory=time.monotonic)
    last: Progress | None = None
    loss: float | None = None
    accuracy: float | None = None
    stopping: bool = False

    def note(self, record: Progress) -> None:
        self.last = record
        self.loss = self.loss if record.loss is None else record.loss
        self.accuracy = self.accuracy if record.accuracy is None else record.accuracy


def train_mnist(options: Options, console: Console | None = None, *, trainer: Trainer | None = None,
                load: Callable[[], Any] | None = None,
                cluster: Callable[[Options], AbstractContextManager[Any]] | None = None,
                write_report: WriteReport | None = None) -> int:
    """Train, show, summarise, report; returns the exit code: 0, 1 after an error, 130 when stopped by Ctrl-C.

    Whoever embeds or tests the command may pass their own trainer, data, cluster and report writer.
    """
    console = console or Console()
    run = _Run()
    try:
        _check_mode(options)
        _check_writable(options)
        with console.status("looking for MNIST ..."):
            data = _announced(load or _load, console)
        with (_started(console, options, cluster or _cluster) as target, screen(console, options.title) as view,
              _interrupts(run, view.line)):
            run.begin = time.monotonic()
            records = (trainer or _trainer())(
                data, target, mode=options.mode, steps=options.steps, batch_size=options.batch_size,
                learning_rate=options.learning_rate, seed=options.seed,
                checkpoint_dir=None if options.checkpoint_dir is None else str(options.checkpoint_dir),
                backups=options.backups, staleness=options.staleness)
            _watch(records, run, view.show)
            facts = _facts(options, run, getattr(data, "source", "mnist"))
        return _finish(console, options, run, facts, write_report or _report)
    except errors.Error as problem:
        console.print(f"error: {problem}", style="red", highlight=False, markup=False, soft_wrap=True)
        return FAILED
    except KeyboardInterrupt:
        console.print("stopped at once", highlight=False)
        return STOPPED


@contextmanager
def _started(console: Console, options: Options,
             cluster: Callable[[Options], AbstractContextManager[Any]]) -> Iterator[Any]:
    """The cluster; a terminal says meanwhile what it waits for."""
    with ExitStack() as stack:
        with nullcontext() if options.local else console.status(f"starting {options.processes} ..."):
            target = stack.enter_context(cluster(options))
        yield target


def _watch(records: Iterator[Progress], run: _Run, show: Callable[[Progress], None]) -> None:
    """Show every record until the end or until the user has had enough; the trainer is always closed."""
    try:
        for record in records:
            run.note(record)
            show(replace(record, loss=run.loss, accuracy=run.accuracy))      # the newest known ones
            if run.stopping:
                break
    except errors.CancelledError:
        if not run.stopping:
            raise
    finally:
        close = getattr(records, "close", None)
        if close is not None:
            close()
        if run.stopping:
            gate.resume()        # what was asked to stop has stopped


@contextmanager
def _interrupts(run: _Run, line: Callable[[str], None]) -> Iterator[None]:
    """The first Ctrl-C lets the step at hand end and then stops; the second stops at once."""
    def handle(number: int, frame: types.FrameType | None) -> None:
        if run.stopping:
            raise KeyboardInterrupt
        run.stopping = True
        gate.stop()
        # a handler must not print: the thread it interrupted may be in the middle of writing to the same stream
        told.append(threading.Thread(target=line, args=("stopping after this step (Ctrl-C again stops at once) ...",)))
        told[0].start()

    told: list[threading.Thread] = []
    if threading.current_thread() is not threading.main_thread():
        yield                # signals belong to the main thread alone
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        for thread in told:
            thread.join()


def _finish(console: Console, options: Options, run: _Run, facts: dict[str, str], write_report: WriteReport) -> int:
    """Summary and report; the exit code."""
    done, wanted = (run.last.step, run.last.steps) if run.last else (0, options.steps)
    unfinished = run.stopping and done < wanted
    console.print(f"{'stopped at' if unfinished else 'finished'} step {done}/{wanted}: "
                  + ", ".join(f"{key} {value}" for key, value in facts.items() if key in SUMMARY),
                  highlight=False, soft_wrap=True)
    if options.report is not None:
        with console.status("writing the report ..."), _writing(options.report):
            write_report(options.report, journal, options.title, facts)
        console.print(f"report: {options.report}", highlight=False, soft_wrap=True)
    if options.trace is not None:
        with console.status("writing the trace ..."), _writing(options.trace):
            _write_trace(options.trace, journal)
        console.print(f"trace: {options.trace}; open it at https://ui.perfetto.dev", highlight=False, soft_wrap=True)
    if run.loss is not None and not math.isfinite(run.loss):
        raise errors.OutOfRangeError(f"train mnist: the loss is {run.loss} at step {done} with learning rate "
                                     f"{options.learning_rate}; try a smaller --learning-rate")
    return STOPPED if unfinished else OK


SUMMARY = ("accuracy", "loss", "time", "steps/s")


def _facts(options: Options, run: _Run, source: str) -> dict[str, str]:
    elapsed = time.monotonic() - run.begin
    done = run.last.step if run.last else 0
    return {"data": "MNIST" if source == "mnist" else f"scikit-learn's {source}; MNIST was not found",
            "accuracy": percent(run.accuracy), "loss": number(run.loss, ".4f"), "steps": f"{done} of {options.steps}",
            "time": duration(elapsed), "steps/s": number(done / elapsed if elapsed else None, ".1f"),
            "tasks": "this process" if options.local else options.processes,
            "mode": options.way, "batch size": str(options.batch_size), "learning rate": str(options.learning_rate),
            "seed": str(options.seed)}


def _check_mode(options: Options) -> None:
    """Say now, not when the tasks are up, that they do not fit the mode."""
    from workbench.train.replicas import check_mode

    ps, worker = (0, 1) if options.local else (options.ps, options.worker)
    check_mode(options.mode, worker, ps, options.backups, options.staleness)


def _check_writable(options: Options) -> None:
    """Say now, not after training, that a result cannot be kept."""
    for option, path in (("--report", options.report), ("--trace", options.trace)):
        if path is None:
            continue
        folder = path.absolute().parent
        if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
            raise errors.InvalidArgumentError(f"{option} {path}: {folder} is not a folder that a file can be written to, "
                                              "or the path is a folder itself; choose another path")
    if options.checkpoint_dir is not None:
        with _writing(options.checkpoint_dir):
            options.checkpoint_dir.mkdir(parents=True, exist_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise errors.FailedPreconditionError(f"{path}: it cannot be written ({problem.strerror}); "
                                             "choose another path") from problem


def _announced(load: Callable[[], Any], console: Console) -> Any:
    """The data, with what the loader warns of as one line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        data = load()
    for warning in caught:
        console.print(f"note: {warning.message}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    return data


def _load() -> Any:
    from workbench.io.datasets import load_mnist

    return load_mnist(one_hot=True)


def _trainer() -> Trainer:
    with deferred_interrupt():
        from workbench.train.mnist import train
    trainer: Trainer = train
    return trainer


def _cluster(options: Options) -> AbstractContextManager[Any]:
    if options.local:
        return nullcontext()
    with deferred_interrupt():
        from workbench.cluster.chief.cluster import Cluster
    cluster: AbstractContextManager[Any] = Cluster(None, ps=options.ps, worker=options.worker)
    return cluster


def _write_trace(path: Path, records: Journal) -> None:
    from workbench.viz.chrome import to_chrome

    path.write_text(json.dumps(to_chrome(records.spans_since(0)[2], records), separators=(",", ":")), encoding="utf-8")


def _report(path: Path, records: Journal, title: str, facts: dict[str, str]) -> Any:
    from workbench.viz.report import write_report

    return write_report(path, records, title, facts)
