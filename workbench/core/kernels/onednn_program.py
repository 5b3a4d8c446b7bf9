"""oneDNN at planning time: memory formats as values, primitives made once, and kernels that only execute.

A `Format` tells how a value's bytes lie: a descriptor of the library plus the order in which the value's axes became the
descriptor's axes (oneDNN always counts batch, channels, height, width; filters output, input, height, width). Primitives
are cached for the life of the process, because generating the code of one costs about 0.4 ms; kernels of any number of
plans share them and differ only in their memory objects.
"""
from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from workbench.core.kernels.choice import Choice, Kernel, Layout
from workbench.core.kernels.onednn_api import Api, Argument, ExecuteArgument, Pointer, dimensions, load
from workbench.core.kernels.threads import get_threads
from workbench.errors import UnimplementedError

__all__ = ["Builder", "Desc", "Format", "Place", "Primitive", "any_format", "available", "channels_last", "contiguous",
           "format_of", "identity_of",
           "fast", "known", "placed", "primitive", "servable", "stripped"]

ALIGNMENT = 64
FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Format:
    """Private memory format of one value; equal formats hold equal bytes for equal values.

    `shape` counts in the library's axis order, `axes[i]` is the value's axis behind the library's axis `i`, `identity`
    names the interned descriptor. `workspace` names a second descriptor whose bytes follow at `offset`: a pooling writes
    there where each maximum came from, readers of the value ignore it.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    identity: int
    nbytes: int
    text: str = field(compare=False)
    workspace: int | None = None
    offset: int = 0

    @property
    def library(self) -> str:
        return "onednn"


class Desc(NamedTuple):
    """A descriptor to be: an interned one, one with strides, or (both None) one that the primitive chooses."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    identity: int | None = None


@dataclass(frozen=True, eq=False)
class Primitive:
    """A compiled operation; `formats` maps execution arguments to interned descriptors."""

    pointer: Pointer
    described: Pointer
    formats: Mapping[int, int]
    scratch: int
    implementation: str


class Place(NamedTuple):
    """Where an argument lies: which array of the kernel call, and how many bytes behind its start."""

    position: int
    offset: int = 0


_lock = threading.RLock()
_descriptors: list[Pointer] = []
_primitives: dict[Any, Primitive | UnimplementedError] = {}


def available() -> bool:
    """Whether the library is installed and loads."""
    return load() is not None


def api() -> Api:
    """The loaded library; callers ask `available` first."""
    loaded = load()
    if loaded is None:
        raise UnimplementedError("onednn: the library is not installed; install the wheel onednn-cpu-gomp")
    return loaded


def servable(*specs: Any) -> bool:
    """Whether all values are non-empty float32 arrays of a loaded library."""
    return all(spec.dtype == FLOAT32 and 0 not in spec.shape for spec in specs) and available()


def _intern(descriptor: Pointer) -> int:
    """The number of a descriptor equal to `descriptor`, which stays the caller's."""
    library = api()
    with _lock:
        for number, known_one in enumerate(_descriptors):
            if library.equal(known_one, descriptor):
                return number
        _descriptors.append(library.clone(descriptor))
        return len(_descriptors) - 1


def descriptor(identity: int) -> Pointer:
    """The library's descriptor behind an interned number."""
    return _descriptors[identity]


def size(identity: int) -> int:
    """Bytes of a value in an interned format."""
    return api().size(_descriptors[identity])


# Descriptors


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """C-contiguous strides in elements."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides)) if shape else ()


def contiguous(shape: Sequence[int], axes: Sequence[int]) -> Desc:
    """A C-contiguous value of `shape` seen through `axes`."""
    strides = strides_of(shape)
    return Desc(tuple(shape[axis] for axis in axes), tuple(strides[axis] for axis in axes))


def any_format(shape: Sequence[int], axes: Sequence[int]) -> Desc:
    """A value of `shape` whose format the primitive chooses."""
    return Desc(tuple(shape[axis] for axis in axes))


def channels_last(shape: Sequence[int], axes: Sequence[int]) -> Desc:
    """An image value of `shape` whose bytes lie as [batch, height, width, channels]."""
    batch, channels, height, width = (shape[axis] for axis in axes)
    return Desc((batch, channels, height, width), (height * width * channels, 1, width * channels, channels))


def identity_of(desc: Desc) -> int:
    """The interned number of a descriptor with strides."""
    temporary: list[Pointer] = []
    number = _intern(_convert(api(), desc, temporary))
    for pointer in temporary:
        api().destroy_descriptor(pointer)
    return number


def known(identity: int, shape: Sequence[int] = ()) -> Desc:
    """An interned descriptor."""
    return Desc(tuple(shape), None, identity)


def stripped(layout: Layout | None) -> Format | None:
    """The format of the value alone, without a workspace behind it; None for plain or foreign layouts."""
    if not isinstance(layout, Format):
        return None
    if layout.workspace is None:
        return layout
    return replace(layout, workspace=None, offset=0, nbytes=size(layout.identity))


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


def as_format(identity: int, shape: Sequence[int], axes: Sequence[int]) -> Format | None:
    """An interned descriptor as the format of a value of `shape`; None if it is C-contiguous."""
    library, plain = api(), contiguous(shape, axes)
    assert plain.strides is not None
    text = library.blocking(descriptor(identity), len(plain.shape))
    if text.startswith("strides ") and " blocks " not in text:
        strides = map(int, text.removeprefix("strides ").split(","))
        # An axis of extent 1 may have any stride: the bytes are the same.
        if all(extent == 1 or ours == theirs for extent, ours, theirs in zip(plain.shape, plain.strides, strides)):
            return None
    return Format(plain.shape, tuple(axes), identity, size(identity), text)


# Primitives


def primitive(family: str, *arguments: Any, after: tuple[tuple[Any, ...], ...] = ()) -> Primitive | None:
    """The cached primitive of `family` for these arguments, or None if the library has none.

    Arguments follow the C constructor without engine and attributes: `Desc` for descriptors (None: absent), tuples for
    dimensions, numbers, and a `Primitive` as the forward hint of a backward one. `after` lists what follows the main
    operation, see `Api.attributes`.
    """
    key = (family, arguments, after, get_threads())  # a primitive is laid out for one number of threads
    with _lock:
        found = _primitives.get(key)
        if found is None:
            try:
                found = _create(family, arguments, after)
            except UnimplementedError as error:
                found = error
            _primitives[key] = found
    return found if isinstance(found, Primitive) else None


def fast(made: Primitive | None) -> Primitive | None:
    """`made` unless it is absent or the library's slow reference loop, which NumPy beats."""
    return None if made is None or made.implementation.startswith("ref") else made


def _create(family: str, arguments: tuple[Any, ...], after: tuple[tuple[Any, ...], ...]) -> Primitive:
    library = api()
    temporary: list[Pointer] = []
    attributes = None
    try:
        attributes = library.attributes([tuple(_convert(library, part, temporary) for part in one) for one in after])
        converted = [_convert(library, argument, temporary) for argument in arguments]
        if family == "reorder":
            source, target = converted
            described = library.describe(family, source, library.engine, target, library.engine, attributes)
        else:
            described = library.describe(family, library.engine, *converted, attributes)
    finally:
        for pointer in temporary:
            library.destroy_descriptor(pointer)
        if attributes is not None:
            library.destroy_attributes(attributes)
    return _finish(library, described)


def _finish(library: Api, described: Pointer) -> Primitive:
    formats = {}
    for argument in (value for name, value in vars(Argument).items() if name.isupper()):
        pointer = library.argument(described, argument)
        if pointer is not None and library.size(pointer):
            formats[argument] = _intern(pointer)
    scratch = size(formats[Argument.SCRATCHPAD]) if Argument.SCRATCHPAD in formats else 0
    implementation = library.implementation(described)
    return Primitive(library.primitive(described), described, formats, scratch, implementation)


def _convert(library: Api, value: Any, temporary: list[Pointer]) -> Any:
    if isinstance(value, Desc):
        if value.identity is not None:
            return descriptor(value.identity)
        made = library.any(value.shape) if value.strides is None else library.plain(value.shape, value.strides)
        temporary.append(made)
        return made
    if isinstance(value, Primitive):
        return value.described
    if isinstance(value, tuple):
        return dimensions(value)
    if isinstance(value, float):
        return ctypes.c_float(value)
    return value


# Kernels


class Step(NamedTuple):
    primitive: Primitive
    places: tuple[tuple[int, Place], ...]


def _free(library: Api, streams: list[Pointer], memories: list[Pointer]) -> None:
    for memory in memories:
        library.destroy_memory(memory)
    for stream in streams:
        library.destroy_stream(stream)


class Program:
    """The kernel of one plan instance: a few primitives in a row, their memory objects and argument arrays."""

    __slots__ = ("__weakref__", "_first", "_moving", "_pending", "_runs", "_set")

    def __init__(self, steps: Sequence[Step], static: Sequence[bool]) -> None:
        library = api()
        self._set = library.set_handle
        streams = [library.stream()]
        memories: list[Pointer] = []
        self._pending: list[tuple[Pointer, int, int]] = []
        self._moving: list[tuple[Pointer, int, int]] = []
        self._runs = []
        self._first = True
        for step in steps:
            arguments = (ExecuteArgument * len(step.places))()
            for index, (argument, place) in enumerate(step.places):
                memory = library.memory(descriptor(step.primitive.formats[argument]))
                memories.append(memory)
                arguments[index] = ExecuteArgument(argument, memory.value)
                fixed = place.position < len(static) and static[place.position]
                (self._pending if fixed else self._moving).append((memory, *place))
            self._runs.append(library.prepared(step.primitive.pointer, streams[0], arguments))
        weakref.finalize(self, _free, library, streams, memories)

    def _point(self, handles: Sequence[tuple[Pointer, int, int]], arrays: Sequence[Any]) -> None:
        place = self._set
        for memory, position, offset in handles:
            place(memory, arrays[position].ctypes.data + offset)

    def __call__(self, *arrays: Any) -> None:
        if self._first:
            self._point(self._pending, arrays)
            self._first = False
        if self._moving:
            self._point(self._moving, arrays)
        for run in self._runs:
            status = run()
            if status:
                api().check(status, "dnnl_primitive_execute")


class Builder:
    """Collects the steps of a kernel, lays out its scratch memory, and ends in a `Choice`."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.steps: list[tuple[Primitive, dict[int, Place]]] = []
        self.buffered = 0

    def input(self, index: int) -> Place:
        return Place(index)

    def output(self, index: int = 0) -> Place:
        return Place(self.inputs + index)

    def buffer(self, nbytes: int) -> Place:
        """A part of the scratch memory that lives through the whole call."""
        place = Place(self.inputs + self.outputs, self.buffered)
        self.buffered += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return place

    def buffer_of(self, made: Primitive, argument: int) -> Place:
        """A buffer that holds an argument of `made` in its own format."""
        return self.buffer(size(made.formats[argument]))

    def step(self, made: Primitive, places: Mapping[int, Place]) -> None:
        self.steps.append((made, dict(places)))

    def scratch(self) -> int:
        return self.buffered + max((made.scratch for made, _ in self.steps), default=0)

    def program(self) -> Callable[[tuple[bool, ...]], Kernel]:
        pad = Place(self.inputs + self.outputs, self.buffered)
        steps = [Step(made, tuple({**places, **({Argument.SCRATCHPAD: pad} if made.scratch else {})}.items()))
                 for made, places in self.steps]
        return lambda static: Program(steps, static)

    def choice(self, inputs: Sequence[Layout | None], outputs: Sequence[Layout | None],
               inplace: Mapping[int, int] | None = None, note: str = "") -> Choice:
        words = note or " + ".join(made.implementation for made, _ in self.steps)
        return Choice("onednn", tuple(inputs), tuple(outputs), self.program(), self.scratch(), inplace or {}, words)

    def store(self, made: Primitive, argument: int, places: Mapping[int, Place], shape: Sequence[int],
              axes: Sequence[int], free: bool, output: int = 0) -> Format | None:
        """Add a step that writes an output, as it comes if `free`, else reordered to C-contiguous; its layout."""
        wanted = format_of(made, argument, shape, axes)
        if wanted is None or free:
            self.step(made, {**places, argument: self.output(output)})
            return wanted
        between = self.buffer(wanted.nbytes)
        self.step(made, {**places, argument: between})
        reorder = primitive("reorder", known(wanted.identity), contiguous(shape, axes))
        if reorder is None:
            raise UnimplementedError(f"onednn: no reorder from {wanted.text} to plain; set WB_LIBRARIES without onednn")
        self.step(reorder, {Argument.SOURCE: between, Argument.OUTPUT: self.output(output)})
        return None
