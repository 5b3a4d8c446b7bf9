"""Operations that TensorFlow has not, in a GraphDef: nodes of types of our own, which only we read."""
from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from workbench import errors
from workbench.core.graph.graph import Operation, get_default_graph
from workbench.core.graph.opdef import registry
from workbench.core.graph.serial import dump_values, load_values
from workbench.formats.twins import Node, importers, imports
from workbench.formats.values import attr

__all__ = ["importer", "known_types", "tell", "write_own"]

_log = logging.getLogger("workbench")
_PREFIX = "Workbench"
_VALUES = "values"      # the attribute with ours, as bytes
_HANDLES = 1 << 16      # every input is what it was: a value that is read of a variable has a node of its own
_INNER = {"apply_matmul_descent", "apply_together", "argument", "call", "fused", "if", "receive", "restore", "restore_state",
          "save", "save_state", "send", "swap_in", "swap_out", "while"}
"""What belongs to the steps of one session, what savers add to a graph, and what is taken apart before it is written."""
_told: set[str] = set()


def importer(kind: str) -> Any:
    """What builds nodes of TensorFlow's type `kind`, or of one of ours; None for others."""
    ours = kind.removeprefix(_PREFIX)
    return importers.get(kind, _read if kind.startswith(_PREFIX) and _known(ours) else None)


def known_types() -> list[str]:
    """The types of TensorFlow that can be built, in order."""
    return sorted(importers)


def _known(kind: str) -> bool:
    return kind in registry and kind not in _INNER


def write_own(writer: Any, op: Operation) -> None:
    """A node of our own type for `op`. UnimplementedError where it means nothing outside of the steps of a session."""
    if not _known(op.kind):
        raise errors.UnimplementedError(f"as_graph_def: operation {op.name!r} ({op.kind}) has no counterpart in TensorFlow; "
                                        "leave it out of what is exported (extract_sub_graph takes a part)")
    try:
        values = dump_values([dict(op.attrs), [t.shape for t in op.outputs]])
    except errors.InvalidArgumentError as error:
        raise errors.UnimplementedError(f"as_graph_def: operation {op.name!r} ({op.kind}): {error.message}") from None
    writer.node(op, _PREFIX + op.kind, [writer.ref(t) for t in op.inputs], {_VALUES: attr("s", values)})


def tell(kinds: Iterable[str]) -> None:
    """Say once of each of our own among these types that TensorFlow does not read it."""
    new = sorted({kind.removeprefix(_PREFIX) for kind in kinds if kind.startswith(_PREFIX)} - _told)
    if new:
        _told.update(new)
        _log.warning("as_graph_def: TensorFlow has no operation %s; the graph can be read here, not there", ", ".join(new))


@imports(handles=_HANDLES)
def _read(node: Node) -> Any:
    kind = node.proto.op.removeprefix(_PREFIX)
    try:
        attrs, shapes = load_values(node.proto.attr[_VALUES].s)
        op = get_default_graph().create(kind, node.inputs, attrs, node.exact)
    except errors.Error:
        raise
    except Exception as error:      # whatever damaged bytes make a reader stumble over
        raise errors.DataLossError(f"{node.where}: its attributes cannot be read ({error}); write the graph anew") from None
    for tensor, shape in zip(op.outputs, shapes):
        tensor.shape = tensor.shape.merge(shape)
    return list(op.outputs) or op
