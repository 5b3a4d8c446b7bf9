"""What was measured, as text on disk: one entry of the kernel cache for each question and machine."""
from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from workbench.core.kernels.cache import Cache
from workbench.core.kernels.cache import unpacked as whole
from workbench.core.kernels.measured.question import Time, right
from workbench.core.kernels.onednn_api import load

__all__ = ["Times", "keep", "kept", "machine", "packed", "recall", "unpacked"]

PREFIX: Final = "times-"
"""Of the names of the entries, which lie beside those of compiled kernels."""
KERNELS: Final = Path(__file__).parents[1]
Times = Mapping[str, Time]


@functools.cache
def machine() -> str:
    """What times depend on beside the question: processor and its instructions, cores, libraries and their settings, and the
    text of our own kernels."""
    library = load()
    limits = [f"{name}={os.environ[name]}" for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "OPENBLAS_CORETYPE")
              if name in os.environ]
    onednn = "no oneDNN" if library is None else "oneDNN " + ".".join(map(str, library.version))
    return "; ".join([platform.machine(), *_processor(), f"{os.cpu_count()} cores", onednn, _llvm(), f"NumPy {np.__version__}",
                      *limits, f"kernels {own(KERNELS)}"])


def own(folder: Path) -> str:
    """A digest of the modules in `folder`, whose text decides how the ways compute, and so how long they take."""
    texts = (path.name.encode() + b"\0" + path.read_bytes() for path in sorted(folder.glob("*.py")))
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]


def _llvm() -> str:
    try:
        import llvmlite
    except ImportError:
        return "no LLVM"
    return f"llvmlite {llvmlite.__version__}"


def _processor() -> list[str]:
    """Its name, and a digest of what it can do; what the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return [platform.processor()]
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in reversed(lines))}
    able = " ".join(sorted(told.get("flags", told.get("Features", "")).split()))
    return [told.get("model name", platform.processor()), "instructions " + hashlib.sha256(able.encode()).hexdigest()[:8]]


def packed(here: str, key: str, times: Times) -> bytes:
    """The content of an entry."""
    ways = {name: {"seconds": time.seconds, "reorders": list(time.reorders)} for name, time in times.items()}
    return json.dumps({"machine": here, "question": key, "ways": ways}, sort_keys=True).encode()


def unpacked(content: bytes | None) -> tuple[str, str, Times] | None:
    """(machine, question, times) of an entry; None for what is none, or holds what is no time."""
    if content is None:
        return None
    try:
        found: Any = json.loads(content)
        here, key = found["machine"], found["question"]
        times = {str(name): Time(float(one["seconds"]), tuple(map(float, one["reorders"])))
                 for name, one in found["ways"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    fine = isinstance(here, str) and isinstance(key, str) and times and all(map(right, times.values()))
    return (here, key, times) if fine else None


def keep(cache: Cache, key: str, times: Times) -> None:
    """Write what was measured here; whoever wrote the same before is replaced."""
    cache.put(_name(key), packed(machine(), key, times))


def recall(cache: Cache, key: str) -> Times:
    """What was measured on this machine; nothing where it was not, or where the entry is damaged or another's."""
    found = unpacked(cache.get(_name(key)))
    return found[2] if found is not None and found[:2] == (machine(), key) else {}


def _name(key: str) -> str:
    return PREFIX + hashlib.sha256(f"{machine()}\0{key}".encode()).hexdigest()


def kept(cache: Cache) -> Iterator[tuple[str, str, Times] | None]:
    """(machine, question, times) of every entry, of all machines and versions; None for one that cannot be read."""
    for entry in cache.entries():
        if entry.path.stem.startswith(PREFIX):
            with contextlib.suppress(OSError):
                yield unpacked(whole(entry.path.read_bytes()))
