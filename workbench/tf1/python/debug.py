"""`tensorflow.python.debug`: programs import it, and use it where asked to; what pauses and shows steps is the panel."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.tf1.missing import unknown

__all__ = ["has_inf_or_nan"]


def has_inf_or_nan(datum: Any, tensor: Any) -> bool:
    """Does the value of a tensor hold an infinity or something that is no number? False for what is no number at all."""
    return isinstance(tensor, np.ndarray) and tensor.dtype.kind in "fc" and not bool(np.isfinite(tensor).all())


def _panel_instead(name: str) -> type:
    """A class that programs import, and derive from; who makes one is told what to use."""
    def refuse(self: Any, *_: Any, **__: Any) -> None:
        raise errors.UnimplementedError(unknown(f"tf.python.debug.{name}", {}))
    return type(name, (), {"__init__": refuse, "__doc__": f"Not offered: {unknown(f'tf.python.debug.{name}', {})}"})


PANEL = {name: _panel_instead(name) for name in (
    "DebugDumpDir", "DumpingDebugHook", "DumpingDebugWrapperSession", "LocalCLIDebugHook", "LocalCLIDebugWrapperSession",
    "TensorBoardDebugHook", "TensorBoardDebugWrapperSession", "WatchOptions")}
"""Name -> class: what the panel does here."""


def __getattr__(name: str) -> Any:
    if name in PANEL:
        return PANEL[name]
    raise AttributeError(unknown(f"tf.python.debug.{name}", {}))
