"""How, where the reference is too slow: one file per kernel library."""
from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from workbench.core.graph import ordered
from workbench.core.graph.opdef import OpDef, checks
from workbench.core.kernels.options import kernel_options
from workbench.settings import settings

__all__ = ["load_device_kernels", "load_libraries"]

_MODULES = {"onednn": ("workbench.core.kernels.onednn",),
            "llvm": tuple(f"workbench.core.kernels.llvm_{name}" for name in ("fused", "rows", "updates", "resize", "batch"))}
_DEVICES = {"GPU": "workbench.core.kernels.cuda"}
_loaded: set[str] = set()


def _check(definition: OpDef) -> None:
    """The expression of an operation of users is read when it is defined; reading costs the language, so only then."""
    if definition.elementwise is not None:
        importlib.import_module("workbench.core.kernels.stated").check(definition)


checks.append(_check)


def load_libraries() -> None:
    """Register the selectors of every enabled library, once; cheap, because libraries load when they first serve."""
    for library in kernel_options().libraries:
        if library not in _loaded and library in _MODULES:
            for module in _MODULES[library]:
                if importlib.util.find_spec(module) is not None:
                    importlib.import_module(module)
            _loaded.add(library)      # only now: another thread that makes a plan must find all selectors


def load_device_kernels(type: str) -> None:
    """Register this package's kernels for devices of that type, once; the libraries that they call load when they first run."""
    if type in _DEVICES and type not in _loaded:
        importlib.import_module(_DEVICES[type])
        _loaded.add(type)


def _ordered(a: Any, b: Any) -> Any:
    """Compiled products for reference kernels: LLVM loads when the first of them multiplies in a deterministic process."""
    if "llvm" not in settings.libraries:
        return None
    return importlib.import_module("workbench.core.kernels.llvm_ordered").ordered(a, b)


ordered.compiled.append(_ordered)
