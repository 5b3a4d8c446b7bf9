"""A checkpoint's manifest: names on disk, what it must say, and reading it checked."""
from __future__ import annotations

import json
import math
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench import errors
from workbench.core.state.storage import Place, PlaceLike, is_folder, place

__all__ = ["DRAFT_NAME", "MANIFEST", "SHARD_NAME", "base_of", "gather", "manifest_of", "prefix_and_step", "read_manifest",
           "seal"]

VERSION = 1
MANIFEST = ".manifest.json"
DEFAULT_PREFIX = "ckpt"
SHARD_NAME = re.compile(r"(?P<base>.+)\.[0-9a-f]{12}-\d{5}-of-\d{5}\.safetensors")
DRAFT_NAME = re.compile(r"(.+\.manifest\.json|checkpoint)\.[0-9a-f]{12}\.tmp")
FIRST_LINE = re.compile(rb'\{"crc32": "([0-9a-f]{8})",\n')


def prefix_and_step(name: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.+)-(\d+)", name)
    return (match[1], int(match[2])) if match else (name, -1)


def base_of(prefix: PlaceLike, step: int | None) -> Place:
    """Where the checkpoint of `step` is: `<prefix>-<step>`, in a folder `ckpt-<step>`; without a step, no number."""
    path = place(prefix)
    if str(prefix).endswith(("/", os.sep)) or is_folder(path):
        path = path / DEFAULT_PREFIX
    if step is not None and step < 0:
        raise errors.InvalidArgumentError(f"checkpoint {path}: the step is {step} but steps count from 0; "
                                          "pass one from 0 on")
    return path if step is None else path.with_name(f"{path.name}-{step}")


def manifest_of(base: Place) -> Place:
    return base.with_name(base.name + MANIFEST)


def gather(base: Place, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Slices of all shards by tensor; each tensor must be covered exactly once."""
    tensors: dict[str, Any] = {}
    for record in records:
        for piece in record["pieces"]:
            name = piece["name"]
            known = tensors.setdefault(name, {"dtype": piece["dtype"], "shape": piece["global_shape"], "slices": []})
            if [piece["dtype"], piece["global_shape"]] != [known["dtype"], known["shape"]]:
                raise errors.InvalidArgumentError(
                    f"checkpoint {base}: one part of tensor {name!r} is of {known['dtype']}{known['shape']}, "
                    f"another of {piece['dtype']}{piece['global_shape']}; parts of one tensor must agree")
            known["slices"].append({key: piece[key] for key in ("file", "key", "start", "shape", "crc32")})
    for name, tensor in tensors.items():
        if fault := _cover_fault(tensor):
            raise errors.InvalidArgumentError(f"checkpoint {base}: the parts of tensor {name!r} {fault}; "
                                              "write each element once")
    return tensors


def _cover_fault(tensor: Mapping[str, Any]) -> str:
    """Why the slices do not tile the tensor's shape, "" when they do."""
    shape, slices = tensor["shape"], tensor["slices"]
    for piece in slices:
        if not len(piece["start"]) == len(piece["shape"]) == len(shape) or any(
                not 0 <= begin <= begin + size <= whole
                for begin, size, whole in zip(piece["start"], piece["shape"], shape)):
            return f"include {piece['shape']} at {piece['start']}, outside its shape {shape}"
    held, wanted = sum(math.prod(piece["shape"]) for piece in slices), math.prod(shape)
    if held != wanted:
        return f"hold {held} elements but its shape {shape} has {wanted}"
    ordered = sorted(slices, key=lambda piece: piece["start"]) if shape else []
    for i, one in enumerate(ordered):
        for other in ordered[i + 1:]:
            if other["start"][0] >= one["start"][0] + one["shape"][0]:      # one of many blocks meets few others
                break
            if all(a < b + n and b < a + m for a, m, b, n in
                   zip(one["start"], one["shape"], other["start"], other["shape"])):
                return f"overlap at {other['start']} and {one['start']}"
    return ""


def seal(body: Mapping[str, Any]) -> bytes:
    """The manifest's bytes: JSON whose first line is the crc32 of all that follows it."""
    rest = json.dumps(body, indent=1, allow_nan=False)[2:].encode()        # the crc32 line replaces "{\n"
    return b'{"crc32": "%08x",\n' % zlib.crc32(rest) + rest


def read_manifest(base: Place) -> dict[str, Any]:
    """The checked manifest of the checkpoint at `base`; NotFoundError or DataLossError."""
    path = manifest_of(base)
    where = f"checkpoint {base}: {path.name}"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise errors.NotFoundError(f"checkpoint {base}: there is no {path.name}; check the path") from None
    except OSError as problem:
        raise errors.DataLossError(f"{where} cannot be read ({problem.strerror}); the file is damaged") from problem
    first = FIRST_LINE.match(content)
    if first is None:
        raise errors.DataLossError(f"{where} starts with {content[:24]!r} but a manifest starts with its crc32; "
                                   "the file is damaged")
    if (crc32 := b"%08x" % zlib.crc32(content[first.end():])) != first[1]:
        raise errors.DataLossError(f"{where} has crc32 {crc32.decode()} but was written with {first[1].decode()}; "
                                   "the file is damaged")
    try:
        body: dict[str, Any] = json.loads(content)
        _check_manifest(body)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as problem:
        raise errors.DataLossError(f"{where} does not follow format version {VERSION} ({problem}); "
                                   "write it with this program, or read it with the one that wrote it") from problem
    return body


def _check_manifest(body: Mapping[str, Any]) -> None:
    """ValueError or the like unless everything a reader relies on is there and of the right kind."""
    if body["format"] != "workbench checkpoint" or body["version"] != VERSION:
        raise ValueError(f"it is {body['format']!r} of version {body['version']}")
    if not isinstance(body["meta"], dict) or not isinstance(body["serial"], int) or not isinstance(
            body["step"], int | None):
        raise ValueError("step, serial or meta are of the wrong kind")
    for name, shard in body["shards"].items():
        if Path(name).name != name or not SHARD_NAME.fullmatch(name):
            raise ValueError(f"shard {name!r} is not a shard's file name")
        if not isinstance(shard["nbytes"], int) or not isinstance(shard["header_crc32"], str):
            raise ValueError(f"shard {name!r} lacks a size and a checksum")
    largest = sum(shard["nbytes"] for shard in body["shards"].values())
    for name, tensor in body["tensors"].items():
        if fault := _cover_fault(tensor):
            raise ValueError(f"the parts of {name!r} {fault}")
        if math.prod(tensor["shape"]) > largest:
            raise ValueError(f"{name!r} has more elements than the shards have bytes")
        if not all(piece["file"] in body["shards"] and isinstance(piece["crc32"], str) and isinstance(piece["key"], str)
                   for piece in tensor["slices"]):
            raise ValueError(f"a part of {name!r} lies in no shard")
