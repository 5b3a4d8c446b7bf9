"""The disk cache of compiled kernels: one folder, entries by key, checked, bounded; safe with many processes and Ctrl-C."""
from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Cache", "Entry", "default_folder", "shared"]

MAGIC = b"workbench kernel 1\n"
SUFFIX = ".kernel"
_log = logging.getLogger(__name__)
ABANDONED = 3600.0
"""Seconds after which a file that a killed process left half written is removed."""
UNKNOWN = Path("~")
"""The home folder of a user who has none."""


class Entry(NamedTuple):
    path: Path
    nbytes: int
    used: float


class Cache:
    """Bytes by key in `folder`; at most about `limit` bytes, the ones not used for longest leave first.

    An entry is its checksum and its content, written beside its place and renamed into it: readers see all of it or
    nothing, and what a Ctrl-C leaves behind is swept away later. Entries are machine code, so the folder must belong to
    the user and be writable by nobody else. Where the folder cannot be used, everything works without, and says so once.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._said: set[str] = set()

    def get(self, key: str) -> bytes | None:
        """The content, or None if it is absent or damaged; damaged entries are dropped."""
        if self.limit <= 0:
            return None
        try:      # plans ask for what mostly is not there
            with open(f"{self.folder}{os.sep}{key}{SUFFIX}", "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._say("folder", f"cannot be read ({error})")
            return None
        if not self._trusted():
            return None
        content, path = unpacked(data), self._path(key)
        with contextlib.suppress(OSError):
            if content is None:
                self._say("damaged", f"holds a damaged entry, {path.name}, which is made anew")
                path.unlink()
            else:
                os.utime(path)
        return content

    def put(self, key: str, content: bytes) -> None:
        """Keep `content`; a folder that is full or read-only is said once and otherwise ignored."""
        if self.limit <= 0:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._trusted():
                self._write(self._path(key), packed(content))
                self._evict()
        except OSError as error:
            self._say("folder", f"cannot be written ({error})")

    def _write(self, path: Path, data: bytes) -> None:
        handle, name = tempfile.mkstemp(suffix=".part", dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(name, path)
        except BaseException:      # Ctrl-C too
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def entries(self) -> Iterator[Entry]:
        """All entries; those that vanish while one looks are left out."""
        try:
            names = os.listdir(self.folder)
        except OSError:
            return
        for path in (self.folder / name for name in names if name.endswith(SUFFIX)):
            with contextlib.suppress(FileNotFoundError):
                known = path.stat()
                yield Entry(path, known.st_size, known.st_mtime)

    def _evict(self) -> None:
        entries = sorted(self.entries(), key=lambda entry: entry.used)
        total = sum(entry.nbytes for entry in entries)
        for entry in entries:
            if total <= self.limit:
                break
            with contextlib.suppress(FileNotFoundError):
                entry.path.unlink()
            total -= entry.nbytes
        for part in self.folder.glob("*.part"):
            with contextlib.suppress(FileNotFoundError):
                if part.stat().st_mtime < time.time() - ABANDONED:
                    part.unlink()

    def _trusted(self) -> bool:
        trouble = self.trouble()
        if trouble:
            self._say("folder", trouble)
        return not trouble

    def trouble(self) -> str:
        """Why the folder is not to be trusted or used; "" if it may be."""
        if self.folder == UNKNOWN:
            return "is not known: this user has no home folder"
        try:
            known = self.folder.stat()
        except OSError as error:
            return "" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
        if not stat.S_ISDIR(known.st_mode):
            return "is not a folder"
        if not os.access(self.folder, os.R_OK | os.W_OK | os.X_OK):
            return "cannot be read and written"
        if hasattr(os, "getuid") and (known.st_uid != os.getuid() or known.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
            return "belongs to, or can be written by, other users"
        return ""

    def damaged(self) -> list[Path]:
        """Entries whose content is not what was written."""
        found = []
        for entry in self.entries():
            with contextlib.suppress(OSError):
                if unpacked(entry.path.read_bytes()) is None:
                    found.append(entry.path)
        return found

    def _path(self, key: str) -> Path:
        return self.folder / (key + SUFFIX)

    def _say(self, kind: str, what: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            _log.warning("kernel cache: %s %s; kernels that it cannot give are compiled in each process. Set WB_CACHE to a "
                         "folder of your own, or WB_CACHE_BYTES=0", self.folder, what)


def packed(content: bytes) -> bytes:
    return MAGIC + hashlib.sha256(content).digest() + content


def unpacked(data: bytes) -> bytes | None:
    start = len(MAGIC) + 32
    content = data[start:]
    fine = data.startswith(MAGIC) and data[len(MAGIC):start] == hashlib.sha256(content).digest()
    return content if fine else None


def default_folder() -> Path:
    """Where this system keeps what may be made again."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData/Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "workbench" / "kernels"


@functools.cache
def shared(folder: Path | None, limit: int) -> Cache:
    """This process's cache in `folder`; None stands for the system's own place, which users without a home folder lack."""
    try:
        return Cache(folder if folder is not None else default_folder(), limit)
    except RuntimeError:      # of Path.home: no HOME and no entry of the user, as in a container run with any number
        cache = Cache(UNKNOWN, 0)
        if limit > 0:
            cache._say("folder", cache.trouble())
        return cache
