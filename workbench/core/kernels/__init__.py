"""How, where the reference is too slow: one file per kernel library."""
from __future__ import annotations

import importlib
import importlib.util

from workbench.settings import settings

__all__ = ["load_libraries"]

_MODULES = {"onednn": ("workbench.core.kernels.onednn",),
            "numba": ("workbench.core.kernels.numba_fused", "workbench.core.kernels.numba_rows")}
_loaded: set[str] = set()


def load_libraries() -> None:
    """Register the selectors of every enabled library, once; cheap, because libraries load when they first serve."""
    for library in settings.libraries:
        if library in _loaded or library not in _MODULES:
            continue
        _loaded.add(library)
        for module in _MODULES[library]:
            if importlib.util.find_spec(module) is not None:
                importlib.import_module(module)
