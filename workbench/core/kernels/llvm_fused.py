"""Kernels for fused elementwise chains: one loop nest per body, element types and broadcast pattern; sizes are arguments."""
from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import registry
from workbench.core.graph.rules import infer_dtypes
from workbench.core.kernels.choice import Choice, Kernel, Select, Spec, register
from workbench.core.kernels.expressions import MEMORY, LanguageError
from workbench.core.kernels.language import translate
from workbench.core.kernels.llvm import HEAVY, Program, bind, library_source, usable

__all__ = ["kernel_source", "make_kernel", "translatable"]

FEWEST = 1024      # elements of an operation alone: below, NumPy's call costs less
_MEMORY = {scalar: name for name, scalar in MEMORY.items()}
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


@register("llvm", "fused")
def _select(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
            free: Sequence[bool]) -> Choice | None:
    if not usable():
        return None
    source, extents = kernel_source(attrs, inputs, outputs)
    return Choice("llvm", (None,) * len(inputs), (None,) * len(outputs),
                  lambda static: make_kernel(source, extents), source=source,
                  note="fused loop" if len(attrs["steps"]) > 1 else "compiled loop")


def _alone(kind: str) -> Select:
    """A selector for operations that NumPy computes in several passes, or by calling Python for each element."""
    def select(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
               free: Sequence[bool]) -> Choice | None:
        dtypes = tuple(s.dtype.name for s in inputs)
        if outputs[0].nbytes < FEWEST * outputs[0].dtype.itemsize or not translatable(kind, dtypes, outputs[0].dtype.name):
            return None
        operands = tuple(("input", i) for i in range(len(inputs)))
        return _select({"steps": ((kind, operands, tuple(attrs.items())),), "results": ((0,),)}, inputs, outputs, free)
    return select


for _kind in ("erf", "softplus", "sigmoid_cross_entropy", "elu", "selu"):
    register("llvm", _kind)(_alone(_kind))


@functools.lru_cache(maxsize=1024)
def translatable(kind: str, dtypes: tuple[str, ...], result: str) -> bool:
    """Does the kernel language compute this operation for these element types?"""
    definition = registry[kind]
    if definition.elementwise is None or not {*dtypes, result} <= _MEMORY.keys():
        return False
    parameters = ", ".join(f"{n}: {_MEMORY[d]}" for n, d in zip((*definition.inputs, "result"), (*dtypes, result)))
    body = _renamed(definition.elementwise, {n: f"{n}[0]" for n in definition.inputs})
    source = f"def kernel({parameters}):\n    value: {result} = {body}\n    result[0] = value\n"
    try:
        translate((library_source("program_math.py"), source), "kernel")
    except (LanguageError, SyntaxError):
        return False
    return True


def make_kernel(source: str, extents: Sequence[int]) -> Kernel:
    """The kernel of generated source for loops of these extents."""
    work = 1
    for extent in extents:
        work *= extent
    return bind(Program((library_source("program_math.py"), source), "kernel"), extents, work > HEAVY)


def kernel_source(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec]) -> tuple[str, list[int]]:
    """Text of the kernel in the kernel language, and the extents of its loops from outside in."""
    results, columns = attrs["results"], attrs.get("columns") or (None,) * len(inputs)
    *before, width = outputs[0].shape or (1,)
    space = (*before, width // len(results[0]))
    apart = any(first is not None for first in columns) or any(len(of) > 1 for of in results)
    dims, flags = _collapse(space, [space if first is not None else s.shape for s, first in zip(inputs, columns)], apart)
    names = [f"a{i}" for i in range(len(inputs))]
    places = [_index(varies) if first is None else _in_row(varies, s.shape[-1], first)
              for varies, s, first in zip(flags, inputs, columns)]
    loads = [(_depth(varies), f"{name}v = {name}[{place}]") for name, varies, place in zip(names, flags, places)]
    parameters = [f"{n}: {_MEMORY[s.dtype.name]}" for n, s in zip(
        (*names, *(f"o{i}" for i in range(len(outputs)))), (*inputs, *outputs))]
    parameters += [f"n{axis}: int64" for axis in range(len(dims))]
    lines = [f"def kernel({', '.join(parameters)}):"]
    for axis in range(len(dims) + 1):
        lines += ["    " * (axis + 1) + load for depth, load in loads if depth == axis]
        if axis < len(dims):
            kind = "independent" if axis == len(dims) - 1 else "range"
            lines.append("    " * (axis + 1) + f"for i{axis} in {kind}(n{axis}):")
    indent = "    " * (len(dims) + 1)
    lines += [indent + text for text in _body(attrs, inputs)]
    everywhere = [True] * len(dims)
    for output, of in enumerate(results):
        for part, step in enumerate(of):
            place = _index(everywhere) if len(of) == 1 else _in_row(everywhere, len(of) * space[-1], part * space[-1])
            lines.append(f"{indent}o{output}[{place}] = s{step}")
    return "\n".join(lines) + "\n", dims


def _collapse(space: Sequence[int], shapes: Sequence[Sequence[int]], apart: bool) -> tuple[list[int], list[list[bool]]]:
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


def _index(varies: Sequence[bool]) -> str:
    """Offset of an element from the counters of the loops it varies with."""
    terms = ""
    for axis, moves in enumerate(varies):
        if moves:
            terms = f"({terms}) * n{axis} + i{axis}" if terms else f"i{axis}"
    return terms or "0"


def _in_row(varies: Sequence[bool], length: int, first: int) -> str:
    """The same in an array whose rows, of `length` elements, hold columns of others before `first`."""
    return f"({_index(varies[:-1])}) * {length} + {first}" + (f" + i{len(varies) - 1}" if varies[-1] else "")


def _depth(varies: Sequence[bool]) -> int:
    """The loop in which an input is read: the last that it varies with."""
    return max((axis for axis, moves in enumerate(varies) if moves), default=-1) + 1


def _body(attrs: Mapping[str, Any], inputs: Sequence[Spec]) -> list[str]:
    lines: list[str] = []
    types: list[str] = []
    for number, (kind, operands, options) in enumerate(attrs["steps"]):
        definition = registry[kind]
        assert definition.elementwise is not None
        arguments = [f"a{i}v" if where == "input" else f"s{i}" for where, i in operands]
        dtypes = [as_dtype(inputs[i].dtype if where == "input" else types[i]) for where, i in operands]
        types.append(infer_dtypes(definition, dtypes, dict(options), 1)[0].name)
        lines.append(f"s{number}: {types[-1]} = {_renamed(definition.elementwise, dict(zip(definition.inputs, arguments)))}")
    return lines


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return _NAME.sub(lambda m: names.get(m[0], m[0]), text)
