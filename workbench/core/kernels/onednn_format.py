"""oneDNN at planning time: memory formats as values, and primitives made once.

A `Format` tells how a value's bytes lie: a descriptor of the library plus the order in which the value's axes became
the descriptor's axes (oneDNN always counts batch, channels, height, width; filters output, input, height, width).
Primitives are cached, because generating the code of one costs about 0.4 ms, and it is generated when the first kernel is made
of one; kernels of any number of plans share them and differ only in their memory objects.
"""
from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from workbench.core.kernels.choice import Layout
from workbench.core.kernels.onednn_api import Api, Argument, Pointer, dimensions, load
from workbench.core.kernels.onednn_cost import seconds
from workbench.core.kernels.onednn_desc import Desc, Interned, contiguous
from workbench.core.kernels.options import kernel_options
from workbench.core.kernels.threads import threads_for
from workbench.errors import UnimplementedError

__all__ = [
    "Format", "Primitive", "api", "as_format", "available", "fast", "format_of", "identity_of",
    "known", "placed", "primitive", "servable", "stripped", "with_threads",
]

FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Format:
    """Private memory format of one value; equal formats hold equal bytes for equal values.

    `shape` counts in the library's axis order, `axes[i]` is the value's axis behind the library's axis `i`,
    `identity` is the interned descriptor. `workspace` is a second descriptor whose bytes follow at `offset`: a
    pooling writes there where each maximum came from, readers of the value ignore it.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    identity: Interned
    nbytes: int
    text: str = field(compare=False)
    workspace: Interned | None = None
    offset: int = 0

    @property
    def library(self) -> str:
        return "onednn"


class Formats:
    """The formats of a primitive's execution arguments, each looked up when somebody asks for it.

    `after` are the arguments of what follows the main operation. Nothing else is asked there: about a ReLU the library
    answers with memory that is not a descriptor, whose size may end the process.
    """

    __slots__ = ("_after", "_described", "_found", "_pointers")

    def __init__(self, described: Pointer, after: Sequence[int]) -> None:
        self._described, self._after = described, tuple(after)
        self._pointers: dict[int, Pointer | None] = {}
        self._found: dict[int, Interned] = {}

    def pointer(self, argument: int) -> Pointer:
        """The library's own descriptor of an argument that it has."""
        found = self.find(argument)
        if found is None:
            raise KeyError(argument)
        return found

    def find(self, argument: int) -> Pointer | None:
        """The library's own descriptor of an argument, which lives as long as the primitive; None where it has none."""
        if argument not in self._pointers:
            library, asked = api(), argument in ARGUMENTS or argument in self._after
            found = library.argument(self._described, argument) if asked else None
            self._pointers[argument] = found if found is not None and library.size(found) else None
        return self._pointers[argument]

    def serve(self, others: Formats) -> bool:
        """Do all arguments that `others` have lie here as there, but for the scratchpad?"""
        for argument in (*ARGUMENTS, *others._after):
            theirs = others.find(argument) if argument != Argument.SCRATCHPAD else None
            if theirs is not None:
                mine = self.find(argument)
                if mine is None or not api().equal(mine, theirs):
                    return False
        return True

    def __getitem__(self, argument: int) -> Interned:
        if argument not in self._found:
            self._found[argument] = _intern(self.pointer(argument))
        return self._found[argument]

    def __contains__(self, argument: int) -> bool:
        return argument in self._found or self.find(argument) is not None


class Primitive:
    """An operation as the library describes it; `formats` maps execution arguments to interned descriptors.

    Selectors look at more of them than a plan runs: the code of one is generated when a kernel is made of it (`pointer`). It
    is laid out for `threads` threads and runs with as many. The library's objects are freed with the last reference.
    `recipe` is what it was made from: family, arguments, and what follows the main operation.
    """

    __slots__ = ("__weakref__", "_pointer", "described", "formats", "implementation", "recipe", "scratch", "threads")

    def __init__(self, described: Pointer, threads: int, after: Sequence[int], recipe: tuple[Any, ...]) -> None:
        library = api()
        self.described, self.threads, self.recipe = described, threads, recipe
        weakref.finalize(self, library.destroy_described, described).atexit = False
        self.formats = Formats(described, after)
        pad = self.formats.find(Argument.SCRATCHPAD)
        self.scratch = 0 if pad is None else library.size(pad)
        self.implementation = library.implementation(described)
        self._pointer: Pointer | None = None

    @property
    def pointer(self) -> Pointer:
        """What the library runs."""
        with _lock:
            if self._pointer is None:
                library = api()
                library.openmp(self.threads)
                self._pointer = library.primitive(self.described)
                weakref.finalize(self, library.destroy_primitive, self._pointer).atexit = False
            return self._pointer


PARTIAL_SUMS = frozenset({"convolution_backward_weights"})
"""Families whose threads each add up a part: with another number of them the bits are others."""
PRODUCTS = ("matmul", "inner_product")
"""Beginnings of families that may cut long sums by the number of threads, as do convolutions by products (gemm)."""
MOST_PRIMITIVES = 4096
"""Primitives that are kept although no plan may need them any more; the one used longest ago goes first."""

ARGUMENTS = tuple(value for name, value in vars(Argument).items() if name.isupper())

_lock = threading.RLock()
_interned: dict[tuple[Any, ...], weakref.WeakSet[Interned]] = {}
_identities: weakref.WeakValueDictionary[Desc, Interned] = weakref.WeakValueDictionary()      # of those with strides
_primitives: OrderedDict[Any, Primitive | None] = OrderedDict()


def available() -> bool:
    """Whether the library is installed and loads."""
    return load() is not None


def api() -> Api:
    """The loaded library; callers ask `available` first."""
    loaded = load()
    if loaded is None:
        raise UnimplementedError("onednn: the library is not installed; install the wheel onednn-cpu-gomp")
    return loaded


def servable(*specs: Any, rank: int | None = None) -> bool:
    """Whether all values are non-empty float32 arrays of a loaded library, and of this rank if it counts."""
    fit = all(spec.dtype == FLOAT32 and 0 not in spec.shape and rank in (None, len(spec.shape)) for spec in specs)
    return fit and available()


def _intern(found: Pointer) -> Interned:
    """The one descriptor equal to `found`, which stays the caller's."""
    library = api()
    summary = library.summary(found)
    with _lock:
        alike = _interned.setdefault(summary, weakref.WeakSet())
        for one in alike:
            if library.equal(one.pointer, found):
                return one
        made = Interned(library.clone(found), *summary[1:])
        weakref.finalize(made, _forget, library, summary, made.pointer).atexit = False
        alike.add(made)      # after the finalizer, which thus runs when the set is already without it
        _interned[summary] = alike      # collecting garbage may have forgotten it, empty, in between
        return made


def _forget(library: Api, summary: tuple[Any, ...], pointer: Pointer) -> None:
    with _lock:
        if not _interned.get(summary):
            _interned.pop(summary, None)
    library.destroy_descriptor(pointer)


# Descriptors


def identity_of(desc: Desc) -> Interned:
    """The interned descriptor that `desc`, one with strides, describes."""
    found = desc.identity or _identities.get(desc)
    if found is None:
        found = _identities[desc] = _intern(_described(desc).pointer)
    return found


def known(identity: Interned, shape: Sequence[int] = ()) -> Desc:
    """An interned descriptor."""
    return Desc(tuple(shape), None, identity)


def stripped(layout: Layout | None) -> Format | None:
    """The format of the value alone, without a workspace behind it; None for plain or foreign layouts."""
    if not isinstance(layout, Format):
        return None
    if layout.workspace is None:
        return layout
    return replace(layout, workspace=None, offset=0, nbytes=layout.identity.nbytes)


def placed(shape: Sequence[int], layout: Layout | None, axes: Sequence[int]) -> Desc | None:
    """The descriptor of a value as it lies now; None if its layout is not ours or counts the axes differently."""
    if layout is None:
        return contiguous(shape, axes)
    if isinstance(layout, Format) and layout.axes == tuple(axes):
        return known(layout.identity)
    return None


def format_of(made: Primitive, argument: int, shape: Sequence[int], axes: Sequence[int]) -> Format | None:
    """The format in which `made` wants an argument; None if that is the C-contiguous value."""
    return as_format(made.formats[argument], shape, axes)


def as_format(identity: Interned, shape: Sequence[int], axes: Sequence[int]) -> Format | None:
    """An interned descriptor as the format of a value of `shape`; None if it is C-contiguous."""
    plain = contiguous(shape, axes)
    assert plain.strides is not None
    # An axis of extent 1 may have any stride: the bytes are the same.
    if identity.strides is not None and (identity.strides == plain.strides or all(
            [n == 1 or ours == theirs for n, ours, theirs in zip(plain.shape, plain.strides, identity.strides)])):
        return None
    return Format(plain.shape, tuple(axes), identity, identity.nbytes, identity.text)


# Primitives


def primitive(family: str, *arguments: Any, after: tuple[tuple[Any, ...], ...] = ()) -> Primitive | None:
    """The cached primitive of `family` for these arguments, or None if the library has none.

    Arguments follow the C constructor without engine and attributes: `Desc` for descriptors (None: absent), tuples
    for dimensions, numbers, and a `Primitive` as the forward hint of a backward one. `after` lists what follows the
    main operation, see `Api.attributes`. What deterministic sessions get has the same bits with any number of threads:
    it works on one where several would each add up a part.
    """
    shapes = [one.shape for one in arguments if isinstance(one, Desc) and one.shape]
    recipe, threads = (family, arguments, after), threads_for(seconds(family, shapes))
    if threads == 1 or not kernel_options().deterministic:
        return _cached(recipe, threads)
    alone = _cached(recipe, 1)
    if alone is None or family in PARTIAL_SUMS or family.startswith(PRODUCTS) or "gemm" in alone.implementation:
        return alone
    several = _cached(recipe, threads)
    return several if several is not None and several.implementation == alone.implementation else alone


def with_threads(made: Primitive, threads: int) -> Primitive:
    """`made` for fewer threads, over the same arguments; itself where that is not to be had, or each thread adds up a part.
    Products may round otherwise, since the library cuts long sums as it suits the threads."""
    if made.threads <= threads or made.recipe[0] in PARTIAL_SUMS:
        return made
    fewer = _cached(made.recipe, threads)
    fits = fewer is not None and fewer.scratch <= made.scratch and fewer.formats.serve(made.formats)
    return fewer if fewer is not None and fits else made


def _cached(recipe: tuple[Any, ...], threads: int) -> Primitive | None:
    key = (*recipe, threads)
    with _lock:
        if key not in _primitives:
            try:
                _primitives[key] = _create(recipe, threads)
            except UnimplementedError:
                _primitives[key] = None
            if len(_primitives) > MOST_PRIMITIVES:
                _primitives.popitem(last=False)
        _primitives.move_to_end(key)
        return _primitives[key]


def fast(made: Primitive | None) -> Primitive | None:
    """`made` unless it is absent or the library's slow reference loop, which NumPy beats."""
    return None if made is None or made.implementation.startswith("ref") else made


def _create(recipe: tuple[Any, ...], threads: int) -> Primitive:
    library = api()
    family, arguments, after = recipe
    library.openmp(threads)
    temporary: list[_Described] = []
    attributes = None
    try:
        if after:
            attributes = library.attributes([tuple([_convert(part, temporary) for part in one]) for one in after])
        converted = [_convert(argument, temporary) for argument in arguments]
        if family == "reorder":
            source, target = converted
            described = library.describe(family, source, library.engine, target, library.engine, attributes or library.alone)
        else:
            described = library.describe(family, library.engine, *converted, attributes or library.alone)
    finally:
        if attributes is not None:
            library.destroy_attributes(attributes)
    read = [Argument.after(position) for position, (name, *_) in enumerate(after) if name == "add"]
    return Primitive(described, threads, read, recipe)


class _Described:
    """The library's descriptor of one that is not interned, freed with the last reference."""

    __slots__ = ("__weakref__", "pointer")

    def __init__(self, pointer: Pointer) -> None:
        self.pointer = pointer
        weakref.finalize(self, api().destroy_descriptor, pointer).atexit = False


@functools.lru_cache(1024)      # a plan asks several times for each
def _described(desc: Desc) -> _Described:
    make = api()
    return _Described(make.any(desc.shape, desc.dtype) if desc.strides is None else
                      make.plain(desc.shape, desc.strides, desc.dtype))


def _convert(value: Any, temporary: list[_Described]) -> Any:
    """What the library takes for `value`, as long as `temporary` keeps what was made for it."""
    if isinstance(value, Desc):
        if value.identity is not None:
            return value.identity.pointer
        temporary.append(made := _described(value))
        return made.pointer
    if isinstance(value, Primitive):
        return value.described
    if isinstance(value, tuple):
        return dimensions(value)
    if isinstance(value, float):
        return ctypes.c_float(value)
    return value
