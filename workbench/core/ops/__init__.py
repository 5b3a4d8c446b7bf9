"""What exists: a family of operations a file, an operation a block; importing the package registers all of them."""
from __future__ import annotations

import importlib
import pkgutil

from workbench.core.graph.build import check_fronts

__all__ = sorted(module.name for module in pkgutil.iter_modules(__path__))

for _name in __all__:
    importlib.import_module(f"{__name__}.{_name}")
check_fronts()
