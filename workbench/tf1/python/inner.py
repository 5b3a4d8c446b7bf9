"""What the inner modules share: one namespace under the names of all files that TensorFlow spread it over."""
from __future__ import annotations

from typing import Any

from workbench.tf1.missing import Namespace, unknown

__all__ = ["parts", "unknown"]


def parts(names: Any, files: str) -> Namespace:
    """A namespace in which every one of these files offers the same names."""
    return Namespace(**dict.fromkeys(files.split(), names))
