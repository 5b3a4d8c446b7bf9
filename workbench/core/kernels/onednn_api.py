"""Binding of the oneDNN C API, version 3: the functions and constants we call, and nothing that decides.

The library arrives as a wheel that carries only `libdnnl.so`; it is found through the wheel's own file list, loaded
on first use with its symbols kept local, and its absence is announced once and never raised. All numeric constants
are those of the public v3 headers `dnnl_types.h` and `dnnl_common_types.h`; they are stable within the major
version.
"""
from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Sequence
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from workbench.core.kernels.openmp import load_with_runtime
from workbench.environment import limit_spinning
from workbench.errors import InternalError, UnimplementedError

__all__ = ["Api", "Argument", "ExecuteArgument", "load"]

logger = logging.getLogger(__name__)

DISTRIBUTIONS: Final = ("onednn-cpu-gomp", "onednn-cpu-iomp", "onednn-cpu-tbb", "onednn")
STATUS: Final = ("success", "out_of_memory", "invalid_arguments", "unimplemented", "last_impl_reached",
                 "runtime_error", "not_required", "invalid_graph", "invalid_graph_op", "invalid_shape",
                 "invalid_data_type")
UNIMPLEMENTED: Final = 3

CPU: Final = 1
AVX512: Final = 0x20      # among the bits of dnnl_cpu_isa_t
SHORT: Final = {"bfloat16": 0x80, "float16": 0x100}      # likewise: instructions for products of such numbers
FLOAT32: Final = 3
FORMAT_ANY: Final = 1
FORWARD_TRAINING: Final = 64
FORWARD_INFERENCE: Final = 96
SCRATCHPAD_USER: Final = 1

CONVOLUTION_DIRECT: Final = 0x1
ELU: Final = 0x22
LINEAR: Final = 0x26
POOLING_MAX: Final = 0x1ff
POOLING_AVERAGE: Final = 0x3ff  # excludes the padding from the count
BINARY_ADD: Final = 0x1fff0
BINARY_MULTIPLY: Final = 0x1fff1

QUERY_IMPLEMENTATION: Final = 8
QUERY_STRIDES: Final = 14
QUERY_SCRATCHPAD: Final = 136
QUERY_ARGUMENT: Final = 255
QUERY_AXES: Final = 256
QUERY_DIMENSIONS: Final = 257
QUERY_PADDED: Final = 260
QUERY_FORMAT_KIND: Final = 262
QUERY_BLOCK_COUNT: Final = 263
QUERY_BLOCKS: Final = 264
QUERY_BLOCK_AXES: Final = 265
KIND_BLOCKED: Final = 2

RELU_SLOPE: Final = -0.0
"""The library's ReLU takes a NaN for 0. Its ELU, `x if x > 0 else alpha * (exp(x) - 1)`, keeps a NaN on every
instruction set; with this `alpha` it is the ReLU, and its zeros are positive."""
MAX_AXES: Final = 12
Dimensions = ctypes.c_int64 * MAX_AXES
Pointer = ctypes.c_void_p
_Numbers = ctypes.POINTER(ctypes.c_int64)


class Argument:
    """Indices of execution arguments (`DNNL_ARG_*`)."""

    SOURCE: Final = 1
    SOURCE_1: Final = 2
    OUTPUT: Final = 17
    WEIGHTS: Final = 33
    BIAS: Final = 41
    WORKSPACE: Final = 64
    SCRATCHPAD: Final = 80
    SOURCE_GRADIENT: Final = 129
    OUTPUT_GRADIENT: Final = 145
    WEIGHTS_GRADIENT: Final = 161

    @staticmethod
    def after(position: int) -> int:
        """Operand of a binary operation at `position` in the chain behind the main one."""
        return 32768 * (position + 1) | Argument.SOURCE_1


class ExecuteArgument(ctypes.Structure):
    """`dnnl_exec_arg_t`: which argument, and the memory object that holds it."""

    _fields_ = (("argument", ctypes.c_int), ("memory", ctypes.c_void_p))


def dimensions(values: Sequence[int]) -> Any:
    """A `dnnl_dims_t` holding `values`; the rest is zero."""
    return Dimensions(*values)


class Api:
    """One loaded library with its CPU engine; every method raises an error that names the failing status."""

    def __init__(self, path: Path) -> None:
        self.library = load_with_runtime(path)
        self.path = path
        self.execute = self.library.dnnl_primitive_execute
        self.execute.argtypes = (Pointer, Pointer, ctypes.c_int, Pointer)
        self.set_handle = self.library.dnnl_memory_set_data_handle
        self.set_handle.argtypes = (Pointer, Pointer)
        self.library.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
        self.library.dnnl_primitive_desc_query_md.restype = Pointer
        self.version = self._version()
        if self.version[0] != 3:
            raise UnimplementedError(f"onednn: {path.name} has version {self.version} but 3 is needed; install the "
                                     "wheel onednn-cpu-gomp, or set WB_LIBRARIES without onednn")
        instructions = self.library.dnnl_get_effective_cpu_isa()
        self.wide = bool(instructions & AVX512)
        """Does it use AVX-512? The processor may have it and ONEDNN_MAX_CPU_ISA forbid it."""
        self.short = {name for name, bit in SHORT.items() if instructions & bit or not instructions}
        """Types of 16 bits for which it uses instructions, or may do so where it names none, as on other processors than x86.
        With AVX-512 alone it computes bfloat16 as well, in three times the time of float32."""
        self.engine = self._out("dnnl_engine_create", CPU, ctypes.c_size_t(0))
        # In order, and without state on the CPU, where a call returns when its work is done: one serves all threads.
        self.stream = self._out("dnnl_stream_create", self.engine, ctypes.c_uint(1))
        self.alone = self.attributes()      # of a primitive that nothing follows
        self.openmp = self._openmp()

    def _openmp(self) -> Any:
        """OpenMP's `omp_set_num_threads` of the runtime this library uses: for kernels that the calling thread runs."""
        try:
            found = self.library.omp_set_num_threads
        except AttributeError:      # the flavour of the library for TBB, which shares its threads by itself
            return ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda threads: None)
        found.argtypes, found.restype = (ctypes.c_int,), None
        return found

    def _version(self) -> tuple[int, int, int]:
        self.library.dnnl_version.restype = ctypes.POINTER(ctypes.c_int * 3)
        major, minor, patch = self.library.dnnl_version().contents
        return major, minor, patch

    def check(self, status: int, where: str, what: str = "") -> None:
        """Raise unless `status` is success of `what`: `UnimplementedError` for a missing kernel, else `InternalError`."""
        if status:
            name = STATUS[status] if status < len(STATUS) else str(status)
            kind = UnimplementedError if status == UNIMPLEMENTED else InternalError
            raise kind(f"onednn: {where} returned {name}, expected success{what}; set WB_LIBRARIES without onednn "
                       "to run without this library")

    def _out(self, name: str, *arguments: Any) -> Pointer:
        """Call a constructor whose first parameter receives the new object."""
        made = Pointer()
        status = getattr(self.library, name)(ctypes.byref(made), *arguments)
        if status:
            self.check(status, name)
        return made

    # Memory descriptors

    def plain(self, shape: Sequence[int], strides: Sequence[int], dtype: int = FLOAT32) -> Pointer:
        """Descriptor of elements of a type with `strides` counted in elements."""
        return self._out("dnnl_memory_desc_create_with_strides", len(shape), dimensions(shape), dtype, dimensions(strides))

    def any(self, shape: Sequence[int], dtype: int = FLOAT32) -> Pointer:
        """Descriptor whose format the primitive chooses."""
        return self._out("dnnl_memory_desc_create_with_tag", len(shape), dimensions(shape), dtype, FORMAT_ANY)

    def clone(self, descriptor: Pointer) -> Pointer:
        return self._out("dnnl_memory_desc_clone", descriptor)

    def equal(self, left: Pointer, right: Pointer) -> bool:
        return bool(self.library.dnnl_memory_desc_equal(left, right))

    def size(self, descriptor: Pointer) -> int:
        """Bytes that hold the value, padding included."""
        return int(self.library.dnnl_memory_desc_get_size(descriptor))

    def destroy_descriptor(self, descriptor: Pointer) -> None:
        self.check(self.library.dnnl_memory_desc_destroy(descriptor), "dnnl_memory_desc_destroy")

    def _query(self, descriptor: Pointer, what: int, found: Any) -> None:
        status = self.library.dnnl_memory_desc_query(descriptor, what, ctypes.byref(found))
        if status:
            self.check(status, "dnnl_memory_desc_query")

    def _numbers(self, descriptor: Pointer, what: int, count: int) -> tuple[int, ...]:
        found = _Numbers()
        self._query(descriptor, what, found)
        return tuple(found[:count])

    def _number(self, descriptor: Pointer, what: int) -> int:
        found = ctypes.c_int(0)
        self._query(descriptor, what, found)
        return found.value

    def blocking(self, descriptor: Pointer, axes: int) -> str:
        """The format in words, such as `strides 3136,196,14,1 blocks 16b`; `opaque` if the library hides it."""
        if self._number(descriptor, QUERY_FORMAT_KIND) != KIND_BLOCKED:
            return "opaque"
        strides, blocks = self.blocks(descriptor, axes)
        words = "".join(f"{size}{'abcdefghijkl'[axis]}" for axis, size in blocks)
        return f"strides {','.join(map(str, strides))}" + (f" blocks {words}" if words else "")

    def blocks(self, descriptor: Pointer, axes: int) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
        """(stride of each axis in elements, (axis, size) of each block from the outermost in); not for opaque formats."""
        count, strides = self._number(descriptor, QUERY_BLOCK_COUNT), self._numbers(descriptor, QUERY_STRIDES, axes)
        if not count:
            return strides, []
        sizes, of = (self._numbers(descriptor, what, count) for what in (QUERY_BLOCKS, QUERY_BLOCK_AXES))
        return strides, list(zip(of, sizes))

    def summary(self, descriptor: Pointer) -> tuple[tuple[int, ...], int, str]:
        """(dimensions, bytes, format in words): equal descriptors share it; different ones mostly differ in it."""
        axes = self._number(descriptor, QUERY_AXES)
        return self._numbers(descriptor, QUERY_DIMENSIONS, axes), self.size(descriptor), self.blocking(descriptor, axes)

    def padded(self, descriptor: Pointer, axes: int) -> tuple[int, ...]:
        """Dimensions with the padding that blocks add."""
        return self._numbers(descriptor, QUERY_PADDED, axes)

    # Attributes

    def attributes(self, after: Sequence[tuple[Any, ...]] = ()) -> Pointer:
        """Scratchpad owned by the caller; then, in order, what follows the main operation.

        `("sum",)` adds the old output, `("relu",)` and `("linear", alpha as c_float)` apply a function,
        `("add", descriptor)` adds an argument.
        """
        made = self._out("dnnl_primitive_attr_create")
        self.check(self.library.dnnl_primitive_attr_set_scratchpad_mode(made, SCRATCHPAD_USER), "scratchpad mode")
        if after:
            chain = self._out("dnnl_post_ops_create")
            for name, *parameters in after:
                self.check(self._append(chain, name, *parameters), f"post-op {name}")
            self.check(self.library.dnnl_primitive_attr_set_post_ops(made, chain), "post-ops")
            self.check(self.library.dnnl_post_ops_destroy(chain), "post-ops destroy")
        return made

    def _append(self, chain: Pointer, name: str, *parameters: Any) -> int:
        if name == "sum":
            status = self.library.dnnl_post_ops_append_sum(chain, ctypes.c_float(1), 0, FLOAT32)
        elif name == "add":
            status = self.library.dnnl_post_ops_append_binary(chain, BINARY_ADD, parameters[0])
        else:
            kind, alpha = (ELU, ctypes.c_float(RELU_SLOPE)) if name == "relu" else (LINEAR, parameters[0])
            status = self.library.dnnl_post_ops_append_eltwise(chain, kind, alpha, ctypes.c_float(0))
        return int(status)

    def destroy_attributes(self, attributes: Pointer) -> None:
        self.check(self.library.dnnl_primitive_attr_destroy(attributes), "dnnl_primitive_attr_destroy")

    # Primitive descriptors and primitives

    def describe(self, family: str, *arguments: Any) -> Pointer:
        """Primitive descriptor of `dnnl_<family>_primitive_desc_create`, `UnimplementedError` if none exists."""
        return self._out(f"dnnl_{family}_primitive_desc_create", *arguments)

    def primitive(self, described: Pointer) -> Pointer:
        return self._out("dnnl_primitive_create", described)

    def destroy_primitive(self, primitive: Pointer) -> None:
        self.check(self.library.dnnl_primitive_destroy(primitive), "dnnl_primitive_destroy")

    def destroy_described(self, described: Pointer) -> None:
        self.check(self.library.dnnl_primitive_desc_destroy(described), "dnnl_primitive_desc_destroy")

    def argument(self, described: Pointer, argument: int) -> Pointer | None:
        """Borrowed memory descriptor of an execution argument; valid while `described` lives."""
        return self._borrowed(described, QUERY_ARGUMENT, argument)

    def scratchpad(self, described: Pointer) -> Pointer | None:
        return self._borrowed(described, QUERY_SCRATCHPAD, 0)

    def _borrowed(self, described: Pointer, what: int, index: int) -> Pointer | None:
        found = self.library.dnnl_primitive_desc_query_md(described, what, index)
        return Pointer(found) if found else None

    def implementation(self, described: Pointer) -> str:
        """Name of the chosen kernel, such as `jit:avx512_core`; `ref:any` marks the slow one."""
        text = ctypes.c_char_p()
        self.check(self.library.dnnl_primitive_desc_query(described, QUERY_IMPLEMENTATION, 0, ctypes.byref(text)),
                   "implementation query")
        return (text.value or b"").decode()

    # Execution

    def memory(self, descriptor: Pointer) -> Pointer:
        """Memory object without a buffer; `set_handle` gives it one."""
        return self._out("dnnl_memory_create", descriptor, self.engine, None)

    def destroy_memory(self, memory: Pointer) -> None:
        self.check(self.library.dnnl_memory_destroy(memory), "dnnl_memory_destroy")

    def prepared(self, primitive: Pointer, arguments: Any) -> partial[int]:
        """A callable without parameters that runs `primitive` on `arguments` and returns the status."""
        return partial(self.execute, primitive, self.stream, len(arguments), arguments)


def find() -> Path | None:
    """The shared library inside the first installed wheel of `DISTRIBUTIONS`."""
    for name in DISTRIBUTIONS:
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name.startswith(("libdnnl.so", "libdnnl.dylib", "dnnl.dll")):
                path = Path(str(file.locate())).resolve()
                if path.exists():
                    return path
    return None


_known: list[Api | None] = []      # what `load` found
_loading = threading.Lock()      # two threads that come first would each make an engine, and none serves what the other made


def load() -> Api | None:
    """The library, or None with one logged line that says why; loaded at most once, whoever comes first."""
    if not _known:      # asked some thousand times for each plan
        with _loading:
            _known[:] = [_loaded()]
    return _known[0]


@cache
def _loaded() -> Api | None:
    path = find()
    if path is None:
        logger.info("oneDNN is not installed; NumPy and compiled kernels serve (pip install onednn-cpu-gomp)")
        return None
    limit_spinning()
    try:
        return Api(path)
    except (OSError, AttributeError, UnimplementedError) as error:
        logger.warning("oneDNN at %s cannot be used: %s; NumPy and compiled kernels serve", path.name, error)
        return None
