"""The checkpoints of a folder to go on from, newest first: those that its state file names, and ours."""
from __future__ import annotations

import os
from typing import Any

from workbench.formats import bundle
from workbench.formats.folders import get_checkpoint_mtimes, get_checkpoint_state
from workbench.train.saving import saver as native

__all__ = ["newest_first", "state_of"]


def state_of(folder: Any) -> Any:
    """The CheckpointState of a folder, None where it has none or its newest checkpoint is gone."""
    found = get_checkpoint_state(folder)
    if _unnamed(list(map(_place, native.Saver.candidates(folder))), _named(found)):
        return native.get_checkpoint_state(folder)
    return found if found is not None and bundle.exists(found.model_checkpoint_path) else None


def newest_first(folder: Any) -> list[str]:
    """The good checkpoints of a folder, of any format."""
    found = get_checkpoint_state(folder)
    named = _named(found) if found is not None and bundle.exists(found.model_checkpoint_path) else []
    ours = list(map(_place, native.Saver.candidates(folder)))
    good = [path for path in map(_place, named) if path in ours or bundle.is_tensorflow(path)]
    return list(dict.fromkeys([*_unnamed(ours, named), *good, *ours]))


def _named(state: Any) -> list[str]:
    return [] if state is None else [state.model_checkpoint_path, *reversed(state.all_model_checkpoint_paths)]


def _unnamed(ours: list[str], named: list[str]) -> list[str]:
    """Those of our checkpoints that are newer than those `named` in the state file; both newest first.

    There are some where a program was killed between writing a checkpoint and naming it.
    """
    places = list(map(_place, named))
    known = next((index for index, path in enumerate(ours) if path in places), None)
    if known is not None or not named:
        return ours[:known]
    since = max(get_checkpoint_mtimes(named), default=0.0)
    return [path for path in ours if max(get_checkpoint_mtimes([path]), default=0.0) > since]


def _place(path: str) -> str:
    return path if "://" in path else os.path.abspath(path)
