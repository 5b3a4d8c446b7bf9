"""The names that travel and are recorded: the task of a device, and the key of a message between two devices."""
from __future__ import annotations

from typing import NamedTuple

from workbench import errors

__all__ = ["OUTSIDE", "Key", "edge_of", "join_key", "numbered", "split_key", "task_of"]

OUTSIDE = "0:0"
"""The frame of what runs in no loop."""


class Key(NamedTuple):
    """What a message's key says; `source` and `target` are full device names."""

    step: str
    tensor: str
    source: str
    target: str
    frame: str


def join_key(step: int, tensor: str, source: str, target: str, frame: str = OUTSIDE) -> str:
    """The name under which one tensor of one step travels from `source` to `target` (full device names).

    `frame` names frame and iteration, so that every iteration of a loop has a key of its own (paper §3.3).
    """
    return f"{step}|{tensor}|{source}|{target}|{frame}"


def split_key(key: str) -> Key:
    """What `join_key` joined; InvalidArgumentError for anything but five fields."""
    fields = key.split("|")
    if len(fields) != 5:
        raise errors.InvalidArgumentError(f"rendezvous: key {key!r} has {len(fields)} fields, not 5; "
                                          "write step|tensor|source device|target device|frame")
    return Key(*fields)


def edge_of(key: str) -> str:
    """A key without its step: the same for all tensors that travel on one edge of a graph."""
    return key[key.index("|") + 1:]


def numbered(step: int, edge: str) -> str:
    """The key of what travels on an edge in a step."""
    return f"{step}|{edge}"


def task_of(device: str) -> str:
    """The task part of a device name: "/job:ps/task:0/device:CPU:0" -> "/job:ps/task:0"."""
    return device.partition("/device:")[0]
