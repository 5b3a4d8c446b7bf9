"""Text of fused elementwise kernels: one loop nest per body, element types and broadcast pattern; sizes are arguments."""
from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import registry
from workbench.core.graph.rules import infer_dtypes
from workbench.core.kernels.choice import Spec
from workbench.core.kernels.elements import MEMORY, computed

__all__ = ["REPEAT", "calls", "calls_in", "collapse", "depth", "head_line", "index", "loop_source", "memory_type",
           "passes_caches", "renamed", "step_line", "step_types"]

_MEMORY = {scalar: name for name, scalar in MEMORY.items()}
_CALLS = re.compile(r"\b(?:exp|log|tanh|sigmoid|log1p|expm1|erf)\(")
FEWEST_WIDE = 2048      # turns of a loop within others: what it gains pays for up to 63 elements that are computed one by one
REPEAT = "broadcast_to"
"""The operation that gives each element of a shape what its row, its column, or all have."""
CACHED = 2 << 20        # bytes that the caches of one core hold: loops over more ask for memory before they need it
PAST = 8 << 20          # bytes: results of loops that move fewer stay in the caches, whatever these hold
FEWEST_PAST = 256       # turns of a loop whose results may pass the caches by: stretches of 64, and few over
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def memory_type(dtype: str) -> str:
    """The language's word for memory of an element type, "" for one that it does not know."""
    return _MEMORY.get(dtype, "")


def loop_source(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec]) -> tuple[str, list[int]]:
    """Text of the kernel in the kernel language, and the extents of its loops from outside in."""
    results, columns = attrs["results"], attrs.get("columns") or (None,) * len(inputs)
    *before, width = outputs[0].shape or (1,)
    space = (*before, width // len(results[0]))
    apart = any(first is not None for first in columns) or any(len(of) > 1 for of in results)
    dims, flags = collapse(space, [space if first is not None else s.shape for s, first in zip(inputs, columns)], apart)
    places = [index(varies) if first is None else _in_row(varies, s.shape[-1], first)
              for varies, s, first in zip(flags, inputs, columns)]
    loads = [(depth(varies), f"a{i}v = a{i}[{place}]") for i, (varies, place) in enumerate(zip(flags, places))]
    lines = [head_line(attrs["steps"], inputs, outputs, dims)]
    streams = len(dims) == 1 and sum(s.nbytes for s in (*inputs, *outputs)) > CACHED
    past = passes_caches(attrs["steps"], inputs, outputs, dims[-1])
    for axis in range(len(dims) + 1):
        lines += ["    " * (axis + 1) + load for deep, load in loads if deep == axis]
        if axis < len(dims):
            kind, how = ("range", "") if axis < len(dims) - 1 else ("streamed" if streams else "independent", past)
            lines.append("    " * (axis + 1) + f"for i{axis} in {kind}({'first, ' if axis == 0 else ''}n{axis}{how}):")
    indent = "    " * (len(dims) + 1)
    types = step_types(attrs["steps"], inputs)
    lines += [indent + step_line(number, attrs["steps"], types) for number in range(len(types))]
    everywhere = [True] * len(dims)
    for output, of in enumerate(results):
        for part, step in enumerate(of):
            place = index(everywhere) if len(of) == 1 else _in_row(everywhere, len(of) * space[-1], part * space[-1])
            lines.append(f"{indent}o{output}[{place}] = s{step}")
    return "\n".join(lines) + "\n", dims


def passes_caches(steps: Sequence[Any], inputs: Sequence[Spec], outputs: Sequence[Spec], turns: int) -> str:
    """A loop's `past` argument, "" where its results stay in the caches, or where computing takes longer than memory does.

    Before a loop that moves more than the last cache holds has ended, this has lost what it wrote first.
    """
    lost = sum(s.nbytes for s in (*inputs, *outputs)) >= max(PAST, last_cache())
    return ", past=True" if lost and turns >= FEWEST_PAST and not calls(steps) else ""


@functools.cache
def last_cache() -> int:
    """Bytes that the last cache of this processor holds; 0 where the system does not say."""
    sizes = [file.read_text().strip() for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) << 10 for size in sizes if size[:-1].isdigit() and size[-1] == "K"), default=0)


def head_line(steps: Sequence[Any], inputs: Sequence[Spec], outputs: Sequence[Spec], dims: Sequence[int]) -> str:
    """The kernel's first lines: its arrays, where the outermost loop begins, and where each loop ends.

    Its vectors are wide where functions are called and the innermost loop leaves few elements over, or is the only one.
    """
    names = (*(f"a{i}" for i in range(len(inputs))), *(f"o{i}" for i in range(len(outputs))))
    arrays = [f"{n}: {_MEMORY[s.dtype.name]}" for n, s in zip(names, (*inputs, *outputs))]
    wide = calls(steps) > 0 and (len(dims) == 1 or dims[-1] % 64 == 0 or dims[-1] >= FEWEST_WIDE)
    ends = [f"n{axis}: int64" for axis in range(len(dims))]
    return ("@wide\n" if wide else "") + f"def kernel({', '.join([*arrays, 'first: int64', *ends])}):"


def calls(steps: Sequence[Any]) -> int:
    """How many functions such as `exp` are computed for each element."""
    return sum(calls_in(registry[kind].elementwise) for kind, _, _ in steps)


def calls_in(elementwise: str | None) -> int:
    """How many functions an operation calls that take tens of instructions each, and as many to compile."""
    return len(_CALLS.findall(elementwise or ""))


def collapse(space: Sequence[int], shapes: Sequence[Sequence[int]], apart: bool) -> tuple[list[int], list[list[bool]]]:
    """Loop extents, and for each input which loops it varies with; neighbours with one pattern become one loop.

    The last axis stays `apart` where some arrays have longer rows.
    """
    dims: list[int] = []
    patterns: list[tuple[bool, ...]] = []
    for axis, extent in enumerate(space):
        alone = apart and axis == len(space) - 1
        if extent == 1 and len(space) > 1 and not alone:
            continue
        pattern = tuple(_varies(shape, axis - len(space)) for shape in shapes)
        if patterns and patterns[-1] == pattern and not alone:
            dims[-1] *= extent
        else:
            dims.append(extent)
            patterns.append(pattern)
    if not dims:
        dims, patterns = [1], [tuple(False for _ in shapes)]
    return dims, [[p[i] for p in patterns] for i in range(len(shapes))]


def _varies(shape: Sequence[int], axis: int) -> bool:
    return -axis <= len(shape) and shape[axis] != 1


def index(varies: Sequence[bool]) -> str:
    """Offset of an element from the counters of the loops it varies with."""
    terms = ""
    for axis, moves in enumerate(varies):
        if moves:
            terms = f"({terms}) * n{axis} + i{axis}" if terms else f"i{axis}"
    return terms or "0"


def _in_row(varies: Sequence[bool], length: int, first: int) -> str:
    """The same in an array whose rows, of `length` elements, hold columns of others before `first`."""
    return f"({index(varies[:-1])}) * {length} + {first}" + (f" + i{len(varies) - 1}" if varies[-1] else "")


def depth(varies: Sequence[bool]) -> int:
    """The loop in which an input is read: the last that it varies with."""
    return max((axis for axis, moves in enumerate(varies) if moves), default=-1) + 1


def step_types(steps: Sequence[Any], inputs: Sequence[Spec]) -> list[str]:
    """The element type of each step's value."""
    types: list[str] = []
    for kind, operands, options in steps:
        dtypes = [as_dtype(inputs[i].dtype if where == "input" else types[i]) for where, i in operands]
        types.append(infer_dtypes(registry[kind], dtypes, dict(options), 1)[0].name)
    return types


def step_line(number: int, steps: Sequence[Any], types: Sequence[str]) -> str:
    """The assignment that computes an elementwise step, or one that gives each element what its row, column or all have."""
    kind, operands, _ = steps[number]
    definition = registry[kind]
    arguments = [f"a{i}v" if where == "input" else f"s{i}" for where, i in operands]
    if kind == REPEAT:
        return f"s{number} = {arguments[0]}"
    assert definition.elementwise is not None
    return f"s{number}: {computed(types[number])} = {renamed(definition.elementwise, dict(zip(definition.inputs, arguments)))}"


def renamed(text: str, names: Mapping[str, str]) -> str:
    return _NAME.sub(lambda m: names.get(m[0], m[0]), text)
