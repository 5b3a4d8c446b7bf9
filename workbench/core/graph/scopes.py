"""What holds for operations built inside a `with`: name scope, device requests, control inputs, container; per thread."""
from __future__ import annotations

import threading
from typing import Any

__all__ = ["Scope", "Scopes"]


class Scopes(threading.local):
    """The scopes in force in the calling thread."""

    def __init__(self) -> None:
        self.name = ""                                  # "" or ending in "/"
        self.devices: tuple[Any, ...] = ()              # requests, the innermost last; None clears those before it
        self.controls: tuple[Any, ...] = ()             # operations to wait for
        self.colocation: frozenset[str] = frozenset()   # names of operations
        self.derived = False                            # are they gradients of others?
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
