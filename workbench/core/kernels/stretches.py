"""Loops over memory that no cache holds, in stretches: what later ones need is asked for, results may pass the caches by.

Processors fetch ahead by themselves, but not across pages, nor far enough where several arrays are read at once. And a line
that is written is first read from memory, unless it is written whole and past the caches: a stretch then leaves its results
in a small part of memory of its own, from where they go out line by line. That pays where nobody reads them before the
caches have lost them.
"""
from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["STRETCH", "in_stretches"]

LINE, STRETCH, AHEAD = 16, 64, 512
"""Passes over float32: of a line of the caches, in a stretch, and how far ahead stretches ask."""
_ALIGNED = 16            # bytes: where a store past the caches may begin


def in_stretches(name: str, call: ast.Call, body: Sequence[ast.stmt],
                 memory: Mapping[str, str]) -> tuple[list[ast.stmt], list[str]]:
    """The statements of a loop `for name in call`, and whose results it leaves in a part named after them first.

    `memory` gives the type of all memory that the body may name.
    """
    past = _past(name, body, memory) if any(word.arg == "past" for word in call.keywords) else {}
    read = dict.fromkeys((where, index) for where, index, _ in _places(name, body) if where not in past)
    end = ast.unparse(call.args[-1])
    first = ast.unparse(call.args[0]) if len(call.args) > 1 else "0"
    asks = isinstance(call.func, ast.Name) and call.func.id == "streamed"
    whole, rest = _loops(f"""
for {name}_first in range({first}, {end} - {STRETCH - 1}, {STRETCH}):{_asked(name, end, read) if asks else ""}
    for {name}_turn in independent({STRETCH}):
        {name} = {name}_first + {name}_turn
    {name} = {name}_first{"".join(_sent(name, where, index, read) for where, index in past.items())}
for {name} in independent({end} - ({end} - ({first})) % {STRETCH}, {end}):
    pass""")
    inner = next(node for node in whole.body if isinstance(node, ast.For))
    inner.body += _Parts(past, f"{name}_turn").all(body)
    rest.body[:] = body
    return [whole, rest], list(past)


def _asked(name: str, end: str, read: Iterable[tuple[str, str]]) -> str:
    asked = "".join(f"\n            soon({where}, {index})" for where, index in read)
    return f"""
    if {name}_first + {AHEAD} < {end}:
        for {name} in range({name}_first + {AHEAD}, {name}_first + {AHEAD + STRETCH}, {LINE}):{asked}""" if asked else ""


def _sent(name: str, where: str, index: str, read: Iterable[tuple[str, str]]) -> str:
    """What sends a part to its place: past the caches, unless these hold the place already, because it is read as well."""
    place, turn = f"place({where}, {index})", f"{name}_turn"
    apart = [f"{place} != place({other}, {at})" for other, at in read if at == index]
    way = f"(place({where}_part, {turn}), {place} + 4 * {turn})"
    return f"""
    if {" and ".join([f"{place} % {_ALIGNED} == 0", *apart])}:
        for {turn} in range(0, {STRETCH}, 16):
            past16{way}
    else:
        for {turn} in range(0, {STRETCH}, 16):
            copy16{way}"""


def _past(name: str, body: Sequence[ast.stmt], memory: Mapping[str, str]) -> dict[str, str]:
    """Memory of which each pass writes the element after that of the pass before, and reads none, with the element's index."""
    if any(isinstance(node, ast.AugAssign | ast.If) for statement in body for node in ast.walk(statement)):
        return {}      # not each pass writes, or what it writes it reads
    places = _places(name, body)
    return {where: index for where, index, read in places
            if not read and sum(other == where for other, _, _ in places) == 1 and memory.get(where) == "floats32"
            and f" + {index}".endswith(f" + {name}")}


def _places(name: str, body: Sequence[ast.stmt]) -> list[tuple[str, str, bool]]:
    """(memory, index, is it read?) wherever statements use memory at an index that `name` is part of."""
    return [(node.value.id, ast.unparse(node.slice), isinstance(node.ctx, ast.Load))
            for statement in body for node in ast.walk(statement)
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
            and any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node.slice))]


def _loops(text: str) -> list[ast.For]:
    return [node for node in ast.parse(text).body if isinstance(node, ast.For)]


class _Parts(ast.NodeTransformer):
    """Statements that write into a stretch's part in place of some memory."""

    def __init__(self, past: Mapping[str, str], turn: str) -> None:
        self.past, self.turn = past, turn

    def all(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(copy.deepcopy(statement)) for statement in body]

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in self.past:
            node.value.id, node.slice = f"{node.value.id}_part", ast.Name(self.turn, ast.Load())
        return self.generic_visit(node)
