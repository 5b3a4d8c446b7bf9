"""What an operation is: signature, rules, reference kernel, gradient; and the registry of all."""
from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.signature import check_signature, check_types

__all__ = ["OpDef", "Registry", "checks", "composed", "from_outside", "op", "registry"]

ShapeRule = Callable[..., Any]


@dataclass(frozen=True)
class DeviceKernel:
    """A kernel for one type of device; `dtypes` None is any."""

    function: Callable[..., Any]
    dtypes: frozenset[DType] | None


@dataclass
class OpDef:
    """One operation type.

    `signature` is text such as ``a[m,k] b[k,n] -> [m,n]`` (a letter is a dimension, `...` broadcasts, `?` is any
    shape, `*name` takes a list) or a function of the attributes that returns such text. `types` is like ``T T -> T``:
    capital letters are type variables, optionally restricted (`T:float`, `T:number`, `T:int`), `@name` takes the type
    from an attribute, other words are concrete types; by default all inputs and outputs share `T`.
    """

    name: str
    signature: str | Callable[..., str]
    reference: Callable[..., Any]
    types: str | Callable[..., list[DType]] | None = None     # or (input dtypes, attrs) -> output dtypes
    shape: ShapeRule | None = None           # (node inputs, attrs) -> list[Shape]; overrides the signature's outputs
    dtypes: Callable[..., Any] | None = None     # (input dtypes, attrs) -> list[DType]; overrides the outputs of types
    specialize: Callable[..., OpDef] | None = None   # (attrs) -> the definition with these attributes' stateful, blocking
    gradient_function: Callable[..., Any] | None = None
    elementwise: str | None = None           # a scalar expression over the input names, for fusion
    ufunc: np.ufunc | None = None            # computes it, and writes into memory that the plan gives it
    into: Callable[..., None] | None = None  # (*inputs, *outputs, **attrs): writes preallocated outputs
    view: bool = False                       # output 0 is the memory of input 0 under its own shape, without a call
    commutative: bool = False
    stateful: bool = False                   # reads or writes state, or is random: never folded, never merged
    blocking: bool = False                   # may wait for others: cuts segments
    counts: bool = False                     # a step that is tried again must not do it again: see compile/counting.py
    context: bool = False                    # reference kernel's first parameter is the step's Context
    keeps: bool | None = None                # keeps its inputs after it returned; None: it does if it has a context
    fresh: bool = False                      # its results are new arrays that nothing else refers to
    results: Callable[..., Any] | None = None    # what its outputs are handed out as: the class of a named tuple
    differentiable: bool = True              # False: gradients stop here (argmax, comparisons)
    analytic: bool = True                    # False: its gradient takes the conjugates of complex numbers itself
    late: dict[str, Callable[..., Any]] = field(default_factory=dict)     # attribute -> how to build it by a tensor's value
    inputs: tuple[str, ...] = ()
    variadic: str | None = None
    attrs: dict[str, Any] = field(default_factory=dict)      # name -> default, or REQUIRED
    doc: str = ""
    builder: Callable[..., Any] | None = field(default=None, repr=False, compare=False)      # made at the first call
    kernels: dict[str, list[DeviceKernel]] = field(default_factory=dict)      # by device type, beside the reference

    def kernel(self, device: str, dtypes: Sequence[Any] | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator: the function computes this operation on devices of type `device` ("gpu", in any case).

        It takes and gives arrays of that device and the same attributes as the reference, which is the kernel of the CPU.
        `dtypes` are those it can do (default: any); a later registration is asked before an earlier one. Raises
        InvalidArgumentError for "cpu".
        """
        if device.upper() == "CPU":
            raise errors.InvalidArgumentError(f"{self.name}.kernel: the CPU's kernel is the function under @op; change that "
                                              "one, or register a kernel library")
        known = None if dtypes is None else frozenset(as_dtype(d) for d in dtypes)

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self.kernels.setdefault(device.upper(), []).insert(0, DeviceKernel(function, known))
            return function
        return register

    def kernel_for(self, device: str, dtypes: Sequence[DType]) -> Callable[..., Any] | None:
        """What computes it on a device of that type for these dtypes of inputs and outputs; None when nothing does."""
        if device == "CPU":
            return self.reference
        return next((k.function for k in self.kernels.get(device, ()) if k.dtypes is None or k.dtypes.issuperset(dtypes)), None)

    def gradient(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: `function(node, *dys)` returns the gradient of each input (None where there is none)."""
        self.gradient_function = function
        return function

    @property
    def keeps_inputs(self) -> bool:
        """Whoever has a context can keep what it is given in the task's state."""
        return self.context if self.keeps is None else self.keeps

    def at_run_time(self, *attributes: str) -> Callable[..., Any]:
        """Decorator: builds the operation where one of `attributes` is a tensor whose value only the step knows.

        The function takes the inputs, the attributes and `name` by name, and is written with other operations.
        """
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            self.late.update(dict.fromkeys(attributes, function))
            return function
        return add

    @property
    def parameters(self) -> list[str]:
        """The inputs as a signature names them, a list of them with a star."""
        return [*self.inputs, *([f"*{self.variadic}"] if self.variadic else [])]

    def text(self, attrs: Mapping[str, Any]) -> str:
        """The signature for these attributes; InvalidArgumentError where a user's function gives another."""
        if isinstance(self.signature, str):
            return self.signature
        made = self.signature(**attrs)
        if from_outside(self.signature):
            check_signature(f"@op {self.name}", made, self.parameters)
        return made


def from_outside(kernel: Callable[..., Any]) -> bool:
    """Is this function one of another package or program than this one?"""
    return not str(getattr(kernel, "__module__", "")).startswith("workbench.")


def selective(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a gradient that copes with missing output gradients (None) and is told `needed`: one bool an input."""
    function.selective = True      # type: ignore[attr-defined]
    return function


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


class Registry(dict[str, OpDef]):
    """All operations by name."""

    def find(self, name: str) -> OpDef:
        found = self.get(name)
        if found is None:
            near = [] if name.startswith("_") else difflib.get_close_matches(name, self, 3)
            raise errors.UnimplementedError(f"ops.{name}: no such operation; " + (
                f"did you mean {', '.join(near)}?" if near else "define it with @op"))
        return found


registry = Registry()
checks: list[Callable[[OpDef], None]] = []
"""What other rooms ask of each definition from outside this package: they raise InvalidArgumentError."""
compositions: dict[str, Callable[..., Any]] = {}
"""The functions of `ops` that are written with operations and have none of their own (densify, dropout)."""

Function = TypeVar("Function", bound=Callable[..., Any])


def composed(function: Function) -> Function:
    """Decorator: `ops.<name of the function>` is the function; AlreadyExistsError for a name that is taken."""
    name = function.__name__
    if name in registry or name in compositions:
        raise errors.AlreadyExistsError(f"@composed: {name!r} is defined already; rename one")
    compositions[name] = function
    return function


_READ = {"name", "signature", "reference", "inputs", "variadic", "attrs", "doc", "builder", "kernels"}
_OPTIONS = tuple(option.name for option in fields(OpDef) if option.name not in _READ)


def op(signature: str | Callable[..., str], *, name: str | None = None, **options: Any) -> Callable[..., OpDef]:
    """Decorator that defines an operation; the function is its NumPy reference kernel.

    Positional parameters are inputs (`*values` a list of them), keyword-only parameters are attributes with their
    defaults. With `context=True` the first parameter is the step context. Options are the fields of `OpDef`.

    `signature` is the rule of shapes: in "a[m,k] b[k,n] -> [m,n]" equal letters are equal dimensions, "..." are leading
    dimensions that broadcast, "?" is any shape. `types` is the rule of dtypes, "T:float -> T": a capital letter is one
    dtype, of the kind after the colon (number, real, float, int, quantized, differentiable), "@dtype" that of an attribute,
    "int" any integer type, "any" any. `elementwise` is the value of an element as an expression of the inputs, "x * exp(y)":
    compiled loops compute it in place of the function, which has to give the same. Raises AlreadyExistsError for a name that
    is taken, InvalidArgumentError for an option that does not exist, for rules that are not those of the function and for an
    expression that cannot be read.
    """
    unknown = next((key for key in options if key not in _OPTIONS), None)
    if unknown is not None:
        near = difflib.get_close_matches(unknown, _OPTIONS, 3)
        raise errors.InvalidArgumentError(f"@op: there is no option {unknown!r}; " + (
            f"did you mean {', '.join(near)}?" if near else f"the options are {', '.join(_OPTIONS)}"))

    def define(function: Callable[..., Any]) -> OpDef:
        definition = OpDef(name or function.__name__.rstrip("_"), signature, function,
                           doc=inspect.getdoc(function) or "", **options)
        _read_parameters(definition)
        _check(definition)
        if definition.name in registry:
            raise errors.AlreadyExistsError(f"@op: operation {definition.name!r} is defined twice; rename one")
        if definition.name in compositions:
            raise errors.AlreadyExistsError(f"@op: {definition.name!r} is a function composed of operations; rename one")
        registry[definition.name] = definition
        return definition
    return define


def _read_parameters(definition: OpDef) -> None:
    parameters = list(inspect.signature(definition.reference).parameters.values())
    if definition.context:
        parameters = parameters[1:]
    names = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            definition.variadic = parameter.name
        elif parameter.kind is parameter.KEYWORD_ONLY:
            default = REQUIRED if parameter.default is parameter.empty else parameter.default
            definition.attrs[parameter.name] = default
        else:
            names.append(parameter.name)
    definition.inputs = tuple(names)


def _check(definition: OpDef) -> None:
    """InvalidArgumentError where the rules contradict the function."""
    where, ufunc, parameters = f"@op {definition.name}", definition.ufunc, definition.parameters
    if not callable(definition.signature):
        check_signature(where, definition.signature, parameters)
    if isinstance(definition.types, str):
        check_types(where, definition.types, parameters, definition.attrs)
    if ufunc is not None and not isinstance(ufunc, np.ufunc):
        raise errors.InvalidArgumentError(f"{where}: ufunc= is a {type(ufunc).__name__} but only a numpy.ufunc is known to "
                                          "write its result and nothing else; leave it out, or pass into= a function of the "
                                          "inputs and outputs")
    if ufunc is not None and (ufunc.nin, ufunc.nout) != (len(parameters), 1):
        raise errors.InvalidArgumentError(f"{where}: ufunc= has {ufunc.nin} inputs and {ufunc.nout} outputs but the operation "
                                          f"has {len(parameters)} and 1; leave it out")
    if definition.view and from_outside(definition.reference):
        raise errors.InvalidArgumentError(f"{where}: view=True is for operations of this package, whose function is not "
                                          "called; leave it out: any function may return memory of its inputs")
    if from_outside(definition.reference):
        for check in checks:
            check(definition)
