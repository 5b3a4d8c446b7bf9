"""Text of fused kernels that sum rows: as many loops over a row as its reductions wait for one another."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.core.graph.opdef import registry
from workbench.core.kernels.choice import Spec
from workbench.core.kernels.fused_loops import calls_in, collapse, depth, head_line, index, passes_caches, step_line, step_types
from workbench.core.ops.fused import Step

__all__ = ["REDUCTIONS", "SOFTMAX", "row_source", "softmax_steps"]

REDUCTIONS = {"reduce_sum": ("0.0", "plus"), "reduce_mean": ("0.0", "plus"),
              "reduce_max": ("-inf", "top"), "reduce_min": ("inf", "bottom")}
"""Operations over the elements of a row: with what they begin, and the word for one element more."""
SOFTMAX = ("softmax", "log_softmax")
BLOCK = 4096
"""Elements of a row that are added in their own type; the sums of such blocks are added in float64."""


@dataclass
class _Loop:
    """A loop over a row: what it reads that one before left in an output, what it computes, reduces and writes."""

    loads: dict[int, int] = field(default_factory=dict)               # step -> output
    steps: list[int] = field(default_factory=list)
    reduced: list[int] = field(default_factory=list)
    stores: list[tuple[int, int]] = field(default_factory=list)      # (output, step)


class _Rows:
    """The steps of a kernel: which vary along a row, and in which loop over it each is computed."""

    def __init__(self, attrs: Mapping[str, Any], outputs: Sequence[Spec], types: Sequence[str], along: Sequence[bool]) -> None:
        self.steps, self.types = attrs["steps"], types
        self.along: list[bool] = []      # does the value vary along the row?
        self.level: list[int] = []       # the first loop that can read it
        for kind, operands, _ in self.steps:
            varies = any([along[i] if where == "input" else self.along[i] for where, i in operands])
            self.along.append(varies and kind not in REDUCTIONS)
            before = max((self.level[i] for where, i in operands if where == "step"), default=0)
            self.level.append(before + (kind in REDUCTIONS))
        self.reductions = [i for i, (kind, _, _) in enumerate(self.steps) if kind in REDUCTIONS]
        self.full = {output: of for output, (of,) in enumerate(attrs["results"]) if outputs[output].shape == attrs["space"]}
        self.loops = self._planned({})
        self.loops = self._planned(self._kept(outputs))

    def _planned(self, kept: Mapping[int, int]) -> list[_Loop]:
        """The loops, where values of the steps `kept` lie in these outputs until the outputs' own are written."""
        last = max([self.level[of] for of in self.full.values()] + [self.level[of] - 1 for of in self.reductions])
        loops: list[_Loop] = []
        left: dict[int, int] = {}
        for number in range(last + 1):
            reduced = [of for of in self.reductions if self.level[of] == number + 1]
            stores = [(output, of) for output, of in self.full.items() if self.level[of] == number]
            loads, steps = self._needed([*(i for of in reduced for i in self._read(of)), *(of for _, of in stores)], left)
            stores += [(kept[i], i) for i in steps if i in kept]
            left = {step: output for step, output in left.items() if output not in dict(stores)}
            left.update({of: output for output, of in stores if self.along[of]})
            loops.append(_Loop(loads, steps, reduced, stores))
        return loops

    def _needed(self, wanted: Iterable[int], left: Mapping[int, int]) -> tuple[dict[int, int], list[int]]:
        """What a loop reads of what was `left`, and what it computes, for the steps `wanted` in it."""
        loads: dict[int, int] = {}
        steps: set[int] = set()
        stack = list(wanted)
        while stack:
            i = stack.pop()
            if i in left:
                loads[i] = left[i]
            elif self.along[i] and i not in steps:
                steps.add(i)
                stack += self._read(i)
        return loads, sorted(steps)

    def _read(self, step: int) -> list[int]:
        return [i for where, i in self.steps[step][1] if where == "step"]

    def _kept(self, outputs: Sequence[Spec]) -> dict[int, int]:
        """Steps that call functions and that several loops need, with outputs that nobody writes before the last of these."""
        kept: dict[int, int] = {}
        for i, (kind, _, _) in enumerate(self.steps):
            needed = [number for number, loop in enumerate(self.loops) if i in loop.steps]
            free = [output for output, of in self.full.items() if output not in kept.values() and len(needed) > 1
                    and self.level[of] >= needed[-1] and outputs[output].dtype.name == self.types[i]]
            if free and calls_in(registry[kind].elementwise):
                kept[i] = free[0]
        return kept


def softmax_steps(kind: str, operand: tuple[str, int], first: int) -> list[Step]:
    """The steps of a softmax of rows or its logarithm, of which the first has the number `first`."""
    top, less, power, total, last = [("step", first + i) for i in range(5)]
    kept = (("axis", -1), ("keepdims", True))
    steps: list[Step] = [("reduce_max", (operand,), kept), ("subtract", (operand, top), ()), ("exp", (less,), ()),
                         ("reduce_sum", (power,), kept)]
    if kind == "softmax":
        return [*steps, ("reciprocal", (total,), ()), ("multiply", (power, last), ())]      # one division a row
    return [*steps, ("log", (total,), ()), ("subtract", (less, last), ())]


def row_source(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec]) -> tuple[str, list[int]]:
    """Text of the kernel in the kernel language, and the extents of its loops from outside in; the last is that of a row.

    A step that several loops need is computed in each of them, from inputs that are in the cache by then, unless it calls
    a function: then the first loop leaves it in an output whose own values are not due before the last.
    """
    dims, flags = collapse(attrs["space"], [s.shape for s in inputs], True)
    if len(dims) == 1:
        dims, flags = [1, *dims], [[False, *varies] for varies in flags]
    rows = _Rows(attrs, outputs, step_types(attrs["steps"], inputs), [varies[-1] for varies in flags])
    lead, everywhere = len(dims) - 1, [True] * len(dims)
    loads = [(depth(varies), f"a{i}v = a{i}[{index(varies)}]") for i, varies in enumerate(flags)]
    lines = [head_line(attrs["steps"], inputs, outputs, dims)]
    for axis in range(lead + 1):
        lines += ["    " * (axis + 1) + load for deep, load in loads if deep == axis]
        if axis < lead:
            lines.append("    " * (axis + 1) + f"for i{axis} in range({'first, ' if axis == 0 else ''}n{axis}):")
    body = _whole(rows, 0)
    past = passes_caches(attrs["steps"], inputs, outputs, dims[-1])
    for number, loop in enumerate(rows.loops):
        last = number == len(rows.loops) - 1
        body += _loop(rows, loop, lead, [load for deep, load in loads if deep > lead], index(everywhere), past if last else "")
        body += _whole(rows, number + 1)
    body += [f"o{output}[{index(everywhere[:-1])}] = s{of}" for output, (of,) in enumerate(attrs["results"])
             if output not in rows.full]
    return "\n".join([*lines, *("    " * (lead + 1) + line for line in body)]) + "\n", dims


def _whole(rows: _Rows, level: int) -> list[str]:
    """What is computed once a row, before its loop number `level`."""
    return [step_line(i, rows.steps, rows.types) for i, along in enumerate(rows.along)
            if not along and i not in rows.reductions and rows.level[i] == level]


def _loop(rows: _Rows, loop: _Loop, axis: int, loads: Sequence[str], place: str, past: str) -> list[str]:
    """One loop over a row, its sums in blocks, and what its reductions give; `past` is the loop's argument of that name."""
    begins = {of: REDUCTIONS[rows.steps[of][0]] for of in loop.reduced}
    sums = [of for of, (_, word) in begins.items() if word == "plus"]
    inner = [*loads, *(f"s{step} = o{output}[{place}]" for step, output in loop.loads.items())]
    inner += [step_line(step, rows.steps, rows.types) for step in loop.steps]
    for of, (_, word) in begins.items():
        [(where, i)] = rows.steps[of][1]
        inner.append(f"p{of} = {word}(p{of}, " + (f"a{i}v)" if where == "input" else f"s{i})"))
    inner += [f"o{output}[{place}] = s{step}" for output, step in loop.stores]
    lines = [f"p{of}: {rows.types[of]} = {begin}" for of, (begin, _) in begins.items()]
    if sums:
        lines += [*(f"t{of}: float64 = 0.0" for of in sums), f"for block in range(0, n{axis}, {BLOCK}):",
                  f"    end = block + {BLOCK} if block + {BLOCK} < n{axis} else n{axis}",
                  *(f"    p{of} = 0.0" for of in sums), f"    for i{axis} in independent(block, end):",
                  *(f"        {line}" for line in inner), *(f"    t{of} += float64(p{of})" for of in sums)]
    else:
        lines += [f"for i{axis} in independent(n{axis}{past}):", *(f"    {line}" for line in inner)]
    for of in begins:
        value = f"p{of}" if of not in sums else f"t{of}" if rows.steps[of][0] == "reduce_sum" else f"t{of} / float64(n{axis})"
        lines.append(f"s{of} = {rows.types[of]}({value})")
    return lines
