"""What holds for operations built inside a `with`: name scope, device requests, control inputs, container; per thread."""
from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from workbench import errors
from workbench.core.graph import device as devices

__all__ = ["Scope", "Scoped", "Scopes"]


class Scopes(threading.local):
    """The scopes in force in the calling thread."""

    def __init__(self) -> None:
        self.name = ""                                  # "" or ending in "/"
        self.devices: tuple[Any, ...] = ()              # requests, the innermost last; None clears those before it
        self.controls: tuple[Any, ...] = ()             # operations to wait for
        self.colocation: frozenset[str] = frozenset()   # names of operations
        self.derived = ""                               # the operation for whose gradient they are made
        self.overrides: dict[str, str] | None = None    # type of operation -> registered gradient to use instead of its own
        self.container = ""                             # the part of a task's state in which operations keep theirs


class Scope:
    """A context in which `field` of `scopes` is `value`; entering it gives `result`.

    NOTE: a class, because contextlib's generators cost more than adding the operation inside them.
    """

    __slots__ = ("_before", "_field", "_result", "_scopes", "_value")

    def __init__(self, scopes: Scopes, field: str, value: Any, result: Any = None) -> None:
        self._scopes, self._field, self._value, self._result = scopes, field, value, result

    def __enter__(self) -> Any:
        self._before = getattr(self._scopes, self._field)
        setattr(self._scopes, self._field, self._value)
        return self._result

    def __exit__(self, *details: object) -> None:
        setattr(self._scopes, self._field, self._before)


class Scoped:
    """The scopes of a graph that need nothing but its threads' `Scopes`."""

    def __init__(self) -> None:
        self._scopes = Scopes()

    def _inmost(self) -> Any:
        """The graph whose scopes a call on this one means."""
        return self

    @property
    def scope(self) -> str:
        """The current name scope, "" or ending in "/"."""
        return self._scopes.name

    def get_name_scope(self) -> str:
        """The current name scope without a "/" at its end."""
        return self._scopes.name.removesuffix("/")

    def container(self, container_name: str) -> Scope:
        """Variables, queues and other state made below belong to this part of a task's state; Session.reset forgets parts."""
        return Scope(self._inmost()._scopes, "container", container_name, container_name)

    def device(self, device_name_or_function: str | Callable[[Any], str] | None) -> Scope:
        """Operations below ask for this (partial) device, a name or what has one as its text; the innermost field wins; None
        clears. A function of the operation, whose `device` is what inner scopes ask for, says the whole device."""
        scopes = self._inmost()._scopes
        return Scope(scopes, "devices", (*scopes.devices, _checked(device_name_or_function)))

    def only_device(self, request: str | Callable[[Any], str]) -> Scope:
        """Operations below ask for this device, and for nothing that outer scopes ask for."""
        return Scope(self._scopes, "devices", (*self._scopes.devices, None, _checked(request)))

    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Scope:
        """Operations below go to the device of `op`, and of what outer scopes name unless `ignore_existing`.

        `op` is an operation or a tensor; None clears what outer scopes name.
        """
        scopes = self._inmost()._scopes
        if op is None:
            return Scope(scopes, "colocation", frozenset())
        outer = frozenset[str]() if ignore_existing else scopes.colocation
        return Scope(scopes, "colocation", outer | {getattr(op, "op", op).name})

    def gradient_override_map(self, op_type_map: Mapping[str, str]) -> Scope:
        """Operations below of these types take the gradients registered under these names (RegisterGradient)."""
        if not isinstance(op_type_map, Mapping) or any(not isinstance(t, str) for pair in op_type_map.items() for t in pair):
            raise errors.DtypeError(f"gradient_override_map: {op_type_map!r} is not a map of names to names; give types of "
                                    "operations and names of registered gradients")
        scopes = self._inmost()._scopes
        return Scope(scopes, "overrides", {**(scopes.overrides or {}), **op_type_map})

    def derivation(self, name: str) -> Scope:
        """Operations below are made for the gradient of the operation `name`."""
        return Scope(self._scopes, "derived", name)

    def _requested(self, op: Any) -> str:
        """The device that the scopes ask for; a function sees `op` with what those within ask for, and says it all."""
        request = ""
        for entry in reversed(self._scopes.devices):
            if entry is None:
                break
            if callable(entry):
                op.device = request
                request = devices.merge("", entry(op) or "")
            else:
                request = devices.merge(entry, request)
        return request


def _checked(request: Any) -> Any:
    """A device as scopes keep it; errors for a text that names none."""
    if request is None or callable(request):
        return request
    devices.parse(str(request))
    return str(request)
