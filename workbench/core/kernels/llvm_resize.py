"""Resized images and their gradients by compiled loops; which rows and columns count how is a table of the plan."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.kernels.choice import Choice, Kernel, Select, Spec, register
from workbench.core.kernels.language import library_source
from workbench.core.kernels.llvm import HEAVY, Program, bind, usable
from workbench.core.kernels.team import shared_rows, worth_sharing
from workbench.core.ops.images import taps

__all__: list[str] = []


def _resized(name: str) -> Select:
    def select(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
               free: Sequence[bool]) -> Choice | None:
        given, made = inputs[0], outputs[0]
        old, new = (given, made) if name == "resize" else (made, given)
        if made.dtype != np.float32 or given.dtype.kind not in "fiu" or 0 in (*given.shape, *made.shape) or not usable():
            return None
        count, line = old.shape[0], old.shape[1] * new.shape[2] * new.shape[3]
        shared = count > 1 and worth_sharing(old.nbytes + new.nbytes + 8 * count * line)
        return Choice("llvm", (None, None), (None,), lambda static: _kernel(name, old.shape, new.shape, attrs, shared),
                      scratch=4 * line * (count if shared else 1), note="compiled loops")
    return select


for _name in ("resize", "resize_grad"):
    register("llvm", _name)(_resized(_name))


def _kernel(name: str, old: tuple[int, ...], new: tuple[int, ...], attrs: Mapping[str, Any],
            shared: bool) -> Kernel:
    count, height, width, channels = old
    (rows, down), (columns, across) = taps(attrs["method"], old[1:3], new[1:3], attrs["align_corners"])
    places = (columns.T[:, :, None] * channels + np.arange(channels)).reshape(len(columns.T), -1)
    tables = [np.ascontiguousarray(places, np.int64), np.ascontiguousarray(np.repeat(across.T, channels, 1), np.float32),
              np.ascontiguousarray(rows.T, np.int64), np.ascontiguousarray(down.T, np.float32)]
    line = height * new[2] * channels
    numbers = (height, width * channels, new[1], new[2] * channels, columns.shape[1], rows.shape[1], line * shared)
    program = Program((library_source("program_resize.py"),), name, "team" if shared else "arrays")
    compiled = shared_rows(program, count, numbers) if shared else bind(program, (0, count, *numbers), count * line > HEAVY)
    wanted = list((new if name == "resize" else old)[1:3])

    def run(images: Any, size: Any, out: Any, line: Any) -> None:
        if size.tolist() != wanted:
            raise errors.ShapeError(f"{name}: size is {size.tolist()}, but its result was said to be {wanted}")
        compiled(np.ascontiguousarray(images, np.float32), *tables, out, line)
    return run
