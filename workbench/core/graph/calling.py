"""How an operation is called: signature and documentation for help(), and what the arguments of a call mean."""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.opdef import REQUIRED, OpDef

__all__ = ["arguments", "below", "call_signature", "documentation", "titled"]


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


@functools.cache
def titled(composition: Callable[..., Any]) -> Callable[..., Any]:
    """`composition`, told what the language of the graph calls it where the program does not.

    "scope/result" is a scope around all that it makes, called as the program wants or else "scope", and perhaps the name
    of the result in it.
    """
    parameters = list(inspect.signature(composition).parameters.values())
    if all(p.name != "name" for p in parameters):
        return composition
    places = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    place = places.index("name") if len(places) == len(parameters) else len(parameters) + 99

    @functools.wraps(composition)
    def call(*args: Any, **options: Any) -> Any:
        graph = get_default_graph()
        title = graph.language.names.get(composition.__name__)
        if title is None:
            return composition(*args, **options)
        name = options.pop("name", None) if len(args) <= place else args[place]
        args, after = args[:place], dict(zip(places[place + 1:], args[place + 1:]))
        scope, below, inner = title.partition("/")
        if not below:
            return composition(*args, **after, **options, name=name or title)
        with graph.name_scope(name or scope):
            return composition(*args, **after, **options, **({"name": inner} if inner else {}))
    return call


def below(above: str, name: str) -> str:
    """The name of an argument's constant below the operation that gets the name `above` next."""
    graph = get_default_graph()
    full = above[:-1] if above.endswith("/") else graph.unique_name(above, mark_as_used=False)
    title, number = name.removesuffix("]").partition("[")[::2]
    return f"{full.removeprefix(graph.scope)}/{title}{number and '_'}{number}"
