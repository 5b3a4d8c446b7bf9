"""Every exception of workbench; the names are the ones TensorFlow 1.x programs catch.

    Error
    ├── InvalidArgumentError (ValueError)           a value, shape, dtype, name or option that cannot be right
    │   ├── ShapeError                              shapes that a rule forbids, found at construction or when fed
    │   ├── DtypeError (TypeError)                  element types that a rule forbids
    │   └── PlacementError                          no device satisfies the request
    ├── NotFoundError (KeyError)                    a name, file or key that does not exist
    ├── AlreadyExistsError                          a name taken twice
    ├── FailedPreconditionError (RuntimeError)      state that is not there yet: an uninitialised variable
    ├── OutOfRangeError                             the end of a queue or a file
    ├── DataLossError                               a truncated or corrupt file or message
    ├── UnimplementedError (NotImplementedError)    an operation or gradient that has no definition here
    ├── ResourceExhaustedError                      memory, slots or processes that ran out
    ├── DeadlineExceededError (TimeoutError)        a time limit passed
    ├── UnavailableError (ConnectionError)          a cluster, task or address that cannot be reached
    ├── CancelledError                              stopped on request (Ctrl-C, close)
    ├── AbortedError                                a step that ended because another task failed
    └── InternalError                               a broken invariant: our fault, please report

Every message reads `<where>: <fact with both values>; <what to do>`.
"""
from __future__ import annotations

__all__ = [
    "AbortedError", "AlreadyExistsError", "CancelledError", "DataLossError", "DeadlineExceededError",
    "DtypeError", "Error", "FailedPreconditionError", "InternalError", "InvalidArgumentError",
    "NotFoundError", "OpError", "OutOfRangeError", "PlacementError", "ResourceExhaustedError", "ShapeError",
    "UnavailableError", "UnimplementedError", "by_name",
]


class Error(Exception):
    """Base of all workbench errors."""

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ""


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


class AlreadyExistsError(Error):
    """A name that is taken twice."""


class FailedPreconditionError(Error, RuntimeError):
    """State that is not there yet, such as an uninitialised variable."""


class OutOfRangeError(Error):
    """The end of a queue or of a file."""


class DataLossError(Error):
    """A truncated or corrupt file or message."""


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


class AbortedError(Error):
    """A step that ended because another task failed."""


class InternalError(Error):
    """A broken invariant inside workbench."""


def by_name(name: str, message: str) -> Error:
    """The error called `name` carrying `message`; how a failure crosses the wire without pickling."""
    found = globals().get(name)
    if isinstance(found, type) and issubclass(found, Error):
        return found(message)
    return InternalError(f"{name}: {message}")
