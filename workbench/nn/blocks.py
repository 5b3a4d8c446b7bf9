"""Which block of a larger tensor of checkpoints a variable is: what the parts of one variable know of the whole."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["SaveSliceInfo", "full_name"]


@dataclass(frozen=True)
class SaveSliceInfo:
    """Which block of a larger tensor a variable is in checkpoints: that of `var_shape` at `var_offset` in `full_name`."""

    full_name: str
    full_shape: Sequence[int]
    var_offset: Sequence[int]
    var_shape: Sequence[int]

    @property
    def spec(self) -> str:
        """As the nodes of savers have it: "5 3 0,3:0,3"."""
        parts = ":".join(f"{start},{length}" for start, length in zip(self.var_offset, self.var_shape))
        return " ".join([*map(str, self.full_shape), parts])

    @property
    def block(self) -> tuple[slice, ...]:
        """Where its values are in the larger tensor."""
        return tuple(slice(start, start + length) for start, length in zip(self.var_offset, self.var_shape))


def full_name(variable: Any) -> str:
    """The name of a variable in checkpoints, which the parts of one share: without ":0" and "/part_0"."""
    part = variable._get_save_slice_info()
    return str(part.full_name if part else variable.op.name)
