"""Every exception of workbench; the names are the ones TensorFlow 1.x programs catch.

    Error
    ├── InvalidArgumentError (ValueError)           a value, shape, dtype, name or option that cannot be right
    │   ├── ShapeError                              shapes that a rule forbids, found at construction or when fed
    │   ├── DtypeError (TypeError)                  element types that a rule forbids
    │   └── PlacementError                          no device satisfies the request
    ├── NotFoundError (KeyError)                    a name, file or key that does not exist
    │   └── MissingFileError (FileNotFoundError)    a model whose file does not exist
    ├── AlreadyExistsError                          a name taken twice
    ├── FailedPreconditionError (RuntimeError)      state that is not there yet: an uninitialised variable
    ├── OutOfRangeError                             the end of a queue or a file
    ├── DataLossError                               a truncated or corrupt file or message
    │   └── DamagedFileError (OSError)              a model whose file cannot be read as one
    ├── UnimplementedError (NotImplementedError)    an operation or gradient that has no definition here
    ├── ResourceExhaustedError                      memory, slots or processes that ran out
    ├── DeadlineExceededError (TimeoutError)        a time limit passed
    ├── UnavailableError (ConnectionError)          a cluster, task or address that cannot be reached
    ├── CancelledError                              stopped on request (Ctrl-C, close)
    │   └── StoppedError                            stopped by the user, who pressed Stop
    ├── AbortedError                                a step that ended because another task failed
    ├── PermissionDeniedError (PermissionError)     a file or task that may not be used
    ├── UnauthenticatedError                        a peer that did not prove who it is
    ├── UnknownError                                an error of code that is not ours
    └── InternalError                               a broken invariant: our fault, please report

Every message reads `<where>: <fact with both values>; <what to do>`.
"""
from __future__ import annotations

from typing import Any

__all__ = [
    "AbortedError", "AlreadyExistsError", "CancelledError", "DamagedFileError", "DataLossError",
    "DeadlineExceededError", "DtypeError", "Error", "FailedPreconditionError", "InternalError",
    "InvalidArgumentError", "MissingFileError", "NotFoundError", "OpError", "OutOfRangeError",
    "PermissionDeniedError", "PlacementError", "ResourceExhaustedError", "ShapeError", "StoppedError", "UnauthenticatedError",
    "UnavailableError", "UnimplementedError", "UnknownError", "by_name", "code_of", "kind_of",
]


class Error(Exception):
    """Base of all workbench errors.

    Made from a message, or as TensorFlow makes its own, from (node_def, op, message) or these and an error code.
    """

    code: int = 2
    """The error's number in gRPC's list, which TensorFlow uses."""

    def __init__(self, node_def: Any = None, op: Any = None, message: str | None = None, error_code: int | None = None) -> None:
        if message is None:
            super().__init__(*[part for part in (node_def, op) if part is not None])
            return
        super().__init__(message)
        self._node_def, self.op = node_def, op
        if error_code is not None:
            self.code = error_code

    _node_def: Any = None
    op: Any = None

    @property
    def node_def(self) -> Any:
        """The node that failed: what was given, or that of the operation `op`; None where TensorFlow has no node for it."""
        try:
            return self.op.node_def if self._node_def is None else self._node_def
        except (AttributeError, Error, StopIteration):
            return None

    @property
    def message(self) -> str:
        """The text."""
        return str(self.args[0]) if self.args else ""

    @property
    def error_code(self) -> int:
        """The error's number in gRPC's list."""
        return self.code


OpError = Error      # TensorFlow's name


class InvalidArgumentError(Error, ValueError):
    """A value, shape, dtype, name or option that cannot be right."""


class ShapeError(InvalidArgumentError):
    """Shapes that an operation's rule forbids."""


class DtypeError(InvalidArgumentError, TypeError):
    """Element types that an operation's rule forbids."""


class PlacementError(InvalidArgumentError):
    """No device satisfies an operation's request."""


class NotFoundError(Error, KeyError):
    """A name, file or key that does not exist."""

    def __str__(self) -> str:  # KeyError would print the repr
        return self.message


class MissingFileError(NotFoundError, FileNotFoundError):
    """A model whose file does not exist."""


class AlreadyExistsError(Error):
    """A name that is taken twice."""


class FailedPreconditionError(Error, RuntimeError):
    """State that is not there yet, such as an uninitialised variable."""


class OutOfRangeError(Error):
    """The end of a queue or of a file."""


class DataLossError(Error):
    """A truncated or corrupt file or message."""


class DamagedFileError(DataLossError, OSError):
    """A model whose file cannot be read as one."""


class UnimplementedError(Error, NotImplementedError):
    """An operation, kernel or gradient that has no definition."""


class ResourceExhaustedError(Error):
    """Memory, slots or processes that ran out."""


class DeadlineExceededError(Error, TimeoutError):
    """A time limit that passed."""


class UnavailableError(Error, ConnectionError):
    """A cluster, task or address that cannot be reached."""


class CancelledError(Error):
    """Work stopped on request."""


class StoppedError(CancelledError):
    """What runs was stopped by the user: nobody closed a queue, and no input has ended."""


class AbortedError(Error):
    """A step that ended because another task failed."""


class InternalError(Error):
    """A broken invariant inside workbench."""


class PermissionDeniedError(Error, PermissionError):
    """A file or task that may not be used."""


class UnauthenticatedError(Error):
    """A peer that did not prove who it is."""


class UnknownError(Error):
    """An error of code that is not ours."""


CODES = {
    "OK": 0, "CANCELLED": 1, "UNKNOWN": 2, "INVALID_ARGUMENT": 3, "DEADLINE_EXCEEDED": 4, "NOT_FOUND": 5, "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7, "RESOURCE_EXHAUSTED": 8, "FAILED_PRECONDITION": 9, "ABORTED": 10, "OUT_OF_RANGE": 11,
    "UNIMPLEMENTED": 12, "INTERNAL": 13, "UNAVAILABLE": 14, "DATA_LOSS": 15, "UNAUTHENTICATED": 16,
}
"""gRPC's numbers of kinds of errors, by their names."""

_KINDS: dict[int, type[Error]] = {
    1: CancelledError, 2: UnknownError, 3: InvalidArgumentError, 4: DeadlineExceededError, 5: NotFoundError,
    6: AlreadyExistsError, 7: PermissionDeniedError, 8: ResourceExhaustedError, 9: FailedPreconditionError, 10: AbortedError,
    11: OutOfRangeError, 12: UnimplementedError, 13: InternalError, 14: UnavailableError, 15: DataLossError,
    16: UnauthenticatedError,
}
for _code, _kind in _KINDS.items():
    _kind.code = _code


def kind_of(error_code: int) -> type[Error]:
    """The class of errors with this number; KeyError for a number that is not in the list."""
    return _KINDS[error_code]


def code_of(cls: type[Error]) -> int:
    """The number of a class of errors; KeyError for Error itself."""
    found = next((code for code, known in _KINDS.items() if issubclass(cls, known)), None)
    if found is None:
        raise KeyError(cls)
    return found


def by_name(name: str, message: str) -> Error:
    """The error called `name` carrying `message`; how a failure crosses the wire without pickling."""
    found = globals().get(name)
    if isinstance(found, type) and issubclass(found, Error):
        return found(message)
    return InternalError(f"{name}: {message}")
