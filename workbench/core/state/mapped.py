"""What datasets with functions give: mapped, filtered, opened to several, gathered in windows."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.state.passing import Element, Failure, Found, Program, Run, failed

__all__ = ["KINDS"]

Array = np.ndarray[Any, Any]


# functions

def _mapped(run: Run, program: Program, function: Program) -> Iterator[Found]:
    for found in map(run.function(function), run.elements(program)):
        if found is None:
            return
        yield found


def _filtered(run: Run, program: Program, predicate: Program) -> Iterator[Found]:
    keep = run.function(predicate)
    for element in run.elements(program):
        found = keep(element)
        if found is None:
            return
        if isinstance(found, Failure):
            yield found
        elif found[0]:
            yield element


def _scanned(run: Run, program: Program, function: Program, first: Sequence[Program]) -> Iterator[Found]:
    call, state = run.function(function), tuple(run.value(source) for source in first)
    for element in run.elements(program):
        found = call(element if isinstance(element, Failure) else (*state, *element))
        if found is None:
            return
        if isinstance(found, Failure):
            yield found
            continue
        state = found[:len(state)]
        yield found[len(state):]


def _opened(run: Run, element: Found, call: Callable[[Found], Found | None], inner: Program) -> Iterator[Found] | None:
    """The elements of the dataset that a function returns for an element; None at the end of the data."""
    found = call(element)
    if found is None:
        return None
    return iter([found]) if isinstance(found, Failure) else run.within(found).elements(inner)


def _flat(run: Run, program: Program, function: Program, inner: Program) -> Iterator[Found]:
    call = run.function(function)
    for element in run.elements(program):
        opened = _opened(run, element, call, inner)
        if opened is None:
            return
        yield from opened


def _interleaved(run: Run, program: Program, function: Program, inner: Program, cycle: Any, block: Any) -> Iterator[Found]:
    """`cycle` datasets are open at once; each gives `block` elements in its turn."""
    places, length = run.number(cycle), run.number(block)
    if places < 1 or length < 1:
        raise errors.InvalidArgumentError(f"interleave: cycle_length is {places} and block_length {length}; use 1 or more")
    call, source = run.function(function), run.elements(program)
    opened: list[Iterator[Found] | None] = [None] * places
    ended = False
    while not ended or any(opened):
        for place in range(places):
            given = 0
            while given < length:
                if opened[place] is None and not ended:
                    element = next(source, None)
                    opened[place] = None if element is None else _opened(run, element, call, inner)
                    ended = opened[place] is None
                current = opened[place]
                if current is None:
                    break
                found = next(current, None)
                if found is None:
                    opened[place] = None
                    break
                given += 1
                yield found


def _windows(run: Run, program: Program, key: Program, size: Program, function: Program, inner: Program) -> Iterator[Found]:
    """Elements of one key gather until there are as many as `size` says of it; then they are reduced. The rest at the end."""
    key_of, size_of, reduce = run.function(key), run.function(size), run.function(function)
    groups: dict[int, list[Element]] = {}

    def reduced(found: Element, window: Sequence[Element]) -> Iterator[Found]:
        sources = reduce(found)
        if isinstance(sources, Failure):
            yield sources
        elif sources is not None:
            yield from run.within(sources, window).elements(inner)
    for element in run.elements(program):
        found = key_of(element)
        wanted = None if found is None else size_of(found)
        if found is None or wanted is None:
            break
        if isinstance(found, Failure) or isinstance(wanted, Failure) or isinstance(element, Failure):
            yield failed([element, found, wanted])      # type: ignore[misc]
            continue
        if int(wanted[0]) < 1:
            raise errors.InvalidArgumentError(f"group_by_window: Window size must be greater than zero, but got "
                                              f"{int(wanted[0])}.; use 1 or more")
        group = groups.setdefault(int(found[0]), [])
        group.append(element)
        if len(group) == int(wanted[0]):
            yield from reduced(found, groups.pop(int(found[0])))
    for number in sorted(groups):
        yield from reduced((np.asarray(number, np.int64),), groups[number])


def _window(run: Run) -> Iterator[Found]:
    return iter(run.window)


def _whole(run: Run, program: Program) -> Iterator[Found]:
    """Without those that could not be made."""
    return (element for element in run.elements(program) if not isinstance(element, Failure))


KINDS: dict[str, Callable[..., Iterator[Found]]] = {
    "map": _mapped, "filter": _filtered, "scan": _scanned, "flat_map": _flat, "interleave": _interleaved,
    "windows": _windows, "window": _window, "whole": _whole}
