"""Calls of functions: a Python function becomes a body with arguments, and one operation stands for each call of it."""
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import DType
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.naming import Names
from workbench.core.graph.opdef import composed
from workbench.core.graph.program import has_effect, needed
from workbench.core.graph.scopes import Scope
from workbench.core.graph.shape import Shape
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow_body import copy_body, waits

__all__ = ["FunctionBody", "call_function", "function_body"]


class FunctionBody(Subgraph):
    """The body of a function: its operations have names of their own, whatever calls of it are called.

    `titles` are the names of what the function returns; where it returns nothing one result says that it was run.
    """

    titles: Sequence[str] = ()

    def inside(self) -> Scope:
        return self.name_scope(None)


@composed
def function_body(name: str, function: Callable[..., Any], arguments: Sequence[tuple[str, DType, Shape]],
                  titles: Sequence[str] | None = None) -> FunctionBody:
    """What `function` builds of arguments of these names, dtypes and shapes: it returns a tensor, a list of them, or None.
    `titles` names what it returns, by default after the operations that make it.

    What it does besides, such as an assignment, has happened when its results are there. What it reads of the default graph
    becomes captures.
    """
    body = FunctionBody(get_default_graph(), name)
    with body.as_default(), body.inside():
        made = function(*[body.argument(dtype, shape, title) for title, dtype, shape in arguments])
        if made is None or isinstance(made, Operation):
            made = [] if made is None else [made]
        listed = list(made) if isinstance(made, (list, tuple)) else [made]
        if any(value is None for value in listed):
            raise errors.InvalidArgumentError(f"{name}: one of its {len(listed)} results is None (can not return None); return "
                                              "tensors")
        values = [body.capture(convert(value)) for value in listed if not isinstance(value, Operation)]
        body.titles = _named(name, values, titles)
        kept = needed(t.op for t in values)
        ahead = [op for op in body.operations if op not in kept and has_effect(op)]
        ahead += [value for value in listed if isinstance(value, Operation)]
        with body.control_dependencies(ahead):
            body.results = [ops.identity(t) for t in values] if ahead else values
            body.results = body.results or [ops.identity(ops.constant(True), name="done")]
    return body


def _named(name: str, values: Sequence[Tensor], titles: Sequence[str] | None) -> list[str]:
    if titles is not None and (len(titles) != len(values) or len({*titles}) < len(titles)):
        raise errors.InvalidArgumentError(
            f"{name}: its {len(values)} results are to be called {', '.join(titles)} (output names must be either empty or "
            f"equal in size to outputs. output names size = {len(titles)} outputs size = {len(values)}); give each a name of "
            "its own")
    names = Names()
    return list(titles or [names.next(re.sub("[^a-z0-9_]", "_", t.op.name.lower())) for t in values])


@composed
def call_function(name: str, body: FunctionBody, inputs: Sequence[Tensor], title: str, noinline: bool = False) -> Operation:
    """One operation that is a call of `body`, a function of that name, with inputs for its arguments."""
    own, _ = copy_body(body)      # a gradient may ask this call, and no other one, for more
    captures = [outer for outer, _ in own.captures]
    attrs = {"function": name, "body": own, "results": tuple(body.titles), "noinline": noinline}
    return get_default_graph().create("call", [*inputs, *captures], attrs, title, waits([body]))
