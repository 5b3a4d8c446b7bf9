"""`tensorflow.python.debug`: programs import it, and use it where asked to; what pauses and shows steps is the panel."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.tf1.missing import unknown

__all__ = ["has_inf_or_nan"]


def has_inf_or_nan(datum: Any, tensor: Any) -> bool:
    """Does the value of a tensor hold an infinity or something that is no number? False for what is no number at all."""
    return isinstance(tensor, np.ndarray) and tensor.dtype.kind in "fc" and not bool(np.isfinite(tensor).all())


def __getattr__(name: str) -> Any:
    raise AttributeError(unknown(f"tf.python.debug.{name}", {}))
