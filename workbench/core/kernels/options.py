"""What a session lets kernel libraries do, and the options in force while a plan is made."""
from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

from workbench.core.kernels.choice import selectors
from workbench.errors import InvalidArgumentError
from workbench.settings import Settings, settings

__all__ = ["KernelOptions", "kernel_options", "using"]


@dataclass(frozen=True)
class KernelOptions:
    """How the plans of a session choose kernels; every session has its own, and its plans keep what they were made with."""

    libraries: tuple[str, ...] = field(default_factory=lambda: settings.libraries)
    """Kernel libraries that may serve, any of "llvm" and "onednn"; the NumPy reference always may."""
    winograd: bool = True
    """Winograd's algorithm where it pays: 3x3 and 5x5 filters, stride 1; relative error about 1e-5 instead of 1e-6."""
    keep_positions: bool = True
    """Keep the positions of the maxima behind a pooling's output instead of finding them again for the gradient."""

    def __post_init__(self) -> None:
        """InvalidArgumentError for a library that does not exist; user libraries exist once they are registered."""
        if isinstance(self.libraries, str):
            raise InvalidArgumentError(f"KernelOptions: libraries is the text {self.libraries!r}, expected a tuple of names; "
                                       f"write ({self.libraries!r},)")
        known = [*Settings.libraries, *(library for offers in selectors.values() for library, _ in offers)]
        for name in self.libraries:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                raise InvalidArgumentError(
                    f"KernelOptions: libraries names {name!r} but the kernel libraries are "
                    f"{', '.join(dict.fromkeys(known))}; " + (f"did you mean {near[0]}?" if near else "leave it out") +
                    " (Session(kernels=...), settings.libraries and WB_LIBRARIES name them)")


_in_force: ContextVar[KernelOptions | None] = ContextVar("kernel options", default=None)


def kernel_options() -> KernelOptions:
    """The options of the plan that this thread is making; outside of planning, those of a new session."""
    return _in_force.get() or KernelOptions()


@contextlib.contextmanager
def using(options: KernelOptions) -> Iterator[None]:
    """Kernels chosen inside are chosen with `options`."""
    token = _in_force.set(options)
    try:
        yield
    finally:
        _in_force.reset(token)
