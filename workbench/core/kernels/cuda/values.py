"""What kernels for CUDA devices share: dtypes, arrays of the host and of the device, and how a kernel is registered."""
from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.core.device.cuda import NUMBERS, stays
from workbench.core.graph.opdef import OpDef, registry

__all__ = ["ALL", "BOOL", "FLOATS", "INTS", "REALS", "cupy", "down", "kernel", "library", "lifted", "on_device", "up"]

FLOATS = ("float16", "float32", "float64")
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
BOOL = ("bool",)
REALS = (*FLOATS, *INTS)
ALL = (*REALS, *BOOL)

Array = Any


class _Library:
    """A module that is imported when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found


def library(name: str) -> Any:
    """The module of that name, imported when a kernel first asks for something in it."""
    return _Library(name)


cupy: Any = library("cupy")


def on_device(value: Any) -> bool:
    return isinstance(value, cupy.ndarray)


def up(value: Any) -> Any:
    """The value as an array of the device; strings and other objects have none."""
    if not isinstance(value, np.ndarray | np.generic):
        return value
    if value.dtype.char not in NUMBERS:
        raise TypeError(f"an array of {value.dtype} has no place on a CUDA device")
    return cupy.asarray(value, order="C")


def down(value: Any) -> Any:
    """The value as an array of the host; waits where the device has it."""
    return value.get() if on_device(value) else value


def kernel(*names: str, dtypes: Sequence[str] = REALS, host: Sequence[str] = (),
           either: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function computes these operations on a CUDA device, for these dtypes; see `lifted`."""
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            definition = registry[name]
            definition.kernel("gpu", dtypes)(lifted(definition, function, host, either))
        return function
    return register


def lifted(definition: OpDef, function: Callable[..., Any], host: Sequence[str] = (),
           either: Sequence[str] = ()) -> Callable[..., Any]:
    """`function` between arrays of the device: its inputs are brought there, but for those that it reads on the `host`, and
    those that it takes from `either`. Where the host has all inputs the reference computes, on the host."""
    rules: list[Callable[[Any], Any] | None] = [down if n in host else None if n in either else up for n in definition.inputs]
    everything, first = [] if definition.variadic is None else [up], int(definition.context)
    reference = definition.reference

    @functools.wraps(function)
    def run(*values: Any, **attrs: Any) -> Any:
        device = cupy.ndarray
        for value in values:
            if isinstance(value, device):
                break
        else:
            return _settled(reference(*values, **attrs))
        given = values[first:]
        bring = everything * len(given) if everything else rules
        given = tuple([value if rule is None or (rule is up and isinstance(value, device)) else rule(value)
                       for rule, value in zip(bring, given)])
        return _settled(function(*values[:first], *given, **attrs))
    run.__name__ = definition.name
    return run


def _settled(found: Any) -> Any:
    """Results in C order; those of the host stay there where the rule for such arrays says so."""
    if isinstance(found, (tuple, list)):
        return [_settled(each) for each in found]
    if isinstance(found, cupy.ndarray):
        return found if found.flags.c_contiguous else cupy.ascontiguousarray(found)
    if isinstance(found, np.ndarray | np.generic):
        found = np.asarray(found)
        return found if stays(found) else cupy.asarray(found, order="C")
    return found
