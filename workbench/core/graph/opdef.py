"""What an operation is: signature, dtype and shape rules, reference kernel, gradient; and the registry of all."""
from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workbench import errors
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.shape import Dim, Shape, broadcast

__all__ = ["OpDef", "Registry", "composed", "op", "registry"]

ShapeRule = Callable[..., Any]
_REMEMBERED = 4096      # answers about shapes and about dtypes


@dataclass(frozen=True)
class Pattern:
    """One term of a signature: `a[m,k]`, `*values[...]`, or `?` for any shape."""

    name: str
    dims: tuple[str, ...] | None     # None = any shape
    variadic: bool = False


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
    ufunc: Any = None                        # the NumPy ufunc that computes it: called with out=
    into: Callable[..., None] | None = None  # (*inputs, *outputs, **attrs): writes preallocated outputs
    view: bool = False                       # output 0 may share the memory of input 0 (reshape, identity)
    commutative: bool = False
    stateful: bool = False                   # reads or writes state, or is random: never folded, never merged
    blocking: bool = False                   # may wait for others: cuts segments
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

    def text(self, attrs: Mapping[str, Any]) -> str:
        return self.signature if isinstance(self.signature, str) else self.signature(**attrs)


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
            import difflib
            near = difflib.get_close_matches(name, self, 3)
            raise errors.UnimplementedError(f"ops.{name}: no such operation; " + (
                f"did you mean {', '.join(near)}?" if near else "define it with @op"))
        return found


registry = Registry()
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


def op(signature: str | Callable[..., str], *, name: str | None = None, **options: Any) -> Callable[..., OpDef]:
    """Decorator that defines an operation; the function is its NumPy reference kernel.

    Positional parameters are inputs (`*values` a list of them), keyword-only parameters are attributes with their
    defaults. With `context=True` the first parameter is the step context. Options are the fields of `OpDef`.

    `signature` is the rule of shapes: in "a[m,k] b[k,n] -> [m,n]" equal letters are equal dimensions, "..." are leading
    dimensions that broadcast, "?" is any shape. `types` is the rule of dtypes, "T:float -> T": a capital letter is one
    dtype, of the kind after the colon (number, real, float, int, differentiable), "@dtype" that of an attribute, "int" any
    integer type, "any" any. Raises AlreadyExistsError for a name that is taken.
    """
    def define(function: Callable[..., Any]) -> OpDef:
        definition = OpDef(name or function.__name__.rstrip("_"), signature, function,
                           doc=inspect.getdoc(function) or "", **options)
        _read_parameters(definition)
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


# reading signatures

_TERM = re.compile(r"(\*?)([A-Za-z_]\w*)?(?:\[([^\]]*)\]|(\?))")
_cache: dict[str, tuple[tuple[Pattern, ...], tuple[Pattern, ...]]] = {}


def parse(text: str) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...]]:
    """(input patterns, output patterns) of a signature."""
    if text not in _cache:
        left, _, right = text.partition("->")
        _cache[text] = _terms(left), _terms(right)
    return _cache[text]


def _terms(text: str) -> tuple[Pattern, ...]:
    return tuple(
        Pattern(name or "", None if any_ else tuple(d.strip() for d in dims.split(",") if d.strip()), star == "*")
        for star, name, dims, any_ in _TERM.findall(text))


# inference

def infer_shapes(definition: OpDef, shapes: Sequence[Shape], attrs: Mapping[str, Any]) -> list[Shape]:
    """Output shapes by the signature; ShapeError names both inputs, both axes and the letter they share."""
    names = tuple(input_names(definition, len(shapes)))
    return list(_shapes(definition.name, definition.text(attrs), names, tuple([shape.dims for shape in shapes])))


@functools.lru_cache(_REMEMBERED)      # the layers of a model ask the same thing hundreds of times
def _shapes(where: str, text: str, names: tuple[str, ...], dims: tuple[tuple[Dim, ...] | None, ...]) -> tuple[Shape, ...]:
    patterns, outputs = parse(text)
    binding: dict[str, tuple[Dim, str]] = {}
    spreads: list[Shape] = []
    for position, (actual, name) in enumerate(zip(dims, names)):
        pattern = patterns[min(position, len(patterns) - 1)] if patterns else Pattern("", None)
        _bind(where, text, pattern, Shape(actual), name, binding, spreads)
    spread = broadcast(spreads, where) if spreads else Shape(())
    return tuple([_output(pattern, binding, spread) for pattern in outputs])


def input_names(definition: OpDef, count: int) -> list[str]:
    names = list(definition.inputs)
    if definition.variadic:
        names += [f"{definition.variadic}[{i}]" for i in range(count - len(names))]
    return names


def _bind(where: str, text: str, pattern: Pattern, shape: Shape, name: str,
          binding: dict[str, tuple[Dim, str]], spreads: list[Shape]) -> None:
    if pattern.dims is None:
        return
    dims, actual = pattern.dims, shape.dims
    if actual is None:
        if "..." in dims:
            spreads.append(Shape(None))
        return
    fixed = len(dims) - ("..." in dims)
    if len(actual) < fixed or ("..." not in dims and len(actual) != fixed):
        raise errors.ShapeError(f"{where}: {name} has rank {len(actual)} (shape {shape}) but rank "
                                f"{'>= ' if '...' in dims else ''}{fixed} is needed by {text!r}; reshape it (Shape must be "
                                f"{'at least ' if '...' in dims else ''}rank {fixed} but is rank {len(actual)})")
    if "..." in dims:
        at = dims.index("...")
        stop = len(actual) - (fixed - at)
        spreads.append(Shape(actual[at:stop]))
        pairs = list(enumerate(zip(dims[:at], actual[:at])))
        pairs += [(stop + i, pair) for i, pair in enumerate(zip(dims[at + 1:], actual[stop:]))]
    else:
        pairs = list(enumerate(zip(dims, actual)))
    for axis, (letter, dim) in pairs:
        _bind_dim(where, text, letter, dim, f"{name} axis {axis}", binding)


def _bind_dim(where: str, text: str, letter: str, dim: Dim, place: str, binding: dict[str, tuple[Dim, str]]) -> None:
    if letter.isdigit():
        if dim is not None and dim != int(letter):
            raise errors.ShapeError(f"{where}: {place} is {dim} but {letter} is needed by {text!r}; reshape it")
        return
    if letter == "_":
        return
    known, first = binding.get(letter, (None, place))
    if known is not None and dim is not None and known != dim:
        raise errors.ShapeError(f"{where}: {first} is {known} but {place} is {dim}; both are {letter!r} in {text!r}")
    binding[letter] = (known if dim is None else dim, first if known is not None else place)


def _output(pattern: Pattern, binding: Mapping[str, tuple[Dim, str]], spread: Shape) -> Shape:
    if pattern.dims is None:
        return Shape(None)
    dims: list[Dim] = []
    for letter in pattern.dims:
        if letter == "...":
            if spread.dims is None:
                return Shape(None)
            dims += spread.dims
        else:
            dims.append(int(letter) if letter.isdigit() else binding.get(letter, (None, ""))[0])
    return Shape(dims)


def infer_dtypes(definition: OpDef, dtypes: Sequence[DType], attrs: Mapping[str, Any], outputs: int) -> list[DType]:
    """Output dtypes by the type rule; DtypeError names both inputs."""
    if callable(definition.types):
        return definition.types(dtypes, attrs)
    types, names = definition.types or "", tuple(input_names(definition, len(dtypes)))
    wanted = outputs if definition.dtypes is None else 0
    if "@" in types:
        found = _by_terms(definition.name, types, names, dtypes, wanted, attrs)
    else:
        found = list(_without_attributes(definition.name, types, names, tuple(dtypes), wanted))
    return found if definition.dtypes is None else list(definition.dtypes(dtypes, attrs))


@functools.lru_cache(_REMEMBERED)
def _without_attributes(where: str, types: str, names: tuple[str, ...], dtypes: tuple[DType, ...],
                        outputs: int) -> tuple[DType, ...]:
    return tuple(_by_terms(where, types, names, dtypes, outputs, {}))


def _by_terms(where: str, types: str, names: Sequence[str], dtypes: Sequence[DType], outputs: int,
              attrs: Mapping[str, Any]) -> list[DType]:
    left, right = _terms_of(types, len(dtypes), outputs)
    binding: dict[str, tuple[DType, str]] = {}
    for term, dtype, name in zip(left, dtypes, names):
        _bind_type(where, term, dtype, name, binding, attrs)
    return [_type(term, binding, attrs) for term in right[:outputs]]


def type_terms(definition: OpDef, inputs: int, outputs: int) -> tuple[list[str], list[str]]:
    if callable(definition.types):
        return ["any"] * inputs, ["any"] * outputs
    return _terms_of(definition.types or "", inputs, outputs)


def _terms_of(types: str, inputs: int, outputs: int) -> tuple[list[str], list[str]]:
    left_text, _, right_text = types.partition("->")
    left, right = left_text.split(), right_text.split()
    if not left:
        left = ["T"] if inputs else []
    while len(left) < inputs:
        left.append(left[-1])
    if not right:
        right = ["T"]
    while len(right) < outputs:
        right.append(right[-1])
    return left[:inputs], right[:outputs]


_KINDS = {"float": ("float",), "number": ("float", "int", "complex"), "int": ("int",), "real": ("float", "int"),
          "differentiable": ("float", "complex")}


def _bind_type(where: str, term: str, dtype: DType, name: str, binding: dict[str, tuple[DType, str]],
               attrs: Mapping[str, Any]) -> None:
    letter, _, kind = term.partition(":")
    if letter == "any":
        return
    if letter.startswith("@"):
        wanted = as_dtype(attrs[letter[1:]])
    elif letter[0].isupper():
        if kind and dtype.kind not in _KINDS[kind]:
            raise errors.DtypeError(f"{where}: {name} is {dtype.name} but a {kind} type is needed; cast it")
        first, place = binding.setdefault(letter, (dtype, name))
        if first is not dtype:
            raise errors.DtypeError(f"{where}: {place} is {first.name} but {name} is {dtype.name}; "
                                    "both must have one dtype: cast one of them")
        return
    elif letter == "int":
        if dtype.kind != "int":
            raise errors.DtypeError(f"{where}: {name} is {dtype.name} but an integer type is needed; cast it")
        return
    else:
        wanted = as_dtype(letter)
    if dtype is not wanted:
        raise errors.DtypeError(f"{where}: {name} is {dtype.name} but {wanted.name} is needed; cast it")


def _type(term: str, binding: Mapping[str, tuple[DType, str]], attrs: Mapping[str, Any]) -> DType:
    if term.startswith("@"):
        return as_dtype(attrs[term[1:]])
    if term[0].isupper() and term.partition(":")[0] in binding:
        return binding[term.partition(":")[0]][0]
    return as_dtype(term)
