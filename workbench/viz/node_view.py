"""One operation or scope in words: what it is, where, from which line of the program, what flows; and finding one."""

from __future__ import annotations

import re
from collections.abc import Callable

from workbench.core.trace import NodeRecord
from workbench.viz.palette import natural, short_device
from workbench.viz.places import line_words
from workbench.viz.schema import Fact, Found, NodeDetails, NodeLink
from workbench.viz.scopes import Edge, ScopeTree, tensor_bytes
from workbench.viz.units import amount

__all__ = ["form_of", "operation_details", "scope_details", "search", "title"]

LISTED = 40  # inputs and outputs, and hits
TYPES = 6  # types of operations that a scope names


def form_of(record: NodeRecord) -> str:
    """How an operation is drawn."""
    kind = record.type.lower()
    if kind in ("send", "recv", "receive"):
        return "send" if kind == "send" else "recv"
    for word, form in (
        ("placeholder", "placeholder"),
        ("argument", "placeholder"),
        ("const", "constant"),
        ("variable", "variable"),
    ):
        if kind.startswith(word):
            return form
    return "op"


def tensor(output: tuple[str, tuple[int | None, ...] | None]) -> str:
    """"float32[?, 784]"."""
    dtype, shape = output
    return f"{dtype}[{'?' if shape is None else ', '.join('?' if d is None else str(d) for d in shape)}]"


def title(record: NodeRecord) -> str:
    """What the tooltip of an operation says, a fact a line."""
    shapes = ", ".join(map(tensor, record.outputs))
    lines = [
        f"{record.name}: {record.type}",
        f"gives {shapes}" if shapes else "",
        f"on {short_device(record.device)}" if record.device else "not placed yet",
        f"requested: {record.request}" if record.request else "",
        f"built at {line_words(record.source)}" if record.source else "",
    ]
    return "\n".join(filter(None, lines))


def operation_details(tree: ScopeTree, id: str) -> NodeDetails:
    record = tree.nodes[id]
    nbytes = sum(tensor_bytes(*output) for output in record.outputs)
    asked = f", asked for: {record.request}" if record.request else ", chosen by the placer" if record.device else ""
    facts = [
        Fact("Type", record.type),
        *_attributes(record),
        Fact("Gives", ", ".join(map(tensor, record.outputs)) or "nothing"),
        Fact("Bytes", amount(nbytes) if nbytes else "none"),
        Fact("Device", short_device(record.device) + asked),
        Fact("Keeps state", "yes, from step to step" if record.stateful else "no"),
        Fact("Built at", line_words(record.source) or "unknown"),
    ]
    return _answer(tree, id, "op", facts, *tree.around(id))


def scope_details(tree: ScopeTree, id: str) -> NodeDetails:
    scope = tree.scopes[id]
    types = tree.kinds(id)
    named = ", ".join(f"{count:,} {kind}" for kind, count in types[:TYPES])
    facts = [Fact("Holds", f"{scope.count:,} operations: {named}" + (", …" if len(types) > TYPES else ""))]
    if scope.alike > 1:
        facts.append(Fact("Repeats", f"{scope.alike} blocks of the same structure"))
    facts += [Fact("Device", f"{count:,} on {short_device(device)}") for device, count in scope.devices.most_common()]
    own = tree.nodes.get(id)  # a loop with its bodies, a variable with its reads
    if own is not None:
        facts = [Fact("Type", own.type), *_attributes(own), *facts, Fact("Built at", line_words(own.source) or "unknown")]
    return _answer(tree, id, "scope", facts, *tree.across(id))


def _attributes(record: NodeRecord) -> list[Fact]:
    return [Fact("Attributes", record.attributes)] if record.attributes else []


def _answer(tree: ScopeTree, id: str, kind: str, facts: list[Fact], into: list[Edge], out: list[Edge]) -> NodeDetails:
    record, made = tree.nodes.get(id), tree.gradients.get(id, [])
    unlisted = sum(max(0, len(links) - LISTED) for links in (into, out, made))
    inputs = [NodeLink(edge.source, _flow(tree, edge)) for edge in into[:LISTED]]
    outputs = [NodeLink(edge.target, _flow(tree, edge)) for edge in out[:LISTED]]
    of = record.gradient_of if record is not None else ""
    if of and of not in tree.nodes:
        facts.append(Fact("For the gradient of", f"{of}, which is not in this graph"))
    whose = [NodeLink(of, tree.nodes[of].type)] if of in tree.nodes else []
    gradients = [NodeLink(name, tree.nodes[name].type) for name in made[:LISTED]]
    source = record.source if record is not None else ""
    return NodeDetails(id, kind, facts, source, inputs, outputs, whose, gradients, unlisted)


def _flow(tree: ScopeTree, edge: Edge) -> str:
    if edge.index < 0:
        return "control: runs after"
    outputs = tree.nodes[edge.source].outputs
    return tensor(outputs[edge.index]) if edge.index < len(outputs) else ""


def search(tree: ScopeTree, text: str) -> Found:
    """Operations and scopes whose name or type contains `text`; whose last part begins with it, then the shortest, first.

    "/…/" is a regular expression, in which upper and lower case are alike too.
    """
    word = text.strip().lower()
    if not word:
        return Found(text, [], 0)
    fits, wrong = _matcher(text.strip())
    if wrong:
        return Found(text, [], 0, wrong)
    hits = [NodeLink(id, f"{scope.count:,} operations") for id, scope in tree.scopes.items() if id and fits(id)]
    hits += [NodeLink(name, node.type) for name, node in tree.nodes.items() if fits(name) or fits(node.type)]
    hits.sort(key=lambda hit: (not hit.id.rpartition("/")[2].lower().startswith(word), hit.id.count("/"), natural(hit.id)))
    return Found(text, hits[:LISTED], max(0, len(hits) - LISTED))


_NESTED = re.compile(r"[*+}][^()]*\)[*+{]")  # repeated repetition: takes for ever on a name that nearly fits


def _matcher(text: str) -> tuple[Callable[[str], object], str]:
    """(does a name fit?, why there is no such question)."""
    if len(text) < 3 or text[0] != "/" or text[-1] != "/":
        word = text.lower()
        return (lambda name: word in name.lower()), ""
    if _NESTED.search(text):
        return bool, "A repetition of a repetition takes too long; write it without."
    try:
        return re.compile(text[1:-1], re.IGNORECASE).search, ""
    except re.error as wrong:
        return bool, f"{text} is not a regular expression: {wrong}."
