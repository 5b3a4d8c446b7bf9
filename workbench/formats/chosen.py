"""`If` and `While` of later versions of TensorFlow, which call functions, as the nodes of 1.x around calls of them."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.graph.dtype import as_dtype, resource
from workbench.formats.messages import message
from workbench.formats.values import dtype_number

__all__ = ["IFS", "WHILES", "branched", "functions_of", "looped"]

IFS, WHILES = frozenset({"If", "StatelessIf"}), frozenset({"While", "StatelessWhile"})
_PARALLEL = 10


def functions_of(node: Any) -> list[str]:
    """The names of the functions that an If or While calls, in the order of its nodes."""
    titles = ("then_branch", "else_branch") if node.op in IFS else ("cond", "body")
    return [node.attr[title].func.name for title in titles]


def branched(node: Any) -> list[Any]:
    """The nodes for an If: a Switch for each argument, the calls, and a Merge for each result."""
    parts, truth = _Parts(node), dtype_number(as_dtype("bool"))
    predicate, *given = parts.given
    then, otherwise = functions_of(node)
    pivot = parts.add("pivot", "Switch", [predicate, predicate], truth)
    sides = [parts.add(f"pivot_{name}", "Identity", [f"{pivot}:{side}"], truth) for side, name in ((1, "then"), (0, "else"))]
    switches = [parts.add(f"switch_{i}", "Switch", [text, predicate], kind)
                for i, (text, kind) in enumerate(zip(given, node.attr["Tin"].list.type))]
    calls = [parts.call(title, function, [f"{switch}:{side}" for switch in switches], [pivot_side])
             for title, function, side, pivot_side in (("then", then, 1, sides[0]), ("else", otherwise, 0, sides[1]))]
    merges = [parts.add(f"merge_{i}", "Merge", [f"{calls[1]}:{i}", f"{calls[0]}:{i}"], kind)
              for i, kind in enumerate(node.attr["Tout"].list.type)]
    if not merges:      # both are run for what they do
        done = [parts.add(f"done_{i}", "Identity", [side], truth, [call]) for i, (side, call) in enumerate(zip(sides, calls))]
        return parts.end([], [], [parts.add("merge", "Merge", done[::-1], truth)])
    return parts.end(merges, node.attr["Tout"].list.type, [])


def looped(node: Any, library: Mapping[str, Any]) -> list[Any]:
    """The nodes for a While: each argument enters a frame, the functions are called there, and what comes back leaves it.

    Handles that the body gives back as they came, of variables for example, are constants of the frame.
    """
    parts, kinds = _Parts(node), list(node.attr["T"].list.type)
    condition, body = functions_of(node)
    fixed = _fixed(library[body], kinds)

    def each(part: str, kind: str, inputs: Mapping[int, Sequence[str]], frame: bool = False) -> dict[int, str]:
        return {i: parts.add(f"{part}_{i}", kind, texts, kinds[i], frame=frame, constant=i in fixed)
                for i, texts in inputs.items()}
    enters = each("enter", "Enter", {i: [text] for i, text in enumerate(parts.given)}, frame=True)
    merges = each("merge", "Merge", {i: [enter, parts.name(f"next_{i}")] for i, enter in enters.items() if i not in fixed})
    going = parts.add("going", "LoopCond", [
        parts.call("cond", condition, list((enters | merges).values()), list(merges.values())[:1])])
    switches = each("switch", "Switch", {i: [merge, going] for i, merge in merges.items()})
    inside = each("turn", "Identity", {i: [f"{switch}:1"] for i, switch in switches.items()})
    call = parts.call("body", body, list((enters | inside).values()), list(inside.values())[:1])
    each("next", "NextIteration", {i: [f"{call}:{i}"] for i in inside})
    exits = each("exit", "Exit", {i: [switch] for i, switch in switches.items()})
    return parts.end([exits.get(i, text) for i, text in enumerate(parts.given)], kinds, [])


def _fixed(body: Any, kinds: Sequence[int]) -> set[int]:
    """The numbers of the handles that a body gives back as they came."""
    handle, found = dtype_number(resource), body.signature
    same = {i for i, (given, back) in enumerate(zip(found.input_arg, found.output_arg))
            if kinds[i] == handle and body.ret[back.name] == given.name}
    return same if len(same) < len(kinds) else set()


class _Parts:
    """The nodes that stand for one, below its name."""

    def __init__(self, node: Any) -> None:
        self.node, self.made = node, list[Any]()
        self.given = [text for text in node.input if not text.startswith("^")]
        self.controls = [text for text in node.input if text.startswith("^")]

    def name(self, part: str) -> str:
        return f"{self.node.name}/{part}"

    def add(self, part: str, kind: str, inputs: Sequence[str], dtype: int | None = None, waits: Sequence[str] = (),
            frame: bool = False, constant: bool = False) -> str:
        """One more node; its name."""
        made = message("NodeDef")(name=self.name(part), op=kind, device=self.node.device)
        made.input.extend([*inputs, *(f"^{name}" for name in waits)])
        if frame or not any(text.startswith(self.name("")) for text in inputs):      # it stands before the others
            made.input.extend(self.controls)
        if dtype is not None:
            made.attr["T"].type = dtype
        if kind == "Merge":
            made.attr["N"].i = len(inputs)
        if frame:
            made.attr["frame_name"].s, made.attr["parallel_iterations"].i = self.node.name.encode(), _PARALLEL
            made.attr["is_constant"].b = constant
        self.made.append(made)
        return str(made.name)

    def call(self, part: str, function: str, inputs: Sequence[str], waits: Sequence[str]) -> str:
        return self.add(part, function, inputs, waits=waits)

    def end(self, results: Sequence[str], kinds: Sequence[int], waits: Sequence[str]) -> list[Any]:
        """All of them, and the node of the old one's name, which gives the results."""
        made = message("NodeDef")(name=self.node.name, op="IdentityN" if results else "NoOp", device=self.node.device)
        made.input.extend([*results, *(f"^{name}" for name in waits), *self.controls])
        made.attr["T"].list.type.extend(kinds)
        return [*self.made, made]
