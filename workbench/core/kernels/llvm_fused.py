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
        return _select({"steps": ((kind, operands, tuple(attrs.items())),), "results": (0,)}, inputs, outputs, free)
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
    dims, flags = _collapse(outputs[0].shape, [s.shape for s in inputs])
    names = [f"a{i}" for i in range(len(inputs))]
    results = [f"o{i}" for i in range(len(outputs))]
    parameters = [f"{n}: {_MEMORY[s.dtype.name]}" for n, s in zip((*names, *results), (*inputs, *outputs))]
    parameters += [f"n{axis}: int64" for axis in range(len(dims))]
    lines = [f"def kernel({', '.join(parameters)}):"]
    for axis in range(len(dims)):
        lines += _loads(names, flags, axis)
        kind = "independent" if axis == len(dims) - 1 else "range"
        lines.append("    " * (axis + 1) + f"for i{axis} in {kind}(n{axis}):")
    lines += _loads(names, flags, len(dims))
    indent = "    " * (len(dims) + 1)
    lines += [indent + text for text in _body(attrs, inputs)]
    index = _index([True] * len(dims))
    lines += [f"{indent}{name}[{index}] = s{step}" for name, step in zip(results, attrs["results"])]
    return "\n".join(lines) + "\n", dims


def _collapse(space: Sequence[int], shapes: Sequence[Sequence[int]]) -> tuple[list[int], list[list[bool]]]:
    """Loop extents, and for each input which loops it varies with; neighbours with one pattern become one loop."""
    dims: list[int] = []
    patterns: list[tuple[bool, ...]] = []
    for axis, extent in enumerate(space):
        if extent == 1 and len(space) > 1:
            continue
        pattern = tuple(_varies(shape, axis - len(space)) for shape in shapes)
        if patterns and patterns[-1] == pattern:
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


def _loads(names: Sequence[str], flags: Sequence[Sequence[bool]], depth: int) -> list[str]:
    """Loads of the inputs that vary last with the loop just opened: as far outside as possible."""
    found = []
    for name, varies in zip(names, flags):
        last = max((axis for axis, moves in enumerate(varies) if moves), default=-1) + 1
        if last == depth:
            found.append("    " * (depth + 1) + f"{name}v = {name}[{_index(varies)}]")
    return found


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
