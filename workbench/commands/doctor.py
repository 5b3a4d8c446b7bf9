"""`workbench doctor`: what is here, what is missing, and what to do about it, in one table."""
from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from workbench.commands.lab import TOUR, find_checkout
from workbench.settings import settings

__all__ = ["Finding", "findings", "report"]

NEEDED = ("anywidget", "bokeh", "dask", "distributed", "ipywidgets", "jupyterlab", "ml_dtypes", "msgpack", "numpy",
          "pooch", "rich", "scikit-learn", "typer", "universal-pathlib")
SHOWN = ("numpy", "dask", "jupyterlab", "bokeh")
STYLES = {"ok": "green", "missing": "bold red", "optional": "yellow"}


class Finding(NamedTuple):
    """One row; state is "ok", "missing" (workbench suffers) or "optional" (it does without)."""

    subject: str
    state: str
    detail: str
    advice: str = ""


def report(console: Console) -> int:
    """Print the table; 1 when something needed is missing, else 0."""
    rows = findings()
    table = Table("", "state", box=None)
    for title in ("found", "advice"):
        table.add_column(title, overflow="fold")      # a path is of use as a whole
    for row in rows:
        table.add_row(row.subject, Text(row.state, style=STYLES[row.state]), Text(row.detail), Text(row.advice))
    console.print(table, highlight=False)
    return int(any(row.state == "missing" for row in rows))


def findings() -> list[Finding]:
    checks: list[Callable[[], Iterator[Finding]]] = [_python, _packages, _libraries, _cache, _ways, _devices, _data, _front_end]
    return [row for check in checks for row in check()]


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    fine = sys.version_info >= (3, 11)
    yield Finding("Python", "ok" if fine else "missing", f"{version} at {sys.executable}",
                  "" if fine else "install Python 3.11 or newer")


def _packages() -> Iterator[Finding]:
    found = {name: _version(name) for name in NEEDED}
    absent = [name for name, version in found.items() if version is None]
    shown = ", ".join(f"{name} {found[name]}" for name in SHOWN if found.get(name))
    yield Finding("packages", "missing" if absent else "ok", f"{len(found) - len(absent)} of {len(found)}: {shown}",
                  f"pip install {' '.join(absent)}" if absent else "")


def _libraries() -> Iterator[Finding]:
    """Kernel libraries; the NumPy reference serves where one is absent."""
    onednn = next((name for name in ("onednn-cpu-gomp", "onednn-cpu-iomp", "onednn") if _version(name)), None)
    for subject, package, install, role in (("LLVM", "llvmlite", "llvmlite", "elementwise chains, softmax and updates"),
                                            ("oneDNN", onednn, "onednn-cpu-gomp", "convolution, pooling, matmul")):
        version = package and _version(package)
        key = subject.lower()
        if version and key not in settings.libraries:
            yield Finding(subject, "optional", f"{version}, switched off", f"add {key} to WB_LIBRARIES")
        else:
            yield Finding(subject, "ok" if version else "optional", version or "not installed",
                          "" if version else f"pip install {install} makes {role} faster")


def _cache() -> Iterator[Finding]:
    """The folder of compiled kernels: what it holds, and why it cannot be used if so."""
    from workbench.core.kernels.cache import shared
    from workbench.core.kernels.measured.record import kept

    cache = shared(settings.cache, settings.cache_bytes)
    entries, damaged, trouble = list(cache.entries()), cache.damaged(), cache.trouble()
    kernels = len(entries) - sum(1 for _ in kept(cache))
    size = f"{sum(e.nbytes for e in entries) / 2**20:.1f} of {cache.limit >> 20} MiB"
    shown = f"{cache.folder}: {kernels} kernels, {size}"
    if trouble:
        yield Finding("kernel cache", "optional", f"{cache.folder} {trouble}",
                      "set WB_CACHE to a folder of your own; until then each process compiles its kernels")
    elif damaged:
        yield Finding("kernel cache", "optional", f"{shown}, {len(damaged)} damaged", "nothing to do: they are compiled anew")
    else:
        yield Finding("kernel cache", "ok", shown)


def _ways() -> Iterator[Finding]:
    """What was measured on this machine, which decides how products and convolutions are computed."""
    from workbench.core.kernels.cache import shared
    from workbench.core.kernels.measured.record import kept, machine

    found = [one[0] for one in kept(shared(settings.cache, settings.cache_bytes)) if one is not None]
    here = found.count(machine())
    others = f", {len(found) - here} of other machines or versions" if len(found) > here else ""
    frozen = "; deterministic: rules choose" if settings.deterministic else ""
    yield Finding("measured ways", "ok" if here else "optional", f"{here} questions answered on this machine{others}{frozen}",
                  "" if here else "Session.tune(fetches, feeds) measures which kernels are fastest here")


def _devices() -> Iterator[Finding]:
    import psutil

    from workbench.core.threads import core_count

    cores = core_count()
    memory = psutil.virtual_memory()
    yield Finding("CPU", "ok", f"{cores} cores, {settings.threads or cores} threads for kernels")
    short = memory.available < 2 << 30
    yield Finding("memory", "optional" if short else "ok",
                  f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free",
                  "close other programs; a small cluster wants 2 GiB" if short else "")
    yield _gpu()


def _gpu() -> Finding:
    from workbench.core.device.cuda import cards, missing

    found = ", ".join(cards())
    if not found:
        return Finding("GPU", "optional", "none", "everything runs on the CPU")
    what, _, advice = missing().partition("; ")
    if what:
        return Finding("GPU", "optional", f"{found}, but {what}", advice)
    version = next(filter(None, map(_version, ("cupy-cuda13x", "cupy-cuda12x", "cupy"))), "of no version")
    asked = "ask with ConfigProto(device_count={'GPU': 1}) and wb.device('/gpu:0')"
    return Finding("GPU", "ok", f"{found}, CuPy {version}", asked)


def _data() -> Iterator[Finding]:
    from workbench.io.datasets import find_mnist

    folder, tried = find_mnist(download=False)
    if folder is not None:
        yield Finding("MNIST", "ok", str(folder))
    else:
        yield Finding("MNIST", "optional", "; ".join(tried[:-1]),
                      "it is downloaded on first use; offline, set WORKBENCH_DATA to a folder with the four files")


def _front_end() -> Iterator[Finding]:
    found = next((path for base in _data_folders() for path in base.glob("labextensions/*/package.json")
                  if path.parent.name == "workbench-lab"), None)
    if found:
        version = json.loads(found.read_text(encoding="utf-8")).get("version", "of no version")
        yield Finding("lab extension", "ok", f"{version} at {found.parent}")
    else:
        yield Finding("lab extension", "missing", "not found", "install workbench itself: pip install .")
    checkout = find_checkout(Path.cwd())
    yield Finding("tour", "ok" if checkout else "optional", str(checkout / TOUR) if checkout else "not found",
                  "" if checkout else "run in a checkout, or pass a notebook to `workbench lab`")
    graphviz = importlib.util.find_spec("pygraphviz")
    yield Finding("Graphviz", "ok" if graphviz else "optional", "found" if graphviz else "none",
                  "" if graphviz else "pip install pygraphviz")


def _data_folders() -> list[Path]:
    named = [Path(p) for p in os.environ.get("JUPYTER_PATH", "").split(os.pathsep) if p]
    return [*named, Path(sys.prefix) / "share/jupyter", Path(os.path.expanduser("~/.local/share/jupyter"))]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
