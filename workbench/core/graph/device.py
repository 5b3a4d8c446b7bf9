"""Device names: full, partial, and how requests merge."""
from __future__ import annotations

import re
from dataclasses import dataclass, field

from workbench import errors

__all__ = ["DeviceName", "DeviceSpec", "merge", "parse"]

_PART = re.compile(r"^(?:job:(?P<job>\w+)|task:(?P<task>\d+)|replica:(?P<replica>\d+)|"
                   r"device:(?P<type>[A-Za-z]+)(?::(?P<index>\d+|\*))?|(?P<short>cpu|gpu)(?::(?P<number>\d+|\*))?)$", re.I)


@dataclass(frozen=True, order=True)
class DeviceSpec:
    """A possibly partial device name such as ``/job:worker/task:1/device:CPU:0``; None means "any".

    The replica that somebody wrote stays in the text and decides nothing: a job has one here.
    """

    job: str | None = None
    task: int | None = None
    type: str | None = None
    index: int | None = None
    replica: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        parts = []
        if self.job is not None:
            parts.append(f"/job:{self.job}")
        if self.replica is not None:
            parts.append(f"/replica:{self.replica}")
        if self.task is not None:
            parts.append(f"/task:{self.task}")
        if self.type is not None:
            parts.append(f"/device:{self.type}:{'*' if self.index is None else self.index}")
        return "".join(parts)

    def merged(self, inner: DeviceSpec) -> DeviceSpec:
        """This request refined by `inner`, whose fields win."""
        changed_type = inner.type is not None and inner.type != self.type
        return DeviceSpec(
            inner.job if inner.job is not None else self.job,
            inner.task if inner.task is not None else self.task,
            inner.type if inner.type is not None else self.type,
            inner.index if inner.index is not None or changed_type else self.index,
            inner.replica if inner.replica is not None else self.replica)

    def accepts(self, full: DeviceSpec) -> bool:
        """Does the full name satisfy this request?"""
        return all(mine is None or mine == theirs for mine, theirs in (
            (self.job, full.job), (self.task, full.task), (self.type, full.type), (self.index, full.index)))

    def conflict(self, other: DeviceSpec) -> str:
        """The first field on which two requests contradict, "" when they can both hold."""
        for name in ("job", "task", "type", "index"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is not None and theirs is not None and mine != theirs:
                return name
        return ""


class DeviceName(str):
    """The full name of a device, as text and by its parts."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name itself."""
        return str(self)

    @property
    def device_type(self) -> str:
        """CPU, GPU …"""
        return parse(self).type or ""


def parse(text: str | DeviceSpec | None) -> DeviceSpec:
    """Read a device name; InvalidArgumentError shows the form that is expected."""
    if isinstance(text, DeviceSpec):
        return text
    spec = DeviceSpec()
    for part in (text or "").split("/"):
        if not part:
            continue
        found = _PART.match(part)
        if found is None:
            raise errors.InvalidArgumentError(f"device: {text!r} has the part {part!r}; write names like "
                                              f"'/job:worker/task:1/device:CPU:0', '/job:ps' or '/gpu:0' ({_familiar(part)})")
        kind, number = found["type"] or found["short"], found["index"] or found["number"]
        if kind is not None and spec.type is not None:
            raise errors.InvalidArgumentError(f"device: {text!r} has the types {spec.type} and {kind.upper()}; name one "
                                              "(Cannot specify multiple device types)")
        spec = spec.merged(DeviceSpec(
            found["job"], None if found["task"] is None else int(found["task"]),
            None if kind is None else kind.upper(), None if number in (None, "*") else int(number),
            None if found["replica"] is None else int(found["replica"])))
    return spec


def _familiar(part: str) -> str:
    """What TensorFlow says of a part that is none."""
    name, _, value = part.partition(":")
    if name in ("replica", "task"):
        return f"invalid literal for int() with base 10: {value!r}"
    return f"Unknown attribute: {name!r}"


def merge(outer: str, inner: str) -> str:
    """The request `inner` within the scope of `outer`, as a canonical name."""
    return str(parse(outer).merged(parse(inner)))
