"""Training in the background: a thread that consumes a trainer's records, and a handle to watch and end it."""
from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

from workbench import errors
from workbench.core.run.gate import gate
from workbench.train.progress import Progress

__all__ = ["Training"]


class Training:
    """A trainer at work in its own thread; `records` is what a trainer returns.

    `progress` is the newest record, with the newest known loss and accuracy. The process's Pause and Stop work as for any
    other run.
    """

    def __init__(self, records: Iterator[Progress]) -> None:
        self.progress = Progress(0, 0)
        self.stopped = False                 # ended before its last step, by stop() or by the panel's Stop
        self._records = records
        self._asked = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="workbench-training", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Is the thread alive?"""
        return self._thread.is_alive()

    def stop(self) -> Progress:
        """End after the steps at hand, also when paused, and return the last record. Stopping twice is fine."""
        self._asked.set()
        if self.running and gate.closed:
            gate.resume()                    # a step that is held back could never end
        return self.join()

    def join(self, timeout: float | None = None) -> Progress:
        """Wait for the end and return the last record; raises what ended the training, and DeadlineExceededError after
        `timeout` seconds (it goes on then)."""
        self._thread.join(timeout)
        if self.running:
            raise errors.DeadlineExceededError(f"Training.join: {self!r} after {timeout} s; wait longer or stop() it")
        if self._error is not None:
            raise self._error
        return self.progress

    def _run(self) -> None:
        try:
            try:
                for record in self._records:
                    self._note(record)
                    if self._asked.is_set():
                        break
            finally:
                self._end()
        except errors.CancelledError:
            self.stopped = True              # the panel's Stop
        except BaseException as error:       # handed to whoever joins, also one from the trainer's own clean-up
            self._error = error

    def _end(self) -> None:
        self.stopped = self.progress.step < self.progress.steps
        close = getattr(self._records, "close", None)
        if close is not None:
            close()

    def _note(self, record: Progress) -> None:
        before = self.progress
        known = {name: getattr(before, name) for name in ("loss", "accuracy") if getattr(record, name) is None}
        self.progress = replace(record, **known)

    @property
    def state(self) -> str:
        """ "running", "failed", "stopped" or "finished"."""
        return "running" if self.running else "failed" if self._error else "stopped" if self.stopped else "finished"

    @property
    def failed(self) -> str:
        """Why it failed, one line; "" when it did not."""
        error = self._error
        return f"{type(error).__name__}: {error}".partition("\n")[0] if error is not None and not self.running else ""

    def __repr__(self) -> str:
        now, state = self.progress, self.state
        values = [f"{name} {value:.4g}" for name, value in (("loss", now.loss), ("accuracy", now.accuracy))
                  if value is not None]
        where = f"{now.step} of {now.steps} steps" if now.steps else "no step yet"
        return f"<Training {state}: {where}" + "".join(f", {value}" for value in values) + (
            f": {self.failed}>" if self.failed else ">")
