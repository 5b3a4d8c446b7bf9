"""DeviceSpec: a device name in parts, as TensorFlow's programs build it."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.device import parse

__all__ = ["DeviceSpec"]


class DeviceSpec:
    """A possibly partial device name: job, replica, task, type and index, None where it does not matter.

    There is one replica of a job here; its number is kept in the text and means nothing else.
    """

    def __init__(self, job: str | None = None, replica: int | None = None, task: int | None = None,
                 device_type: str | None = None, device_index: int | None = None) -> None:
        self.job, self.replica, self.task = job or None, replica, task
        self.device_type, self.device_index = device_type, device_index

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Take all parts from a name; itself. InvalidArgumentError (a ValueError) where it is none."""
        found = parse(spec)
        self.job, self.replica, self.task = found.job, found.replica, found.task
        self.device_type, self.device_index = found.type, found.index
        return self

    @staticmethod
    def from_string(spec: str) -> DeviceSpec:
        """The parts of a name."""
        return DeviceSpec().parse_from_string(spec)

    def merge_from(self, dev: DeviceSpec) -> None:
        """Take the parts that `dev` has."""
        for part in ("job", "replica", "task"):
            if getattr(dev, part) is not None:
                setattr(self, part, getattr(dev, part))
        if dev.device_type is not None:
            self.device_type, self.device_index = dev.device_type, None
        if dev.device_index is not None:
            self.device_index = dev.device_index

    def to_string(self) -> str:
        """The name: "/job:worker/replica:0/task:1/device:CPU:0"."""
        parts = [f"/{part}:{getattr(self, part)}" for part in ("job", "replica", "task") if getattr(self, part) is not None]
        if self.device_type is not None:
            parts.append(f"/device:{self.device_type}:{'*' if self.device_index is None else self.device_index}")
        return "".join(parts)

    def __str__(self) -> str:
        return self.to_string()

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, DeviceSpec) and self.to_string() == other.to_string()

    def __hash__(self) -> int:
        return hash(self.to_string())
