"""The only reader of WB_* and WORKBENCH_* environment variables."""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from workbench import errors

__all__ = ["Settings", "settings"]


def _flag(name: str, default: bool) -> bool:
    raw = os.environ.get(name)
    return default if raw is None else raw.strip().lower() not in ("", "0", "false", "no", "off")


def _number(name: str, default: int) -> int:
    raw = os.environ.get(name, "").strip()
    if raw and not raw.isdecimal():
        raise errors.InvalidArgumentError(f"{name}: {raw!r} is not a whole number; set 0, 1, 2, … or leave it out")
    return int(raw) if raw else default


def _folder(name: str) -> Path | None:
    raw = os.environ.get(name, "").strip()
    try:
        return Path(raw).expanduser() if raw else None
    except RuntimeError:
        raise errors.InvalidArgumentError(f"{name}: {raw!r} is below a home folder that is not known; set a whole "
                                          "path") from None


def _quarter_of_memory() -> int:
    """Bytes; 1 GiB where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    except (AttributeError, ValueError, OSError):
        return 1 << 30


@dataclass
class Settings:
    """Process-wide switches; each field may be changed at run time before a session is made."""

    check: bool = False
    """Verify the graph after every pass (`WB_CHECK=1`; always on in the tests)."""
    libraries: tuple[str, ...] = ("llvm", "onednn")
    """Kernel libraries that may serve (`WB_LIBRARIES=onednn,llvm`); the NumPy reference always may."""
    threads: int = 0
    """Compute threads of one process for BLAS and oneDNN together (`WB_THREADS`); 0 = all cores that other
    processes leave."""
    trace: bool = True
    """Record spans (`WB_TRACE=0` turns the recorder off)."""
    trace_capacity: int = 200_000
    """Records kept in one process's ring (`WB_TRACE_CAPACITY`)."""
    trace_graph_bytes: int = 16 << 20
    """Bytes of graphs, stage by stage, that one process keeps for its views (`WB_TRACE_GRAPH_BYTES`)."""
    plan_bytes: int = field(default_factory=_quarter_of_memory)
    """Memory for the plans of one session (`WB_PLAN_BYTES`); the least used go first. A quarter of the machine's."""
    trace_bytes: int = 96 << 20
    """Bytes that the spans of one process may take (`WB_TRACE_BYTES`)."""
    data: Path | None = None
    """Folder with data sets (`WORKBENCH_DATA`); default: the user's cache folder."""

    cluster_key: str = field(default="", repr=False)
    """A secret that all processes of a ClusterSpec share (`WB_CLUSTER_KEY`): who does not know it is not let in."""
    cache: Path | None = None
    """Folder of compiled kernels (`WB_CACHE`); default: the user's cache folder."""
    cache_bytes: int = 256 << 20
    """Bytes of compiled kernels kept there, about (`WB_CACHE_BYTES`); 0 = none."""
    swap: Path | None = None
    """Folder of the values that `wb.swap` lets wait on disk (`WB_SWAP`); default: the system's for temporary files."""
    swap_bytes: int = 16 << 30
    """Bytes that they may take there, for each task (`WB_SWAP_BYTES`)."""
    deterministic: bool = False
    """The same bits with any number of threads, on all processors of one instruction set, and whatever was measured on this
    machine (`WB_DETERMINISTIC=1`): kernels are chosen by rules alone, and products, convolutions, sums of products and linear
    algebra are our own, in which sums have one order. Without LLVM they are NumPy's loops, which take many times as long."""
    check_numerics: bool = False
    """A step ends at the first operation whose value holds NaN or infinity (`WB_CHECK_NUMERICS=1`). To find it: looking takes
    time, and nothing is fused."""

    @classmethod
    def from_environment(cls) -> Settings:
        libraries = os.environ.get("WB_LIBRARIES")
        return cls(
            check=_flag("WB_CHECK", False),
            libraries=cls.libraries if libraries is None
            else tuple(part.strip() for part in libraries.split(",") if part.strip()),
            threads=_number("WB_THREADS", 0),
            trace=_flag("WB_TRACE", True),
            trace_capacity=_number("WB_TRACE_CAPACITY", cls.trace_capacity),
            trace_graph_bytes=_number("WB_TRACE_GRAPH_BYTES", cls.trace_graph_bytes),
            plan_bytes=_number("WB_PLAN_BYTES", 0) or _quarter_of_memory(),
            trace_bytes=_number("WB_TRACE_BYTES", cls.trace_bytes),
            cluster_key=os.environ.get("WB_CLUSTER_KEY", ""),
            data=_folder("WORKBENCH_DATA"),
            cache=_folder("WB_CACHE"),
            cache_bytes=_number("WB_CACHE_BYTES", cls.cache_bytes),
            swap=_folder("WB_SWAP"),
            swap_bytes=_number("WB_SWAP_BYTES", cls.swap_bytes),
            deterministic=_flag("WB_DETERMINISTIC", False),
            check_numerics=_flag("WB_CHECK_NUMERICS", False),
        )


settings = Settings.from_environment()
