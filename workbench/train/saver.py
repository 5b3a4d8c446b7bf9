"""Saver: variables to checkpoints and back, through Session.run alone; which checkpoints to keep (paper §4.3)."""
from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape
from workbench.core.state import checkpoint
from workbench.nn.arguments import refuse
from workbench.nn.variables import Variable, global_variables, near, root_graph

__all__ = ["CheckpointState", "Saver", "checkpoint_exists", "get_checkpoint_state", "latest_checkpoint"]


@dataclass
class CheckpointState:
    """The newest checkpoint of a folder and all of them, oldest first."""

    model_checkpoint_path: str
    all_model_checkpoint_paths: list[str] = field(default_factory=list)


class Saver:
    """Saves and restores `var_list` (default: all global variables; a dictionary gives names in the checkpoint).

    The newest `max_to_keep` checkpoints stay (0 or None: all), and besides one for every
    `keep_checkpoint_every_n_hours`. With `sharded` the variables of each device asked for have a file of their own;
    with `allow_empty` a saver without variables saves and restores nothing. Reads and assignments are ordinary graph,
    made here: make the saver before the graph is finalized.
    """

    def __init__(self, var_list: Iterable[Variable] | Mapping[str, Variable] | None = None, reshape: bool = False,
                 sharded: bool = False, max_to_keep: int | None = 5, keep_checkpoint_every_n_hours: float = 10000.0,
                 name: str = "save", restore_sequentially: bool = False, saver_def: Any = None, builder: Any = None,
                 defer_build: bool = False, allow_empty: bool = False, write_version: Any = None,
                 pad_step_number: bool = False, save_relative_paths: bool = False, filename: str | None = None) -> None:
        refuse("Saver", "leave it out", saver_def=saver_def, builder=builder, defer_build=defer_build,
               pad_step_number=pad_step_number, filename=filename)
        self._variables = _named(global_variables() if var_list is None else var_list)
        devices = sorted({v.op.device for v in self._variables.values()})
        self._shards = {key: devices.index(v.op.device) for key, v in self._variables.items()} if sharded else None
        if not self._variables and not allow_empty:
            raise errors.InvalidArgumentError("Saver: there are 0 variables to save; make variables first or pass "
                                              "var_list")
        self._max, self._hours, self._reshape = max_to_keep or 0, keep_checkpoint_every_n_hours, reshape
        self._kept: list[tuple[str, float]] = []
        self._lock = threading.Lock()
        self._next_forever = time.time() + self._hours * 3600
        self._feeds: dict[str, Tensor] = {}
        self._assigns: dict[str, Tensor] = {}
        with root_graph().name_scope(name):
            for key, variable in self._variables.items():
                with near(variable):
                    self._feeds[key] = ops.placeholder(variable.dtype, variable.shape)
                    self._assigns[key] = variable.assign(self._feeds[key])

    # saving
    def save(self, sess: Any, save_path: Any, global_step: Any = None, latest_filename: str | None = None,
             meta_graph_suffix: str = "meta", write_meta_graph: bool = True, write_state: bool = True) -> str | None:
        """Write a checkpoint and return its path, `save_path` with "-step" when `global_step` (int or variable) is
        given; None where there is nothing to save.

        All variables are read in one step. Older checkpoints are removed only after the new one is complete. UnimplementedError
        for another `latest_filename` than "checkpoint" and for `write_state=False`: the folder always says what is newest.
        """
        _state_file("Saver.save", latest_filename)
        refuse("Saver.save", "the folder always says which checkpoint is newest", **{"write_state=False": not write_state})
        if not self._variables:
            return None
        step = global_step if global_step is None or isinstance(global_step, int) else int(sess.run(global_step))
        with self._lock:      # a supervisor's thread and the program itself may save the same step
            values = sess.run(list(self._variables.values()))
            arrays = {k: np.asarray(value, v.dtype.numpy) for (k, v), value in zip(self._variables.items(), values)}
            path = checkpoint.write(os.fspath(save_path), step, arrays, shards=self._shards)
            self._keep(str(path))
        return str(path)

    def _keep(self, path: str) -> None:
        now = time.time()
        self._kept = [(p, t) for p, t in self._kept if p != path] + [(path, now)]
        while self._max and len(self._kept) > self._max:
            oldest, written = self._kept.pop(0)
            if written >= self._next_forever:
                self._next_forever = written + self._hours * 3600
            else:
                checkpoint.remove(oldest)

    @property
    def last_checkpoints(self) -> list[str]:
        """The checkpoints that this saver may still remove, oldest first."""
        return [path for path, _ in self._kept]

    def set_last_checkpoints(self, last_checkpoints: Sequence[str]) -> None:
        """Take over checkpoints of an earlier run, oldest first."""
        self._kept = [(os.fspath(path), time.time()) for path in last_checkpoints]

    recover_last_checkpoints = set_last_checkpoints

    # restoring
    def restore(self, sess: Any, save_path: Any) -> None:
        """Assign the values of the checkpoint `save_path`; variables need no initialisation before.

        Raises NotFoundError (no such checkpoint, or a variable it does not hold), DataLossError (damaged, and where)
        and InvalidArgumentError (other dtype or shape); then no variable has changed.
        """
        if not self._variables:
            return
        if save_path is None:
            raise errors.InvalidArgumentError("Saver.restore: the path is None; latest_checkpoint() found none, so "
                                              "train and save first")
        found = checkpoint.read(os.fspath(save_path), list(self._variables)).tensors
        values = {key: self._fitting(key, found[key], save_path) for key in self._variables}
        sess.run([tensor.op for tensor in self._assigns.values()], {self._feeds[k]: v for k, v in values.items()})

    def _fitting(self, key: str, value: Any, path: Any) -> Any:
        variable = self._variables[key]
        if self._reshape and variable.shape.known and value.size == variable.shape.num_elements():
            value = value.reshape(variable.shape.static)
        if value.dtype != variable.dtype.numpy or not variable.shape.compatible(Shape(value.shape)):
            raise errors.InvalidArgumentError(
                f"Saver.restore: variable {variable.op.name!r} is {variable.dtype.name}{variable.shape} but the "
                f"checkpoint {path} holds {value.dtype}{Shape(value.shape)}; build the model that was saved")
        return value


def _named(variables: Iterable[Variable] | Mapping[str, Variable]) -> dict[str, Variable]:
    if isinstance(variables, Mapping):
        return dict(variables)
    found: dict[str, Variable] = {}
    for variable in variables:
        if variable.op.name in found and found[variable.op.name] is not variable:
            raise errors.InvalidArgumentError(f"Saver: two variables are called {variable.op.name!r}; pass a "
                                              "dictionary of distinct names")
        found[variable.op.name] = variable
    return found


def _state_file(where: str, name: str | None) -> None:
    refuse(where, "the newest checkpoint is told by the folder's manifests",
           latest_filename=None if name == "checkpoint" else name)


def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """The newest good checkpoint of a folder, None when there is none (or no folder)."""
    _state_file("latest_checkpoint", latest_filename)
    if not Path(checkpoint_dir).is_dir():
        return None
    found = checkpoint.latest(checkpoint_dir)
    return None if found is None else str(found)


def get_checkpoint_state(checkpoint_dir: Any, latest_filename: str | None = None) -> CheckpointState | None:
    """The good checkpoints of a folder, None when there is none."""
    newest = latest_checkpoint(checkpoint_dir, latest_filename)
    if newest is None:
        return None
    paths = [str(info.path) for info in checkpoint.list_checkpoints(checkpoint_dir) if not info.problem]
    return CheckpointState(newest, paths)


def checkpoint_exists(checkpoint_prefix: Any) -> bool:
    """Is there a good checkpoint at this path?"""
    path = Path(checkpoint_prefix)
    return any(info.path.name == path.name and not info.problem for info in checkpoint.list_checkpoints(path.parent))
