"""Checkpoints: shards under one JSON manifest, published atomically, verified when read; which of a folder stay.

On disk, for prefix `model.ckpt` and step 100:

    model.ckpt-100.<token>-00000-of-00002.safetensors     one file per shard; a fresh token for every write. A checkpoint
                                                          may need files of earlier ones, for what did not change since
    model.ckpt-100.manifest.json                          what makes the shards a checkpoint; renamed into place last
    checkpoint                                            the newest and all checkpoints of the folder, for people

A reader trusts manifests alone, so whatever a killed writer leaves behind is never taken for a checkpoint, and a
rewritten step replaces its predecessor in one rename. One process at a time may publish in one folder.
"""
from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.state.manifest import (
    DRAFT_NAME,
    MANIFEST,
    SHARD_NAME,
    VERSION,
    base_of,
    gather,
    manifest_of,
    prefix_and_step,
    read_manifest,
    seal,
)
from workbench.core.state.shards import Part, check_shards, read_block, read_tensors, write_shard
from workbench.core.state.storage import Observe, Place, PlaceLike, is_folder, place, replace
from workbench.core.state.tensorfile import Array

__all__ = ["Checkpoint", "Contents", "Info", "Part", "base_of", "contents", "exists", "latest", "list_checkpoints", "prune",
           "publish", "read", "read_part", "remove", "verify", "write", "write_shard"]

STATE = "checkpoint"

log = logging.getLogger(__name__)
_folder_lock = threading.RLock()     # publish and prune of this process, one after the other


class Checkpoint(NamedTuple):
    """What `read` returns; text tensors are object arrays of bytes."""

    tensors: dict[str, Array]
    step: int | None
    meta: dict[str, Any]
    path: Place


class Contents(NamedTuple):
    """What a manifest says: the element type and shape of every tensor."""

    tensors: dict[str, tuple[str, tuple[int, ...]]]
    step: int | None
    meta: dict[str, Any]
    path: Place


@dataclass(frozen=True)
class Info:
    """One checkpoint of a folder, `problem` telling what is wrong with a damaged one."""

    path: Place                      # prefix and step, without suffix: what `read` takes
    step: int | None = None
    serial: int = -1                 # counts the checkpoints published in this folder
    meta: Mapping[str, Any] = field(default_factory=dict)
    nbytes: int = 0                  # of all shards
    problem: str = ""


def write(prefix: PlaceLike, step: int | None, tensors: Mapping[str, Array | Part],
          meta: Mapping[str, Any] | None = None, *, shards: Mapping[str, int] | None = None,
          observe: Observe = lambda event: None) -> Place:
    """Write and publish a checkpoint; returns its path, `<prefix>-<step>`, or `<prefix>` when `step` is None.

    A `prefix` that is a folder (or ends in a slash) means `ckpt` in it. `shards` tells which tensor goes to which
    shard file (default: one file). `meta` is anything JSON holds. `observe` hears "shard written",
    "manifest prepared" and "manifest published". Raises InvalidArgumentError for what a checkpoint cannot hold,
    ResourceExhaustedError when the disk is full, FailedPreconditionError when the folder cannot be written; earlier
    checkpoints stay untouched.
    """
    places = shards or {}
    groups: dict[int, list[tuple[str, Array | Part]]] = {} if tensors else {0: []}
    for name, value in tensors.items():
        groups.setdefault(places.get(name, 0), []).append((name, value))
    base, records = base_of(prefix, step), []
    try:
        for index, group in enumerate(groups[key] for key in sorted(groups)):
            records.append(write_shard(base, group, index, len(groups)))
            observe("shard written")
        return publish(base, step, records, meta, observe=observe)
    except errors.Error:
        for name in {record["file"] for record in records} - _shards_of(base):      # unless it failed once published
            base.with_name(name).unlink(missing_ok=True)
        raise


def publish(base: PlaceLike, step: int | None, records: Sequence[Mapping[str, Any]],
            meta: Mapping[str, Any] | None = None, *, observe: Observe = lambda event: None) -> Place:
    """Make the shards of `records` (all of them, of all writers) the checkpoint at `base`, in one rename; returns its path.

    FailedPreconditionError when this process does not see a shard that another one wrote.
    """
    with _folder_lock:
        return _publish(place(base), step, records, meta, observe)


def _publish(base: Place, step: int | None, records: Sequence[Mapping[str, Any]], meta: Mapping[str, Any] | None,
             observe: Observe) -> Place:
    body = {"format": "workbench checkpoint", "version": VERSION, "step": step,
            "serial": 1 + max((info.serial for info in list_checkpoints(base.parent)), default=0),
            "meta": dict(meta or {}), "tensors": gather(base, records),
            "shards": {file: known for r in records for file, known in (*r.get("others", {}).items(), (
                r["file"], {"nbytes": r["nbytes"], "header_crc32": r["header_crc32"]}))}}
    try:
        check_shards(base, body)
    except errors.DataLossError as problem:
        raise errors.FailedPreconditionError(
            f"{problem.message.partition(';')[0]}: it was written a moment ago, and was removed since or is on another "
            "machine; all tasks and this process must see one folder, so give a shared one, or a URL such as s3://bucket/name"
        ) from problem
    try:
        content = seal(body)
    except (TypeError, ValueError) as problem:
        raise errors.InvalidArgumentError(f"checkpoint {base}: the meta data is not JSON ({problem}); "
                                          "use dicts, lists, text, finite numbers, true, false and None") from problem
    replace(manifest_of(base), content, observe)
    observe("manifest published")
    _sweep(base.parent, base)
    _write_state(base.parent)
    return base


def read(path: PlaceLike, names: Sequence[str] | None = None) -> Checkpoint:
    """The tensors called `names` (default: all) of the checkpoint at `path`; only their shards are opened.

    `path` is what `write` returned, its manifest, or a folder (then the newest good one). Every byte used is checked.
    Raises NotFoundError for a missing checkpoint or name, and DataLossError for a damaged one, naming the file, the
    tensor, both checksums and the newest good checkpoint beside it.
    """
    base = _resolve(path)
    with _advising(base):
        body = read_manifest(base)
        wanted = list(body["tensors"]) if names is None else list(names)
        _known(base, body, wanted)
        return Checkpoint(read_tensors(base, body, wanted), body["step"], body["meta"], base)


def contents(path: PlaceLike) -> Contents:
    """Which tensors the checkpoint at `path` holds, without reading one; errors as `read`."""
    base = _resolve(path)
    with _advising(base):
        body = read_manifest(base)
    tensors = {name: (tensor["dtype"], tuple(tensor["shape"])) for name, tensor in body["tensors"].items()}
    return Contents(tensors, body["step"], body["meta"], base)


def read_part(path: PlaceLike, name: str, start: Sequence[int] | None = None, shape: Sequence[int] = ()) -> Array:
    """A tensor, or the block of `shape` at `start` of it; errors as `read`, InvalidArgumentError for a block outside."""
    base = _resolve(path)
    with _advising(base):
        body = read_manifest(base)
        _known(base, body, [name])
        if start is None:
            return read_tensors(base, body, [name])[name]
        whole = body["tensors"][name]["shape"]
        if len(start) != len(whole) or any(not 0 <= at <= at + size <= most for at, size, most in zip(start, shape, whole)):
            raise errors.InvalidArgumentError(f"checkpoint {base}: {list(shape)} at {list(start)} is wanted of {name!r}, "
                                              f"whose shape is {whole}; ask for a block inside")
        return read_block(base, body, name, start, shape)


def _known(base: Place, body: Mapping[str, Any], names: Sequence[str]) -> None:
    if unknown := [name for name in names if name not in body["tensors"]]:
        raise errors.NotFoundError(f"checkpoint {base}: Key {unknown[0]} not found in checkpoint, which holds "
                                   f"{_some(body['tensors'])}; ask for one of these")


@contextmanager
def _advising(base: Place) -> Iterator[None]:
    """Errors say besides which checkpoints there are instead."""
    try:
        yield
    except errors.DataLossError as problem:
        good = _newest_good(list_checkpoints(base.parent))
        advice = f"the newest good checkpoint is {good}" if good else f"no good checkpoint is left in {base.parent}"
        raise errors.DataLossError(f"{problem.message}; {advice}") from problem
    except errors.NotFoundError as problem:
        if manifest_of(base).exists():
            raise
        raise errors.NotFoundError(f"checkpoint {base}: there is no {manifest_of(base).name}; {_alternatives(base.parent)} "
                                   "(Unsuccessful TensorSliceReader constructor: Failed to find any matching files for "
                                   f"{base})") from problem


def verify(path: PlaceLike) -> str:
    """"" when every byte of the checkpoint is as it was written, else the first problem found."""
    base = _resolve(path)
    try:
        body = read_manifest(base)
        for name in body["tensors"]:
            read_tensors(base, body, [name])
        check_shards(base, body)
    except errors.DataLossError as problem:
        return problem.message
    return ""


def exists(path: PlaceLike) -> bool:
    """Is there a manifest of a checkpoint at this path?"""
    return bool(manifest_of(base_of(path, None)).is_file())


def list_checkpoints(directory: PlaceLike) -> list[Info]:
    """The checkpoints of a folder in the order they were published, damaged manifests first.

    Manifests, shard sizes and shard headers are checked; `verify` checks the data as well.
    """
    folder = place(directory)
    bases = [path.with_name(path.name[:-len(MANIFEST)]) for path in folder.glob("*" + MANIFEST)]
    return sorted(map(_info, bases), key=lambda info: (info.serial, info.step or 0, info.path.name))


def latest(directory: PlaceLike, prefix: str = "", verified: bool = False) -> Place | None:
    """The newest good checkpoint of a folder (with this prefix name, if given), or None; damaged ones are logged.

    `verified` checks every byte instead of manifest, sizes and headers.
    """
    known = _of_prefix(list_checkpoints(directory), prefix)
    # nobody can tell how new a checkpoint with a damaged manifest is, so these are told of first
    for info in [i for i in known if i.serial < 0] + [i for i in reversed(known) if i.serial >= 0]:
        problem = info.problem or (verify(info.path) if verified else "")
        if not problem:
            return info.path
        log.warning("passing over a damaged checkpoint: %s", problem)
    return None


def prune(directory: PlaceLike, keep: int, prefix: str = "") -> list[Place]:
    """Delete all but the newest `keep` checkpoints (with this prefix name, if given); returns those deleted.

    The newest good one, checked byte by byte, is kept even when `keep` newer ones are damaged; 0 keeps all.
    """
    if keep < 0:
        raise errors.InvalidArgumentError(f"prune {directory}: keep is {keep} but must be 0 (all) or more; "
                                          "pass how many checkpoints to keep")
    with _folder_lock:
        known = _of_prefix(list_checkpoints(directory), prefix)
        if not keep or len(known) <= keep:
            return []
        good = _newest_good(known)
        doomed = [info.path for info in known[:-keep] if info.path != good]
        for base in doomed:
            remove(base)
        return doomed


def remove(path: PlaceLike) -> None:
    """Delete one checkpoint; the manifest goes first, so that what a crash leaves is no checkpoint."""
    with _folder_lock:
        manifest_of(base := place(path)).unlink(missing_ok=True)
        _sweep(base.parent, base)
        _write_state(base.parent)


def _info(base: Place) -> Info:
    try:
        body = read_manifest(base)
    except errors.Error as problem:
        return Info(base, problem=problem.message)
    try:
        check_shards(base, body)
        problem_text = ""
    except errors.DataLossError as problem:
        problem_text = problem.message
    nbytes = sum(shard["nbytes"] for shard in body["shards"].values())
    return Info(base, body["step"], body["serial"], body["meta"], nbytes, problem_text)


def _newest_good(known: Sequence[Info]) -> Place | None:
    return next((info.path for info in reversed(known) if not info.problem and not verify(info.path)), None)


def _of_prefix(known: Sequence[Info], prefix: str) -> list[Info]:
    return [info for info in known if not prefix or prefix_and_step(info.path.name)[0] == prefix]


def _sweep(folder: Place, base: Place) -> None:
    """Remove what killed writers left: drafts, and shards that no manifest names, of `base` and of older steps."""
    for path in folder.iterdir():
        if DRAFT_NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)
    prefix, step = prefix_and_step(base.name)
    needed = {name for path in folder.glob("*" + MANIFEST) for name in _shards_of(path.with_name(path.name[:-len(MANIFEST)]))}
    for path in folder.glob("*.safetensors"):
        match = SHARD_NAME.fullmatch(path.name)
        if match is None or path.name in needed:
            continue
        other_prefix, other_step = prefix_and_step(match["base"])
        if match["base"] == base.name or (other_prefix == prefix and -1 < other_step < step):
            path.unlink(missing_ok=True)


def _shards_of(base: Place) -> set[str]:
    """Names of the shards that a checkpoint needs, of earlier ones too; all of its own if the manifest is damaged, since
    nobody can tell."""
    try:
        return set(read_manifest(base)["shards"])
    except errors.NotFoundError:
        return set()
    except errors.DataLossError:
        found = [SHARD_NAME.fullmatch(path.name) for path in base.parent.glob("*.safetensors")]
        return {match[0] for match in found if match is not None and match["base"] == base.name}


def _write_state(folder: Place) -> None:
    known = [info.path.name for info in list_checkpoints(folder) if not info.problem]
    state = {"model_checkpoint_path": known[-1] if known else None, "all_model_checkpoint_paths": known}
    replace(folder / STATE, json.dumps(state, indent=1).encode() + b"\n")


def _resolve(path: PlaceLike) -> Place:
    base = place(path)
    if base.name.endswith(MANIFEST):
        return base.with_name(base.name[:-len(MANIFEST)])
    if not is_folder(base) or manifest_of(base).exists():
        return base
    found = latest(base, verified=True)
    if found is None:
        raise errors.NotFoundError(f"checkpoint {base}: there is no good checkpoint in this folder; {_alternatives(base)}")
    return found


def _alternatives(folder: Place) -> str:
    known = {info.path.name: info for info in list_checkpoints(folder)}
    return f"{folder} holds {_some(known)}" if known else f"{folder} holds no checkpoints; check the path"


def _some(names: Mapping[str, Any], most: int = 8) -> str:
    shown = ", ".join(map(repr, list(names)[:most])) or "none"
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
