"""What the executor knows of a plan: for each segment a node, with its readers and what it waits for."""
from __future__ import annotations

from workbench.core.compile.plan import Plan, PlanSegment
from workbench.core.graph.program import is_back_edge
from workbench.core.run.executor import Node
from workbench.core.run.straight import Nodes

__all__ = ["nodes_of"]


def nodes_of(plan: Plan) -> Nodes:
    """The executor's view of a plan's segments."""
    home = {op: s.index for s in plan.segments for op in s.operations}
    feeds: dict[int, list[tuple[int, int, int]]] = {s.index: [] for s in plan.segments}
    counts: dict[int, int] = {}
    for segment in plan.segments:
        reads = segment.op.inputs if segment.kind != "compute" else segment.inputs
        counts[segment.index] = 0
        for slot, tensor in enumerate(reads):
            maker = home.get(tensor.op)
            if maker is None or maker == segment.index:
                continue
            made = plan.segments[maker]
            port = tensor.index if made.kind != "compute" else made.outputs.index(tensor)
            feeds[maker].append((port, segment.index, slot))
            counts[segment.index] += 1
        for before in segment.after:
            feeds[before].append((-1, segment.index, -1))
    return Nodes(_node(s, counts[s.index], feeds[s.index]) for s in plan.segments)


def _node(segment: PlanSegment, inputs: int, feeds: list[tuple[int, int, int]]) -> Node:
    op = segment.op if segment.operations else None
    if segment.kind == "compute" or op is None:
        return Node(segment.index, segment.name, inputs, len(segment.after), tuple(feeds),
                    outputs=max(1, len(segment.outputs)))
    role = op.kind if segment.kind == "control" else ("send" if segment.kind == "send" else "")
    backs = tuple(i for i, t in enumerate(op.inputs) if is_back_edge(op, t))
    return Node(segment.index, op.name, inputs, len(segment.after), tuple(feeds), role, max(1, len(op.outputs)),
                str(op.attrs.get("frame_name", "")), bool(op.attrs.get("is_constant", False)),
                int(op.attrs.get("parallel_iterations", 10)), backs)
