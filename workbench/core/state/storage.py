"""Where checkpoints live: folders of this machine and, by URL, whatever fsspec knows; files written there durably."""
from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upath import UPath

from workbench import errors

__all__ = ["Place", "PlaceLike", "disk", "is_folder", "new_file", "place", "replace"]

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Place = Path | UPath
PlaceLike = str | os.PathLike[str] | UPath
Observe = Callable[[str], None]


def place(where: PlaceLike) -> Place:
    """A path of this machine, or for a URL ("memory://a/b", "s3://bucket/a") the same interface over fsspec.

    InvalidArgumentError when the package that serves this kind of URL is not installed.
    """
    if isinstance(where, UPath | Path):
        return where
    text = os.fsdecode(where)
    if "://" not in text:
        return Path(text)
    try:
        found = UPath(text)
        local = found.protocol in ("", "file", "local")
        return Path(found.path) if local else found
    except (ImportError, ValueError) as problem:
        raise errors.InvalidArgumentError(f"checkpoint: {text} cannot be reached ({problem}); install what serves such "
                                          "URLs, or give a folder") from problem


def is_folder(where: Place) -> bool:
    """Is there a folder? False also where nobody can tell."""
    with contextlib.suppress(OSError):
        return where.is_dir()
    return False


@contextmanager
def disk(path: Place) -> Iterator[None]:
    """Failures of the file system, said our way."""
    try:
        yield
    except OSError as problem:
        if problem.errno in NO_SPACE:
            raise errors.ResourceExhaustedError(f"checkpoint: {path} cannot be written, the disk is full "
                                                f"({problem}); free some space or choose another folder") from problem
        raise errors.FailedPreconditionError(f"checkpoint: {path} cannot be written ({problem}); choose another folder, or "
                                             "make this one writable") from problem


@contextmanager
def new_file(path: Place) -> Iterator[Any]:
    """The file at `path` (folders are made), open for writing; durable at the end, gone when the body fails."""
    with disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("wb") as file:
                yield file
                if isinstance(path, Path):
                    file.flush()
                    os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            raise


def replace(path: Place, content: bytes, observe: Observe = lambda event: None) -> None:
    """Give `path` this content durably, in one step: a reader sees the old or the new, never a mixture.

    A folder's file is renamed into place; object stores show a file only when it is complete.
    """
    if not isinstance(path, Path):
        observe("manifest prepared")
        with new_file(path) as file:
            file.write(content)
        return
    draft = path.with_name(f"{path.name}.{secrets.token_hex(6)}.tmp")
    with new_file(draft) as file:
        file.write(content)
    with disk(path):
        try:
            _sync_folder(path.parent)      # the names of the files that it speaks of are durable before its own is
            observe("manifest prepared")
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
