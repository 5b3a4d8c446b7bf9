"""oneDNN at run time: kernels that only point at their arguments and execute, and the builder that lays them out."""
from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from workbench.core.kernels.choice import ALIGNMENT, Choice, Kernel, Layout
from workbench.core.kernels.crowd import crowd
from workbench.core.kernels.llvm import serves
from workbench.core.kernels.onednn_api import FLOAT32, Api, Argument, ExecuteArgument, Pointer
from workbench.core.kernels.onednn_call import Memory, Row, Run, row
from workbench.core.kernels.onednn_desc import contiguous
from workbench.core.kernels.onednn_format import (
    Format,
    Primitive,
    api,
    format_of,
    known,
    primitive,
    with_threads,
)
from workbench.errors import InternalError, UnimplementedError

__all__ = ["Builder", "Place", "Program", "Step"]


class Place(NamedTuple):
    """Where an argument lies: which array of the kernel call, and how many bytes behind its start."""

    position: int
    offset: int = 0


class Step(NamedTuple):
    primitive: Primitive
    places: tuple[tuple[int, Place], ...]


def _free(library: Api, memories: list[Pointer]) -> None:
    for memory in memories:
        library.destroy_memory(memory)


class Program:
    """The kernel of one plan instance: a few primitives in a row, their memory objects and argument arrays.

    `compiled`: one call of C runs them, which needs LLVM. The code of a primitive is generated for as many threads as are
    asked for, when they first are: now, and when others come or leave.
    """

    __slots__ = ("__weakref__", "_among", "_arguments", "_compiled", "_memories", "_row", "_steps", "_threads")

    def __init__(self, steps: Sequence[Step], compiled: bool) -> None:
        library, self._compiled = api(), compiled
        self._steps = steps      # they keep the primitives alive
        self._memories: list[Memory] = []
        self._arguments: list[Any] = []
        for step in steps:
            arguments = (ExecuteArgument * len(step.places))()
            for index, (argument, place) in enumerate(step.places):
                memory = library.memory(step.primitive.formats.pointer(argument))
                self._memories.append(Memory(memory, *place))
                arguments[index] = ExecuteArgument(argument, memory.value)
            self._arguments.append(arguments)
        self._threads = max((step.primitive.threads for step in steps), default=1)
        self._row: Row | None = None
        self._among: dict[int, tuple[list[Primitive], Row]] = {}
        if not (crowd.taken and self._threads > 1 and self._fewer(crowd.leaves(self._threads))):
            self._row = self._prepared([step.primitive for step in steps])
        weakref.finalize(self, _free, library, [memory.made for memory in self._memories])

    def _prepared(self, primitives: Sequence[Primitive]) -> Row:
        before = (0, *(made.threads for made in primitives))
        runs = [Run(0 if made.threads == last else made.threads, made.pointer, arguments)
                for made, last, arguments in zip(primitives, before, self._arguments)]
        return row(api(), self._memories, runs, self._compiled)

    def _fewer(self, threads: int) -> bool:
        """Is there the same on so many threads?"""
        primitives = [with_threads(step.primitive, threads) for step in self._steps]
        try:
            self._among[threads] = primitives, self._prepared(primitives)
        except (InternalError, UnimplementedError):
            return False
        return True

    def _in_a_crowd(self) -> Row:
        """On fewer threads; on as many as ever where the library makes none."""
        threads = crowd.leaves(self._threads)
        if threads not in self._among and not self._fewer(threads):
            self._among[threads] = [], self._alone()
        return self._among[threads][1]

    def _alone(self) -> Row:
        """On as many threads as ever; where the library fails to, as it went until now."""
        if self._row is None:
            try:
                self._row = self._prepared([step.primitive for step in self._steps])
            except (InternalError, UnimplementedError):
                self._row = next(iter(self._among.values()))[1]
        return self._row

    def __call__(self, *arrays: Any) -> None:
        status = (self._in_a_crowd() if crowd.taken and self._threads > 1 else self._row or self._alone())(*arrays)
        if status:
            row = ", then ".join(f"{made.recipe[0]} {made.implementation}" for made, _ in self._steps)
            api().check(status, "dnnl_primitive_execute", f" of {row} on up to {self._threads} threads")


class Builder:
    """Collects the steps of a kernel, lays out its scratch memory, and ends in a `Choice`."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.steps: list[tuple[Primitive, dict[int, Place]]] = []
        self.buffered = 0

    def input(self, index: int) -> Place:
        return Place(index)

    def output(self, index: int = 0) -> Place:
        return Place(self.inputs + index)

    def buffer(self, nbytes: int) -> Place:
        """A part of the scratch memory that lives through the whole call."""
        place = Place(self.inputs + self.outputs, self.buffered)
        self.buffered += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return place

    def buffer_of(self, made: Primitive, argument: int) -> Place:
        """A buffer that holds an argument of `made` in its own format."""
        return self.buffer(made.formats[argument].nbytes)

    def step(self, made: Primitive, places: Mapping[int, Place]) -> None:
        self.steps.append((made, dict(places)))

    def scratch(self) -> int:
        return self.buffered + max((made.scratch for made, _ in self.steps), default=0)

    def program(self) -> Callable[[tuple[bool, ...]], Kernel]:
        pad = Place(self.inputs + self.outputs, self.buffered)
        steps = [Step(made, tuple({**places, **({Argument.SCRATCHPAD: pad} if made.scratch else {})}.items()))
                 for made, places in self.steps]
        compiled = serves()      # here, where the options of the session are in force
        return lambda static: Program(steps, compiled)

    def choice(self, inputs: Sequence[Layout | None], outputs: Sequence[Layout | None],
               inplace: Mapping[int, int] | None = None, note: str = "") -> Choice:
        words = note or " + ".join(made.implementation for made, _ in self.steps)
        return Choice("onednn", tuple(inputs), tuple(outputs), self.program(), self.scratch(), inplace or {}, words)

    def bring(self, made: Primitive, argument: int, plain: Place, shape: Sequence[int], axes: Sequence[int],
              dtype: int = FLOAT32) -> Place:
        """Where a C-contiguous input lies as `made` wants it, after a step that brings it there if need be."""
        wanted = format_of(made, argument, shape, axes)
        if wanted is None:
            return plain
        reorder = primitive("reorder", contiguous(shape, axes)._replace(dtype=dtype), known(wanted.identity))
        if reorder is None:
            raise UnimplementedError(f"onednn: there is no reorder from plain to {wanted.text}; set WB_LIBRARIES "
                                     "without onednn")
        between = self.buffer(wanted.nbytes)
        self.step(reorder, {Argument.SOURCE: plain, Argument.OUTPUT: between})
        return between

    def store(self, made: Primitive, argument: int, places: Mapping[int, Place], shape: Sequence[int],
              axes: Sequence[int], free: bool, output: int = 0, dtype: int = FLOAT32) -> Format | None:
        """Add a step that writes an output, as it comes if `free`, else reordered to C-contiguous; its layout."""
        wanted = format_of(made, argument, shape, axes)
        if wanted is None or free:
            self.step(made, {**places, argument: self.output(output)})
            return wanted
        between = self.buffer(wanted.nbytes)
        self.step(made, {**places, argument: between})
        reorder = primitive("reorder", known(wanted.identity), contiguous(shape, axes)._replace(dtype=dtype))
        if reorder is None:
            raise UnimplementedError(f"onednn: there is no reorder from {wanted.text} to plain; set WB_LIBRARIES "
                                     "without onednn")
        self.step(reorder, {Argument.SOURCE: between, Argument.OUTPUT: self.output(output)})
        return None
