"""Saver: variables to checkpoints and back, through Session.run alone; which checkpoints to keep (paper §4.3)."""
from __future__ import annotations

import json
import logging
import math
import numbers
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph, Tensor
from workbench.core.graph.shape import Shape
from workbench.core.graph.subgraph import root_graph
from workbench.core.state import checkpoint
from workbench.nn.arguments import refuse
from workbench.nn.saveables import SaveableObject
from workbench.nn.variables import GraphKeys, get_collection, global_variables, near
from workbench.train.saving.pieces import Piece, pieces_of

__all__ = ["CheckpointState", "Saver", "absolute", "checkpoint_exists", "default_kind", "default_saver",
           "get_checkpoint_state", "latest_checkpoint", "newest_checkpoint"]

logger = logging.getLogger("workbench")


_KEPT = 5      # checkpoints in which what did not change is written once, where all are kept


@dataclass
class CheckpointState:
    """The newest checkpoint of a folder and all of them, oldest first."""

    model_checkpoint_path: str
    all_model_checkpoint_paths: list[str] = field(default_factory=list)


class Saver:
    """Saves and restores `var_list` (default: all global variables, and what is in the collection SAVEABLE_OBJECTS).

    A dictionary gives names in the checkpoint; a list of variables there is one tensor: the parts of a variable that was made
    in parts, else cut along its first axis. Parts without such a name stand in the checkpoint as blocks of the whole. A tensor
    can be restored into any other number of parts. The newest `max_to_keep` checkpoints stay (0 or None: all), and besides one
    for every `keep_checkpoint_every_n_hours`. With `reshape` a variable may have another shape than what was saved; with
    `allow_empty` a saver without variables saves and restores nothing.

    Each task writes and reads the variables that it holds, a file for each device asked for; no value passes through this
    process. So all tasks must see the folder; it may be a URL that fsspec knows. What does it is ordinary graph, made here:
    make the saver before the graph is finalized. With `defer_build` it is made, for the variables there are then, by `build`.
    With `pad_step_number` the step in a checkpoint's name has at least eight digits.
    """

    def __init__(self, var_list: Any = None, reshape: bool = False, sharded: bool = False, max_to_keep: int | None = 5,
                 keep_checkpoint_every_n_hours: float = 10000.0, name: str = "save", restore_sequentially: bool = False,
                 saver_def: Any = None, builder: Any = None, defer_build: bool = False, allow_empty: bool = False,
                 write_version: Any = None, pad_step_number: bool = False, save_relative_paths: bool = False,
                 filename: str | None = None) -> None:
        refuse("Saver", "leave it out", saver_def=saver_def, builder=builder, filename=filename)
        if defer_build and var_list is not None:
            raise errors.InvalidArgumentError("Saver: defer_build is true but var_list is given; leave one of them out")
        self._max, self._hours, self._reshape = max_to_keep or 0, keep_checkpoint_every_n_hours, reshape
        self._name, self._allow_empty, self._pad, self._built = name, allow_empty, pad_step_number, False
        self._kept: list[tuple[str, float]] = []
        self._lock = threading.Lock()
        self._next_forever = time.time() + self._hours * 3600
        self._pieces: list[Piece] = []
        self.objects: list[SaveableObject] = []
        """What is saved that is no variable."""
        if not defer_build:
            self._take(_all_there_is() if var_list is None else var_list)

    def build(self) -> None:
        """Take all global variables there are now, where that was deferred; else there is nothing to do."""
        if not self._built:
            self._take(_all_there_is())

    def _take(self, variables: Any) -> None:
        self.objects, variables = _objects(variables)
        self._pieces = pieces_of(variables)
        if self._nothing and not self._allow_empty:
            raise errors.InvalidArgumentError("Saver: there are 0 variables to save; make variables first or pass "
                                              "var_list (No variables to save)")
        with root_graph().name_scope(self._name):
            self._build()
        self._built = True

    @property
    def _nothing(self) -> bool:
        return not self._pieces and not self.objects

    def _step(self, sess: Any, global_step: Any) -> int | None:
        """The number of `global_step`; FailedPreconditionError before `build` was called."""
        if not self._built:
            raise errors.FailedPreconditionError("Saver: its building was deferred; call build() when all variables are made")
        if global_step is None:
            return None
        return int(global_step if isinstance(global_step, numbers.Integral) else sess.run(global_step))

    @property
    def groups(self) -> dict[str, list[Piece]]:
        """What is saved, by the device asked for."""
        found: dict[str, list[Piece]] = {}
        for piece in self._pieces:
            found.setdefault(piece.variable.op.device, []).append(piece)
        return found

    @property
    def increments(self) -> int:
        """How many checkpoints may need one file besides the one that wrote it. Of all that are kept the newest and the oldest
        need no common one, so that no damaged file spoils all."""
        return max(0, (self._max or _KEPT) - 2)

    def _build(self) -> None:
        groups = self.groups
        self.path = ops.placeholder("string", [])
        self._records: list[Tensor] = []
        read: list[tuple[list[Piece], list[Tensor]]] = []
        for index, group in enumerate(groups.values()):
            with near(group[0].variable):
                self._records.append(ops.save(self.path, [p.variable.handle for p in group], index=index, count=len(groups),
                                              parts=tuple(p.part for p in group)))
                read.append((group, ops.restore(
                    self.path, tensors=tuple(p.key for p in group), dtypes=tuple(p.variable.dtype for p in group),
                    shapes=tuple(p.variable.shape for p in group), starts=tuple(p.start for p in group),
                    reshape=self._reshape)))
        self._object_records, self.object_tensors = list[Tensor](), list[Tensor]()
        self._imports: list[Any] = []
        found = [(one, self._build_object(one)) for one in self.objects]
        # nothing is assigned anywhere before everything was read and found whole
        with root_graph().control_dependencies([values[0] for _, values in (*read, *found)]):
            self._assigns = [piece.variable.assign(value).op for group, values in read for piece, value in zip(group, values)]
            held = []
            for one, values in found:
                with root_graph().only_device(one.device):
                    held.append((one, [ops.identity(value) for value in values]))
        self._imports = [(one.restore(values, None), values) for one, values in held]      # which may be fed instead

    def _build_object(self, one: SaveableObject) -> list[Tensor]:
        """Make what writes an object; gives the tensors that are read back."""
        tensors, names = [spec.tensor for spec in one.specs], tuple(spec.name for spec in one.specs)
        with root_graph().only_device(one.device):
            self._object_records.append(ops.save_tensors(self.path, tensors, names=names))
            found: Any = ops.restore(self.path, tensors=names, dtypes=tuple(t.dtype for t in tensors),
                                     shapes=tuple(t.shape for t in tensors))
        self.object_tensors += tensors
        return list(found)

    # saving
    def save(self, sess: Any, save_path: Any, global_step: Any = None, latest_filename: str | None = None,
             meta_graph_suffix: str = "meta", write_meta_graph: bool = True, write_state: bool = True) -> str | None:
        """Write a checkpoint and return its path, `save_path` with "-step" when `global_step` (int or variable) is
        given; None where there is nothing to save.

        Variables of one device are of one moment; between devices, steps that run meanwhile may be in one and not in
        another. Older checkpoints are removed only after the new one is complete. UnimplementedError for another
        `latest_filename` than "checkpoint" and for `write_state=False`: the folder always says what is newest.
        FailedPreconditionError for a folder that cannot be written, or that not all tasks see.
        """
        _state_file("Saver.save", latest_filename)
        refuse("Saver.save", "the folder always says which checkpoint is newest", **{"write_state=False": not write_state})
        step = self._step(sess, global_step)
        if self._nothing:
            return None
        base = checkpoint.base_of(f"{os.fsdecode(save_path)}-{step:08d}", None) if self._pad and step is not None else (
            checkpoint.base_of(save_path, step))
        with self._lock:      # a supervisor's thread and the program itself may save the same step
            records = sess.run(self._records + self._object_records, {self.path: absolute(base)})
            checkpoint.publish(base, step, [json.loads(record) for record in records])
            self.keep(str(base))
        return str(base)

    def keep(self, path: str) -> None:
        """A checkpoint was written at `path`: remove those that are too many now."""
        if not self._max:
            return
        now = time.time()
        self._kept = [(p, t) for p, t in self._kept if p != path] + [(path, now)]
        while len(self._kept) > self._max:
            oldest, written = self._kept.pop(0)
            if written >= self._next_forever:
                self._next_forever = written + self._hours * 3600
            else:
                self._remove(oldest)

    def _remove(self, path: str) -> None:
        checkpoint.remove(path)

    # what there is, for those who did not save it
    @staticmethod
    def state(folder: Any) -> Any:
        """The CheckpointState of a folder, None when it has no good checkpoint."""
        return get_checkpoint_state(folder)

    @staticmethod
    def candidates(folder: Any) -> list[str]:
        """The checkpoints of a folder, newest first; those that can be told to be damaged are passed over by name."""
        known = checkpoint.list_checkpoints(folder)
        for info in known:
            if info.problem:
                logger.warning("workbench: passing over a damaged checkpoint: %s", info.problem)
        return [str(info.path) for info in reversed(known) if not info.problem]

    @staticmethod
    def names(path: Any) -> list[str]:
        """The names of the tensors of a checkpoint."""
        return sorted(checkpoint.contents(path).tensors)

    @staticmethod
    def value(path: Any, name: str) -> Any:
        """A tensor of a checkpoint; NotFoundError where it has none of that name."""
        return checkpoint.read(path, [name]).tensors[name]

    def describe(self, graph: Graph, path: str) -> None:
        """Write beside the checkpoint `path` what its readers want to find there besides: nothing."""

    def write_graph(self, graph: Graph, folder: Any) -> None:
        """Write into a folder of checkpoints what of `graph` its readers want to find there: nothing."""

    @property
    def last_checkpoints(self) -> list[str]:
        """The checkpoints that this saver may still remove, oldest first."""
        return [path for path, _ in self._kept]

    def set_last_checkpoints(self, last_checkpoints: Sequence[str]) -> None:
        """Take over checkpoints of an earlier run, oldest first."""
        now = time.time()
        self.set_last_checkpoints_with_time([(path, now) for path in last_checkpoints])

    def recover_last_checkpoints(self, checkpoint_paths: Sequence[Any]) -> None:
        """Take over checkpoints of an earlier run, oldest first."""
        self.set_last_checkpoints(checkpoint_paths)

    def take_over(self, path: str) -> None:
        """Go on where the run stood that saved what was restored from `path`: as many of the newest checkpoints of its name as
        this saver keeps are its own to remove. Older ones were kept for good."""
        named = _numbered(path)
        if self._max and named and not self._kept:
            known = [found for found in self.candidates(os.path.dirname(path) or ".") if _numbered(found) == named]
            self.recover_last_checkpoints(known[:self._max][::-1])

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time: Sequence[tuple[Any, float]]) -> None:
        """Take over checkpoints of an earlier run, oldest first, each with the seconds since 1970 when it was written."""
        self._kept = [(os.fsdecode(path), written) for path, written in last_checkpoints_with_time]

    # restoring
    def restore(self, sess: Any, save_path: Any) -> None:
        """Assign the values of the checkpoint `save_path`; variables need no initialisation before.

        Raises NotFoundError (no such checkpoint, or a variable it does not hold), DataLossError (damaged, and where)
        and InvalidArgumentError (other dtype or shape); then no variable has changed.
        """
        self._step(sess, None)
        if self._nothing:
            return
        if save_path is None:
            raise errors.InvalidArgumentError("Saver.restore: the path is None; latest_checkpoint() found none, so "
                                              "train and save first (Can't load save_path when it is None.)")
        found = checkpoint.contents(save_path)
        for piece in self._pieces:
            self._check(piece, found)
        for spec in (spec for one in self.objects for spec in one.specs):
            _check_there(spec.name, found)
        sess.run(self._assigns + [made for made, _ in self._imports], {self.path: absolute(found.path)})

    def _check(self, piece: Piece, found: checkpoint.Contents) -> None:
        """Whether the checkpoint holds what the variable takes: errors before anything runs."""
        variable = piece.variable
        _check_there(piece.key, found)
        dtype, shape = found.tensors[piece.key]
        wanted = Shape(tuple(piece.block.full_shape)) if piece.block else variable.shape
        same_size = self._reshape and wanted.known and wanted.num_elements() == math.prod(shape)
        if dtype != variable.dtype.name or not (same_size or wanted.compatible(Shape(shape))):
            raise errors.InvalidArgumentError(
                f"Saver.restore: variable {variable.op.name!r} is {variable.dtype.name}{wanted} but the checkpoint "
                f"{found.path} holds {dtype}{Shape(shape)}; build the model that was saved (Assign requires shapes of both "
                "tensors to match.)")


def default_kind() -> type[Saver]:
    """The class of what saves where a program gives no saver: that of the default graph's language, or Saver."""
    language = root_graph().language
    found: type[Saver] = Saver if language.saver is None else language.saver()
    return found


def default_saver(*args: Any, **options: Any) -> Saver:
    """What saves where a program gives no saver."""
    return default_kind()(*args, **options)


def newest_checkpoint(folder: Any) -> str | None:
    """The newest good checkpoint of a folder in any format that the default graph's savers read, None when there is none."""
    state = default_kind().state(folder)
    return None if state is None else str(state.model_checkpoint_path)


def _numbered(path: str) -> str:
    """The name of a checkpoint without the number of its step, "" where it has none."""
    name, _, number = os.path.basename(path).rpartition("-")
    return name if number.isdigit() else ""


def _check_there(key: str, found: checkpoint.Contents) -> None:
    if key not in found.tensors:
        raise errors.NotFoundError(f"checkpoint {found.path}: Key {key} not found in checkpoint, which holds "
                                   f"{', '.join(map(repr, list(found.tensors)[:8]))}; ask for one of these")


def _all_there_is() -> list[Any]:
    return [*global_variables(), *get_collection(GraphKeys.SAVEABLE_OBJECTS)]


def _objects(variables: Any) -> tuple[list[SaveableObject], Any]:
    """The objects among what is to be saved, and the variables."""
    values = variables.values() if isinstance(variables, Mapping) else list(variables)
    found = [one for one in values if isinstance(one, SaveableObject)]
    names = [spec.name for one in found for spec in one.specs]
    for name in names:
        if names.count(name) > 1:
            raise errors.InvalidArgumentError(f"Saver: At least two variables have the same name: {name}; give each table a "
                                              "name of its own")
    rest = {key: one for key, one in variables.items() if one not in found} if isinstance(variables, Mapping) else [
        one for one in values if not isinstance(one, SaveableObject)]
    return found, rest


def absolute(base: Any) -> str:
    """Where a checkpoint is for tasks, which have other working folders than this process."""
    return str(base.absolute())


def _state_file(where: str, name: str | None) -> None:
    refuse(where, "the newest checkpoint is told by the folder's manifests",
           latest_filename=None if name == "checkpoint" else name)


def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """The newest good checkpoint of a folder (or URL), None when there is none (or no folder)."""
    _state_file("latest_checkpoint", latest_filename)
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
    path = checkpoint.base_of(checkpoint_prefix, None)
    return any(info.path.name == path.name and not info.problem for info in checkpoint.list_checkpoints(path.parent))
