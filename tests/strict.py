"""A device that forgives nothing: arrays that are not NumPy's, kernels that complete later, in an order that a script picks.

Its type is STRICT. A kernel's results are computed twice: when it is issued, from what the program says, and when it
completes, from what its inputs hold then. If they differ, somebody wrote memory that was still to be read.
"""
from __future__ import annotations

import random
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import workbench.core.ops  # noqa: F401
from workbench.core.device.interface import Event, Memory, register_device
from workbench.core.graph.opdef import OpDef, registry
from workbench.core.state.variables import updates

__all__ = ["StrictArray", "StrictDevice", "install"]

TYPE = "STRICT"


class StrictArray:
    """A handle; only its device sees the numbers."""

    __slots__ = ("__weakref__", "_promised", "_real", "device", "dtype", "flags", "made_by", "nbytes", "shape")
    __array_ufunc__ = None      # NumPy's operators refuse it

    def __init__(self, device: StrictDevice, promised: Any, made_by: Work | None = None) -> None:
        self.device, self._promised, self.made_by = device, promised, made_by
        self._real: Any = None
        self.dtype, self.shape, self.nbytes, self.flags = promised.dtype, promised.shape, promised.nbytes, None

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise TypeError("an array of a strict device was taken for one of NumPy's; copy it out")

    def __bool__(self) -> bool:
        raise TypeError("the truth of an array of a strict device was asked for; copy it out")

    __len__ = __iter__ = __float__ = __int__ = __index__ = __array__


class Work:
    """One kernel that was issued: what it reads, what it will write."""

    def __init__(self, function: Callable[..., Sequence[Any]], inputs: Sequence[Any], outputs: Sequence[StrictArray],
                 pure: bool) -> None:
        self.function, self.inputs, self.outputs, self.pure = function, list(inputs), list(outputs), pure
        self.promised = [o._promised.copy() for o in outputs]
        self.before = {a.made_by for a in (*inputs, *outputs) if isinstance(a, StrictArray) and a.made_by is not None}
        self.over = False

    def complete(self) -> None:
        if not self.pure:
            found: Sequence[Any] = self.promised
        else:
            found = self.function(*[a._real if isinstance(a, StrictArray) else a for a in self.inputs])
        for output, value, promised in zip(self.outputs, found, self.promised):
            if not _same(value, promised):
                raise AssertionError(f"{self.function}: memory was overwritten before it was read")
            output._real = np.array(value)
        self.over = True
        self.inputs.clear()      # from here on nothing refers to what was read or written
        self.outputs.clear()


def _same(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and a.shape == b.shape and (
        a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()))


class StrictDevice:
    """Completes what is ready in the order of `script(number of ready works)`, on a thread of its own unless `manual`."""

    type, ordered = TYPE, False
    manual = False

    def __init__(self, name: str, limit: int | None = None) -> None:
        self.name, self.memory = name, Memory(name, limit)
        self.script = random.Random(7).randrange
        self.completed = 0
        self._changed = threading.Condition(threading.RLock())
        self._works: list[Work] = []
        self._events: list[tuple[set[Work], Event]] = []
        made[name] = self
        if not self.manual:
            threading.Thread(target=_serve, args=(weakref.ref(self),), name="strict device", daemon=True).start()

    # the interface
    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> StrictArray:
        array = StrictArray(self, np.zeros(shape, dtype))
        self.memory.count(array, what)
        array._real = array._promised.copy()
        return array

    def copy_in(self, array: Any) -> Any:
        if not isinstance(array, np.ndarray | np.generic):
            return array
        array = np.array(array)
        return self.start(lambda: [array], [], True)

    def copy_out(self, array: Any) -> Any:
        if not isinstance(array, StrictArray):
            return array
        assert array.device is self, "an array went to another device without being copied"
        with self._changed:
            while array.made_by is not None and not array.made_by.over:
                assert self._changed.wait(30), "the device does not complete its work"
        return array._real.copy()

    def copy(self, target: StrictArray, source: StrictArray) -> None:
        assert target.dtype == source.dtype and target.shape == source.shape
        self.start_into(lambda value: [value], [source], [target])

    def issue(self, kernel: Callable[..., Any], *arguments: Any) -> Any:
        _current.device = self
        try:
            return kernel(*arguments)
        finally:
            _current.device = None

    def event(self) -> Event:
        event = Event()
        with self._changed:
            works = set(self._works)
            if works:
                self._events.append((works, event))
                self._changed.notify_all()
        if not works:
            event.complete()
        return event

    # kernels
    def start(self, function: Callable[..., Sequence[Any]], inputs: Sequence[Any], pure: bool) -> Any:
        """`function` on the numbers of `inputs` gives the outputs, later."""
        promised = [np.array(v) for v in function(*[self._numbers(a) for a in inputs])]
        outputs = [StrictArray(self, v) for v in promised]
        self._append(Work(function, inputs, outputs, pure))
        return outputs if len(outputs) != 1 else outputs[0]

    def start_into(self, function: Callable[..., Sequence[Any]], inputs: Sequence[Any], targets: list[StrictArray]) -> None:
        """`function` on the numbers of `inputs` gives what is written into `targets`, later."""
        found = [np.array(v) for v in function(*[self._numbers(a) for a in inputs])]
        for target, value in zip(targets, found):
            target._promised = value
        self._append(Work(function, inputs, targets, True))

    def _numbers(self, value: Any) -> Any:
        if not isinstance(value, StrictArray):
            return value
        assert value.device is self, "an array went to another device without being copied"
        value._promised.flags.writeable = False
        return value._promised

    def _append(self, work: Work) -> None:
        with self._changed:
            for output in work.outputs:
                output.made_by = work
            self._works.append(work)
            self._changed.notify_all()

    def wait_for_an_event(self) -> Event:
        """The next event that somebody asked for and that has not come."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._events, 20), "nobody waits for the device"
            return self._events[0][1]

    def complete_one(self) -> bool:
        """Complete one of the works whose inputs are there; False when there is none."""
        with self._changed:
            ready = [work for work in self._works if all(b.over for b in work.before)]
            if not ready:
                return False
            work = ready[self.script(len(ready))]
            error: BaseException | None = None
            try:
                work.complete()
            except BaseException as caught:
                error, work.over = caught, True
            self._works.remove(work)
            self.completed += 1
            due = [event for works, event in self._events if work in works and (
                works.discard(work) or error is not None or not works)]
            self._events = [(works, event) for works, event in self._events if event not in due]
            self._changed.notify_all()
        for event in due:
            event.complete(error)
        return True


class Completing:
    """Completes a manual device's work in a thread, while the `with` lasts."""

    def __init__(self, device: StrictDevice) -> None:
        self._over, self._device = threading.Event(), device
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._over.is_set():
            if not self._device.complete_one():
                with self._device._changed:
                    self._device._changed.wait(0.05)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *details: object) -> None:
        self._over.set()
        self._thread.join(60)


made: dict[str, StrictDevice] = {}
_current = threading.local()


def _serve(reference: Any) -> None:
    while True:
        device = reference()
        if device is None:
            return
        if not device.complete_one():
            with device._changed:
                device._changed.wait(0.05)
        del device


# kernels: those of the reference, between the device's arrays

def lifted(definition: OpDef) -> Callable[..., Any]:
    """The reference kernel as one of the device."""
    def kernel(*values: Any, **attrs: Any) -> Any:
        first, inputs = (values[:1], values[1:]) if definition.context else ((), values)

        def function(*numbers: Any) -> list[Any]:
            with np.errstate(all="ignore"):
                found = definition.reference(*first, *numbers, **attrs)
            return [np.asarray(v) for v in (found if isinstance(found, (tuple, list)) else [found])]
        started = _current.device.start(function, inputs, not definition.stateful)
        return started
    return kernel


def _assign(handle: Any, value: Any) -> Any:
    return handle.assign(value)


def _update(name: str) -> Callable[..., Any]:
    def kernel(handle: Any, *inputs: Any, **attrs: Any) -> Any:
        device = _current.device

        def write(old: Any, *arguments: Any) -> None:
            *given, out = arguments

            def function(*numbers: Any) -> list[Any]:
                result = np.empty_like(numbers[0])
                updates[name](*numbers, *attrs.values(), result)
                return [result]
            device.start_into(function, [old, *given], [out])
        return handle.update(write, *inputs)
    return kernel


def _objects(definition: OpDef) -> bool:
    """Does it work on handles or lists?"""
    types = definition.types if isinstance(definition.types, str) else ""
    return "resource" in types or "variant" in types


def install() -> None:
    """Register the type, and a kernel for every operation on arrays, and for variables, through the public seam."""
    register_device(TYPE, StrictDevice)
    for definition in list(registry.values()):
        if not definition.blocking and not _objects(definition) and TYPE not in definition.kernels:
            definition.kernel("strict")(lifted(definition))
    registry["assign"].kernel("strict")(_assign)
    for name in ("assign_add", "assign_sub", "apply_gradient_descent"):
        registry[name].kernel("strict")(_update(name))
