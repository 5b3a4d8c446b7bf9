"""Loops that span devices: which frame an operation runs in, and the control loop each taking part needs."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import bool_
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import Program, is_back_edge, topological
from workbench.core.ops.flow import set_back_edge
from workbench.core.passes.lower import ambient
from workbench.core.passes.rewrite import copied

__all__ = ["Frames", "Path", "share_frames", "steers"]

Path = tuple[str, ...]
"""The names of the frames around an operation, the outermost first."""

_STEERING = frozenset({"switch", "merge", "enter", "exit", "next_iteration"})


def steers(program: Program) -> bool:
    """Can a value of this program be dead?"""
    return any(op.kind in _STEERING for op in program.graph.operations)


@dataclass
class Frames:
    """A placed program in which every device that takes part in a loop knows when its next iteration begins.

    `paths` is the frame in which the outputs of an operation are, `beats` the merge that fires once an iteration of a
    frame on a device: what arrives on that device in that frame has to wait for it.
    """

    program: Program
    placement: dict[str, str]
    paths: dict[Operation, Path] = field(default_factory=dict)
    beats: dict[tuple[str, Path], Operation] = field(default_factory=dict)

    def beat(self, device: str, before: Operation) -> Operation | None:
        """What a receive on `device` of something that `before` made has to wait for."""
        return self.beats.get((device, self.paths.get(before, ())))

    @property
    def first(self) -> set[Operation]:
        """Operations that must be built before any receive."""
        return {op for beat in self.beats.values() for op in (beat, beat.inputs[0].op)}


def share_frames(program: Program, placement: Mapping[str, str]) -> Frames:
    """Add to `program` a control loop per frame and device that receives in it (paper W§4.4).

    A control loop is a merge, a switch and a next_iteration that the loop_cond of the frame drives: it goes through as
    many iterations as the loop does, wherever that is decided.
    """
    if not any(op.kind == "enter" for op in program.graph.operations) or len(set(placement.values())) < 2:
        return Frames(program, dict(placement))
    program = copied(program)
    frames = Frames(program, dict(placement))
    inside = _paths(program, frames.paths)
    wanted = _receivers(program, placement, frames.paths)
    deciders = {inside[op]: op for op in program.graph.operations if op.kind == "loop_cond"}
    parallel = {frames.paths[op]: op.attrs["parallel_iterations"] for op in inside if op.kind == "enter"}
    for path, device in sorted((path, device) for device, path in wanted):
        if path not in deciders:
            raise errors.InvalidArgumentError(f"partition: frame {path[-1]!r} spans devices but has no loop_cond; mark "
                                              "what decides about its next iteration with loop_cond")
        _add_control_loop(frames, device, path, deciders[path].outputs[0], parallel[path])
    return frames


def _paths(program: Program, outputs: dict[Operation, Path]) -> dict[Operation, Path]:
    """For each operation the frame that it runs in. Fills `outputs` with the frame that its outputs belong to."""
    inside: dict[Operation, Path] = {}
    for op in topological(program.graph.operations):
        before = [t.op for t in op.inputs if not is_back_edge(op, t)] + list(op.controls)
        inside[op] = max((outputs[b] for b in before), key=len, default=())
        outputs[op] = inside[op]
        if op.kind == "enter":
            outputs[op] = (*inside[op], op.attrs["frame_name"])
        elif op.kind == "exit":
            outputs[op] = inside[op][:-1]
    return inside


def _receivers(program: Program, placement: Mapping[str, str], paths: Mapping[Operation, Path]) -> set[tuple[str, Path]]:
    """(device, frame) for everything that crosses devices inside a frame, and for the frames around these."""
    found = set()
    for op in program.graph.operations:
        before = [t.op for t in op.inputs if not ambient(t.op)] + list(op.controls)
        for other in before:
            if placement[other.name] != placement[op.name] and other.kind != "argument":
                path = paths[other]
                found |= {(placement[op.name], path[:depth]) for depth in range(1, len(path) + 1)}
    return found


def _add_control_loop(frames: Frames, device: str, path: Path, decision: Tensor, parallel: int) -> None:
    graph = frames.program.graph
    title = f"{path[-1]}/control/{device.strip('/').replace(':', '_')}"

    def make(kind: str, inputs: list[Tensor], **attrs: object) -> Operation:
        op = graph.create(kind, inputs, attrs, f"{title}/{kind}", device=device, colocation=frozenset(),
                          source=decision.op.source)
        frames.placement[op.name], frames.paths[op] = device, path
        return op
    start = _start(graph, title, device, frames) if len(path) == 1 else frames.beats[device, path[:-1]].outputs[0]
    entered = make("enter", [start], frame_name=path[-1], is_constant=False, parallel_iterations=parallel, shape=None)
    beat = make("merge", [entered.outputs[0]] * 2)
    goes_on = make("switch", [beat.outputs[0], decision]).outputs[1]
    set_back_edge(beat, make("next_iteration", [goes_on]).outputs[0])
    frames.beats[device, path] = beat


def _start(graph: Graph, title: str, device: str, frames: Frames) -> Tensor:
    op = graph.create("constant", (), {"value": np.asarray(True), "dtype": bool_}, f"{title}/start", device=device)
    frames.placement[op.name] = device
    return op.outputs[0]
