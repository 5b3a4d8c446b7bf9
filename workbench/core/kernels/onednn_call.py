"""One call of C that points memory objects at arrays and runs primitives; without LLVM, one call of each from Python."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from workbench.core.kernels.language import library_source
from workbench.core.kernels.llvm import Program, bind
from workbench.core.kernels.onednn_api import Api, Pointer

__all__ = ["Memory", "Row", "Run", "row"]

Row = Callable[..., int]
_NUMBER = ctypes.pythonapi.PyLong_FromLongLong


class Memory(NamedTuple):
    """A memory object, and where what it stands for lies: in which of the arrays, and how many bytes behind its start."""

    made: Pointer
    position: int
    offset: int


class Run(NamedTuple):
    """A primitive, its arguments, and on how many threads it runs: 0 as many as the one before."""

    threads: int
    primitive: Pointer
    arguments: Any


def row(library: Api, memories: Sequence[Memory], runs: Sequence[Run], compiled: bool) -> Row:
    """A function of arrays that gives the status of the first primitive that fails, or 0; there may be more than are named.
    It is `compiled` by LLVM, or Python makes the calls.

    Who calls it keeps alive all it is made of, and calls it from one thread at a time.
    """
    return (_compiled if compiled else _interpreted)(library, memories, runs)


def _compiled(library: Api, memories: Sequence[Memory], runs: Sequence[Run]) -> Row:
    arrays = 1 + max(memory.position for memory in memories)
    point, execute, share, make = (
        _address(ctypes.cast(function, Pointer)) for function in (library.set_handle, library.execute, library.openmp, _NUMBER))
    table = [arrays, 0, make, point, execute, _address(library.stream), share, len(memories), len(runs), *[0] * arrays]
    for made, position, offset in memories:
        table += [_address(made), position, offset]
    for threads, primitive, arguments in runs:
        table += [threads, _address(primitive), len(arguments), ctypes.addressof(arguments)]
    return cast("Row", bind(Program((library_source("program_calls.py"),), "primitives", "table"), table, True))


def _address(pointer: Pointer) -> int:
    return pointer.value or 0


def _interpreted(library: Api, memories: Sequence[Memory], runs: Sequence[Run]) -> Row:
    point, prepared = library.set_handle, [library.prepared(run.primitive, run.arguments) for run in runs]

    def call(*given: Any) -> int:
        for memory, position, offset in memories:
            point(memory, given[position].ctypes.data + offset)
        for (threads, _, _), run in zip(runs, prepared):
            if threads:      # OpenMP's number belongs to the calling thread, and others may have changed it
                library.openmp(threads)
            status = run()
            if status:
                return status
        return 0
    return call
