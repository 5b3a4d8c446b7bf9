"""Handles of state are the same in every frame and branch: what uses one where it was passed on waits for a sign from there."""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.core.graph.build import ops
from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Operation, Tensor
from workbench.formats.twins import Node

__all__ = ["Gates"]


class Gates:
    """For outputs of Enter and Switch that are handles: an operation in the frame, or one that runs in that branch alone."""

    def __init__(self) -> None:
        self._signs: dict[str, Operation] = {}

    def of(self, texts: Iterable[str]) -> list[Operation]:
        """What an operation waits for that reads these outputs."""
        return [self._signs[text] for text in texts if text in self._signs]

    def opened(self, node: Node, outputs: Sequence[Tensor]) -> tuple[Operation, ...]:
        """The operations that stand for an Enter or a Switch of a handle, () for any other node."""
        if not outputs or outputs[0].dtype is not resource or node.proto.op not in _SIGNS:
            return ()
        first, signs = _SIGNS[node.proto.op](node)
        self._signs.update((f"{node.proto.name}:{number}", sign) for number, sign in enumerate(signs))
        return (first,)


def _entered(node: Node) -> tuple[Operation, list[Operation]]:
    sign = ops.enter(ops.constant(True), frame_name=node.needed("frame_name"), is_constant=True, name=node.exact).op
    return sign, [sign]


def _chosen(node: Node) -> tuple[Operation, list[Operation]]:
    sides = ops.switch(node.inputs[1], node.inputs[1], name=node.exact)
    return sides[0].op, [ops.identity(side).op for side in sides]


_SIGNS = {"Enter": _entered, "RefEnter": _entered, "Switch": _chosen, "RefSwitch": _chosen}
