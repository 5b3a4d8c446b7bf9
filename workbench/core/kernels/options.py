"""What a session lets kernel libraries do, and the options in force while a plan is made."""
from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

from workbench.core.kernels.choice import selectors
from workbench.core.kernels.measured.question import WAYS
from workbench.errors import InvalidArgumentError
from workbench.settings import Settings, settings

__all__ = ["KernelOptions", "kernel_options", "of_one_order", "using"]


@dataclass(frozen=True)
class KernelOptions:
    """How the plans of a session choose kernels; every session has its own, and its plans keep what they were made with."""

    libraries: tuple[str, ...] = field(default_factory=lambda: settings.libraries)
    """Kernel libraries that may serve, any of "llvm" and "onednn"; the NumPy reference always may. The rules of optimizers are
    the whole process's: `settings.libraries` says whether LLVM computes them, with the same bits as NumPy."""
    winograd: bool = True
    """Winograd's algorithm where it pays: 3x3 and 5x5 filters, stride 1; relative error about 1e-5 instead of 1e-6."""
    keep_positions: bool = True
    """Keep the positions of the maxima behind a pooling's output instead of finding them again for the gradient."""
    deterministic: bool = field(default_factory=lambda: settings.deterministic)
    """Choose by rules alone, whatever was measured on this machine, and let no bit of oneDNN's results depend on the number of
    threads. What reference kernels add up is the whole process's: `settings.deterministic` keeps that in one order, and what
    oneDNN would add up by the sizes of caches is then theirs."""
    ways: Mapping[str, str] = field(default_factory=dict, hash=False)
    """operation -> way in which it shall be executed wherever it can be, whatever rules and times say: {"matmul": "blas"}."""

    def __post_init__(self) -> None:
        """InvalidArgumentError for a library or a way that does not exist; user libraries exist once they are registered."""
        for op, way in self.ways.items():
            if way not in WAYS.get(op, ()):
                known = f"its ways are {', '.join(WAYS[op])}" if op in WAYS else f"only {', '.join(WAYS)} have several"
                raise InvalidArgumentError(f"KernelOptions: ways asks for {way!r} of {op!r} but {known}; name one of them, or "
                                           "leave it out")
        if isinstance(self.libraries, str):
            raise InvalidArgumentError(f"KernelOptions: libraries is the text {self.libraries!r}, expected a tuple of names; "
                                       f"write ({self.libraries!r},)")
        offered = list(selectors.values())      # at once: another thread that makes its first plan registers more
        libraries = [*Settings.libraries, *(library for offers in offered for library, _ in offers)]
        for name in self.libraries:
            if name not in libraries:
                near = difflib.get_close_matches(name, libraries, 1)
                raise InvalidArgumentError(
                    f"KernelOptions: libraries names {name!r} but the kernel libraries are "
                    f"{', '.join(dict.fromkeys(libraries))}; " + (f"did you mean {near[0]}?" if near else "leave it out") +
                    " (Session(kernels=...), settings.libraries and WB_LIBRARIES name them)")


_in_force: ContextVar[KernelOptions | None] = ContextVar("kernel options", default=None)


def kernel_options() -> KernelOptions:
    """The options of the plan that this thread is making; outside of planning, those of a new session."""
    return _in_force.get() or KernelOptions()


def of_one_order() -> bool:
    """Must sums have one order on all processors of an instruction set? So it is in deterministic sessions of deterministic
    processes, where references too keep it (`workbench.core.graph.ordered`)."""
    return settings.deterministic and kernel_options().deterministic


@contextlib.contextmanager
def using(options: KernelOptions) -> Iterator[None]:
    """Kernels chosen inside are chosen with `options`."""
    token = _in_force.set(options)
    try:
        yield
    finally:
        _in_force.reset(token)
