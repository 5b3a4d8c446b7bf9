"""The OpenMP runtime of our kernels: functions called in each thread of a team.

oneDNN and our loops use one and the same, whose threads are awake between its kernels and ours: the one of the process. Where
another package, torch for one, loaded that before anyone bounded how long its threads look for work, we have a copy of our own:
the linker knows a library by the name in it, so a copy with another name is another library, and so is a copy of oneDNN that
asks for that name.
"""
from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import os
import re
from pathlib import Path
from typing import Final

from workbench.environment import SPINS, spins_long

__all__ = ["Runtime", "load_with_runtime", "runtime"]

NAME: Final = "libgomp.so.1"
OWN_NAME: Final = "libgomp.so.w"
"""As long as the other: it takes its place in the file."""
_SOFT = 1      # OpenMP's word for "end the threads, keep the settings"
_logger = logging.getLogger("workbench")


class Runtime:
    """The OpenMP runtime that oneDNN uses: our loops run on its threads, which are awake between its own."""

    def __init__(self) -> None:
        self.library = _own() or ctypes.CDLL(NAME)
        self.number = self.library.omp_get_thread_num
        self.parallel = self.library.GOMP_parallel
        functions = self.number, self.library.omp_get_num_threads, self.parallel
        *self.team, self.start = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
        self.parallel.restype = None
        self.parallel.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        pause = getattr(self.library, "omp_pause_resource_all", None)
        if pause is not None and hasattr(os, "register_at_fork"):
            # NOTE: a forked child has the caller's team without its threads, and would wait for them for ever
            os.register_at_fork(before=functools.partial(pause, _SOFT))


@functools.cache
def runtime() -> Runtime | None:
    """None where there is no GNU OpenMP runtime."""
    try:
        return Runtime()
    except (OSError, AttributeError):
        return None


def load_with_runtime(path: Path) -> ctypes.CDLL:
    """The library at `path`, on our runtime if it needs one; raises OSError where it cannot be loaded.

    Its symbols stay its own: another oneDNN in this process (torch, TensorFlow) must not meet ours.
    """
    if _own() is not None:
        with contextlib.suppress(OSError):      # one for another runtime, or with others beside it that it needs
            return _renamed(path)
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)


@functools.cache
def _own() -> ctypes.CDLL | None:
    """The copy; None where nobody was there before, or there can be none: then our threads wait long."""
    if not spins_long():
        return None
    try:
        return _renamed(_file())
    except (AttributeError, OSError) as error:
        _logger.warning("another package loaded the OpenMP runtime before workbench was imported, and it can have no other "
                        "(%s): waiting threads take the cores from others for milliseconds. Import workbench first, or set "
                        "GOMP_SPINCOUNT=%s before Python starts", error, SPINS)
        return None


def _file() -> Path:
    """Where the runtime of the process lies."""
    found = re.search(rf"/.*/{re.escape(NAME)}\S*$", Path("/proc/self/maps").read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"{NAME} is loaded but not mapped from a file")
    return Path(found[0])


def _renamed(path: Path) -> ctypes.CDLL:
    """A copy of the library in memory, with our name for the runtime in it, and its own symbols before all others.

    NOTE: its file stays open; the linker would take the next one with that number for this one.
    """
    content, name = path.read_bytes(), NAME.encode() + b"\0"
    if name not in content:
        raise OSError(f"{path.name} does not need {NAME}")
    file = os.memfd_create(path.name)
    with open(file, "wb", closefd=False) as writer:
        writer.write(content.replace(name, OWN_NAME.encode() + b"\0"))
    return ctypes.CDLL(f"/proc/self/fd/{file}", mode=os.RTLD_LOCAL | os.RTLD_DEEPBIND)
