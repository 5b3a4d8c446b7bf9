"""What each rewrite did to a graph: operations added, removed and changed between two recorded stages."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.core.trace import GraphRecord, NodeRecord

__all__ = ["PassRow", "pass_view"]


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
    fused: int  # operations that now live inside a fused one
    sentence: str


def pass_view(records: Sequence[GraphRecord]) -> list[PassRow]:
    """One row per stage of one executable, in order, from the second stage on."""
    return [_compare(before, after) for before, after in itertools.pairwise(records)]


def _compare(before: GraphRecord, after: GraphRecord) -> PassRow:
    old, new = ({n.name: n for n in record.nodes} for record in (before, after))
    added = [name for name in new if name not in old]
    removed = [name for name in old if name not in new]
    changed = [name for name in new if name in old and _core(new[name]) != _core(old[name])]
    fused = len(removed) if any("fused" in new[n].type.lower() for n in (*added, *changed)) else 0
    placed = sum(new[n].device != old[n].device for n in new if n in old)
    sentence = _sentence(
        [old[n] for n in removed], [new[n] for n in added], [(old[n], new[n]) for n in changed], placed, bool(fused)
    )
    return PassRow(after.stage, after.note, len(old), len(new), added, removed, changed, fused, sentence)


def _core(node: NodeRecord) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    return node.type, node.inputs, node.control


def _sentence(
    removed: list[NodeRecord],
    added: list[NodeRecord],
    changed: list[tuple[NodeRecord, NodeRecord]],
    placed: int,
    fused: bool,
) -> str:
    parts = []
    if fused:
        parts.append(f"{len(removed)} operations fused into {len(added) or len(changed)}")
    else:
        parts += [f"removed {_kinds(removed)}"] if removed else []
        parts += [f"added {_kinds(added)}"] if added else []
    became = Counter(new.type for old, new in changed if new.type != old.type)
    parts += [f"turned {count} into {kind}" for kind, count in became.most_common() if not fused]
    rewired = len(changed) - became.total()
    parts += [f"gave {rewired} other inputs"] if rewired else []
    if placed:
        parts.append(f"gave {placed} operation{'s' if placed != 1 else ''} a device")
    text = "; ".join(parts)
    return (text[:1].upper() + text[1:] + ".") if text else "Changed nothing here."


def _kinds(nodes: list[NodeRecord]) -> str:
    """'3 operations (2 identity, 1 constant)'."""
    kinds = Counter(n.type for n in nodes)
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(4)) + (", …" if len(kinds) > 4 else "")
    return f"{len(nodes)} operation{'s' if len(nodes) != 1 else ''} ({listed})"
