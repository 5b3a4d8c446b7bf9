"""What one run reports to its caller: which operations ran on which device, when, and how large what they computed was."""
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.core.graph.dtype import DType
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape
from workbench.core.trace import Journal, Span

__all__ = ["AllocationDescription", "AllocatorMemoryUsed", "DeviceStats", "NodeOutput", "NodeStats", "StepRecorder",
           "StepStats", "TensorDescription"]

_SHOWN = ("op", "send", "recv", "queue")


@dataclass(frozen=True)
class AllocationDescription:
    """Bytes of one value."""

    requested_bytes: int
    allocated_bytes: int
    allocator_name: str


@dataclass(frozen=True)
class TensorDescription:
    """One value. Dimensions that only the step knows are known as far as the bytes tell them."""

    dtype: DType
    shape: Shape
    allocation_description: AllocationDescription


@dataclass(frozen=True)
class NodeOutput:
    """An output of an operation in a step."""

    slot: int
    tensor_description: TensorDescription


@dataclass(frozen=True)
class AllocatorMemoryUsed:
    """Bytes that an operation's outputs take; they may lie where earlier values were, after the last reader of those."""

    allocator_name: str
    total_bytes: int
    peak_bytes: int
    live_bytes: int


@dataclass(frozen=True)
class NodeStats:
    """One operation; times in microseconds, `all_start_micros` since the epoch, the others since that. `timeline_label` says
    `name = Type(names of what it reads)`.

    `output` has what it computed where the graph has an operation of that name; `memory` is empty where it computed a view of
    what it read, or nothing.
    """

    node_name: str
    all_start_micros: int
    op_start_rel_micros: int
    op_end_rel_micros: int
    all_end_rel_micros: int
    timeline_label: str
    thread_id: int
    output: tuple[NodeOutput, ...] = ()
    memory: tuple[AllocatorMemoryUsed, ...] = ()


@dataclass(frozen=True)
class DeviceStats:
    """The operations of one device, in the order in which they began."""

    device: str
    node_stats: list[NodeStats]


@dataclass(frozen=True)
class StepStats:
    """The devices that took part in a step."""

    dev_stats: list[DeviceStats]


class StepRecorder(Journal):
    """A journal of one step: keeps its spans and passes them on to the process's journal."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(1 << 20)
        self.enabled, self.origin, self.wall_origin = True, journal.origin, journal.wall_origin
        self._journal = journal

    def span(self, span: Span) -> None:
        super().span(span)
        self._journal.span(span)

    def stats(self, graph: Any) -> StepStats:
        """What happened so far, with the operations of `graph` by the names of their types."""
        spans = sorted((s for s in self.spans_since()[2] if s.kind in _SHOWN), key=lambda s: (s.device, s.start))
        return StepStats([DeviceStats(device, [self._node(s, graph) for s in spans if s.device == device])
                          for device in _distinct(s.device for s in spans)])

    def _node(self, span: Span, graph: Any) -> NodeStats:
        lasted, label = round((span.end - span.start) * 1e6), span.detail or span.kind
        output: tuple[NodeOutput, ...] = ()
        memory: tuple[AllocatorMemoryUsed, ...] = ()
        if graph.has(span.name):
            op = graph.operation(span.name)
            allocator = span.device.rpartition(":")[0].rpartition(":")[2].lower()      # "cpu"
            output = _outputs(op.outputs, span.nbytes, allocator)
            if span.nbytes and not op.definition.view:
                memory = AllocatorMemoryUsed(allocator, span.nbytes, span.nbytes, 0),
            kind = op.type if label == op.kind else label      # what was fused has a text of its own
            label = f"{op.name} = {kind}({', '.join(t.op.name for t in op.inputs)})"
        return NodeStats(span.name, round(self.wall(span.start) * 1e6), 0, lasted, lasted, label, span.thread,
                         output, memory)


def _outputs(tensors: Sequence[Tensor], total: int, allocator: str) -> tuple[NodeOutput, ...]:
    """The outputs of an operation, which take `total` bytes together."""
    shapes = [t.shape for t in tensors]
    sizes = [_bytes(t.dtype, shape) for t, shape in zip(tensors, shapes)]
    if sizes.count(None) == 1:      # what the others leave
        late = sizes.index(None)
        sizes[late] = left = max(0, total - sum(size for size in sizes if size is not None))
        shapes[late] = _shape_of(tensors[late], left)
    return tuple(NodeOutput(slot, TensorDescription(t.dtype, shape, AllocationDescription(size or 0, size or 0, allocator)))
                 for slot, (t, shape, size) in enumerate(zip(tensors, shapes, sizes)))


def _bytes(dtype: DType, shape: Shape) -> int | None:
    """What a value takes, None where only the step knows: texts have any length."""
    count = shape.num_elements()
    return None if count is None or dtype.numpy.hasobject else count * dtype.size


def _shape_of(tensor: Tensor, nbytes: int) -> Shape:
    """The shape of a value of so many bytes, where one of its dimensions is unknown."""
    dims = [] if tensor.shape.rank is None else tensor.shape.as_list()
    step = tensor.dtype.size * math.prod(dim for dim in dims if dim is not None)
    if dims.count(None) != 1 or not step:
        return tensor.shape
    return Shape([nbytes // step if dim is None else dim for dim in dims])


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
