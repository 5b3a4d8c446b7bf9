"""LLVM: compiles programs of the kernel language to machine code, keeps it on disk, and makes callable kernels of it.

A warm process reads an object file from the cache and links it: 25 ms for loading LLVM, then about a millisecond a kernel.
A kernel is a built-in function of CPython whose `self` is a block of numbers, so that a call costs as little as one of
NumPy's methods: it checks its arguments, takes their addresses and runs.
"""
from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import itertools
import logging
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.core.kernels.cache import shared
from workbench.core.kernels.choice import Kernel
from workbench.core.kernels.entry import ENTRIES, HEAD, OBJECT, head
from workbench.core.kernels.language import library_source
from workbench.core.kernels.options import kernel_options
from workbench.settings import settings

__all__ = ["HEAVY", "Program", "bind", "load", "serves", "usable", "wide"]

OWN = ("language.py", "stretches.py", "elements.py", "expressions.py", "entry.py", "llvm.py")
"""Files whose text decides what machine code a program becomes."""
LIBRARY = ("exp", "log", "tanh", "log1p", "expm1", "erf")
_log = logging.getLogger(__name__)
HEAVY = 16384
"""Elements from which a kernel gives up the interpreter's lock: below, taking it back may cost more than the work."""
compiled = 0
"""Programs compiled by this process, rather than found in the cache; for tests and for eyes."""


@dataclass(frozen=True)
class Program:
    """A program of the kernel language: its texts, the function to start with, and how that is called.

    `call` is one of `ENTRIES`: those of "arrays" get the arrays and numbers they name through `bind`.
    """

    sources: tuple[str, ...]
    name: str
    call: str = "arrays"


@functools.cache
def usable() -> bool:
    """Is there an LLVM that works, and a Python whose arrays we can read? If not, NumPy serves, and it is said once."""
    if sys.implementation.name != "cpython" or not head().fits:
        return False
    try:
        machine()
    except ImportError:
        _log.info("llvmlite is not installed; NumPy serves (pip install llvmlite)")
        return False
    except Exception as error:      # a library of another version, or built for another system, may fail in any way
        _log.warning("LLVM cannot be used: %s; NumPy serves", error)
        return False
    return True


def serves() -> bool:
    """May what another library is asked for be compiled loops: does the session want any, and is there an LLVM?"""
    return "llvm" in kernel_options().libraries and usable()


@functools.cache
def wide() -> bool:
    """Has the processor vectors of 512 bits?"""
    return usable() and "+avx512f" in machine().features.split(",")


class Machine:
    """This process's LLVM: the target, the linker, and what it has loaded."""

    def __init__(self) -> None:
        from llvmlite import binding
        self.llvm: Any = binding
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        target = binding.Target.from_default_triple()
        cpu, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
        if settings.deterministic:      # models of one instruction set prefer other widths of vectors, which cut sums otherwise
            cpu = "x86-64" if target.name == "x86-64" else "generic"
        self.features = features
        self.target = target.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", codemodel="jitdefault")
        self.linker = binding.create_lljit_compiler(self.target)
        self.kept: list[Any] = []
        self.numbers = itertools.count()
        own = hashlib.sha256("\0".join(map(library_source, OWN)).encode()).hexdigest()
        version = binding.llvm_version_info
        self.identity = "\0".join([own, str(version), str(OBJECT), target.triple, cpu, features])
        mathematics = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)      # Python itself brings them
        for name in LIBRARY:
            binding.add_symbol(name, ctypes.cast(getattr(mathematics, name), ctypes.c_void_p).value)

    def key(self, program: Program) -> str:
        """Equal for equal machine code: the texts, the versions, the processor and its features."""
        parts = (self.identity, program.name, program.call, *program.sources)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def compile(self, program: Program, symbol: str) -> bytes:
        from workbench.core.kernels.language import translate
        text, types = translate(program.sources, program.name)
        text += ENTRIES[program.call](program.name, types, symbol)
        module = self.llvm.parse_assembly(text)
        module.verify()
        options = self.llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = True
        options.slp_vectorization = True
        builder = self.llvm.create_pass_builder(self.target, options)
        builder.getModulePassManager().run(module, builder)
        return bytes(self.target.emit_object(module))

    def link(self, code: bytes, symbol: str) -> int:
        """The address of the code; RuntimeError for what is not an object file with this symbol."""
        made = self.llvm.JITLibraryBuilder().add_object_img(code).export_symbol(symbol).add_current_process()
        tracker = made.link(self.linker, f"{symbol}.{next(self.numbers)}")
        self.kept.append(tracker)      # the code lives as long as its tracker
        return int(tracker[symbol])


_lock = threading.RLock()
_addresses: dict[Program, int] = {}
_machines: list[Machine] = []


def machine() -> Machine:
    """The one of this process; loading LLVM takes 25 ms."""
    with _lock:
        if not _machines:
            _machines.append(Machine())
        return _machines[0]


def load(program: Program) -> int:
    """Address of a program's machine code: loaded already, else from the cache, else compiled now."""
    global compiled
    address = _addresses.get(program)
    if address is not None:
        return address
    with _lock:
        if program not in _addresses:
            here, cache = machine(), shared(settings.cache, settings.cache_bytes)
            key = here.key(program)
            symbol = "kernel_" + key[:24]
            code = cache.get(key)
            if code is not None:
                with contextlib.suppress(RuntimeError):      # whole, but not ours: as good as absent
                    _addresses[program] = here.link(code, symbol)
                    return _addresses[program]
            code = here.compile(program, symbol)
            compiled += 1
            cache.put(key, code)
            _addresses[program] = here.link(code, symbol)
        return _addresses[program]


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (("name", ctypes.c_void_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("text", ctypes.c_void_p))


_FASTCALL = 0x80
_METHOD = ctypes.sizeof(_Method) // 8
_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi))
_name = functools.cache(ctypes.create_string_buffer)      # never freed: functions point to their names


def bind(program: Program, numbers: Sequence[int], heavy: bool) -> Kernel:
    """A kernel that takes the program's arrays; `numbers` are its whole numbers, both in the order it names them.

    `heavy` work is done without the interpreter's lock. Arguments that are not C-contiguous arrays raise TypeError;
    element types and sizes are the caller's promise.
    """
    address, end = load(program), HEAD + len(numbers)
    block = np.empty(end + _METHOD, np.int64)
    block[:HEAD] = [*head().addresses, int(heavy)]
    block[HEAD:end] = numbers
    # NOTE: the definition lies in the function's own block: the garbage collector reads it as long as the function lives
    method = _Method.from_buffer(block.data, 8 * end)
    method.name, method.function, method.flags = ctypes.addressof(_name(program.name.encode())), address, _FASTCALL
    method.text = None
    return _new_function(ctypes.addressof(method), block, None)      # type: ignore[no-any-return]
