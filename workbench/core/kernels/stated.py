"""What an operation states of its elements, `elementwise="x * x"`: read, and refused where no compiled loop could use it."""
from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from workbench import errors
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import OpDef
from workbench.core.graph.rules import infer_dtypes
from workbench.core.graph.signature import parse
from workbench.core.kernels.elements import MEMORY, computed
from workbench.core.kernels.expressions import LanguageError
from workbench.core.kernels.fused_loops import memory_type, renamed
from workbench.core.kernels.language import library_source, translate

__all__ = ["check", "unreadable"]

_NUMBERS = [dtype for dtype in MEMORY.values() if computed(dtype) == dtype]      # what is computed with


@functools.lru_cache(maxsize=1024)
def unreadable(expression: str, inputs: tuple[str, ...], dtypes: tuple[str, ...], result: str) -> str:
    """Why the kernel language does not compute `expression` of inputs of these dtypes, "" where it does."""
    unknown = next((d for d in (*dtypes, result) if not memory_type(d)), None)
    if unknown is not None:
        return f"compiled loops have no {unknown}"
    if "bfloat16" in (*dtypes, result) and {*dtypes} & {result}:
        return "compiled loops compute nothing in bfloat16, they only bring it to float32 and back"
    parameters = ", ".join(f"{n}: {memory_type(d)}" for n, d in zip((*inputs, "result"), (*dtypes, result)))
    value = renamed(expression, {n: f"{n}[0]" for n in inputs})
    source = f"def kernel({parameters}):\n    value: {computed(result)} = {value}\n" \
             "    result[0] = value\n"
    try:
        ast.parse(expression, mode="eval")
        translate((library_source("program_math.py"), source), "kernel")
    except SyntaxError as error:
        return f"it is no expression: {error.msg}"
    except LanguageError as error:
        return str(error).removeprefix("kernel: ").replace("[0]", "")
    return ""


def check(definition: OpDef) -> None:
    """InvalidArgumentError where the expression of an operation from outside cannot be read for any dtypes it takes, or where
    its function does more than compute elements: loops that join it with others would not call it."""
    expression = definition.elementwise
    if expression is None:
        return
    where = f"@op {definition.name}: elementwise={expression!r}"
    if not isinstance(expression, str):
        raise errors.InvalidArgumentError(f"{where} is of {type(expression).__name__}; write text such as 'x * x'")
    option = next((name for name in ("context", "stateful", "blocking") if getattr(definition, name)), None)
    if option or definition.variadic:
        raise errors.InvalidArgumentError(f"{where} stands beside {f'{option}=True' if option else 'a list of inputs'}, but in "
                                          "a compiled loop the function is not called; leave elementwise out")
    if isinstance(definition.signature, str) and not _by_elements(definition.signature):
        raise errors.InvalidArgumentError(f"{where} does not follow from the signature {definition.signature!r}, which is not "
                                          "one of elements; write dimensions like 'x[...] -> [...]', or leave elementwise out")
    problem = ""
    for dtypes, result in _dtypes(definition):
        problem = unreadable(expression, definition.inputs, dtypes, result)
        if not problem:
            return
    raise errors.InvalidArgumentError(
        f"{where} cannot be read: {problem or 'compiled loops have none of its dtypes'}; write arithmetic, comparisons, 'a if "
        f"c else b' and functions like exp(…) of {', '.join(definition.inputs)}, for one of {', '.join(_NUMBERS)}, or "
        "leave elementwise out")


def _by_elements(signature: str) -> bool:
    """One output, into whose dimensions all inputs fit from the right."""
    inputs, outputs = parse(signature)
    wanted = outputs[0].dims if len(outputs) == 1 else None
    return wanted is not None and all(
        pattern.dims is not None and len(pattern.dims) <= len(wanted) and all(
            one in ("1", "...", other) for one, other in zip(reversed(pattern.dims), reversed(wanted)))
        for pattern in inputs)


def _dtypes(definition: OpDef) -> Iterator[tuple[tuple[str, ...], str]]:
    """Choices of dtypes that the rule allows: all inputs alike where it lets them, else what it names."""
    rule = definition.types.partition("->")[0].split() if isinstance(definition.types, str) else []
    for dtype in _NUMBERS:
        given = tuple(_named(term) or dtype for term in (rule + ["T"] * len(definition.inputs))[:len(definition.inputs)])
        try:
            yield given, infer_dtypes(definition, [as_dtype(d) for d in given], definition.attrs, 1)[0].name
        except (errors.Error, LookupError, TypeError, ValueError):      # the rule allows other dtypes, or asks an attribute
            continue


def _named(term: str) -> str:
    """The dtype that a term of a rule names, "" where it stands for several."""
    if term[:1].isupper() or term[:1] == "@" or term in ("int", "any"):
        return ""
    return as_dtype(term).name
