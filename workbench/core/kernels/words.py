"""What the words of the kernel language mean in Python, so that its programs are Python modules that can be read and run."""
from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import MutableSequence
from typing import Any, TypeVar

import numpy as np

__all__ = ["bits", "called", "copy16", "exp", "fast", "float32", "float64", "floats32", "floats64", "floor",
           "from_bits", "fused", "independent", "inf", "int32", "int64", "ints64", "largest", "load1", "load16", "log",
           "multiply_add", "nan", "place", "room", "smallest", "soon", "spread16", "sqrt", "store1", "store16", "streamed"]

T = TypeVar("T")
floats32 = MutableSequence[float]
floats64 = MutableSequence[float]
ints64 = MutableSequence[int]
float32 = float64 = float
int64 = int
int32 = int
inf, nan = math.inf, math.nan
independent = streamed = range
sqrt, log, floor = math.sqrt, math.log, math.floor


def exp(x: float) -> float:
    return math.exp(x) if x < 709.0 else inf


def fused(function: T) -> T:
    """Products and sums may be contracted: one rounding where the processor can."""
    return function


def fast(function: T) -> T:
    """Sums may also be reordered, which lets them run in vectors."""
    return function


def largest(x: float, y: float) -> float:
    """The larger one; NaN if one is NaN."""
    return x if x >= y or x != x else y


def smallest(x: float, y: float) -> float:
    """The smaller one; NaN if one is NaN."""
    return x if x <= y or x != x else y


def multiply_add(x: float, y: float, z: float) -> float:
    """x · y + z; compiled, it is rounded once where the processor can."""
    return x * y + z


def bits(x: float) -> int:
    """The bits of a float32 as a whole number with sign."""
    return int(struct.unpack("i", struct.pack("f", x))[0])


def from_bits(x: int) -> float:
    return float(struct.unpack("f", struct.pack("i", x))[0])


def load1(address: int) -> float:
    """The float32 that lies at an address."""
    return ctypes.c_float.from_address(address).value


def store1(address: int, value: float) -> None:
    ctypes.c_float.from_address(address).value = value


def load16(address: int) -> Any:
    """16 floats that lie at an address, as one value."""
    return np.ctypeslib.as_array((ctypes.c_float * 16).from_address(address)).copy()


def spread16(x: float) -> Any:
    """One float 16 times, as one value."""
    return np.full(16, x, np.float32)


def place(memory: Any, index: int) -> int:
    """The address of an element of typed memory."""
    return int(memory.ctypes.data + index * memory.itemsize)


def store16(address: int, value: Any) -> None:
    np.ctypeslib.as_array((ctypes.c_float * 16).from_address(address))[:] = value


def copy16(source: int, target: int) -> None:
    store16(target, load16(source))


def soon(memory: Any, index: int) -> None:
    """The element will be needed soon: the processor may begin to bring it. It may lie behind the end of the memory."""


_rooms: list[Any] = []


def room(nbytes: int) -> int:
    """The address of so many bytes; compiled, they live until the function returns."""
    _rooms.append((ctypes.c_char * nbytes)())
    return ctypes.addressof(_rooms[-1])


def called(address: int, *given: int) -> int:
    """What the C function at an address gives, an int, for whole numbers and addresses."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * len(given))(address)(*given))
