"""Exported models in numbered folders: which are there, which stay, and where the next one is written."""
from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path as Folder
from typing import Any, NamedTuple

__all__ = ["Path", "garbage_collect_exports", "get_most_recent_export", "get_paths", "get_temp_export_dir",
           "get_timestamped_export_dir", "largest_export_versions", "mod_export_version", "negation",
           "one_of_every_n_export_versions", "union"]


class Path(NamedTuple):
    """A folder and the number of the model in it, None where it has none."""

    path: str
    export_version: int | None


Filter = Callable[[Iterable[Path]], list[Path]]


def largest_export_versions(n: int) -> Filter:
    """A function that keeps the `n` paths of the greatest numbers."""
    def keep(paths: Iterable[Path]) -> list[Path]:
        numbered = sorted((path for path in paths if path.export_version is not None), key=_number)
        return sorted(numbered[max(0, len(numbered) - n):])
    return keep


def _number(path: Path) -> int:
    return path.export_version or 0


def one_of_every_n_export_versions(n: int) -> Filter:
    """A function that keeps the greatest of each interval of numbers: 0 … n, n + 1 … 2n, and so on."""
    def keep(paths: Iterable[Path]) -> list[Path]:
        numbered = sorted((path for path in paths if path.export_version is not None), key=_number)
        return sorted({max(0, _number(path) - 1) // n: path for path in numbered}.values())
    return keep


def mod_export_version(n: int) -> Filter:
    """A function that keeps the multiples of `n`."""
    return lambda paths: sorted(path for path in paths if path.export_version is not None and path.export_version % n == 0)


def union(lf: Filter, rf: Filter) -> Filter:
    """A function that keeps what one of two keeps."""
    return lambda paths: sorted({*lf(paths), *rf(paths)})


def negation(f: Filter) -> Filter:
    """A function that keeps what another does not."""
    return lambda paths: sorted(set(paths) - set(f(paths)))


def get_paths(base_dir: Any, parser: Callable[[Path], Path | None]) -> list[Path]:
    """What is in a folder, sorted: `parser(path)` gives each path with its number, None where it is to be left out."""
    base = os.fsdecode(base_dir)
    found = (parser(Path(os.path.join(base, name), None)) for name in os.listdir(base))
    return sorted(path for path in found if path)


def _by_its_name(path: Path) -> Path | None:
    name = os.path.basename(path.path)
    return Path(path.path, int(name)) if name.isdigit() else None


def get_most_recent_export(export_dir_base: Any) -> Path | None:
    """The model of the greatest number, None without any."""
    return next(iter(largest_export_versions(1)(get_paths(export_dir_base, _by_its_name))), None)


def garbage_collect_exports(export_dir_base: Any, exports_to_keep: int | None) -> None:
    """Remove all models but the `exports_to_keep` of the greatest numbers (None: none is removed)."""
    if exports_to_keep is not None:
        for old in negation(largest_export_versions(exports_to_keep))(get_paths(export_dir_base, _by_its_name)):
            shutil.rmtree(old.path, ignore_errors=True)      # another task may remove it as well


def get_timestamped_export_dir(export_dir_base: Any) -> bytes:
    """A new folder, which is not made yet, named by the second that it is, or by the one after the newest there: the greatest
    number is the newest."""
    base = Folder(os.fsdecode(export_dir_base))
    taken = [int(path.name.removeprefix("temp-")) for path in (base.iterdir() if base.exists() else ())
             if path.name.removeprefix("temp-").isdigit()]
    return os.fsencode(base / str(max([int(time.time()), *(number + 1 for number in taken)])))


def get_temp_export_dir(timestamped_export_dir: Any) -> bytes:
    """The folder beside it in which a model is written until it is whole."""
    final = Folder(os.fsdecode(timestamped_export_dir))
    return os.fsencode(final.parent / f"temp-{final.name}")
