"""The lines of a plan: one class per form of call, which says how it is written and what object its kernel is."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from workbench import errors
from workbench.core.compile import ownership
from workbench.core.compile.late import Late
from workbench.core.compile.values import Buffer, Handle, Home, Local, Value, pack
from workbench.core.graph.dtype import variant
from workbench.core.graph.fitting import fit, fit_all, guarded, ruled
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.kernels.choice import Choice, Select
from workbench.core.kernels.options import KernelOptions, kernel_options

__all__ = ["Block", "Branch", "ContextCall", "Instruction", "Into", "LateCall", "LibraryCall", "Line", "Loop", "Names",
           "PackVariable", "ReadVariable", "Reference", "TakenOver", "UfuncCall", "UpdateVariable", "View"]


class Names(Protocol):
    """What a form asks of the text it is written into."""

    def symbol(self, value: Value) -> str: ...
    def bound(self, name: str, make: Callable[[Home], Any]) -> str: ...


@dataclass
class Instruction:
    """One call of one operation. A new form is one subclass, and one place in instructions.py that chooses it."""

    op: Operation
    inputs: list[Value]
    outputs: list[Value]
    choice: Choice | None = None
    scratch: Value | None = None

    contextual: ClassVar[bool] = False        # its kernel is told which step runs
    calls: ClassVar[bool] = True              # it has a kernel to bind

    def text(self, names: Names, kernel: str) -> list[str]:
        """Its lines of Python; `kernel` is the name of the object that `bind` gives."""
        raise NotImplementedError

    def bind(self, home: Home) -> Any:
        """What `kernel` names in one instance."""
        raise NotImplementedError

    @property
    def values(self) -> tuple[Value, ...]:
        return (*self.inputs, *self.outputs, *([self.scratch] if self.scratch else []))

    @property
    def inplace(self) -> list[tuple[int, int]]:
        """(output, input over which it may be written when nothing reads that input later)."""
        return []


class View(Instruction):
    """The same memory under another shape, or some rows of it."""

    calls = False

    def text(self, names: Names, kernel: str) -> list[str]:
        if self.op.kind == "row_block":
            first = self.op.attrs["first"]
            return [f"{self.outputs[0].symbol} = {names.symbol(self.inputs[0])}[{first}:{first + self.op.attrs['count']}]"]
        return [f"{self.outputs[0].symbol} = {names.symbol(self.inputs[0])}.reshape({self.outputs[0].shape!r})"]


class _Writing(Instruction):
    """Writes into arrays that exist: planned buffers, or new arrays for what leaves the segment."""

    def allocate(self, names: Names) -> list[str]:
        return [_made(names, v) for v in self.outputs if isinstance(v, Local)]

    def arguments(self, names: Names, inputs: Sequence[Value]) -> str:
        extra = [self.scratch] if self.scratch else []
        return ", ".join(names.symbol(v) for v in (*inputs, *self.outputs, *extra))


def _made(names: Names, value: Local) -> str:
    dtype = names.bound(value.dtype.name, lambda home: value.dtype)
    return f"{value.symbol} = {'sent' if value.sent else 'empty'}({value.shape!r}, {dtype})"


class LibraryCall(_Writing):
    """A kernel of a library: `kernel(*inputs, *outputs, scratch)`."""

    def text(self, names: Names, kernel: str) -> list[str]:
        return [*self.allocate(names), f"{kernel}({self.arguments(names, self.inputs)})"]

    def bind(self, home: Home) -> Any:
        assert self.choice is not None
        return self.choice.make(tuple(v.static for v in self.values))

    @property
    def inplace(self) -> list[tuple[int, int]]:
        return [] if self.choice is None else [*self.choice.inplace.items()]


class Into(_Writing):
    """A NumPy kernel that writes its outputs: `kernel(*inputs, *outputs)`."""

    def text(self, names: Names, kernel: str) -> list[str]:
        return [*self.allocate(names), f"{kernel}({self.arguments(names, self.inputs)})"]

    def bind(self, home: Home) -> Any:
        d, attrs = self.op.definition, self.op.attrs
        assert d.into is not None
        kernel = guarded(d.into, len(self.inputs))
        return functools.partial(kernel, **attrs) if attrs else kernel


class UfuncCall(Instruction):
    """A NumPy ufunc: into a planned buffer, or giving a new array."""

    def text(self, names: Names, kernel: str) -> list[str]:
        inputs, output = ", ".join(names.symbol(v) for v in self.inputs), self.outputs[0]
        if isinstance(output, Buffer):
            return [f"{kernel}({inputs}, out={names.symbol(output)})"]
        if isinstance(output, Local) and output.sent:
            return [_made(names, output), f"{kernel}({inputs}, out={names.symbol(output)})"]
        if not self.proven:
            return [f"{output.symbol} = {checked(names, output, self.op.outputs[0])}({kernel}({inputs}))"]
        return [f"{output.symbol} = asarray({kernel}({inputs}))" if output.shape == () else
                f"{output.symbol} = {kernel}({inputs})"]

    @functools.cached_property
    def proven(self) -> bool:
        """Do the inputs alone tell that NumPy's result is the declared one?"""
        ufunc, output = self.op.definition.ufunc, self.outputs[0]
        shapes = [v.shape for v in self.inputs]
        assert ufunc is not None
        if ufunc.signature is not None or None in shapes:
            return False
        try:
            found = ufunc.resolve_dtypes((*(v.dtype for v in self.inputs), None))[-1]
            return found == output.dtype and np.broadcast_shapes(*shapes) == output.shape      # type: ignore[arg-type]
        except (TypeError, ValueError):
            return False

    def bind(self, home: Home) -> Any:
        ufunc = self.op.definition.ufunc
        assert ufunc is not None
        return ruled(self.op, _WITH_OUT.get(ufunc, ufunc))

    @property
    def inplace(self) -> list[tuple[int, int]]:
        ufunc, output = self.op.definition.ufunc, self.outputs[0]
        assert ufunc is not None
        if ufunc.signature is not None:
            return []
        return [(0, i) for i, v in enumerate(self.inputs) if v.shape == output.shape and v.dtype == output.dtype]


# these two warn about an output that is not named
_WITH_OUT: dict[Any, Callable[..., Any]] = {
    np.maximum: lambda x, y, out=None: np.maximum(x, y, out=out),
    np.minimum: lambda x, y, out=None: np.minimum(x, y, out=out)}


class Reference(Instruction):
    """The operation's own kernel, which gives new arrays or views of its inputs; what it gives is checked."""

    def text(self, names: Names, kernel: str) -> list[str]:
        call = f"{kernel}({', '.join(self.given(names))})"
        outputs = [v.symbol for v in self.outputs]
        if not outputs:
            return [call]
        if len(outputs) == 1:
            value = self.outputs[0]
            return [f"{outputs[0]} = " + (f"{checked(names, value, self.op.outputs[0])}({call})" if value.array else call)]
        return [f"{', '.join(outputs)} = {self._fits(names)}({call})"]

    def given(self, names: Names) -> list[str]:
        """The arguments; what ends in a list, or is kept by the operation, is copied as ownership demands."""
        d = self.op.definition
        rule = ownership.kept if d.keeps_inputs else ownership.in_list if d.keeps is None and any(
            t.dtype is variant for t in self.op.outputs) else None
        return [f"{names.symbol(v)}.copy()" if rule is not None and rule(v) else names.symbol(v) for v in self.inputs]

    def _fits(self, names: Names) -> str:
        op = self.op
        return names.bound(f"f{self.outputs[0].key}", lambda home: fit_all(op, [
            fit(t) if v.array else _as_it_is for t, v in zip(op.outputs, self.outputs)]))

    def bind(self, home: Home) -> Any:
        d, attrs = self.op.definition, self.op.attrs
        kernel = ruled(self.op, guarded(d.reference))
        return home.once(self.op, functools.partial(kernel, **attrs) if attrs else kernel)


@dataclass
class LateCall(Reference):
    """An operation of whose shapes only the step knows: the kernel of a library for those that come, or its own."""

    offers: Sequence[tuple[str, Select]] = ()
    options: KernelOptions = field(default_factory=kernel_options)

    def bind(self, home: Home) -> Any:
        return Late(self.op, self.offers, self.options, super().bind(home))


def checked(names: Names, value: Value, tensor: Tensor) -> str:
    """The name of the check of `value` as `tensor` declares it."""
    return names.bound(f"f{value.key}", lambda home: fit(tensor))


def _as_it_is(value: Any) -> Any:
    return value


class TakenOver(Reference):
    """An assignment of a new array without other readers, which becomes the variable's buffer."""

    def bind(self, home: Home) -> Any:
        return home.once(self.op, _take_over)


def _take_over(handle: Any, value: Any) -> Any:
    return handle.assign(value, copied=False)


class ContextCall(Reference):
    """A reference kernel that uses the step's context: state of its task, the step's number, where sends go."""

    contextual = True

    def bind(self, home: Home) -> Any:
        d = self.op.definition
        return home.once(self.op, functools.partial(guarded(d.reference), home.stepping(self.op), **self.op.attrs))


class DeviceCall(Reference):
    """A kernel registered for another device than the CPU: the device starts it, its results may come later."""

    def text(self, names: Names, kernel: str) -> list[str]:
        call = f"{kernel}({', '.join(names.symbol(v) for v in self.inputs)})"
        outputs = ", ".join(v.symbol for v in self.outputs)
        return [f"{outputs} = {call}" if outputs else call]

    def bind(self, home: Home) -> Any:
        op = self.op
        kernel = op.definition.kernel_for(home.device.type, op.dtypes)
        if kernel is None:
            raise errors.UnimplementedError(f"{op.kind}: it has no kernel for {home.device.type} and "
                                            f"{', '.join(d.name for d in op.dtypes)}; register one with "
                                            f".kernel({home.device.type.lower()!r}), or place it elsewhere")
        context = [home.stepping(op)] if op.definition.context else []
        run = functools.partial(home.device.issue, functools.partial(kernel, *context, **op.attrs))
        return home.once(op, ruled(op, run))

    @property
    def contextual(self) -> bool:      # type: ignore[override]
        return self.op.definition.context


class ReadVariable(Instruction):
    """The variable's own buffer, for reading only."""

    def text(self, names: Names, kernel: str) -> list[str]:
        return [f"{self.outputs[0].symbol} = {kernel}()"]

    def bind(self, home: Home) -> Any:
        handle = self.inputs[0]
        if not isinstance(handle, Handle):
            raise errors.UnimplementedError(f"read_variable: the handle {handle.name!r} is computed at run time; pass "
                                            "the variable's own handle")
        state = home.value(handle)
        whole = isinstance(self.outputs[0], Local) and self.outputs[0].sent and home.outgoing is not None
        return functools.partial(state.sent, home.outgoing) if whole else state.read


class PackVariable(Instruction):
    """A variable's value, `inputs[0]`, in a library's layout. It is brought there when it was written, not in each step."""

    def text(self, names: Names, kernel: str) -> list[str]:
        return [f"{self.outputs[0].symbol} = {kernel}({names.symbol(self.inputs[0])})"]

    def bind(self, home: Home) -> Any:
        assert self.choice is not None
        spec = self.outputs[0].spec
        return functools.partial(home.value(self.inputs[1]).in_layout, spec.layout, functools.partial(pack, self.choice, spec))


class UpdateVariable(Instruction):
    """A library's kernel on the variable's own buffer, under its lock: `kernel(old, *inputs, out, scratch)`."""

    def text(self, names: Names, kernel: str) -> list[str]:
        extra = [self.scratch] if self.scratch else []
        inputs = ", ".join(names.symbol(v) for v in (*self.inputs[1:], *extra))
        return [f"{self.outputs[0].symbol} = {kernel}({inputs})"]

    def bind(self, home: Home) -> Any:
        assert self.choice is not None
        flags = [False, *(v.static for v in self.inputs[1:]), False, *([True] if self.scratch else [])]
        run = self.choice.make(tuple(flags))
        if self.scratch:      # VariableState.update puts the output last, libraries their scratch
            run = functools.partial(_scratch_last, run)
        state = home.value(self.inputs[0])
        return functools.partial(home.once(self.op, type(state).update), state, run)


def _scratch_last(kernel: Callable[..., None], *arguments: Any) -> None:
    *inputs, scratch, out = arguments
    kernel(*inputs, out, scratch)


# control flow that became Python

@dataclass
class Branch:
    """`if pred: then… else: otherwise…`; both end by giving the outputs their values."""

    op: Operation
    pred: Value
    outputs: list[Value]
    then: Block
    otherwise: Block


@dataclass
class Loop:
    """`while condition: body`; `variables` are the loop's locals, set from `initial` and then from `body.results`."""

    op: Operation
    variables: list[Value]
    initial: list[Value]
    condition: Block
    body: Block


Line = Instruction | Branch | Loop


@dataclass
class Block:
    """A straight sequence of lines with the values it yields."""

    lines: list[Line] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)


def passed(names: Names, source: Value, target: Value, tensor: Tensor) -> str:
    """`source` under the name `target`; checked where only the target's shape is known."""
    text = names.symbol(source)
    if source.shape is None and target.shape is not None and target.array:
        return f"{checked(names, target, tensor)}({text})"
    return text
