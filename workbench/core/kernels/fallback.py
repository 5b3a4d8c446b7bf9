"""A kernel library that fails costs time only: the next one or the reference kernel serves, and that is said once."""
from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.fitting import agreeing
from workbench.core.graph.opdef import registry
from workbench.core.graph.shape import Shape
from workbench.core.kernels.choice import Choice, Kernel, Layout, Select, Spec
from workbench.errors import InternalError, InvalidArgumentError

__all__ = ["Refer", "announce", "ask", "referring", "rescued"]

logger = logging.getLogger(__name__)
Refer = Callable[[Sequence[Any]], None]
"""Computes the outputs from the arguments of a kernel, in the formats of its choice."""
NAMES = {"llvm": "LLVM", "onednn": "oneDNN"}
_announced: set[tuple[str, str]] = set()


def announce(library: str, op: str, error: Exception) -> None:
    """Once per library and operation: a library that fails, fails in every step."""
    if (library, op) not in _announced:
        _announced.add((library, op))
        logger.warning("%s failed at %s: %s; another kernel serves it from here on", NAMES.get(library, library), op,
                       str(error) or type(error).__name__)


def ask(library: str, select: Select, op: str, attributes: Mapping[str, Any], inputs: Sequence[Spec],
        outputs: Sequence[Spec], free: Sequence[bool]) -> Choice | None:
    """What `select` chooses; None where it declines, raises, or gives what no plan can use. A choice whose kernel cannot be
    made gets the reference.

    Where the reference cannot stand in, because an argument lies in a private format, the error of `make` is raised.
    """
    try:
        choice = _checked(select(attributes, inputs, outputs, free), len(inputs), len(outputs))
    except Exception as error:      # whatever is wrong in a library: the operation can be computed without it
        announce(library, op, error)
        return None
    if choice is None or op not in registry or any(layout is not None for layout in (*choice.inputs, *choice.outputs)):
        return choice
    return _made_anyhow(op, choice, attributes, len(inputs))


def _checked(choice: Any, inputs: int, outputs: int) -> Choice | None:
    """What a selector gave for so many inputs and outputs; InvalidArgumentError for what no plan can use."""
    if choice is None:
        return None
    if not isinstance(choice, Choice):
        raise InvalidArgumentError(f"its selector gave a {type(choice).__name__}, which is neither a Choice nor None")
    given = len(choice.inputs), len(choice.outputs)
    if given != (inputs, outputs):
        raise InvalidArgumentError(f"its choice has {given[0]} inputs and {given[1]} outputs but there are {inputs} "
                                   f"and {outputs}")
    if any(layout is not None and not hasattr(layout, "library") for layout in (*choice.inputs, *choice.outputs)):
        raise InvalidArgumentError(f"its choice has the layouts {choice.inputs} -> {choice.outputs}, of which one is "
                                   "not a Layout")
    places = all(0 <= to < outputs and 0 <= of < inputs for to, of in choice.inplace.items())
    if not callable(choice.make) or not isinstance(choice.scratch, int) or choice.scratch < 0 or not places:
        raise InvalidArgumentError(f"its choice has make={choice.make!r}, scratch={choice.scratch!r}, "
                                   f"inplace={choice.inplace!r}")
    return choice


def _made_anyhow(op: str, choice: Choice, attributes: Mapping[str, Any], count: int) -> Choice:
    """`choice`, whose kernel is the reference of `op` with `count` inputs where the library cannot make its own."""
    def make(static: tuple[bool, ...]) -> Kernel:
        try:
            return choice.make(static)
        except Exception as error:      # a compiler may fail in any way
            announce(choice.library, op, error)
            return reference
    def reference(*arrays: Any) -> None:
        results = registry[op].reference(*arrays[:count], **attributes)
        several = len(choice.outputs) > 1
        for number, (array, result) in enumerate(zip(arrays[count:], results if several else (results,))):
            array[...] = agreeing(op, result, as_dtype(array.dtype), Shape(array.shape), number if several else None)
    return choice.by(make)


def rescued(op: str, choice: Choice, refer: Refer) -> Choice:
    """`choice`, whose kernels are replaced by `refer` from the first call on in which the library fails."""
    def make(static: tuple[bool, ...]) -> Kernel:
        try:
            kernel = choice.make(static)
        except Exception as error:
            return referring(choice.library, op, error, choice.inputs, choice.outputs, refer).make(static)

        def kept(*arrays: Any) -> None:
            nonlocal kernel
            try:
                kernel(*arrays)
            except InternalError as error:
                kernel = referring(choice.library, op, error, choice.inputs, choice.outputs, refer).make(static)
                kernel(*arrays)
        return kept
    return choice.by(make)


def referring(library: str, op: str, error: Exception, inputs: Sequence[Layout | None],
              outputs: Sequence[Layout | None], refer: Refer) -> Choice:
    """`refer` as a choice, after `error` of the library."""
    announce(library, op, error)

    def kernel(*arrays: Any) -> None:
        refer(arrays)
    return Choice(library, tuple(inputs), tuple(outputs), lambda static: kernel, note="reference")
