"""The checkpoint format: safetensors shards under one JSON manifest, published atomically and verified when read.

On disk, for prefix `model.ckpt` and step 100:

    model.ckpt-100.<token>-00000-of-00002.safetensors     one file per shard; a fresh token for every write
    model.ckpt-100.manifest.json                          what makes the shards a checkpoint; renamed into place last
    checkpoint                                            the newest and all checkpoints of the folder, for people

A reader trusts manifests alone, so whatever a killed writer leaves behind is never taken for a checkpoint, and a
rewritten step replaces its predecessor in one rename. One process at a time may publish in one folder.
"""
from __future__ import annotations

import json
import logging
import os
import secrets
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.state.manifest import (
    DRAFT_NAME,
    MANIFEST,
    SHARD_NAME,
    VERSION,
    Observe,
    PathLike,
    base_of,
    disk,
    gather,
    manifest_of,
    prefix_and_step,
    read_manifest,
    replace,
    seal,
)
from workbench.core.state.tensorfile import Array, File, decode, encode, save

__all__ = ["Checkpoint", "Info", "Part", "latest", "list_checkpoints", "prune", "publish", "read", "remove", "verify",
           "write", "write_shard"]

STATE = "checkpoint"

log = logging.getLogger(__name__)
_folder_lock = threading.RLock()     # publish and prune of this process, one after the other


class Part(NamedTuple):
    """A block of a larger tensor: `array` stands at `start` in a tensor of shape `shape`."""

    array: Array
    start: tuple[int, ...]
    shape: tuple[int, ...]


class Checkpoint(NamedTuple):
    """What `read` returns; text tensors are object arrays of bytes."""

    tensors: dict[str, Array]
    step: int | None
    meta: dict[str, Any]
    path: Path


@dataclass(frozen=True)
class Info:
    """One checkpoint of a folder, `problem` telling what is wrong with a damaged one."""

    path: Path                       # prefix and step, without suffix: what `read` takes
    step: int | None = None
    serial: int = -1                 # counts the checkpoints published in this folder
    meta: Mapping[str, Any] = field(default_factory=dict)
    nbytes: int = 0                  # of all shards
    problem: str = ""


def write(prefix: PathLike, step: int | None, tensors: Mapping[str, Array | Part],
          meta: Mapping[str, Any] | None = None, *, shards: Mapping[str, int] | None = None,
          observe: Observe = lambda event: None) -> Path:
    """Write and publish a checkpoint; returns its path, `<prefix>-<step>`, or `<prefix>` when `step` is None.

    A `prefix` that is a folder (or ends in a slash) means `ckpt` in it. `shards` tells which tensor goes to which
    shard file (default: one file). `meta` is anything JSON holds. `observe` hears "shard written",
    "manifest prepared" and "manifest published". Raises InvalidArgumentError for what a checkpoint cannot hold,
    ResourceExhaustedError when the disk is full, FailedPreconditionError when the folder cannot be written; earlier
    checkpoints stay untouched.
    """
    places = shards or {}
    groups: dict[int, dict[str, Array | Part]] = {} if tensors else {0: {}}
    for name, value in tensors.items():
        groups.setdefault(places.get(name, 0), {})[name] = value
    records = []
    try:
        for index, group in enumerate(groups[key] for key in sorted(groups)):
            records.append(write_shard(prefix, step, group, index, len(groups)))
            observe("shard written")
        return publish(prefix, step, records, meta, observe=observe)
    except errors.Error:
        base = base_of(prefix, step)
        for name in {record["file"] for record in records} - _shards_of(base):      # unless it failed once published
            base.with_name(name).unlink(missing_ok=True)
        raise


def write_shard(prefix: PathLike, step: int | None, tensors: Mapping[str, Array | Part], index: int = 0,
                count: int = 1) -> dict[str, Any]:
    """Write one shard durably; the record it returns (plain JSON) is what `publish` needs of it.

    Each parameter server may write its own shard; nothing is a checkpoint before `publish`.
    """
    base = base_of(prefix, step)
    where = f"checkpoint {base}"
    path = base.with_name(f"{base.name}.{secrets.token_hex(6)}-{index:05d}-of-{count:05d}.safetensors")
    stored, slices = {}, {}
    for name, value in tensors.items():
        if name == "__metadata__":
            raise errors.InvalidArgumentError(f"{where}: a tensor is called {name!r} but safetensors reserves that "
                                              "name; rename it")
        part = value if isinstance(value, Part) else Part(value, (0,) * np.ndim(value), np.shape(value))
        array = np.asarray(part.array)
        dtype, stored[name] = encode(where, name, array)
        slices[name] = {"dtype": dtype, "global_shape": [*map(int, part.shape)], "start": [*map(int, part.start)],
                        "shape": list(array.shape), "file": path.name}
    with disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            checksums = save(path, stored)
            with File(path) as file:
                nbytes, header = file.nbytes, file.header_crc32
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    for name, record in slices.items():
        record["crc32"] = checksums[name]
    return {"file": path.name, "nbytes": nbytes, "header_crc32": header, "tensors": slices}


def publish(prefix: PathLike, step: int | None, records: Sequence[Mapping[str, Any]],
            meta: Mapping[str, Any] | None = None, *, observe: Observe = lambda event: None) -> Path:
    """Make the shards of `records` (all of them, of all writers) a checkpoint, in one rename; returns its path."""
    base = base_of(prefix, step)
    with _folder_lock:
        return _publish(base, step, records, meta, observe)


def _publish(base: Path, step: int | None, records: Sequence[Mapping[str, Any]], meta: Mapping[str, Any] | None,
             observe: Observe) -> Path:
    body = {"format": "workbench checkpoint", "version": VERSION, "step": step,
            "serial": 1 + max((info.serial for info in list_checkpoints(base.parent)), default=0),
            "meta": dict(meta or {}), "tensors": gather(base, records),
            "shards": {r["file"]: {"nbytes": r["nbytes"], "header_crc32": r["header_crc32"]} for r in records}}
    _check_shards(base, body)
    try:
        content = seal(body)
    except (TypeError, ValueError) as problem:
        raise errors.InvalidArgumentError(f"checkpoint {base}: the meta data is no JSON ({problem}); "
                                          "use dicts, lists, text, finite numbers, true, false and None") from problem
    replace(manifest_of(base), content, observe)
    observe("manifest published")
    _sweep(base.parent, base)
    _write_state(base.parent)
    return base


def read(path: PathLike, names: Sequence[str] | None = None) -> Checkpoint:
    """The tensors called `names` (default: all) of the checkpoint at `path`; only their shards are opened.

    `path` is what `write` returned, its manifest, or a folder (then the newest good one). Every byte used is checked.
    Raises NotFoundError for a missing checkpoint or name, and DataLossError for a damaged one, naming the file, the
    tensor, both checksums and the newest good checkpoint beside it.
    """
    base = _resolve(path)
    try:
        body = read_manifest(base)
        wanted = list(body["tensors"]) if names is None else list(names)
        if unknown := [name for name in wanted if name not in body["tensors"]]:
            raise errors.NotFoundError(f"checkpoint {base}: it holds no tensor {unknown[0]!r} but "
                                       f"{_some(body['tensors'])}; ask for one of these")
        return Checkpoint(_read_tensors(base, body, wanted), body["step"], body["meta"], base)
    except errors.DataLossError as problem:
        good = _newest_good(list_checkpoints(base.parent))
        advice = f"the newest good checkpoint is {good}" if good else f"no good checkpoint is left in {base.parent}"
        raise errors.DataLossError(f"{problem.message}; {advice}") from problem
    except errors.NotFoundError as problem:
        if manifest_of(base).exists():
            raise
        raise errors.NotFoundError(f"checkpoint {base}: there is no {manifest_of(base).name}; "
                                   f"{_alternatives(base.parent)}") from problem


def verify(path: PathLike) -> str:
    """"" when every byte of the checkpoint is as it was written, else the first problem found."""
    base = _resolve(path)
    try:
        body = read_manifest(base)
        for name in body["tensors"]:
            _read_tensors(base, body, [name])
        _check_shards(base, body)
    except errors.DataLossError as problem:
        return problem.message
    return ""


def _read_tensors(base: Path, body: Mapping[str, Any], names: Sequence[str]) -> dict[str, Array]:
    """The tensors in the order of `names`, opening each shard once."""
    pieces = [(name, piece) for name in names for piece in body["tensors"][name]["slices"]]
    found: dict[str, Array] = {}
    for file in dict.fromkeys(piece["file"] for _, piece in pieces):
        with _open_shard(base, body, file) as shard:
            for name, piece in pieces:
                if piece["file"] == file:
                    _place(base, found, name, body["tensors"][name], piece, shard)
    return {name: found[name] for name in names}


def _place(base: Path, found: dict[str, Array], name: str, tensor: Mapping[str, Any], piece: Mapping[str, Any],
           shard: File) -> None:
    """Read one slice, check it and put it where it belongs in the whole tensor."""
    where = f"checkpoint {base}: tensor {name!r} in {piece['file']}"
    try:
        raw = shard.raw(name)
    except (KeyError, TypeError, ValueError) as problem:
        raise errors.DataLossError(f"{where} cannot be read ({problem}); the file is damaged") from problem
    if (crc32 := f"{zlib.crc32(raw.data):08x}") != piece["crc32"]:
        raise errors.DataLossError(f"{where} has crc32 {crc32} but was written with {piece['crc32']}; "
                                   "the file is damaged")
    try:
        block = decode(tensor["dtype"], tuple(piece["shape"]), raw)
        if piece["shape"] == tensor["shape"]:
            found[name] = block
            return
        whole = found.setdefault(name, np.empty(tensor["shape"], block.dtype))
        whole[tuple(slice(b, b + n) for b, n in zip(piece["start"], piece["shape"]))] = block
    except (ValueError, errors.DtypeError) as problem:
        raise errors.DataLossError(f"{where} is no {tensor['dtype']}{piece['shape']} ({problem}); "
                                   "the manifest is damaged") from problem


@contextmanager
def _open_shard(base: Path, body: Mapping[str, Any], name: str) -> Iterator[File]:
    """A shard whose size and header are those that the manifest vouches for."""
    where = f"checkpoint {base}: shard {name}"
    known = body["shards"][name]
    try:
        file = File(base.with_name(name))
    except FileNotFoundError:
        raise errors.DataLossError(f"{where} is missing but its {known['nbytes']} bytes belong to the checkpoint; "
                                   "copy it back") from None
    except (OSError, ValueError) as problem:
        raise errors.DataLossError(f"{where} cannot be read ({problem}); the file is damaged") from problem
    with file:
        if file.nbytes != known["nbytes"]:
            raise errors.DataLossError(f"{where} has {file.nbytes} bytes but was written with {known['nbytes']}; "
                                       "the file is damaged")
        if file.header_crc32 != known["header_crc32"]:
            raise errors.DataLossError(f"{where} has a header of crc32 {file.header_crc32} but was written with "
                                       f"{known['header_crc32']}; the file is damaged")
        yield file


def _check_shards(base: Path, body: Mapping[str, Any]) -> None:
    for name in body["shards"]:
        with _open_shard(base, body, name):
            pass


def list_checkpoints(directory: PathLike) -> list[Info]:
    """The checkpoints of a folder in the order they were published, damaged manifests first.

    Manifests, shard sizes and shard headers are checked; `verify` checks the data as well.
    """
    folder = Path(directory)
    bases = [Path(str(path)[:-len(MANIFEST)]) for path in folder.glob("*" + MANIFEST)]
    return sorted(map(_info, bases), key=lambda info: (info.serial, info.step or 0, info.path.name))


def latest(directory: PathLike, prefix: str = "", verified: bool = False) -> Path | None:
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


def prune(directory: PathLike, keep: int, prefix: str = "") -> list[Path]:
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


def remove(path: PathLike) -> None:
    """Delete one checkpoint; the manifest goes first, so that what a crash leaves is no checkpoint."""
    with _folder_lock:
        manifest_of(base := Path(path)).unlink(missing_ok=True)
        _sweep(base.parent, base)
        _write_state(base.parent)


def _info(base: Path) -> Info:
    try:
        body = read_manifest(base)
    except errors.Error as problem:
        return Info(base, problem=problem.message)
    try:
        _check_shards(base, body)
        problem_text = ""
    except errors.DataLossError as problem:
        problem_text = problem.message
    nbytes = sum(shard["nbytes"] for shard in body["shards"].values())
    return Info(base, body["step"], body["serial"], body["meta"], nbytes, problem_text)


def _newest_good(known: Sequence[Info]) -> Path | None:
    return next((info.path for info in reversed(known) if not info.problem and not verify(info.path)), None)


def _of_prefix(known: Sequence[Info], prefix: str) -> list[Info]:
    return [info for info in known if not prefix or prefix_and_step(info.path.name)[0] == prefix]


def _sweep(folder: Path, base: Path) -> None:
    """Remove what killed writers left: drafts, and shards that no manifest names, of `base` and of older steps."""
    for path in folder.iterdir():
        if DRAFT_NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)
    prefix, step = prefix_and_step(base.name)
    for path in folder.glob("*.safetensors"):
        match = SHARD_NAME.fullmatch(path.name)
        if match is None or path.name in _shards_of(folder / match["base"]):
            continue
        other_prefix, other_step = prefix_and_step(match["base"])
        if match["base"] == base.name or (other_prefix == prefix and -1 < other_step < step):
            path.unlink(missing_ok=True)


def _shards_of(base: Path) -> set[str]:
    """Names of the shards in use; all of them if the manifest is damaged, since nobody can tell."""
    try:
        return set(read_manifest(base)["shards"])
    except errors.NotFoundError:
        return set()
    except errors.DataLossError:
        return {path.name for path in base.parent.glob("*.safetensors")}


def _write_state(folder: Path) -> None:
    known = [info.path.name for info in list_checkpoints(folder) if not info.problem]
    state = {"model_checkpoint_path": known[-1] if known else None, "all_model_checkpoint_paths": known}
    replace(folder / STATE, json.dumps(state, indent=1).encode() + b"\n")


def _resolve(path: PathLike) -> Path:
    text = os.fspath(path)
    if text.endswith(MANIFEST):
        return Path(text[:-len(MANIFEST)])
    if not os.path.isdir(text) or manifest_of(Path(text)).exists():
        return Path(text)
    found = latest(text, verified=True)
    if found is None:
        raise errors.NotFoundError(f"checkpoint {text}: there is no good checkpoint in this folder; "
                                   f"{_alternatives(Path(text))}")
    return found


def _alternatives(folder: Path) -> str:
    known = {info.path.name: info for info in list_checkpoints(folder)}
    return f"{folder} holds {_some(known)}" if known else f"{folder} holds no checkpoints; check the path"


def _some(names: Mapping[str, Any], most: int = 8) -> str:
    shown = ", ".join(map(repr, list(names)[:most])) or "none"
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
