"""Files by the names of TensorFlow's gfile: a thin layer over the standard library."""
from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator
from typing import Any

from workbench import errors

__all__ = ["Copy", "DeleteRecursively", "Exists", "FastGFile", "GFile", "Glob", "IsDirectory", "ListDirectory",
           "MakeDirs", "MkDir", "Open", "Remove", "Rename", "Walk"]


def GFile(name: Any, mode: str = "r") -> Any:
    """An open file; text is UTF-8. NotFoundError when it does not exist."""
    try:
        return open(name, mode, encoding=None if "b" in mode else "utf-8")
    except FileNotFoundError:
        raise errors.NotFoundError(f"gfile: {os.fspath(name)!r} does not exist; check the path") from None


FastGFile = Open = GFile


def Exists(path: Any) -> bool:
    """Is there a file or folder?"""
    return os.path.exists(path)


def IsDirectory(path: Any) -> bool:
    """Is it a folder?"""
    return os.path.isdir(path)


def ListDirectory(path: Any) -> list[str]:
    """Names in a folder, sorted."""
    if not os.path.isdir(path):
        raise errors.NotFoundError(f"gfile: {os.fspath(path)!r} is no folder; check the path")
    return sorted(os.listdir(path))


def MakeDirs(path: Any) -> None:
    """Make a folder and those above it; fine when it exists."""
    os.makedirs(path, exist_ok=True)


def MkDir(path: Any) -> None:
    """Make one folder."""
    os.mkdir(path)


def Glob(pattern: str) -> list[str]:
    """Paths that match, sorted."""
    return sorted(glob.glob(pattern))


def Remove(path: Any) -> None:
    """Delete a file."""
    if not os.path.exists(path):
        raise errors.NotFoundError(f"gfile: {os.fspath(path)!r} does not exist; check the path")
    os.remove(path)


def DeleteRecursively(path: Any) -> None:
    """Delete a folder with all it holds."""
    if not os.path.exists(path):
        raise errors.NotFoundError(f"gfile: {os.fspath(path)!r} does not exist; check the path")
    shutil.rmtree(path)


def Copy(source: Any, target: Any, overwrite: bool = False) -> None:
    """Copy a file; AlreadyExistsError unless `overwrite`."""
    if os.path.exists(target) and not overwrite:
        raise errors.AlreadyExistsError(f"gfile: {os.fspath(target)!r} exists; pass overwrite=True to replace it")
    shutil.copyfile(source, target)


def Rename(source: Any, target: Any, overwrite: bool = False) -> None:
    """Rename a file; AlreadyExistsError unless `overwrite`."""
    if os.path.exists(target) and not overwrite:
        raise errors.AlreadyExistsError(f"gfile: {os.fspath(target)!r} exists; pass overwrite=True to replace it")
    os.replace(source, target)


def Walk(top: Any) -> Iterator[tuple[str, list[str], list[str]]]:
    """(folder, folders in it, files in it) from `top` down."""
    return os.walk(top)
