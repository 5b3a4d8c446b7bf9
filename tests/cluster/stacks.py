"""Preloaded by Dask workers of tests: on SIGUSR1 a process writes where each of its threads is, even one that hangs."""
from __future__ import annotations

import faulthandler
import os
import signal
from pathlib import Path

FOLDER = "WB_TEST_STACKS"
"""The environment variable that names the folder to write to, one file a process."""


def path_of(folder: Path, pid: int) -> Path:
    return folder / f"{pid}.txt"


if FOLDER in os.environ:
    faulthandler.register(signal.SIGUSR1, path_of(Path(os.environ[FOLDER]), os.getpid()).open("w"), all_threads=True)
