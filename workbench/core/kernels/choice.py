"""How the planner talks to kernel libraries: specs in, a choice out, bound once, called every step."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

__all__ = [
    "ALIGNMENT", "LASTING", "Choice", "Decision", "Kernel", "Layout", "Make", "Question", "Select", "Spec", "register",
    "reorders", "selectors",
]

Kernel = Callable[..., None]
ALIGNMENT = 64      # bytes; a cache line, and what AVX-512 loads like: where arrays and parts of scratch memory begin


class Layout(Protocol):
    """A library's private memory format; hashable, compared by value. `None` stands for C-contiguous."""

    @property
    def nbytes(self) -> int: ...
    @property
    def library(self) -> str: ...


LASTING = 1 << 20
"""Readers of a value that stays from step to step: more than any step has."""


@dataclass(frozen=True)
class Spec:
    """One value at planning time: its full static shape, dtype and layout, and how many operations of its block read it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: Layout | None = None
    readers: int = 1

    @property
    def stays(self) -> bool:
        """Is it the same in the next step, so that a change of its layout is made once?"""
        return self.readers >= LASTING

    @property
    def nbytes(self) -> int:
        if self.layout is not None:
            return self.layout.nbytes
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Choice:
    """One way to execute a node.

    `make(static)` returns a fresh kernel for one instance of a plan; `static[i]` says that argument `i` has the same
    address at every call (arena buffers), so the kernel may bind its pointer at the first call. Arguments arrive as
    `kernel(*inputs, *outputs)` or, if `scratch` > 0, `kernel(*inputs, *outputs, scratch)` with a uint8 array. A plain
    argument is an array of the spec's shape; an argument in a private layout is a flat uint8 array of
    `layout.nbytes`. A kernel must not keep a reference to an argument that is not static, releases the GIL where it can, and
    is never called from two threads at once (another plan instance gets its own kernel).
    """

    library: str
    inputs: tuple[Layout | None, ...]
    outputs: tuple[Layout | None, ...]
    make: Callable[[tuple[bool, ...]], Kernel]
    scratch: int = 0
    inplace: Mapping[int, int] = field(default_factory=dict)
    """output index -> input index that may share its memory (same bytes, read before written)."""
    note: str = ""
    """The library's own word for the kernel, for people."""
    source: str = ""
    """The text that the kernel is compiled from, where it was made for this node."""
    decision: Decision | None = None
    """Why this way, where there were several."""

    def by(self, make: Callable[[tuple[bool, ...]], Kernel]) -> Choice:
        """The same with kernels of `make`, which mostly do something around those of this choice."""
        return Choice(self.library, self.inputs, self.outputs, make, self.scratch, self.inplace, self.note, self.source,
                      self.decision)

    def with_room(self, shape: Sequence[int], use: Callable[..., None]) -> Choice:
        """The same, with a float32 array of `shape` in the scratch memory before what its kernels need there: a kernel is
        `use(kernel, room, *arrays)`, where `kernel` is one of this choice."""
        nbytes = 4 * math.prod(shape)
        first = -(-nbytes // ALIGNMENT) * ALIGNMENT

        def make(static: tuple[bool, ...]) -> Kernel:
            kernel = self.make((False,) * len(static))

            def whole(*arrays: Any) -> None:
                *given, scratch = arrays
                rest = [scratch[first:]] if self.scratch else []
                use(lambda *inner: kernel(*inner, *rest), scratch[:nbytes].view(np.float32).reshape(shape), *given)
            return whole
        return replace(self, make=make, scratch=first + self.scratch)


Make = Callable[[], "Choice | None"]
"""Makes one way to execute a node; None where the library has none."""


@dataclass(frozen=True, eq=False)
class Question:
    """Which of several `ways` shall execute a node? `rule` names those to try where nothing was measured, the best first.

    Questions with equal `key` share their measurements: the same operation over values of about the same sizes.
    """

    key: str
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    ways: Mapping[str, Make]
    rule: tuple[str, ...]


@dataclass(frozen=True)
class Decision:
    """The answer: `way`, and `by` what: "rule", "measured" or "asked" (for by the user). `seconds` are those that were measured
    on this machine, for each way one call with what changes of layout its inputs need."""

    question: Question
    way: str
    by: str
    seconds: Mapping[str, float] = field(default_factory=dict)


Select = Callable[[Mapping[str, Any], Sequence[Spec], Sequence[Spec], Sequence[bool]], "Choice | None"]
"""(attrs, input specs with the layouts they have now, output specs, output i may take a private layout) -> choice.

A selector declines with None (unsupported shape, dtype, attribute): the next library or the reference serves.
"""

selectors: dict[tuple[str, str], list[tuple[str, Select]]] = {}
"""(operation type, device type) -> [(library, selector)], asked in order."""

reorders: dict[str, Callable[[Spec, Spec], Choice]] = {}
"""library -> choice that copies a value between one of its layouts and another (or plain)."""


def register(library: str, *types: str, device: str = "CPU") -> Callable[[Select], Select]:
    """Decorator: `select` serves operations of these types for `library`, on devices of that type."""
    def add(select: Select) -> Select:
        for type_ in types:
            selectors.setdefault((type_, device), []).append((library, select))
        return select
    return add
