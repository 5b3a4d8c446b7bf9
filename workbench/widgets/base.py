"""What all live widgets share: their script and style as text, number columns as bytes, a picture for later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import anywidget
import numpy as np

__all__ = ["Widget", "columns", "read", "reply_at_once"]

_STATIC = Path(__file__).parent / "static"


def read(*names: str) -> str:
    """Static files one after the other, as text.

    NOTE: given a path, anywidget would watch the file for every instance and keep them all alive.
    """
    return "\n".join((_STATIC / name).read_text(encoding="utf-8") for name in names)


def columns(lists: Iterable[Sequence[float | None]]) -> tuple[list[int], bytes]:
    """Lengths, and the numbers behind each other as little-endian float32: None is NaN, steps are exact to 2^24."""
    arrays = [np.asarray([np.nan if v is None else v for v in values], dtype="<f4") for values in lists]
    return [len(a) for a in arrays], b"".join(a.tobytes() for a in arrays)


class Widget(anywidget.AnyWidget):
    """A widget that also leaves a picture in the notebook, shown where there is no kernel or no widget support."""

    def static_html(self) -> str:
        """What this widget shows now, as HTML without scripts; "" when there is nothing yet."""
        return ""

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        if bundle is None:
            return None
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        picture = self.static_html()
        return ({**data, "text/html": picture} if picture else data), metadata


def reply_at_once(widget: Any) -> None:
    """Have the page's messages to `widget` handled on the shell the page sent them to, also while a cell runs.

    NOTE: ipykernel 7.4 hands a comm's messages to the shell that last sent on it. For a widget made or changed by a
    running cell that is the main shell, and a button would be heard when the cell has ended. The hook is private;
    kernels without it need no help.
    """
    comm = widget.comm
    if comm is not None and hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: default
