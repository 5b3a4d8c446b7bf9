"""What each rewrite did to a graph: operations added, removed, changed and merged between two recorded stages."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench.core.trace import GraphRecord, NodeRecord
from workbench.viz.palette import short_device

__all__ = ["Merged", "PassRow", "bare", "compare", "pass_view"]

Nodes = Mapping[tuple[str, str], NodeRecord]  # by name and, where devices stand side by side, by device


@dataclass(slots=True)
class Merged:
    """One fused operation and those that it stands for, itself as it was before included."""

    name: str
    type: str
    parts: list[NodeRecord]


@dataclass(slots=True)
class PassRow:
    """One stage against the one before it."""

    stage: str
    note: str  # what the pass says of itself
    before: int
    after: int
    added: list[str]  # names, all of them
    removed: list[str]
    changed: list[str]  # same name, other type or inputs
    merged: list[Merged]  # what their parts were is in `removed` too
    sentence: str


def pass_view(records: Sequence[GraphRecord]) -> list[PassRow]:
    """One row per stage of one executable, in order, from the second stage on."""
    return [compare(before, after)[0] for before, after in itertools.pairwise(records)]


Compared = tuple[PassRow, list[NodeRecord], list[NodeRecord], list[tuple[NodeRecord, NodeRecord]]]


def compare(before: GraphRecord, after: GraphRecord) -> Compared:
    """What the rewrite between two stages did: in words, and the nodes that came, went, and changed (before and after)."""
    both = before.split and after.split
    old, new = _nodes(before, both), _nodes(after, both)
    added = [node for key, node in new.items() if key not in old]
    removed = {key: node for key, node in old.items() if key not in new}
    changed = [(old[key], node) for key, node in new.items() if key in old and _core(node) != _core(old[key])]
    placed = sum(node.device != old[key].device for key, node in new.items() if key in old)
    merged = [m for was, node in changed if (m := _merge(was, node, removed, both)) is not None]
    sentence = _sentence(list(removed.values()), added, changed, merged, placed)
    came, went, differ = map(_names, (added, removed.values(), (node for _, node in changed)))
    row = PassRow(after.stage, after.note, len(old), len(new), came, went, differ, merged, sentence)
    return row, added, list(removed.values()), changed


def _nodes(record: GraphRecord, by_device: bool) -> dict[tuple[str, str], NodeRecord]:
    """An operation that several devices have keeps its identity when a pass leaves it to one of them alone."""
    return {(bare(n.name), n.device) if by_device else (n.name, ""): n for n in record.nodes}


def bare(name: str) -> str:
    """An operation's name without the device that tells it from its copies."""
    return name.partition(" on /")[0]


def _shown(node: NodeRecord) -> str:
    alone = bare(node.name)
    return node.name if alone == node.name else f"{alone} on {short_device(node.device)}"


def _names(nodes: Iterable[NodeRecord]) -> list[str]:
    return [_shown(node) for node in nodes]


def _core(node: NodeRecord) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    inputs = (producer.rpartition(":") for producer in node.inputs)
    return node.type, tuple(f"{bare(name)}:{index}" for name, _, index in inputs), tuple(map(bare, node.control))


def _merge(was: NodeRecord, node: NodeRecord, removed: Nodes, by_device: bool) -> Merged | None:
    """What `node` stands for: all removed operations from which its former self was computed; None for no fusion."""
    if "fused" not in node.type.lower() or was.type == node.type:
        return None
    found: dict[tuple[str, str], NodeRecord] = {}
    waiting = [was]
    while waiting:
        for producer in waiting.pop().inputs:
            key = bare(producer.rpartition(":")[0]), was.device if by_device else ""
            if key in removed and key not in found:
                found[key] = removed[key]
                waiting.append(removed[key])
    return Merged(_shown(node), node.type, [n for key, n in removed.items() if key in found] + [was])


def _sentence(
    removed: list[NodeRecord],
    added: list[NodeRecord],
    changed: list[tuple[NodeRecord, NodeRecord]],
    merged: list[Merged],
    placed: int,
) -> str:
    parts, fused = [], {m.name for m in merged}
    inside = {id(node) for m in merged for node in m.parts}
    removed = [node for node in removed if id(node) not in inside]
    changed = [(old, new) for old, new in changed if _shown(new) not in fused]
    sent = sum(node.type == "send" for node in added)
    parts += [_fused(merged)] if merged else []
    parts += [f"removed {_kinds(removed)}"] if removed else []
    parts += [f"sends {sent} message{'s' if sent != 1 else ''} to other devices"] if sent else []
    parts += [f"added {_kinds(added)}"] if added else []
    became = Counter(new.type for old, new in changed if new.type != old.type)
    parts += [f"{_operations(count)} became {kind}" for kind, count in became.most_common()]
    rewired = len(changed) - became.total()
    parts += [f"gave {_operations(rewired)} other inputs"] if rewired else []
    parts += [f"gave {_operations(placed)} a device"] if placed else []
    text = "; ".join(parts)
    return (text[:1].upper() + text[1:] + ".") if text else "Changed nothing here."


def _fused(merged: Sequence[Merged]) -> str:
    """'10 operations became 4: 2 × matmul + add + relu, 2 × matmul + add'."""
    kinds = Counter(" + ".join(node.type for node in m.parts) for m in merged)
    listed = ", ".join(f"{count} × {chain}" for chain, count in kinds.most_common(4)) + (", …" if len(kinds) > 4 else "")
    return f"{_operations(sum(len(m.parts) for m in merged))} became {len(merged)}: {listed}"


def _kinds(nodes: Iterable[NodeRecord]) -> str:
    """'3 operations (2 identity, 1 constant)'."""
    kinds = Counter(n.type for n in nodes)
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(4)) + (", …" if len(kinds) > 4 else "")
    return f"{_operations(kinds.total())} ({listed})"


def _operations(count: int) -> str:
    return f"{count} operation{'s' if count != 1 else ''}"
