"""What checkpoints a folder has, of any format, by its state file; what is in one of them."""
from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench import errors
from workbench.core.state.manifest import MANIFEST
from workbench.formats import bundle
from workbench.formats.messages import message, parse_text
from workbench.formats.meta import write_message
from workbench.train.saving import saver as native

__all__ = ["NewCheckpointReader", "checkpoint_exists", "generate_checkpoint_state_proto", "get_checkpoint_mtimes",
           "get_checkpoint_state", "latest_checkpoint", "list_variables", "load_checkpoint", "load_variable",
           "update_checkpoint_state"]


def update_checkpoint_state(save_dir: Any, model_checkpoint_path: str, all_model_checkpoint_paths: Sequence[str] | None = None,
                            latest_filename: str | None = None, save_relative_paths: bool = False) -> None:
    """Write the file that says which checkpoint of a folder is the newest, and which there are; with `save_relative_paths` so
    that the folder may be moved."""
    told = generate_checkpoint_state_proto(os.fsdecode(save_dir), model_checkpoint_path, all_model_checkpoint_paths)
    if save_relative_paths:
        short = [os.path.relpath(path, save_dir) if os.path.isabs(path) else path
                 for path in (told.model_checkpoint_path, *told.all_model_checkpoint_paths)]
        told.model_checkpoint_path, told.all_model_checkpoint_paths[:] = short[0], short[1:]
    write_message(Path(os.fsdecode(save_dir)) / (latest_filename or "checkpoint"), told, True)


def generate_checkpoint_state_proto(save_dir: Any, model_checkpoint_path: str,
                                    all_model_checkpoint_paths: Sequence[str] | None = None) -> Any:
    """The message CheckpointState of a folder; a relative path in it is meant from the folder."""
    paths = list(all_model_checkpoint_paths or [])
    if not paths or paths[-1] != model_checkpoint_path:
        paths.append(model_checkpoint_path)

    def short(path: str) -> str:
        return os.path.relpath(path, save_dir) if not os.path.isabs(path) else path
    return message("CheckpointState")(model_checkpoint_path=short(model_checkpoint_path),
                                      all_model_checkpoint_paths=[short(path) for path in paths])


def get_checkpoint_mtimes(checkpoint_prefixes: Sequence[str]) -> list[float]:
    """When each of the checkpoints was written, in seconds since the epoch, those that are there."""
    files = [[Path(f"{prefix}{end}") for end in (".index", MANIFEST, "")] for prefix in map(os.fsdecode, checkpoint_prefixes)]
    found = [next((file for file in kinds if file.is_file()), None) for kinds in files]
    return [file.stat().st_mtime for file in found if file is not None]


def get_checkpoint_state(checkpoint_dir: Any, latest_filename: str | None = None) -> Any:
    """What a folder's state file says, or which checkpoints of our format it has; None where it has none."""
    folder = Path(os.fsdecode(checkpoint_dir))
    file = folder / (latest_filename or "checkpoint")
    text = file.read_text() if file.is_file() else "{"
    if text.startswith("{"):      # ours
        return native.get_checkpoint_state(checkpoint_dir) if latest_filename in (None, "checkpoint") else None
    told = parse_text("CheckpointState", text, f"get_checkpoint_state: {str(file)!r}")
    if not told.model_checkpoint_path:
        raise errors.InvalidArgumentError(f"get_checkpoint_state: Invalid checkpoint state loaded from {str(folder)!r}: it "
                                          "names no checkpoint; save again")
    full = [path if os.path.isabs(path) else str(folder / path)
            for path in (told.model_checkpoint_path, *told.all_model_checkpoint_paths)]
    told.model_checkpoint_path, told.all_model_checkpoint_paths[:] = full[0], full[1:]
    return told


def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """The newest checkpoint of a folder, None when there is none."""
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None or not bundle.exists(state.model_checkpoint_path):
        return None
    return str(state.model_checkpoint_path)


def checkpoint_exists(checkpoint_prefix: Any) -> bool:
    """Is there a checkpoint at this path?"""
    return bundle.exists(checkpoint_prefix)


def load_checkpoint(ckpt_dir_or_file: Any) -> bundle.Reader:
    """A reader of a checkpoint, or of the newest one of a folder."""
    given = os.fsdecode(ckpt_dir_or_file)
    path = latest_checkpoint(given) if os.path.isdir(given) else given
    if path is None:
        raise errors.NotFoundError(f"load_checkpoint: folder {given!r} has no checkpoint; give the path of one")
    return bundle.open_checkpoint(path)


def NewCheckpointReader(filepattern: Any) -> bundle.Reader:
    """A reader of the checkpoint at a path."""
    return bundle.open_checkpoint(filepattern)


def list_variables(ckpt_dir_or_file: Any) -> list[tuple[str, list[int]]]:
    """(name, shape) of each tensor of a checkpoint, by name."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def load_variable(ckpt_dir_or_file: Any, name: str) -> Any:
    """A tensor of a checkpoint; `name` may end in ":0"."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))
