"""How CPython calls a kernel: the entry that takes the arrays' addresses, and what it must know of this Python."""
from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from workbench.core.kernels.language import MEMORY
from workbench.core.kernels.program_calls import ADDRESSES

__all__ = ["ENTRIES", "HEAD", "head"]

HEAD = 8
"""Numbers of the block before the program's own: seven addresses and whether to give up the interpreter's lock."""
OBJECT = object.__basicsize__
"""Bytes of an object's head; its last word is its type. An array's first field behind it is the address of its data."""
FLAGS = OBJECT + 48
CONTIGUOUS = 1


class Head(NamedTuple):
    addresses: tuple[int, ...]
    fits: bool


@functools.cache
def head() -> Head:
    """Addresses that entries need of this interpreter, and whether its arrays are laid out as entries believe."""
    api = ctypes.pythonapi
    functions = (api.PyEval_SaveThread, api.PyEval_RestoreThread, api.Py_IncRef, api.PyErr_SetString)
    found = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
    return Head((*found, id(None), id(np.ndarray), id(TypeError)), _fits())


def _fits() -> bool:
    plain, turned = np.zeros((2, 3)), np.zeros((2, 3)).T[:, ::-1]

    def word(array: np.ndarray, offset: int) -> int | None:
        return ctypes.c_void_p.from_address(id(array) + offset).value
    return all(word(a, OBJECT) == a.ctypes.data and word(a, OBJECT - 8) == id(np.ndarray)
               and ctypes.c_int.from_address(id(a) + FLAGS).value == a.flags.num for a in (plain, turned))


def entry(name: str, types: Sequence[str], symbol: str) -> str:
    """Assembly of `symbol(self, arguments, count)` that calls function `name` with data and numbers."""
    arrays, whole = _sorts(types)
    lines = _given(symbol, len(arrays))
    lines += [line for n in range(len(whole)) for line in _load(f"number{n}", "%block", 8 * (HEAD + n), "i64")]
    lines += [*_load("heavy", "%block", 8 * (HEAD - 1), "i64"), "  %free = icmp ne i64 %heavy, 0",
              "  br i1 %free, label %release, label %work", "release:", "  %saved = call ptr %save()", "  br label %work",
              "work:", f"  %state = phi ptr [ null, %check{len(arrays)} ], [ %saved, %release ]"]
    given = [f"ptr %data{arrays.index(i)}" if i in arrays else f"i64 %number{whole.index(i)}" for i in range(len(types))]
    lines += [f'  call void @"{name}"({", ".join(given)})', "  br i1 %free, label %take, label %end", "take:",
              "  call void %restore(ptr %state)", "  br label %end", "end:"]
    return _refusal(name, len(arrays)) + "\n".join([*lines, *_END]) + "\n"


_END = ("  call void %incref(ptr %none)", "  ret ptr %none", "bad:", "  call void %complain(ptr %exception, ptr @message)",
        "  ret ptr null", "}")
"""None is given back; or TypeError is raised, at "bad"."""


def _sorts(types: Sequence[str]) -> tuple[list[int], list[int]]:
    """Which of the arguments are arrays, and which whole numbers."""
    return [i for i, t in enumerate(types) if t in MEMORY], [i for i, t in enumerate(types) if t not in MEMORY]


def _given(symbol: str, arrays: int) -> list[str]:
    """The beginning of `symbol(self, arguments, count)`: what the block's head holds, and the data of the arrays, once they
    are found to be so many C-contiguous ones."""
    lines = [f"define ptr @{symbol}(ptr %self, ptr %args, i64 %count) {{", *_load("block", "%self", OBJECT)]
    lines += [line for i, word in enumerate(("save", "restore", "incref", "complain", "none", "array", "exception"))
              for line in _load(word, "%block", 8 * i)]
    lines += [f"  %enough = icmp eq i64 %count, {arrays}", "  br i1 %enough, label %check0, label %bad"]
    for n in range(arrays):
        lines += [f"check{n}:", *_load(f"object{n}", "%args", 8 * n), *_load(f"type{n}", f"%object{n}", OBJECT - 8),
                  f"  %flags.at{n} = getelementptr i8, ptr %object{n}, i64 {FLAGS}",
                  f"  %flags{n} = load i32, ptr %flags.at{n}", f"  %order{n} = and i32 %flags{n}, {CONTIGUOUS}",
                  f"  %plain{n} = icmp ne i32 %order{n}, 0", f"  %known{n} = icmp eq ptr %type{n}, %array",
                  f"  %fine{n} = and i1 %plain{n}, %known{n}",
                  f"  br i1 %fine{n}, label %check{n + 1}, label %bad"]
    return [*lines, f"check{arrays}:", *[line for n in range(arrays) for line in _load(f"data{n}", f"%object{n}", OBJECT)]]


def _refusal(name: str, arrays: int) -> str:
    return _message(f"{name}: kernel takes {arrays} C-contiguous arrays, got something else; pass numpy.ascontiguousarray(…)")


def _load(name: str, base: str, offset: int, kind: str = "ptr") -> list[str]:
    return [f"  %{name}.at = getelementptr i8, ptr {base}, i64 {offset}", f"  %{name} = load {kind}, ptr %{name}.at"]


def plain_entry(name: str, types: Sequence[str], symbol: str) -> str:
    """Assembly of the C function `symbol` that is function `name`."""
    given = ", ".join(f"{'ptr' if t in MEMORY else 'i64'} %a{i}" for i, t in enumerate(types))
    return f'\ndefine void @{symbol}({given}) {{\n  call void @"{name}"({given})\n  ret void\n}}\n'


def team_entry(name: str, types: Sequence[str], symbol: str) -> str:
    """Assembly of `symbol(self, arguments, count)` that has a team of threads call function `name`, each for its part of the
    rows, without the interpreter's lock.

    The first of the block's numbers are those of `TEAM`; behind them come those of the function but for the first two, which
    are the ends of a part.
    """
    arrays, (_, _, *whole) = _sorts(types)
    values = [f"ptr %data{n}" for n in range(len(arrays))] + [f"i64 %number{n}" for n in range(len(whole))]
    define, *lines = _given(symbol, len(arrays))
    for i, word in enumerate(TEAM):
        lines += _load(word, "%block", 8 * (HEAD + i), "i64" if word == "rows" else "ptr")
    lines += [line for n in range(len(whole)) for line in _load(f"number{n}", "%block", 8 * (HEAD + len(TEAM) + n), "i64")]
    for place, value in enumerate(["ptr %rank", "ptr %size", "i64 %rows", *values]):
        lines += [f"  %put{place} = getelementptr i8, ptr %share, i64 {8 * place}", f"  store {value}, ptr %put{place}"]
    lines += ["  %many = load i32, ptr %threads", "  %saved = call ptr %save()",
              f"  call void %parallel(ptr @{symbol}.part, ptr %share, i32 %many, i32 0)", "  call void %restore(ptr %saved)"]
    text = [define, f"  %share = alloca [{3 + len(values)} x i64]", *lines, *_END]
    return _part(name, types, f"{symbol}.part") + _refusal(name, len(arrays)) + "\n".join(text) + "\n"


TEAM = ("rank", "size", "rows", "parallel", "threads")
"""Functions that give a thread's number and the size of its team, how many rows there are, the function that starts a team, and
where it says of how many threads."""


def _part(name: str, types: Sequence[str], symbol: str) -> str:
    """Assembly of the C function `symbol(share)` that each thread of a team calls.

    It is told where to ask for the thread's number and the size of the team, the rows, the arrays' addresses, and numbers.
    """
    arrays, (first, last, *whole) = _sorts(types)
    lines = [f"define internal void @{symbol}(ptr %share) {{", *_load("rank", "%share", 0), *_load("size", "%share", 8),
             *_load("rows", "%share", 16, "i64")]
    for word in ("rank", "size"):
        lines += [f"  %{word}.short = call i32 %{word}()", f"  %{word}.long = sext i32 %{word}.short to i64"]
    lines += ["  %next = add i64 %rank.long, 1", "  %before = mul i64 %rows, %rank.long", "  %until = mul i64 %rows, %next",
              "  %begin = sdiv i64 %before, %size.long", "  %end = sdiv i64 %until, %size.long"]
    given = {first: "i64 %begin", last: "i64 %end"}
    for place, i in enumerate([*arrays, *whole], 3):
        kind = "ptr" if i in arrays else "i64"
        lines += _load(f"value{i}", "%share", 8 * place, kind)
        given[i] = f"{kind} %value{i}"
    called = ", ".join(given[i] for i in range(len(types)))
    return "\n" + "\n".join([*lines, f'  call void @"{name}"({called})', "  ret void", "}"]) + "\n"


def table_entry(name: str, types: Sequence[str], symbol: str) -> str:
    """Assembly of `symbol(self, arguments, count)` that calls function `name` with a table that says where the arrays are,
    without the interpreter's lock, and gives the number that the function leaves there.

    The table is the block's numbers: of how many arrays it is (more may be given), that number, the address of what makes an
    object of it, and from `ADDRESSES` on those of the arrays, which need not be contiguous.
    """
    lines = [f"define ptr @{symbol}(ptr %self, ptr %args, i64 %count) {{", *_load("block", "%self", OBJECT)]
    lines += [line for i, word in enumerate(("save", "restore", "incref", "complain", "none", "array", "exception"))
              for line in _load(word, "%block", 8 * i)]
    lines += [f"  %table = getelementptr i8, ptr %block, i64 {8 * HEAD}", *_load("wanted", "%table", 0, "i64"),
              "  %enough = icmp sge i64 %count, %wanted", "  br i1 %enough, label %next, label %bad", "next:",
              "  %i = phi i64 [ 0, %0 ], [ %more, %take ]", "  %over = icmp eq i64 %i, %wanted",
              "  br i1 %over, label %work, label %check", "check:", "  %object.at = getelementptr ptr, ptr %args, i64 %i",
              "  %object = load ptr, ptr %object.at", *_load("type", "%object", OBJECT - 8),
              "  %known = icmp eq ptr %type, %array", "  br i1 %known, label %take, label %bad", "take:",
              *_load("data", "%object", OBJECT), f"  %place = add i64 %i, {ADDRESSES}",
              "  %place.at = getelementptr ptr, ptr %table, i64 %place", "  store ptr %data, ptr %place.at",
              "  %more = add i64 %i, 1", "  br label %next", "work:", "  %saved = call ptr %save()",
              f'  call void @"{name}"(ptr %table)', "  call void %restore(ptr %saved)", *_load("number", "%table", 8, "i64"),
              *_load("make", "%table", 16), "  %made = call ptr %make(i64 %number)", "  ret ptr %made", "bad:",
              "  call void %complain(ptr %exception, ptr @message)", "  ret ptr null", "}"]
    refused = f"{name}: it takes other arguments; pass NumPy arrays, no fewer than it was made for"
    return _message(refused) + "\n".join(lines) + "\n"


def _message(text: str) -> str:
    data = text.encode() + b"\0"
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data)
    return f'\n@message = private constant [{len(data)} x i8] c"{escaped}"\n'


ENTRIES = {"arrays": entry, "address": plain_entry, "team": team_entry, "table": table_entry}
"""How a program may be called: by Python with arrays, from C with one address, by Python with arrays for each thread of a team,
or by Python with arrays whose addresses it finds in a table."""
