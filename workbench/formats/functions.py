"""Functions in the library of a GraphDef: each call becomes a copy of the function's nodes, below the name of the call."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import resource
from workbench.formats import chosen
from workbench.formats.messages import message
from workbench.formats.outputs import output_place
from workbench.formats.twins import Node, imports
from workbench.formats.values import dtype_number

__all__ = ["inlined"]

_CALLS = {"PartitionedCall", "StatefulPartitionedCall"}      # name the function in the attribute "f"
_MADE_OF_CALLS = frozenset({"SymbolicGradient"}) | chosen.IFS | chosen.WHILES
_DEEP = 50               # calls within calls; more are taken for a function that calls itself


def inlined(proto: Any) -> Any:
    """`proto`, a GraphDef, without calls of the functions in its library; itself where there are none.

    What reads a call reads a node of the call's name, which waits for what the body does besides. A gradient of a function is
    the function that the library names as its gradient, or that of a copy of the function. Raises UnimplementedError for
    functions of variable numbers of arguments, InvalidArgumentError for one that calls itself.
    """
    library = {function.signature.name: function for function in proto.library.function}
    slopes = {entry.function_name: entry.gradient_func for entry in proto.library.gradient}
    if not any(node.op in _MADE_OF_CALLS or _called(node, library, slopes) for node in proto.node):
        return proto
    found = message("GraphDef")(versions=proto.versions)
    left = [(node, 0) for node in reversed(proto.node)]
    while left:
        node, depth = left.pop()
        if node.op == "SymbolicGradient" and not _prepared(node) and node.attr["f"].func.name not in slopes:
            left += [(part, depth) for part in reversed(_derived(node, library))]
            continue
        if node.op in chosen.IFS | chosen.WHILES:
            for name in chosen.functions_of(node):
                _known(node, name, library)
            parts = chosen.branched(node) if node.op in chosen.IFS else chosen.looped(node, library)
            left += [(part, depth + 1) for part in reversed(parts)]
            continue
        function = _called(node, library, slopes)
        if not function:
            found.node.append(node)
        elif depth >= _DEEP:
            raise errors.InvalidArgumentError(f"import_graph_def: the function {function!r} calls itself; write the graph "
                                              "with a while loop instead")
        else:
            body = _Body(node, library[function])
            left += [(part, depth + 1) for part in reversed(body.nodes())]
    return found


def _called(node: Any, library: Mapping[str, Any], slopes: Mapping[str, str]) -> str:
    """The function that a node calls, "" for a node that calls none."""
    if node.op in library:
        return str(node.op)
    if node.op in _CALLS:
        return _known(node, node.attr["f"].func.name, library)
    if node.op == "SymbolicGradient" and not _prepared(node):
        return _known(node, slopes[node.attr["f"].func.name], library)
    return ""


def _known(node: Any, name: str, library: Mapping[str, Any]) -> str:
    if name not in library:
        raise errors.InvalidArgumentError(f"import_graph_def: node {node.name!r} calls the function {name!r}, which is not in "
                                          "the library of the graph; write the graph with its functions")
    return name


# gradients that no function computes

def _prepared(node: Any) -> bool:
    """Does the node have a copy of its function among its inputs already?"""
    return "f" not in node.attr


def _derived(node: Any, library: Mapping[str, Any]) -> list[Any]:
    """Nodes that stand for a gradient: the arguments once more, a call for them, and the gradient of that call."""
    kinds, name = list(node.attr["Tout"].list.type), node.attr["f"].func.name
    function = library[_known(node, name, library)]
    given = [text for text in node.input if not text.startswith("^")]
    controls = [text for text in node.input if text.startswith("^")]
    arguments, own = [], [message("NodeDef")() for _ in kinds]
    for number, (kind, argument) in enumerate(zip(kinds, own)):
        argument.name, argument.op, argument.device = f"{node.name}/argument_{number}", "Identity", node.device
        argument.input.extend([given[number], *controls])
        argument.attr["T"].type = kind
        arguments.append(argument.name)
    call = message("NodeDef")(name=f"{node.name}/{name}", op=name, device=node.device, input=[*arguments, *controls])
    for key, value in node.attr["f"].func.attr.items():
        call.attr[key].CopyFrom(value)
    results = [f"{call.name}:{i}" for i in range(len(function.signature.output_arg))]
    slope = message("NodeDef")(name=node.name, op=node.op, device=node.device,
                               input=[*arguments, *results, *given[len(kinds):], *controls])
    slope.attr["Tout"].CopyFrom(node.attr["Tout"])
    return [*own, call, slope]


@imports("SymbolicGradient")
def _(node: Node) -> Any:
    count = len(node.needed("Tout"))
    xs, rest = node.inputs[:count], node.inputs[count:]
    ys, dys = rest[:len(rest) // 2], rest[len(rest) // 2:]
    return [ops.zeros_like(x) if dx is None else convert(dx) for x, dx in zip(xs, ops.gradients(ys, xs, dys))]


def _handle(argument: Any) -> bool:
    return bool(argument.type == dtype_number(resource) or argument.is_ref)


class _Body:
    """One call of one function."""

    def __init__(self, call: Any, function: Any) -> None:
        self.call, self.function = call, function
        self.given = [text for text in call.input if not text.startswith("^")]
        self.controls = [text for text in call.input if text.startswith("^")]
        signature, self.where = function.signature, f"import_graph_def: node {call.name!r} calls {function.signature.name!r}"
        if any(one.number_attr or one.type_list_attr for one in (*signature.input_arg, *signature.output_arg)):
            raise errors.UnimplementedError(f"{self.where}, whose arguments are lists; write it with one argument each")
        if len(self.given) != len(signature.input_arg):
            raise errors.InvalidArgumentError(f"{self.where} with {len(self.given)} arguments, but it takes "
                                              f"{len(signature.input_arg)}; the graph is damaged")
        self.arguments = dict(zip((one.name for one in signature.input_arg), self.given))
        self.kinds = {node.name: node.op for node in function.node_def}
        self.signs: list[Any] = []

    def nodes(self) -> list[Any]:
        """The nodes that stand for the call."""
        copies = [*map(self._copied, self.function.node_def)]
        return [*self.signs, *copies, self._end()]

    def _name(self, name: str) -> str:
        return f"{self.call.name}/{name}"

    def _copied(self, node: Any) -> Any:
        made = message("NodeDef")(name=self._name(node.name), op=node.op, device=node.device or self.call.device)
        made.input.extend(map(self._reference, node.input))
        made.input.extend(text for text in (*self.controls, *self._started(node)) if text not in made.input)
        for key, value in node.attr.items():
            made.attr[key].CopyFrom(self._attribute(value, key))
        places = made.attr["_class"].list.s if "_class" in made.attr else []
        for i, text in enumerate(places):
            target = text.decode().removeprefix("loc:@")
            places[i] = f"loc:@{self._name(target) if target in self.kinds else target}".encode()
        return made

    def _started(self, node: Any) -> list[str]:
        """What a node that reads nothing of the call waits for, to run in its frame or branch: a copy of each argument.

        Constants and what makes handles of state are the same everywhere.
        """
        sources = [text.partition(":")[0] for text in node.input]
        if node.op == "Const" or "shared_name" in node.attr or any(self.kinds.get(name) != "Const" for name in sources):
            return []
        if not self.signs:
            pairs = zip(self.given, self.function.signature.input_arg)
            self.signs = [self._sign(text, argument) for text, argument in pairs if not _handle(argument)]
        return [f"^{sign.name}" for sign in self.signs]

    def _sign(self, text: str, argument: Any) -> Any:
        sign = message("NodeDef")(name=self._name(f"{argument.name}/started"), op="Identity", device=self.call.device)
        sign.input.append(text)
        sign.attr["T"].type = self.call.attr[argument.type_attr].type if argument.type_attr else argument.type
        return sign

    def _attribute(self, value: Any, where: str) -> Any:
        """The value of an attribute, that of the call where the function leaves it open."""
        if value.WhichOneof("value") != "placeholder":
            return value
        if value.placeholder not in self.call.attr:
            raise errors.InvalidArgumentError(f"{self.where}, which leaves {where!r} open as {value.placeholder!r}, but the "
                                              "call does not give it; the graph is damaged")
        return self.call.attr[value.placeholder]

    def _reference(self, text: str) -> str:
        """An input as other graphs write it: "node:index", or "^node"."""
        if text.startswith("^"):
            return self._control(text[1:])
        name, _, rest = text.partition(":")
        if name in self.arguments:
            return self.arguments[name]
        if name not in self.kinds:
            raise errors.InvalidArgumentError(f"{self.where}, in which something reads {text!r}, but there is no node {name!r}"
                                              "; the graph is damaged")
        output, _, index = rest.partition(":")
        return f"{self._name(name)}:{self._offset(name, output) + int(index or 0)}"

    def _control(self, name: str) -> str:
        """Who waits for an argument waits for the node that gives it."""
        if name in self.arguments:
            return "^" + self.arguments[name].partition(":")[0]
        return "^" + self._name(name)

    def _offset(self, name: str, output: str) -> int:
        found = output_place(self.kinds[name], output)
        if found is None:
            raise errors.UnimplementedError(f"{self.where}, in which the output {output!r} of {name!r} ({self.kinds[name]}) is "
                                            "read, whose place among its outputs is not known; write it without functions")
        return found

    def _end(self) -> Any:
        """The node of the call's name: what the function returns, after all that it does."""
        signature = self.function.signature
        results = [self._reference(self.function.ret[one.name]) for one in signature.output_arg]
        effects = list(self.function.control_ret.values())
        if not effects and (signature.is_stateful or not results):
            effects = self._unread()
        end = message("NodeDef")(name=self.call.name, op="IdentityN" if results else "NoOp", device=self.call.device)
        end.input.extend([*results, *(f"^{self._name(name)}" for name in effects), *self.controls])
        for one in signature.output_arg:
            end.attr["T"].list.type.append(self.call.attr[one.type_attr].type if one.type_attr else one.type)
        return end

    def _unread(self) -> list[str]:
        """Nodes that nothing in the function reads: before version 1.13 nothing else said what it does besides."""
        texts = [text for node in self.function.node_def for text in node.input]
        read = {text.removeprefix("^").partition(":")[0] for text in (*texts, *self.function.ret.values())}
        return [name for name in self.kinds if name not in read]
