"""How an operation is called: signature and documentation for help(), and what the arguments of a call mean."""
from __future__ import annotations

import inspect
from typing import Any

from workbench import errors
from workbench.core.graph.graph import Tensor
from workbench.core.graph.opdef import REQUIRED, OpDef

__all__ = ["arguments", "call_signature", "documentation"]


def documentation(definition: OpDef) -> str:
    """The operation's own line, then its rules of shape and dtype in the notation of `op`."""
    rules = []
    if isinstance(definition.signature, str) and "[" in definition.signature:
        rules.append(f"Shapes: {definition.signature}")
    if not callable(definition.types):
        rules.append(f"Dtypes: {definition.types or 'T -> T'}")
    if not rules or not (definition.inputs or definition.variadic):
        return definition.doc
    return (f"{definition.doc}\n\n{'. '.join(rules)} (the notation is that of wb.op).\n"
            "Raises ShapeError or DtypeError, kinds of InvalidArgumentError, at the call that breaks a rule.")


def call_signature(definition: OpDef) -> inspect.Signature:
    """How the operation is called, for help() and editors: inputs, then attributes, then a name for the node."""
    names = [*definition.inputs, *([definition.variadic] if definition.variadic else [])]
    defaults = dict.fromkeys(names, inspect.Parameter.empty)
    defaults |= {key: inspect.Parameter.empty if value is REQUIRED else value for key, value in definition.attrs.items()}
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters: list[inspect.Parameter] = []
    for key, default in {**defaults, "name": None}.items():
        if default is inspect.Parameter.empty and parameters and parameters[-1].default is not default:
            kind = inspect.Parameter.KEYWORD_ONLY      # Python wants what has no default before what has one
        parameters.append(inspect.Parameter(key, kind, default=default))
    return inspect.Signature(parameters)


def arguments(definition: OpDef, args: list[Any], options: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """(values of the inputs, values of the attributes) of a call; InvalidArgumentError for missing and unknown ones."""
    values: list[Any] = []
    for parameter in definition.inputs:
        if args:
            values.append(args.pop(0))
        elif parameter in options:
            values.append(options.pop(parameter))
        else:
            raise errors.InvalidArgumentError(f"{definition.name}: input {parameter!r} is missing; "
                                              f"call {definition.name}({', '.join(definition.inputs)}, …)")
    if definition.variadic:
        given = args.pop(0) if args else options.pop(definition.variadic, ())
        if isinstance(given, Tensor) or not isinstance(given, (list, tuple)):
            given = [given]
        values += given
    attrs = {}
    for key, default in definition.attrs.items():
        if args:
            attrs[key] = args.pop(0)
        else:
            attrs[key] = options.pop(key, default)
        if attrs[key] is REQUIRED:
            raise errors.InvalidArgumentError(f"{definition.name}: attribute {key!r} is missing; pass {key}=…")
    if args or options:
        extra = ", ".join([repr(a) for a in args] + list(options))
        raise errors.InvalidArgumentError(f"{definition.name}: unknown arguments {extra}; it takes "
                                          f"{', '.join((*definition.inputs, *definition.attrs)) or 'none'}")
    return values, attrs
