"""Modules of TensorFlow by import: `from tensorflow.contrib import rnn`, `import tensorflow.contrib.slim as slim`."""
from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from workbench import errors
from workbench.tf1.missing import Namespace

__all__ = ["as_tensorflow", "install"]

PACKAGE = "workbench.tf1"


class _Names(MetaPathFinder, Loader):
    """Finds the namespaces of `workbench.tf1` as modules below it, and below whatever name a program knows it by."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        inside = _inside(fullname)
        if inside is None or (fullname.startswith(PACKAGE) and PathFinder.find_spec(fullname, path) is not None):
            return None      # somebody else's module, or a file of ours under its own name
        return ModuleSpec(fullname, self, is_package=True) if isinstance(_found(inside), (Namespace, ModuleType)) else None

    def create_module(self, spec: ModuleSpec) -> None:
        """None: Python makes an empty one, which exec_module replaces."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = _found(_inside(module.__name__) or [])


def _inside(fullname: str) -> list[str] | None:
    """The parts of a dotted name behind the name of workbench.tf1, None where it does not begin with one."""
    package, parts = sys.modules.get(PACKAGE), fullname.split(".")
    known = (parts[end:] for end in range(1, len(parts)) if sys.modules.get(".".join(parts[:end])) is package)
    return next(known, None) if package is not None else None


def _found(parts: Sequence[str]) -> Any:
    """What stands under these names. ImportError, with the nearest name, where the last of them is missing."""
    found: Any = sys.modules[PACKAGE]
    try:
        for part in parts:
            found = getattr(found, part)
    except AttributeError as error:
        raise ImportError(str(error)) from None
    return found


def install() -> None:
    """From here on namespaces can be imported; asked before files are looked for, so that each module exists once."""
    sys.meta_path.insert(0, _Names())


def as_tensorflow() -> Any:
    """From here on `import tensorflow` gives workbench.tf1, with all that is below it.

    InvalidArgumentError where TensorFlow itself was imported before.
    """
    module = importlib.import_module(PACKAGE)
    if sys.modules.setdefault("tensorflow", module) is not module:
        raise errors.InvalidArgumentError("as_tensorflow: tensorflow is imported already; call this before")
    return module
