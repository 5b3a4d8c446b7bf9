"""Functions of our graphs as FunctionDefs of a library, and graphs without what such a library cannot hold."""
from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import Program, topological
from workbench.core.graph.subgraph import Subgraph
from workbench.core.passes.inline import inline
from workbench.core.passes.lower import lower
from workbench.formats.messages import message
from workbench.formats.outputs import output_name
from workbench.formats.twins import exports
from workbench.formats.values import attr, dtype_number

__all__ = ["add_functions", "described", "flat"]


def flat(graph: Graph, writer: Any) -> tuple[Graph, list[tuple[str, Tensor]]]:
    """The graph without branches, loops, and calls that no library can hold, and (name, tensor) of the first result of each."""
    functional = [op for op in graph.operations if _apart(op, writer)]
    if not functional:
        return graph, []
    fetched = tuple(op.outputs[0] for op in functional if op.outputs)
    program = _flattened(Program(graph, (), fetched, tuple(graph.operations)), writer)
    return program.graph, [(t.op.name, new) for t, new in zip(fetched, program.fetches) if not program.graph.has(t.op.name)]


def _flattened(program: Program, writer: Any) -> Program:
    return lower(inline(program, lambda op: not _writable(op, writer)), lambda op: True)


def _apart(op: Operation, writer: Any) -> bool:
    """Is it taken apart before it is written?"""
    if op.kind == "call":
        return not _writable(op, writer)
    return op.has_bodies


def _writable(op: Operation, writer: Any) -> bool:
    """Can a library hold what is called? Tried once for each body."""
    body = op.attrs["body"]
    if "writable" not in body.held:
        alone = writer.within(body, message("FunctionDefLibrary")())
        try:
            function_def_of(alone, op.attrs["function"], body, op.attrs["results"])
            body.held["writable"] = True
        except errors.UnimplementedError:
            body.held["writable"] = False
    return bool(body.held["writable"])


def add_functions(writer: Any, functions: Iterable[Any]) -> None:
    """The functions that a graph was given, and which of them are gradients of others."""
    for function in functions:
        try:
            _add(writer, described(function, writer))
        except errors.UnimplementedError:
            continue      # its calls are written as what they do
        if function.grad_func_name:
            writer.library.gradient.add(function_name=function.name, gradient_func=function.grad_func_name)


def described(function: Any, writer: Any) -> Any:
    """The FunctionDef of a function with what it says of itself; functions that it calls are added to the writer's library."""
    body = function.body()
    found = function_def_of(writer, function.name, body, body.titles)
    found.signature.description = function.__doc__ or ""
    if function.noinline:
        found.attr["_noinline"].CopyFrom(attr("b", True))
    return found


@exports("call")
def _(writer: Any, op: Operation) -> None:
    found = function_def_of(writer, op.attrs["function"], op.attrs["body"], op.attrs["results"])
    attrs = {"_noinline": attr("b", True)} if op.attrs["noinline"] else {}
    writer.node(op, _add(writer, found), [writer.ref(t) for t in op.inputs], attrs)


def _add(writer: Any, definition: Any) -> str:
    """The name under which the library has the function: another one where it has another of that name."""
    known = {function.signature.name: function for function in writer.library.function}
    wanted = definition.signature.name
    for number in itertools.count():
        name = definition.signature.name = f"{wanted}_{number}" if number else wanted
        if name not in known:
            writer.library.function.append(definition)
            return str(name)
        if _same(known[name], definition):
            return str(name)
    raise AssertionError


def _same(first: Any, second: Any) -> bool:
    """Do two functions of one name compute the same?"""
    return (first.node_def == second.node_def and first.ret == second.ret
            and first.signature.input_arg == second.signature.input_arg
            and first.signature.output_arg == second.signature.output_arg)


def function_def_of(writer: Any, name: str, body: Subgraph, results: Sequence[str]) -> Any:
    """The FunctionDef of `body`, whose own results have these names; UnimplementedError where TensorFlow has no like."""
    program = _flattened(Program(body, tuple(body.arguments), tuple(body.results), tuple(body.operations)), writer)
    return _Definition(writer.within(program.graph), program, name, results).made


class _Definition:
    """One function while it is written."""

    def __init__(self, writer: Any, program: Program, name: str, results: Sequence[str]) -> None:
        self.made, self.writer = message("FunctionDef")(), writer
        signature = self.made.signature
        signature.name = name
        self.arguments = {t.op.name: _plain(t.op.name) for t in program.feeds}
        for tensor in program.feeds:
            signature.input_arg.add(name=self.arguments[tensor.op.name], type=dtype_number(writer.dtype(tensor)))
        for op in topological(program.graph.operations):
            if op.kind != "argument":
                writer.write(op)
        self.kinds = {node.name: node for node in writer.proto.node}
        for node in writer.proto.node:
            self.made.node_def.append(node)
            self.made.node_def[-1].input[:] = [self._reference(text) for text in node.input]
        signature.is_stateful = any(op.definition.stateful for op in program.graph.operations)
        names = [*results, *(f"saved_{i}" for i in range(len(program.fetches) - len(results)))]
        for title, tensor in zip(names, program.fetches if results else ()):
            signature.output_arg.add(name=title, type=dtype_number(writer.dtype(tensor)))
            self.made.ret[title] = self._reference(writer.ref(tensor))

    def _reference(self, text: str) -> str:
        """An input as functions write it: an argument, "node:output:index", or "^node"."""
        name, _, index = text.partition(":")
        if name in self.arguments:
            return self.arguments[name]
        if text.startswith("^"):
            return text
        node = self.kinds[name]
        found = next((f for f in self.writer.library.function if f.signature.name == node.op), None)
        if found is not None:
            return f"{name}:{found.signature.output_arg[int(index or 0)].name}:0"
        return f"{name}:{output_name(node, int(index or 0))}"


def _plain(name: str) -> str:
    """An argument's name, in letters that TensorFlow takes."""
    return "".join(c if c.isalnum() else "_" for c in name.lower())
