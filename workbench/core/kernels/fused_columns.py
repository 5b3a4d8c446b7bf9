"""Text of fused kernels that add up columns: one pass over the rows in blocks, whose sums are then added in float64."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.core.kernels.choice import Kernel, Spec
from workbench.core.kernels.fused_loops import head_line, step_line, step_types

__all__ = ["MANY", "NARROWEST", "SUMS", "column_source", "reduces_columns", "summed_up"]

SUMS = ("reduce_sum", "reduce_mean")
NARROWEST = 16      # columns: fewer do not fill the vectors of a loop over a row
MANY = 1 << 14      # elements, from which a pass over memory costs more than the second call that adds up parts
BLOCK = 64          # rows that are added in their own type, one after the other


def reduces_columns(axis: Any, shape: Sequence[int]) -> bool:
    """Are these all axes of `shape`, two or more, but the last?"""
    if axis is None or len(shape) < 2:
        return False
    axes = {one % len(shape) for one in (axis if isinstance(axis, Sequence) else (axis,))}
    return axes == set(range(len(shape) - 1))


def column_source(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec]) -> tuple[str, list[int]]:
    """Text of the kernel in the kernel language, and the extents of its loops: blocks, rows, columns.

    In the place of an output that is a sum it gets memory for one row of parts a block, which `summed_up` adds up. Which rows
    are a block does not depend on the threads that share the blocks.
    """
    *before, columns = attrs["space"]
    rows = math.prod(before)
    steps, types = attrs["steps"], step_types(attrs["steps"], inputs)
    sums = _sums(attrs)
    loads = ["a{0}v = a{0}[{1}]".format(i, _place(s.shape, attrs["space"])) for i, s in enumerate(inputs)]
    body = [step_line(number, steps, types) for number, (kind, _, _) in enumerate(steps) if kind not in SUMS]
    for output, (step,) in enumerate(attrs["results"]):
        if output in sums:
            [(where, i)] = steps[step][1]
            part = f"o{output}[i0 * n2 + i2]"
            body.append(f"{part} = {part} + " + (f"a{i}v" if where == "input" else f"s{i}"))
        else:
            body.append(f"o{output}[i1 * n2 + i2] = s{step}")
    dims = [-(-rows // BLOCK), rows, columns]
    lines = [head_line(steps, inputs, outputs, dims),
             "    for i0 in range(first, n0):",
             "        for i2 in independent(n2):",
             *(f"            o{output}[i0 * n2 + i2] = 0.0" for output in sums),
             f"        end = (i0 + 1) * {BLOCK} if (i0 + 1) * {BLOCK} < n1 else n1",
             f"        for i1 in range(i0 * {BLOCK}, end):",
             "            for i2 in independent(n2):",
             *("                " + line for line in (*loads, *body))]
    return "\n".join(lines) + "\n", dims


def summed_up(attrs: Mapping[str, Any], inputs: int, extents: Sequence[int], kernel: Kernel) -> Kernel:
    """A kernel of the values and results of such an operation, by the one of its source."""
    blocks, rows, columns = extents
    ends = [(inputs + output, rows if mean else 1) for output, mean in _sums(attrs).items()]

    def run(*arrays: Any) -> None:
        given = list(arrays)
        for place, _ in ends:
            given[place] = np.empty((blocks, columns), arrays[place].dtype)
        kernel(*given)
        for place, count in ends:
            total = np.add.reduce(given[place], axis=0, dtype=np.float64)
            np.divide(total, count, out=arrays[place].reshape(columns), casting="same_kind")
    return run


def _sums(attrs: Mapping[str, Any]) -> dict[int, bool]:
    """The outputs that are sums of columns; is it a mean?"""
    kinds = {output: attrs["steps"][step][0] for output, (step,) in enumerate(attrs["results"])}
    return {output: kind == "reduce_mean" for output, kind in kinds.items() if kind in SUMS}


def _place(shape: Sequence[int], space: Sequence[int]) -> str:
    """Where a row finds the element of an input for its column."""
    if tuple(shape) == tuple(space):
        return "i1 * n2 + i2"
    return "i2" if math.prod(shape) > 1 else "0"
