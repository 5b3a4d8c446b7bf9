"""The names that travel and are recorded: the task of a device, and the edge that a tensor takes between two devices."""
from __future__ import annotations

import functools
from typing import Final, NamedTuple

from workbench import errors

__all__ = ["OUTSIDE", "Edge", "join_edge", "numbered", "split_edge", "target_of", "task_of"]

OUTSIDE = "0:0"
"""The frame of what runs in no loop."""
_KEPT: Final = 4096      # edges that are kept with their parts, for they come in every step


class Edge(NamedTuple):
    """What an edge's name says; `source` and `target` are full device names."""

    tensor: str
    source: str
    target: str
    frame: str


@functools.lru_cache(_KEPT)
def join_edge(tensor: str, source: str, target: str, frame: str = OUTSIDE) -> str:
    """The name under which one tensor travels from `source` to `target` (full device names) in each step.

    `frame` names frame and iteration, so that every iteration of a loop has an edge of its own (paper §3.3).
    """
    return f"{tensor}|{source}|{target}|{frame}"


@functools.lru_cache(_KEPT)
def split_edge(edge: str) -> Edge:
    """What `join_edge` joined; InvalidArgumentError for anything but four fields."""
    fields = edge.split("|")
    if len(fields) != 4:
        raise errors.InvalidArgumentError(f"rendezvous: edge {edge!r} has {len(fields)} fields, not 4; "
                                          "write tensor|source device|target device|frame")
    return Edge(*fields)


@functools.lru_cache(_KEPT)
def target_of(edge: str) -> str:
    """The task that an edge leads to; errors as of `split_edge`."""
    return task_of(split_edge(edge).target)


def numbered(step: int, edge: str) -> str:
    """What identifies one tensor of one step in records."""
    return f"{step}|{edge}"


def task_of(device: str) -> str:
    """The task part of a device name: "/job:ps/task:0/device:CPU:0" -> "/job:ps/task:0"."""
    return device.partition("/device:")[0]
