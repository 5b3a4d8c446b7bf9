"""What a dataset gave, kept until its next pass: in memory, or in a file of records that later runs of a program read too."""
from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.state import tensorfile, tfrecord
from workbench.core.state.passing import Element, Failure, Found, Program, Run

__all__ = ["KINDS"]

Array = np.ndarray[Any, Any]


def _cached(run: Run, program: Program, filename: Any) -> Iterator[Found]:
    path = np.asarray(run.value(filename), object).item().decode("utf-8", "surrogateescape")
    if path:
        yield from _in_file(run, program, path)
    elif program in run.caches:
        yield from run.caches[program]
    else:
        found = []
        for element in run.elements(program):
            found.append(element)
            yield element
        run.caches[program] = found


def _in_file(run: Run, program: Program, path: str) -> Iterator[Found]:
    whole = f"{path}.tfrecord"
    if os.path.exists(whole):
        with open(whole, "rb") as file:
            for offset, record in tfrecord.frames(file, whole):
                yield _element(record, f"dataset cache {whole!r}: the record at byte {offset}")
        return
    with _unfinished(path) as file:
        for element in run.elements(program):
            if not isinstance(element, Failure):
                file.write(tfrecord.frame(_record(element, path)))
            yield element
        file.flush()
        os.replace(file.name, whole)


@contextlib.contextmanager
def _unfinished(path: str) -> Iterator[Any]:
    """The file in which a cache grows: it holds others off, and is gone where the data were not read to their end."""
    growing = f"{path}.lockfile"
    try:
        file = open(growing, "xb")      # noqa: SIM115
    except FileExistsError:
        raise errors.AlreadyExistsError(f"dataset cache: {growing!r} exists, so another iterator writes this cache (cache "
                                        "lockfile already exists); wait for it, name another file, or delete what a program "
                                        "that was killed left") from None
    except OSError as problem:
        raise errors.NotFoundError(f"dataset cache: {growing!r} cannot be written ({problem.strerror}); name a file in a "
                                   "folder that exists") from None
    try:
        with file:
            yield file
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(growing)


def _record(element: Element, path: str) -> bytes:
    """The parts of an element: a line of JSON that describes them, and their bytes."""
    stored = [tensorfile.encode("dataset cache", path, part) for part in element]
    blobs = [np.ascontiguousarray(array).tobytes() for _, array in stored]
    rows = [[kind, list(part.shape), len(blob)] for (kind, _), part, blob in zip(stored, element, blobs)]
    return json.dumps(rows).encode() + b"\n" + b"".join(blobs)


def _element(record: bytes, where: str) -> Element:
    text, _, rest = record.partition(b"\n")
    try:
        parts, begin = [], 0
        for kind, shape, length in json.loads(text):
            raw = np.frombuffer(rest, np.uint8, length, begin)
            parts.append(tensorfile.decode(kind, tuple(shape), raw).copy())
            begin += length
    except (ValueError, TypeError, errors.Error) as problem:
        raise errors.DataLossError(f"{where} is no element ({problem}); delete the file, and it is written anew") from None
    return tuple(parts)


KINDS: dict[str, Callable[..., Iterator[Found]]] = {"cache": _cached}
