"""Files by the names of TensorFlow's gfile: a thin layer over the standard library."""
from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from workbench import errors

__all__ = ["Copy", "DeleteRecursively", "Exists", "FastGFile", "FileStatistics", "GFile", "Glob", "IsDirectory",
           "ListDirectory", "MakeDirs", "MkDir", "Open", "Remove", "Rename", "Stat", "Walk"]


class GFile:
    """A file by name, opened when it is first read or written: text in UTF-8, or bytes with "b" in the mode.

    NotFoundError when it does not exist, PermissionDeniedError when it is opened for the other direction.
    """

    def __init__(self, name: Any, mode: str = "r") -> None:
        if mode.replace("b", "") not in ("r", "w", "a", "r+", "w+", "a+"):
            raise errors.InvalidArgumentError(f"gfile: mode {mode!r} is unknown; use r, w or a, with + or b behind")
        self._name, self._mode = os.fsdecode(name), mode
        self._opened: IO[Any] | None = self._open() if "w" in mode else None      # emptied, also if nothing is written
        self._reader: IO[Any] | None = None      # of a file for both directions, which is read from its beginning on

    @property
    def name(self) -> str:
        """The path."""
        return self._name

    @property
    def mode(self) -> str:
        """How it is open."""
        return self._mode

    @property
    def _file(self) -> IO[Any]:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self, mode: str | None = None) -> IO[Any]:
        if mode is None:
            mode = self._mode
            if mode.replace("b", "") == "r+" and not os.path.exists(self._name):
                mode = mode.replace("r", "w")      # as TensorFlow, which makes a file that is opened to be written
            if mode != "r" and "b" not in mode:
                mode += "b"      # what is written may be bytes of any kind
        try:
            return open(self._name, mode, encoding=None if "b" in mode else "utf-8")
        except FileNotFoundError:
            raise _missing(self._name) from None

    def _for(self, direction: str, modes: str) -> IO[Any]:
        if not any(letter in self._mode for letter in modes):
            raise errors.PermissionDeniedError(f"gfile: File isn't open for {direction}: {self._name!r} has mode "
                                               f"{self._mode!r}; open it with {modes[0]!r}")
        return self._read_from() if direction == "reading" else self._file

    def _read_from(self) -> IO[Any]:
        """What is read: where the file is also written, with a place of its own."""
        if "+" not in self._mode:
            return self._file
        self.flush()
        if self._reader is None:
            self._reader = self._open("rb" if "b" in self._mode else "r")
        return self._reader

    def read(self, n: int = -1) -> Any:
        """The next `n` characters or bytes, by default all that are left."""
        return self._for("reading", "r+").read(n)

    def readline(self) -> Any:
        """The next line, with its end; empty behind the last one."""
        return self._for("reading", "r+").readline()

    def readlines(self) -> list[Any]:
        """The lines that are left."""
        return self._for("reading", "r+").readlines()

    def write(self, file_content: Any) -> None:
        """Append."""
        file = self._for("writing", "wa+")
        file.write(file_content.encode() if isinstance(file_content, str) else file_content)

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Go to an offset from the beginning (0), here (1) or the end (2); `position` is the old name of the offset."""
        where = position if offset is None else offset
        if where is None or (offset is not None and position is not None):
            raise TypeError("seek(): offset and position are one; pass one of them")
        self._read_from().seek(where, whence)

    def tell(self) -> int:
        """Where the next read begins."""
        return self._read_from().tell()

    def size(self) -> int:
        """Bytes of the file."""
        self.flush()
        return Stat(self._name).length

    def flush(self) -> None:
        """Have what was written in the file."""
        if self._opened is not None:
            self._opened.flush()

    def close(self) -> None:
        """Close it; closing twice is fine."""
        for file in (self._opened, self._reader):
            if file is not None:
                file.close()
        self._opened = self._reader = None

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._for("reading", "r+"))

    def __next__(self) -> Any:
        line = self.readline()
        if not line:
            raise StopIteration
        return line


FastGFile = Open = GFile


def _missing(path: Any) -> errors.NotFoundError:
    return errors.NotFoundError(f"gfile: {os.fsdecode(path)!r} does not exist; check the path")


def _existing(path: Any) -> None:
    if not os.path.exists(path):
        raise _missing(path)


def _free(path: Any, overwrite: bool) -> None:
    if os.path.exists(path) and not overwrite:
        raise errors.AlreadyExistsError(f"gfile: {os.fsdecode(path)!r} exists; pass overwrite=True to replace it")


class FileStatistics(NamedTuple):
    """Bytes, when it was changed (nanoseconds since 1970), and whether it is a folder."""

    length: int
    mtime_nsec: int
    is_directory: bool


def Stat(filename: Any) -> FileStatistics:
    """What is known of a file. NotFoundError when it does not exist."""
    _existing(filename)
    found = os.stat(filename)
    return FileStatistics(found.st_size, found.st_mtime_ns, os.path.isdir(filename))


def Exists(filename: Any) -> bool:
    """Is there a file or folder?"""
    return os.path.exists(filename)


def IsDirectory(dirname: Any) -> bool:
    """Is it a folder?"""
    return os.path.isdir(dirname)


def ListDirectory(dirname: Any) -> list[str]:
    """Names in a folder, sorted."""
    if not os.path.isdir(dirname):
        raise errors.NotFoundError(f"gfile: {os.fsdecode(dirname)!r} is not a folder; check the path")
    return sorted(os.listdir(dirname))


def MakeDirs(dirname: Any) -> None:
    """Make a folder and those above it; fine when it exists."""
    os.makedirs(dirname, exist_ok=True)


def MkDir(dirname: Any) -> None:
    """Make one folder."""
    os.mkdir(dirname)


def Glob(filename: Any) -> list[str]:
    """Paths that match a pattern, or one of several, sorted."""
    patterns = list(filename) if isinstance(filename, (list, tuple)) else [filename]
    return sorted({path for pattern in patterns for path in glob.glob(os.fsdecode(pattern))})


def Remove(filename: Any) -> None:
    """Delete a file."""
    _existing(filename)
    os.remove(filename)


def DeleteRecursively(dirname: Any) -> None:
    """Delete a folder with all it holds."""
    _existing(dirname)
    shutil.rmtree(dirname)


def Copy(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:
    """Copy a file; AlreadyExistsError unless `overwrite`."""
    _free(newpath, overwrite)
    shutil.copyfile(oldpath, newpath)


def Rename(oldname: Any, newname: Any, overwrite: bool = False) -> None:
    """Rename a file; AlreadyExistsError unless `overwrite`."""
    _free(newname, overwrite)
    os.replace(oldname, newname)


def Walk(top: Any, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """(folder, folders in it, files in it) from `top` down, or from the innermost up where not `in_order`."""
    return os.walk(top, topdown=in_order)
