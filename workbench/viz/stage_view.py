"""One stage of an executable as it is drawn: what the rewrite brought, changed and took away, and the devices' shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from workbench.core.trace import GraphRecord, NodeRecord
from workbench.viz.palette import short_device
from workbench.viz.pass_view import bare, compare

__all__ = ["CAME", "CHANGED", "GOES", "SAME", "Staged", "drawn", "staged", "stages_of"]

SAME, CAME, CHANGED, GOES = range(4)


class Staged(NamedTuple):
    """A stage, or what there was before it."""

    record: GraphRecord  # as it is drawn
    marks: Mapping[str, int]  # operation -> CAME, CHANGED or GOES; what is the same is not named
    sentence: str  # what the rewrite did


def stages_of(records: Sequence[GraphRecord], key: str) -> list[GraphRecord]:
    """The stages of one executable in order, as far as they are kept."""
    return [record for record in records if record.key == key]


def staged(stages: Sequence[GraphRecord], number: int, before: bool) -> Staged:
    """Stage `number`, or with `before` the one that it was made of; the first stage is what was built."""
    now = stages[number]
    if number == 0:
        return Staged(drawn(now), {}, now.note)
    was = stages[number - 1]
    row, came, went, differ = compare(was, now)
    shown = was if before else now
    names = drawn_names(shown)
    marks = {names[id(node)]: GOES if before else CAME for node in (went if before else came)}
    marks |= {names[id(old if before else new)]: CHANGED for old, new in differ}
    return Staged(drawn(shown), marks, row.sentence)


def drawn(record: GraphRecord) -> GraphRecord:
    """A record whose devices' shares stand side by side as a graph: a scope for each device, and each message a line."""
    devices = {node.device for node in record.nodes}
    if not record.split or len(devices) < 2:
        return record
    sent = {node.message: node for node in record.nodes if node.message and not node.outputs}
    received = {node.message: node for node in record.nodes if node.message and node.outputs}
    nodes = []
    for node in record.nodes:
        inputs = tuple(_tensor(node, text) for text in node.inputs)
        if node.outputs and node.message in sent:
            inputs = (*inputs, f"{_name(sent[node.message])}:0")
        elif node.message in received and not node.outputs:
            node = node._replace(outputs=received[node.message].outputs)  # what it carries, for the line's bytes
        nodes.append(node._replace(name=_name(node), inputs=inputs, control=tuple(_within(node, c) for c in node.control)))
    return GraphRecord(record.key, record.stage, tuple(nodes), record.devices, record.note, True)


def drawn_names(record: GraphRecord) -> dict[int, str]:
    """Node (by identity) -> what it is called in the drawing."""
    split = record.split and len({node.device for node in record.nodes}) > 1
    return {id(node): _name(node) if split else node.name for node in record.nodes}


def _name(node: NodeRecord) -> str:
    return f"{short_device(node.device)}/{bare(node.name)}"


def _within(node: NodeRecord, producer: str) -> str:
    """What a producer on the same device is called."""
    return f"{short_device(node.device)}/{bare(producer)}"


def _tensor(node: NodeRecord, text: str) -> str:
    producer, _, index = text.rpartition(":")
    return f"{_within(node, producer)}:{index}"
