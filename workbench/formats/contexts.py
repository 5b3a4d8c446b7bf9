"""What TensorFlow's gradients ask of loops and branches: which nodes stand in which, told by collections of a meta graph."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from workbench.formats.messages import message
from workbench.formats.outputs import NAMED
from workbench.nn.variables import GraphKeys

__all__ = ["CONTEXTS", "add_contexts"]

CONTEXTS = frozenset((GraphKeys.WHILE_CONTEXT, GraphKeys.COND_CONTEXT))

_AHEAD = ("NextIteration", "RefNextIteration")
_COUNTS = ("num", "num_split", "N")      # attributes that count outputs


class _Place(NamedTuple):
    """A loop, by the name of its frame, or one side (0, 1) of what a predicate decides."""

    title: str
    side: int | None = None


_Path = tuple[_Place, ...]      # the outermost first


class _NotPlain(Exception):
    """It is no loop as while_loop writes it."""


def add_contexts(proto: Any, wanted: Collection[str] = CONTEXTS) -> None:
    """Add the collections `wanted` to a MetaGraphDef, for loops and branches such as `while_loop` and `cond` write.

    A switch that serves both sides becomes two, what a loop goes on with gets one reader, and what only stands for the side
    that runs is added where it is missing: TensorFlow's gradients count on it, and hang on it what they need there.
    Loops by hand that have other nodes are left out with what is within.
    """
    if not wanted or not any(node.op in ("Enter", "Switch", "RefEnter", "RefSwitch") for node in proto.graph_def.node):
        return
    changed = message("GraphDef")()
    changed.CopyFrom(proto.graph_def)
    _split(changed)
    found = _Contexts(changed)
    told = found.described(())
    changed.node.extend(found.added)
    proto.graph_def.CopyFrom(changed)
    for one in told:
        kind = one.WhichOneof("ctxt")
        key = GraphKeys.WHILE_CONTEXT if kind == "while_ctxt" else GraphKeys.COND_CONTEXT
        if key in wanted:
            proto.collection_def[key].bytes_list.value.append(getattr(one, kind).SerializeToString())


def _reads(node: Any) -> list[tuple[str, int]]:
    """(node, output) of each of the data inputs."""
    parts = [text.partition(":") for text in node.input if not text.startswith("^")]
    return [(name, int(index or 0)) for name, _, index in parts]


def _waits(node: Any) -> list[str]:
    return [text[1:] for text in node.input if text.startswith("^")]


def _asks(node: Any, nodes: dict[str, Any]) -> str | None:
    """The type of what a switch is decided by; None for what is no switch, or is decided outside of the graph."""
    reads = _reads(node) if node.op.endswith("Switch") else []
    return nodes[reads[1][0]].op if len(reads) == 2 and reads[1][0] in nodes else None


def _decides(node: Any, nodes: dict[str, Any]) -> bool:
    """Is it the switch of a branch, not that of a loop?"""
    return _asks(node, nodes) not in (None, "LoopCond")


def _loops(node: Any, nodes: dict[str, Any]) -> bool:
    """Is it the switch of a variable of a loop?"""
    return _asks(node, nodes) == "LoopCond" and _reads(node)[0] != _reads(node)[1]


def _split(graph_def: Any) -> None:
    """Make two of each switch that serves both sides of a branch; what a loop goes on with is read through one identity."""
    nodes = {node.name: node for node in graph_def.node}
    readers: dict[str, list[Any]] = {}
    for node in graph_def.node:
        for name, index in _reads(node):
            readers.setdefault(f"{name}:{index}", []).append(node)
    instead: dict[str, str] = {}
    for node in list(graph_def.node):
        first, second = (readers.get(f"{node.name}:{side}", []) for side in (0, 1))
        if _decides(node, nodes) and _reads(node)[0] != _reads(node)[1] and first and second:
            made = graph_def.node.add()
            made.CopyFrom(node)
            made.name = instead[f"{node.name}:0"] = _free(f"{node.name}/other", nodes)
            nodes[made.name] = made
        elif _loops(node, nodes) and [reader.op for reader in second] != ["Identity"]:
            made = graph_def.node.add(name=_free(f"{node.name}/body", nodes), op="Identity", device=node.device)
            made.attr["T"].CopyFrom(node.attr["T"])
            instead[f"{node.name}:1"], nodes[made.name] = made.name, made
    for node in graph_def.node:
        node.input[:] = [text if text.startswith("^") else instead.get(text if ":" in text else f"{text}:0", text)
                         for text in node.input]
    for text, name in instead.items():
        if text.endswith(":1"):
            nodes[name].input.append(text)


def _free(wanted: str, taken: dict[str, Any]) -> str:
    name, count = wanted, 0
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    return name


class _Contexts:
    """The places of the nodes of a GraphDef, and the messages that tell of them."""

    def __init__(self, graph_def: Any) -> None:
        self.nodes = {node.name: node for node in graph_def.node}
        self.inside: dict[str, _Path] = {}
        self.added: list[Any] = []
        self.used: dict[str, set[int]] = {}      # the outputs that are read
        for node in graph_def.node:
            for name, index in _reads(node):
                self.used.setdefault(name, set()).add(index)
        for node in self._ordered():
            self.inside[node.name] = self._inside(node)
        self.paths = dict.fromkeys(self.given(node, index) for node in graph_def.node for index in self._outputs(node))
        self.members = [node for node in graph_def.node if self.inside[node.name] or _decides(node, self.nodes)
                        or node.op.endswith("Enter")]

    def _ordered(self) -> Iterator[Any]:
        """Each node after those it reads; what comes back to a merge is not waited for."""
        seen: set[str] = set()
        for root in self.nodes.values():
            left = [(root, False)]
            while left:
                node, done = left.pop()
                if done:
                    yield node
                elif node.name not in seen:
                    seen.add(node.name)
                    left.append((node, True))
                    before = [*(name for name, _ in _reads(node)), *_waits(node)]
                    left += [(self.nodes[name], False) for name in before if name in self.nodes and not (
                        node.op.endswith("Merge") and self.nodes[name].op in _AHEAD)]

    def _inside(self, node: Any) -> _Path:
        """Where a node stands."""
        reads = [(name, index) for name, index in _reads(node) if name in self.inside]
        paths = [self.given(self.nodes[name], index) for name, index in reads]
        if node.op.endswith("Merge") and len(paths) == len(_reads(node)):
            return self._shared(paths)      # where all of its inputs come back to
        paths += [self.given(self.nodes[name], None) for name in _waits(node) if name in self.inside]
        path = max(paths, key=len, default=())
        if any(path[:len(other)] != other for other in paths):
            return self._shared(paths)      # of two predicates that decide the same, as gradients have them
        return path

    @staticmethod
    def _shared(paths: list[_Path]) -> _Path:
        path = min(paths, key=len, default=())
        while any(other[:len(path)] != path for other in paths):
            path = path[:-1]
        return path

    def given(self, node: Any, index: int | None) -> _Path:
        """Where an output of a node stands; what waits for its end where `index` is None."""
        path = self.inside[node.name]
        if node.op.endswith("Enter"):
            return (*path, _Place(node.attr["frame_name"].s.decode()))
        if node.op.endswith("Exit"):
            loops = [place for place in path if place.side is None]
            return path[:path.index(loops[-1])] if loops else path
        if index is not None and index < 2 and _decides(node, self.nodes):
            return (*path, _Place(self._predicate(node), index))
        return path

    def _predicate(self, node: Any) -> str:
        """What decides a switch, without identities on the way."""
        name, index = _reads(node)[1]
        while self.nodes[name].op == "Identity" and (before := _reads(self.nodes[name])[0])[0] in self.nodes and (
                self.given(self.nodes[before[0]], before[1]) == self.inside[name]):
            name, index = before
        return f"{name}:{index}"

    def _outputs(self, node: Any) -> Iterable[int]:
        """The numbers of the outputs of a node, or more; of the switch of a branch the side that it serves."""
        used = self.used.get(node.name, set())
        if used and _decides(node, self.nodes):
            return sorted(used)
        known = max([node.attr[key].i for key in _COUNTS if key in node.attr] or [0]) if _lists(node) else 0
        named = 2 if node.op.endswith(("Switch", "Merge")) else len(NAMED.get(node.op, " " * 6))
        return range(max(named, known, *(len(value.list.type) for value in node.attr.values()), max(used, default=0) + 1))

    def below(self, path: _Path) -> list[_Place]:
        """The loops and branches that stand in that place, in the order of their nodes."""
        found = {other[len(path)]: None for other in self.paths
                 if len(other) > len(path) and other[:len(path)] == path}
        return list(found)

    # as messages
    def described(self, outer: _Path) -> list[Any]:
        """The ControlFlowContextDef of each loop and branch there, with those inside of it."""
        found = []
        for place in self.below(outer):
            path, made = (*outer, place), message("ControlFlowContextDef")()
            told = made.while_ctxt if place.side is None else made.cond_ctxt
            try:
                (self._loop if place.side is None else self._side)(told, path)
            except _NotPlain:
                continue
            self._values(told.values_def, path)
            told.nested_contexts.extend(self.described(path))
            found.append(made)
        return found

    def _loop(self, told: Any, path: _Path) -> None:
        frame = path[-1].title
        members = [node for node in self.members if self.inside[node.name] == path]
        enters = [node for node in self.members if node.op.endswith("Enter") and self.given(node, 0) == path]
        variables = [node for node in enters if not node.attr["is_constant"].b]
        decided = [node for node in members if node.op == "LoopCond"]
        merges = [self._reader(enter, members, "Merge") for enter in variables]
        if len(decided) != 1 or not merges:
            raise _NotPlain
        switches = [self._reader(merge, members, "Switch") for merge in merges]
        told.context_name, told.back_prop = frame, True
        told.parallel_iterations = variables[0].attr["parallel_iterations"].i or 10
        told.pivot_name, told.pivot_for_pred_name = f"{decided[0].name}:0", f"{merges[0].name}:0"
        told.pivot_for_body_name = f"{self._pivot((switches[0].name, 1), path, f'{decided[0].name}/pivot')}:0"
        told.loop_enter_names.extend(f"{node.name}:0" for node in variables)
        told.loop_exit_names.extend(f"{node.name}:0" for node in self.members if node.op.endswith("Exit")
                                    and self.inside[node.name] == path)

    @staticmethod
    def _reader(source: Any, members: Iterable[Any], kind: str) -> Any:
        found = [node for node in members if node.op.endswith(kind) and _reads(node)[0] == (source.name, 0)
                 and (kind != "Switch" or _reads(node)[1] != (source.name, 0))]
        if len(found) != 1:
            raise _NotPlain
        return found[0]

    def _side(self, told: Any, path: _Path) -> None:
        predicate, side = path[-1].title, path[-1].side or 0
        name, _, index = predicate.rpartition(":")
        if self.given(self.nodes[name], int(index)) != path[:len(self.given(self.nodes[name], int(index)))]:
            raise _NotPlain
        chooser = next((node.name for node in self.members if _decides(node, self.nodes)
                        and len({*_reads(node)}) == 1 and self.given(node, side) == path), None)
        if chooser is None:
            of = next(node for node in self.members if _decides(node, self.nodes) and self.given(node, side) == path)
            chooser = self._add(f"{of.name}/choice", "Switch", [predicate, predicate], path[:-1], 10)
        told.pred_name, told.branch = predicate, side
        letter = "ft"[side]
        told.pivot_name = f"{self._pivot((chooser, side), path, f'{chooser}_{letter}')}:0"
        told.context_name = f"{chooser}/cond_text{'_1' * (1 - side)}"
        told.values_def.values.append(predicate)
        told.values_def.external_values[predicate] = predicate

    def _pivot(self, source: tuple[str, int], path: _Path, wanted: str) -> str:
        """The node that gives `source` on, for others to wait for: one that is there, or a new one."""
        for node in self.members:
            if node.op == "Identity" and _reads(node) == [source] and self.inside[node.name] == path:
                return str(node.name)
        made = self.nodes[source[0]].attr["T"].type
        return self._add(wanted, "Identity", [f"{source[0]}:{source[1]}"], path, made)

    def _add(self, wanted: str, kind: str, inputs: list[str], path: _Path, dtype: int) -> str:
        node = message("NodeDef")(name=_free(wanted, self.nodes), op=kind, input=inputs)
        node.attr["T"].type = dtype
        self.nodes[node.name], self.inside[node.name] = node, path
        self.added.append(node)
        self.members.append(node)
        return str(node.name)

    def _values(self, told: Any, path: _Path) -> None:
        """The tensors of a loop or branch; loops within have their own."""
        for node in self.members:
            reads = [f"{name}:{index}" for name, index in _reads(node)]
            for index in self._outputs(node):
                given, text = self.given(node, index), f"{node.name}:{index}"
                if node.op.endswith("Exit") and self.inside[node.name] == path and path[-1].side is None:
                    given = path
                if given[:len(path)] != path or any(place.side is None for place in given[len(path):]):
                    continue
                if _decides(node, self.nodes) and len({*reads}) == 1 and given == path:
                    continue      # it says which side runs, and stands outside
                told.values.append(text)


def _lists(node: Any) -> bool:
    return any(name.endswith("*") for name in NAMED.get(node.op, ["*"]))
