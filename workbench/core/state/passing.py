"""A pass over a described dataset: the arrays, functions, random generators and caches that it uses."""
from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from workbench import errors
from workbench.core.streams import stream

__all__ = ["Element", "Failure", "Found", "Partitions", "Program", "Run", "failed", "generator_state", "no_partitions",
           "set_generator_state"]

Array = np.ndarray[Any, Any]
Program = tuple[Any, ...]


class Failure:
    """An element that could not be made: the error is raised where the element is taken, and the next one is tried then."""

    def __init__(self, error: errors.Error) -> None:
        self.error = error


Element = tuple[Array, ...]
Found = Element | Failure
Partitions = Callable[[str], Sequence[Any]]


def no_partitions(name: str) -> Sequence[Any]:
    """Where there is no task, there are none."""
    return ()


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """How far a generator is, as plain JSON."""
    state: Any = generator.bit_generator.state
    return {"bits": state["bit_generator"], "counter": state["state"]["counter"].tolist(),
            "key": state["state"]["key"].tolist(), "buffer": state["buffer"].tolist(), "buffer_pos": state["buffer_pos"],
            "has_uint32": state["has_uint32"], "uinteger": state["uinteger"]}


def set_generator_state(generator: np.random.Generator, found: Mapping[str, Any]) -> None:
    """Go on as the generator whose state this is. DataLossError when it is none."""
    try:
        generator.bit_generator.state = {
            "bit_generator": found["bits"], "buffer_pos": found["buffer_pos"], "has_uint32": found["has_uint32"],
            "uinteger": found["uinteger"], "buffer": np.array(found["buffer"], np.uint64),
            "state": {"counter": np.array(found["counter"], np.uint64), "key": np.array(found["key"], np.uint64)}}
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise errors.DataLossError(f"random generator: {str(found)[:80]} is not the state of one ({problem}); the checkpoint "
                                   "is damaged or another program's") from problem


class Run:
    """One pass after the other over what a program describes: the arrays and functions it uses, and what goes on from
    epoch to epoch, which is random generators and caches.

    `begun` are the states that generators are to begin with, by their seeds. `window` is what a program that reduces a
    window reads. `partitions` gives the partitions of data that lie in the task, by the name of the data.
    """

    kinds: ClassVar[dict[str, Callable[..., Iterator[Found]]]] = {}
    """What gives the elements of a program, by its first word."""

    checks: ClassVar[dict[str, Callable[..., Any]]] = {}
    """What raises an error for a program whose numbers cannot be, by its first word: before its first element is asked for."""

    def __init__(self, sources: Sequence[Array], functions: Sequence[Callable[..., Sequence[Array]]] = (),
                 begun: Mapping[Program, Any] | None = None, window: Sequence[Element] = (),
                 partitions: Partitions = no_partitions) -> None:
        self.partitions = partitions
        self.sources, self.functions, self.window = list(sources), functions, window
        self.generators: dict[Program, np.random.Generator] = {}
        self.caches: dict[Program, list[Found]] = {}
        self.begun = dict(begun or {})
        self.ahead: weakref.WeakSet[Any] = weakref.WeakSet()      # what reads ahead in threads, and is to be closed

    def within(self, sources: Sequence[Array], window: Sequence[Element] = ()) -> Run:
        """A run of a dataset that a function returned: what the function gave are its sources."""
        made = Run(sources, self.functions, None, window, self.partitions)
        made.generators, made.begun, made.ahead = self.generators, self.begun, self.ahead
        return made

    def value(self, reference: Program) -> Array:
        return self.sources[reference[1]]

    def number(self, value: Any) -> int:
        """A count that is written in the program, or stands in a source."""
        return int(self.value(value)) if isinstance(value, tuple) else int(value)

    def function(self, reference: Program) -> Callable[[Found], Found | None]:
        """The function of an element: what it gives, a Failure, or None where it says that the data ends."""
        call, extra = self.functions[reference[1]], [self.value(r) for r in reference[2]]

        def called(element: Found) -> Found | None:
            if isinstance(element, Failure):
                return element
            try:
                return tuple(call(*element, *extra))
            except errors.OutOfRangeError:
                return None
            except errors.Error as error:
                return Failure(error)
        return called

    def check(self, program: Program) -> None:
        """Raise what is known to be wrong of a program and of those that it reads from; not of datasets within functions."""
        if program[0] in self.checks:
            self.checks[program[0]](self, *program[1:])
        below = program[1] if len(program) > 1 and isinstance(program[1], tuple) else ()
        for one in below if program[0] in ("zip", "concatenate") else (below,):
            if one and one[0] in self.kinds:
                self.check(one)

    def elements(self, program: Program) -> Iterator[Found]:
        """One pass over what `program` describes."""
        return self.kinds[program[0]](self, *program[1:])

    def generator(self, seed: int, seed2: int) -> np.random.Generator:
        key = (seed, seed2)
        if key not in self.generators:
            made = self.generators[key] = stream(seed, seed2)
            if key in self.begun:
                set_generator_state(made, self.begun[key])
            self.begun[key] = generator_state(made)
        return self.generators[key]


def failed(parts: Sequence[Found]) -> Failure | None:
    """The first of them that could not be made."""
    return next((part for part in parts if isinstance(part, Failure)), None)
