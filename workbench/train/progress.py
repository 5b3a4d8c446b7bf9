"""What a training loop tells whoever watches it: one small record now and then."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Protocol

__all__ = ["Progress", "Trainer"]


@dataclass(frozen=True)
class Progress:
    """Where training stands after `step` of `steps`; a trainer yields one whenever something is worth showing.

    The last record of a run that was not stopped has `step == steps`. `message` is a line for the log, such as
    "worker 1 joined" or "checkpoint model.ckpt-500".
    """

    step: int
    steps: int
    loss: float | None = None                # of the newest batch; None = not measured yet
    accuracy: float | None = None            # on the test part, 0..1; None = not measured yet
    steps_per_second: float | None = None    # over the recent past, all workers together
    message: str = ""

    def __repr__(self) -> str:
        """What was measured, in four digits, as a cell that ends with it shows it."""
        measured = [f"{one.name}={value:.4g}" for one in fields(self)
                    if isinstance(value := getattr(self, one.name), float)]
        said = [f"message={self.message!r}"] if self.message else []
        return f"Progress({', '.join([f'step={self.step}', f'steps={self.steps}', *measured, *said])})"


class Trainer(Protocol):
    """A function that trains and reports; closing the iterator early ends the training cleanly.

    `data` has `train`, `validation` and `test` parts with `images`, `labels` and `next_batch`; `cluster` is what a
    session takes as its target, None for this process alone. On Ctrl-C the process's gate is stopped, so that a step
    raises CancelledError; the trainer ends its other replicas and lets the error through (or returns).
    """

    def __call__(self, data: Any, cluster: Any = None, *, mode: str = "async", steps: int = 1000,
                 batch_size: int = 100, learning_rate: float = 0.1, seed: int = 0,
                 checkpoint_dir: str | None = None, backups: Any = 0, staleness: int = 0) -> Iterator[Progress]: ...
