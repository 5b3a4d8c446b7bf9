"""Numba kernels for fused elementwise chains: one generated loop nest per body, shape and dtype."""
from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.graph.opdef import registry
from workbench.core.kernels.choice import Choice, Kernel, Spec, register

__all__ = ["kernel_source"]

_compiled: dict[str, Kernel] = {}
_lock = threading.Lock()
_NUMBER = re.compile(r"(?<![\w.])(\d+\.?\d*(?:e-?\d+)?)(?![\w.])")
_NAME = re.compile(r"[A-Za-z_]\w*")


@register("numba", "fused")
def _select(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
            free: Sequence[bool]) -> Choice | None:
    source = kernel_source(attrs, inputs, outputs)
    return Choice("numba", (None,) * len(inputs), (None,) * len(outputs), lambda static: compile_kernel(source),
                  note=source)


def compile_kernel(source: str) -> Kernel:
    """The compiled `kernel` of generated source; each text is compiled once per process."""
    with _lock:
        if source not in _compiled:
            import numba
            import numpy as np

            from workbench.core.kernels import numba_math
            namespace: dict[str, Any] = {
                "np": np, "exp32": numba_math.exp32, "log32": numba_math.log32, "tanh32": numba_math.tanh32,
                "sigmoid32": numba_math.sigmoid32, "sigmoid64": numba_math.sigmoid64,
                "maximum": numba_math.maximum, "minimum": numba_math.minimum,
                **{f"as_{n}": getattr(np, n) for n in ("float32", "float64", "int32", "int64")}, "as_bool": np.bool_}
            exec(compile(source, "<fused kernel>", "exec"), namespace)
            signature = source.partition("\n")[0].removeprefix("# ")
            known = {"void": numba.void, "Array": numba.types.Array, "boolean": numba.boolean, **{
                n: getattr(numba, n) for n in ("float32", "float64", "int32", "int64")}}
            _compiled[source] = numba.njit(eval(signature, known), error_model="numpy", nogil=True)(namespace["kernel"])
        return _compiled[source]


def kernel_source(attrs: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec]) -> str:
    """Python text of the kernel; its first line is the Numba signature."""
    space = outputs[0].shape
    dims, flags = _collapse(space, [s.shape for s in inputs])
    names = [f"a{i}" for i in range(len(inputs))]
    results = [f"o{i}" for i in range(len(outputs))]
    lines = [f"# void({', '.join([*(_type(s, True) for s in inputs), *(_type(s, False) for s in outputs)])})",
             f"def kernel({', '.join((*names, *results))}):"]
    lines += [f"    {n}f = {n}.reshape({_size(s.shape)})" if s.shape else f"    {n}v = {n}[()]"
              for n, s in zip(names, inputs)]
    lines += [f"    {n}f = {n}.reshape({_size(s.shape)})" if s.shape else "" for n, s in zip(results, outputs)]
    depth = 1
    for axis, extent in enumerate(dims):
        lines += _loads(names, inputs, flags, dims, axis, depth)
        lines.append("    " * depth + f"for i{axis} in range({extent}):")
        depth += 1
    lines += _loads(names, inputs, flags, dims, len(dims), depth)
    lines += ["    " * depth + text for text in _body(attrs, inputs)]
    index = _index([True] * len(dims), dims)
    for name, step, spec in zip(results, attrs["results"], outputs):
        lines.append("    " * depth + (f"{name}f[{index}] = s{step}" if spec.shape else f"{name}[()] = s{step}"))
    return "\n".join(line for line in lines if line) + "\n"


def _type(spec: Spec, readonly: bool) -> str:
    """Numba's type of an argument; constants and fed arrays may be read-only, and writable ones pass as such."""
    name = "boolean" if spec.dtype.name == "bool" else spec.dtype.name
    return f"Array({name}, {len(spec.shape)}, 'C', readonly={readonly})"


def _size(shape: Sequence[int]) -> int:
    size = 1
    for dim in shape:
        size *= dim
    return size


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
    if not dims and space:
        dims, patterns = [1], [tuple(bool(s) for s in shapes)]
    return dims, [[p[i] for p in patterns] for i in range(len(shapes))]


def _varies(shape: Sequence[int], axis: int) -> bool:
    return -axis <= len(shape) and shape[axis] != 1


def _index(varies: Sequence[bool], dims: Sequence[int]) -> str:
    terms, stride = [], 1
    for axis in reversed(range(len(dims))):
        if varies[axis]:
            terms.append(f"i{axis}" if stride == 1 else f"i{axis} * {stride}")
            stride *= dims[axis]
    return " + ".join(reversed(terms)) or "0"


def _loads(names: Sequence[str], inputs: Sequence[Spec], flags: Sequence[Sequence[bool]], dims: Sequence[int],
           depth: int, indent: int) -> list[str]:
    """Loads of the inputs that vary last with the loop just opened: as far outside as possible."""
    found = []
    for name, spec, varies in zip(names, inputs, flags):
        last = max((axis for axis, moves in enumerate(varies) if moves), default=-1) + 1
        if spec.shape and last == depth:
            found.append("    " * indent + f"{name}v = {name}f[{_index(varies, dims)}]")
    return found


def _body(attrs: Mapping[str, Any], inputs: Sequence[Spec]) -> list[str]:
    lines: list[str] = []
    types: list[str] = []
    for number, (kind, operands, options) in enumerate(attrs["steps"]):
        definition = registry[kind]
        arguments = [f"a{i}v" if where == "input" else f"s{i}" for where, i in operands]
        dtypes = [inputs[i].dtype.name if where == "input" else types[i] for where, i in operands]
        result = _result_type(kind, dtypes, dict(options))
        working = dtypes[-1] if result == "bool" else result
        assert definition.elementwise is not None
        text = _expression(definition.elementwise, dict(zip(definition.inputs, arguments)), working)
        lines.append(f"s{number} = as_{result}({text})")
        types.append(result)
    return lines


def _result_type(kind: str, dtypes: Sequence[str], options: Mapping[str, Any]) -> str:
    from workbench.core.graph.dtype import as_dtype
    from workbench.core.graph.opdef import infer_dtypes
    return infer_dtypes(registry[kind], [as_dtype(d) for d in dtypes], options, 1)[0].name


def _expression(text: str, names: Mapping[str, str], dtype: str) -> str:
    text = _NUMBER.sub(lambda m: f"as_{dtype}({m[1]})", text)
    return _NAME.sub(lambda m: names.get(m[0]) or _function(m[0], dtype), text)


def _function(name: str, dtype: str) -> str:
    if name in ("exp", "log", "tanh", "sigmoid") and dtype == "float32":
        return f"{name}32"
    return {"exp": "np.exp", "log": "np.log", "tanh": "np.tanh", "sqrt": "np.sqrt", "log1p": "np.log1p",
            "sigmoid": "sigmoid64"}.get(name, name)
