"""What a line of a plan reads and makes: planned buffers, Python locals, constants, handles; who owns the memory."""
from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from workbench.core.device.interface import Device, Outgoing
from workbench.core.graph.dtype import resource, variant
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.kernels.choice import ALIGNMENT, Choice, Spec

__all__ = ["Alias", "Buffer", "Constant", "Handle", "Home", "Local", "Packed", "Value", "aligned",
           "is_array", "pack", "packer"]


class Home(Protocol):
    """What values and kernels are bound in: one instance of a plan."""

    @property
    def device(self) -> Device: ...
    @property
    def outgoing(self) -> Outgoing | None: ...
    def memory(self, key: int, nbytes: int) -> Any: ...
    def value(self, value: Value) -> Any: ...
    def resource(self, op: Operation) -> Any: ...
    def stepping(self, op: Operation) -> Any: ...
    def once(self, op: Operation, kernel: Any) -> Any: ...


def is_array(tensor: Tensor) -> bool:
    """Does the tensor hold an array (text included)? Handles and lists are Python objects."""
    return tensor.dtype is not resource and tensor.dtype is not variant


@dataclass(eq=False)
class Value:
    """One runtime value. `roots` are the buffers of the arena whose memory it may share."""

    key: int
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None             # None: known only at run time
    layout: Any = None                        # a library's private layout
    array: bool = True                        # False: a handle or a list
    roots: frozenset[int] = frozenset()

    letter: ClassVar[str]                     # first letter of its name in generated code
    bound: ClassVar[bool] = True              # known when an instance is made; a local is known only inside a step
    static: ClassVar[bool] = True             # an array with the same address at every run of one instance

    @property
    def spec(self) -> Spec:
        return self.read_by(1)

    def read_by(self, readers: int) -> Spec:
        """What libraries are told of it where so many operations read it."""
        assert self.shape is not None
        return Spec(self.shape, self.dtype, self.layout, readers)

    @property
    def symbol(self) -> str:
        return f"{self.letter}{self.key}"

    def bind(self, home: Home) -> Any:
        """The object that the symbol names in one instance."""
        raise NotImplementedError


@dataclass(eq=False)
class Buffer(Value):
    """A part of the instance's arena, written by one line and free after its last reader."""

    letter = "b"

    def __post_init__(self) -> None:
        self.roots = frozenset({self.key})

    def bind(self, home: Home) -> Any:
        raw = home.memory(self.key, self.spec.nbytes)
        return raw if self.layout is not None else raw.view(self.dtype).reshape(self.shape)


@dataclass(eq=False)
class Alias(Value):
    """A buffer under another shape, or the rows of it from `first` on."""

    source: Value = field(kw_only=True)
    first: int | None = None
    letter = "b"

    def bind(self, home: Home) -> Any:
        whole = home.value(self.source)
        if self.first is None:
            return whole.reshape(self.shape)
        assert self.shape is not None
        return whole[self.first:self.first + self.shape[0]]


@dataclass(eq=False)
class Local(Value):
    """A Python name inside a segment's function.

    `fresh`: a new array that nothing else refers to. Any other local may be memory of a variable, a feed, a dataset,
    or of the value it is a view of.
    """

    fresh: bool = False
    sent: bool = False                        # to another task: one that a kernel writes lies where the process says
    letter = "t"
    bound = False
    static = False


@dataclass(eq=False)
class Constant(Value):
    """An array of the graph. It is never written, so everyone may keep it."""

    data: Any = field(kw_only=True)
    letter = "c"

    def bind(self, home: Home) -> Any:
        return home.device.copy_in(self.data)


@dataclass(eq=False)
class Packed(Value):
    """A constant in a library's layout: packed once for all instances of a plan, not in every step."""

    source: Value = field(kw_only=True)
    choice: Choice = field(kw_only=True)
    letter = "c"
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _data: Any = None

    def bind(self, home: Home) -> Any:
        with self._lock:
            if self._data is None:
                self._data = pack(self.choice, self.spec, home.value(self.source))
        return self._data


def packer(choice: Choice, spec: Spec) -> Callable[[Any], Any]:
    """What brings arrays into the layout of `spec`, each into memory of its own."""
    room = [choice.scratch] if choice.scratch else []
    kernel = choice.make((False,) * (2 + len(room)))

    def packed(array: Any) -> Any:
        target = aligned(spec.nbytes)
        kernel(array, target, *map(aligned, room))
        return target if spec.layout is not None else target.view(spec.dtype).reshape(spec.shape)
    return packed


def pack(choice: Choice, spec: Spec, array: Any) -> Any:
    """`array` in the layout of `spec`."""
    return packer(choice, spec)(array)


def aligned(nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Zeroed bytes that begin at a multiple of ALIGNMENT."""
    raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start:start + nbytes]


@dataclass(eq=False)
class Handle(Value):
    """State behind an operation (a variable, a queue), found in the container when an instance is made."""

    op: Operation = field(kw_only=True)
    letter = "r"
    static = False

    def bind(self, home: Home) -> Any:
        return home.resource(self.op)
