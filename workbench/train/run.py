"""The training loop that survives: steps, checkpoints beside them, and going on after any task was lost."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.nn.lookups import local_initializer
from workbench.nn.variables import group
from workbench.train.saving.saver import Saver
from workbench.train.sessions.hooks import SessionRunHook, StopAtStepHook
from workbench.train.sessions.monitored import MonitoredTrainingSession, Scaffold

__all__ = ["run"]


def run(fetches: Any, master: Any = None, *, steps: int, folder: Any, feed: Any = None, init: Sequence[Any] = (),
        on_step: Callable[[Any], None] | None = None, save_secs: Any = "auto", save_steps: int | None = None, keep: int = 5,
        hooks: Sequence[SessionRunHook] = ()) -> Any:
    """Run `fetches`, one of which updates the model and its global step, until the global step is `steps`; returns the
    last step's values, None when there was nothing left to do.

    `master` is what Session takes: None for this process, a cluster. Training begins with the newest checkpoint of `folder`
    (a path or URL) that is whole, or with initial values, and saves there every `save_secs` seconds ("auto": as often as
    slows training down by 2 % at most) or `save_steps` steps; `keep` checkpoints stay. `init` are operations that run
    before training, also after a loss: initializers of dataset iterators. `feed` is a feed dictionary, or a function of the
    global step that returns one: input n belongs to step n, whatever was lost in between. `on_step` is called with the values
    of each step; after a loss, again with those since the checkpoint.

    When a task of a cluster is lost, killed or hangs, all tasks are opened anew on Dask workers that answer, and training
    goes on from the newest checkpoint: variables, slots, counters, random generators, positions in datasets. Of synchronous
    steps the end is the same as without the loss. Raises FailedPreconditionError without a global step, and what a step or a
    checkpoint raised that no recovery helps against.
    """
    if steps < 0 or keep < 0:
        raise errors.InvalidArgumentError(f"run: steps is {steps} and keep {keep}; both are 0 or more")
    local = group(local_initializer(), *init, name="run_init")
    scaffold = Scaffold(local_init_op=local, saver=Saver(max_to_keep=keep, name="run_save"))
    values = None
    with MonitoredTrainingSession(master, checkpoint_dir=folder, scaffold=scaffold, save_checkpoint_secs=save_secs,
                                  save_checkpoint_steps=save_steps, hooks=[_Until(last_step=steps), *hooks]) as session:
        while not session.should_stop():
            values = session.run(fetches, feed)
            if on_step is not None:
                on_step(values)
    return values


class _Until(StopAtStepHook):
    """Stops before the first step, too, where a checkpoint is at the end already."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        super().after_create_session(session, coord)
        if coord is not None and self._now(session) >= (self._last or 0):
            coord.request_stop()
