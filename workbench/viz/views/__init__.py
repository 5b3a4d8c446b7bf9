"""The views that a screen can watch: each is one file of this folder, found by being there."""

from __future__ import annotations

import importlib
import pkgutil

from workbench.viz.views.base import VIEWS, View, parameters

__all__ = ["VIEWS", "View", "parameters"]

for _module in sorted(one.name for one in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
