"""Types of values in the kernel language, and of the elements of memory, as LLVM writes them."""
from __future__ import annotations

__all__ = ["LLVM", "MEMORY", "computed", "llvm_type", "stored"]

LLVM = {"float32": "float", "float64": "double", "int32": "i32", "int64": "i64", "bool": "i1", "lanes": "<16 x float>",
        "marks": "<16 x i1>"}
MEMORY = {"floats32": "float32", "floats64": "float64", "ints32": "int32", "ints64": "int64", "bools": "bool",
          "bfloats16": "bfloat16"}
STORED = {"bool": "i8", "bfloat16": "i16"}      # types that lie in memory otherwise than they are computed with
COMPUTED = {"bfloat16": "float32"}              # those that are another while they are computed with


def stored(type_: str) -> str:
    """What an element of memory is."""
    return STORED.get(type_) or LLVM[type_]


def computed(type_: str) -> str:
    """The type of the values that an element of memory gives and takes."""
    return COMPUTED.get(type_, type_)


def llvm_type(type_: str) -> str:
    return "ptr" if type_ in MEMORY else LLVM[type_] if type_ else "void"
