"""One graph per device: cut edges become send and receive, one pair per tensor and destination (paper §3.3)."""
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from workbench.core.compile.loops import Frames, share_frames, steers
from workbench.core.graph.dtype import DType, bfloat16, float32, int32
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import Program, is_back_edge, topological
from workbench.core.graph.shape import Shape
from workbench.core.names import task_of

__all__ = ["Part", "partition"]


@dataclass
class Part:
    """One device's share. `feeds` and `fetches` are positions in the whole program's feeds and fetches."""

    device: str
    program: Program
    feeds: list[int] = field(default_factory=list)
    fetches: list[int] = field(default_factory=list)


class _Builder:
    """The graph of one device while it grows."""

    def __init__(self, device: str, frames: Frames, steered: bool, short: bool) -> None:
        self.device, self.graph, self.frames, self.steered, self.short = device, Graph(), frames, steered, short
        self.tensors: dict[Tensor, Tensor] = {}
        self.operations: dict[Operation, Operation] = {}
        self.controls: dict[Operation, Operation] = {}     # foreign operation -> receive that stands for it
        self.feeds: dict[int, Tensor] = {}


def partition(program: Program, placement: Mapping[str, str], short: bool = False) -> list[Part]:
    """Split `program` by `placement`. Constants and feeds are copied to every device that reads them.

    With `short`, float32 values travel between tasks rounded to bfloat16 (white paper §5.5, which cuts them off): an error of
    at most 2^-8 of the value, and infinity beyond 3.39e38.
    """
    program, disbanded = _disband(program, placement)
    frames = share_frames(program, placement)
    program, placement, first = frames.program, frames.placement, frames.first
    steered = steers(program)
    builders = {device: _Builder(device, frames, steered, short) for device in dict.fromkeys(placement.values())}
    fed = {t: i for i, t in enumerate(program.feeds)}
    back_edges = []
    for op in sorted(topological(program.graph.operations), key=lambda op: op not in first):
        if op.name in disbanded or (op.kind in ("argument", "constant") and not op.controls):
            continue
        builder = builders[placement[op.name]]
        inputs: list[Tensor] = []
        for position, tensor in enumerate(op.inputs):
            if is_back_edge(op, tensor) and tensor not in builder.tensors:
                back_edges.append((builder, op, position, tensor))
                inputs.append(inputs[0])
            else:
                inputs.append(_local(builders, builder, tensor, placement, fed))
        controls = [_control(builders, builder, c, placement) for c in op.controls]
        _copy(builder, op, inputs, [c for c in controls if c is not None])
    for builder, op, position, tensor in back_edges:
        merge = builder.operations[op]
        merge.inputs = (*merge.inputs[:position], builder.tensors[tensor], *merge.inputs[position + 1:])
    return _parts(program, builders, placement, fed)


def _disband(program: Program, placement: Mapping[str, str]) -> tuple[Program, set[str]]:
    """A target that only waits for operations on other devices gives way to those: a step is over when all its parts are,
    so they need not tell its device. Also the names of the operations that are no longer needed."""
    readers = Counter(before for op in program.graph.operations for before in op.controls)
    stack, targets, gone = list(reversed(program.targets)), dict[Operation, None](), set[str]()
    while stack:
        op = stack.pop()
        if op.name in gone:
            continue
        if op.kind != "no_op" or readers[op] or all(placement[c.name] == placement[op.name] for c in op.controls):
            targets[op] = None
            continue
        gone.add(op.name)
        readers.subtract(op.controls)
        stack += reversed(op.controls)
    return replace(program, targets=tuple(targets)), gone


def _copy(builder: _Builder, op: Operation, inputs: list[Tensor], controls: list[Operation]) -> None:
    new = builder.graph.adopt(op, inputs, tuple(dict.fromkeys(controls)), device=builder.device, colocation=frozenset())
    builder.tensors.update(zip(op.outputs, new.outputs))
    builder.operations[op] = new


def _local(builders: Mapping[str, _Builder], builder: _Builder, tensor: Tensor, placement: Mapping[str, str],
           fed: Mapping[Tensor, int]) -> Tensor:
    """`tensor` on the builder's device, received if it is made elsewhere."""
    if tensor in builder.tensors:
        return builder.tensors[tensor]
    op = tensor.op
    if op.kind in ("argument", "constant") and not op.controls:
        _copy(builder, op, [], [])
        if tensor in fed:
            builder.feeds[fed[tensor]] = builder.tensors[tensor]
        return builder.tensors[tensor]
    source = builders[placement[op.name]]
    builder.tensors[tensor] = _transfer(source, builder, source.tensors[tensor], tensor.name, op)
    return builder.tensors[tensor]


def _control(builders: Mapping[str, _Builder], builder: _Builder, before: Operation,
             placement: Mapping[str, str]) -> Operation | None:
    if before in builder.operations:
        return builder.operations[before]
    if before.kind in ("argument", "constant") and not before.controls:
        return None
    if before not in builder.controls:
        source = builders[placement[before.name]]
        token = source.graph.create("constant", (), {"value": _TOKEN, "dtype": int32}, before.name + "_done",
                                    (source.operations[before],), device=source.device)
        builder.controls[before] = _transfer(source, builder, token.outputs[0], f"^{before.name}", before).op
    return builder.controls[before]


_TOKEN = np.zeros((), np.int32)      # what a control edge between devices carries


def _transfer(source: _Builder, target: _Builder, tensor: Tensor, name: str, made_by: Operation) -> Tensor:
    beat = target.frames.beat(target.device, made_by)
    waits = () if beat is None else (target.operations[beat],)
    controls = tensor.op.controls if tensor.op.kind == "constant" else ()
    attrs = {"tensor": name, "source": source.device, "target": target.device}
    title = name.replace(":", "_").lstrip("^")
    steered = {"steered": True} if source.steered else {}
    rounded = source.short and tensor.dtype is float32 and task_of(source.device) != task_of(target.device)
    sent = _cast(source, tensor, bfloat16, f"send/{title}/bfloat16") if rounded else tensor
    source.graph.create("send", [sent], {**attrs, **steered}, f"send/{title}", controls, device=source.device,
                        source=tensor.op.source)
    shape = tensor.shape if tensor.shape.rank is not None else Shape(None)
    receive = target.graph.create("receive", (), {**attrs, "dtype": sent.dtype, "shape": shape}, f"receive/{title}",
                                  waits, device=target.device, source=tensor.op.source).outputs[0]
    return _cast(target, receive, float32, f"receive/{title}/float32") if rounded else receive


def _cast(builder: _Builder, tensor: Tensor, dtype: DType, name: str) -> Tensor:
    return builder.graph.create("cast", [tensor], {"dtype": dtype}, name, device=builder.device,
                                source=tensor.op.source).outputs[0]


def _parts(program: Program, builders: Mapping[str, _Builder], placement: Mapping[str, str],
           fed: Mapping[Tensor, int]) -> list[Part]:
    found = []
    for device, builder in builders.items():
        fetches = [i for i, t in enumerate(program.fetches) if placement[t.op.name] == device]
        for i in fetches:
            _local(builders, builder, program.fetches[i], placement, fed)
        if not builder.graph.operations:
            continue
        targets = [builder.operations[op] for op in program.targets if op in builder.operations]
        targets += [op for op in builder.graph.operations if op.kind == "send"]
        feeds = sorted(builder.feeds)
        local = Program(builder.graph, tuple(builder.feeds[i] for i in feeds),
                        tuple(builder.tensors[program.fetches[i]] for i in fetches), tuple(targets))
        found.append(Part(device, local, feeds, fetches))
    return found
