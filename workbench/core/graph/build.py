"""The `ops` namespace: arguments to nodes, Python values to constants, operators to operations."""
from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from workbench import errors
from workbench.core.graph.calling import arguments, below, call_signature, documentation, titled
from workbench.core.graph.dimension import Length
from workbench.core.graph.dtype import DType, as_dtype, cast_array, to_array
from workbench.core.graph.fitting import fit_one, guarded
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.opdef import OpDef, compositions, registry
from workbench.core.graph.rules import input_names, type_terms
from workbench.core.graph.shape import Shape
from workbench.core.graph.slices import FLAT, IndexedSlices, on_values
from workbench.core.run.interrupts import by_signal

__all__ = ["FLAT", "IndexedSlices", "check_fronts", "constant", "constant_shape", "constant_value", "convert",
           "front", "on_values", "ops", "raw"]


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Tensor:
    """What `ops.constant` makes; it stands here because every conversion of an argument needs it."""
    wanted = None if dtype is None else as_dtype(dtype)
    value = cast_array(value, wanted) if get_default_graph().language.arrays_are_cast else value
    array = to_array(value, wanted, "constant")
    if shape is not None:
        array = _arranged(array, tuple(int(d) for d in shape))
    array = np.array(array, order="C", copy=True)
    array.flags.writeable = False
    found = wanted or as_dtype(array.dtype)
    return get_default_graph().create("constant", (), {"value": array, "dtype": found}, name).outputs[0]


def _arranged(array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The values in order in that shape; where there are fewer than it holds the last one is repeated."""
    if array.size == 1:
        return np.broadcast_to(array.reshape(()), shape)
    missing = math.prod(shape) - array.size
    if missing < 0 or (missing and not array.size):
        raise errors.ShapeError(f"constant: {array.size} values do not fill shape {list(shape)}; " + (
            f"Too many elements provided. Needed at most {math.prod(shape)}, but received {array.size}" if array.size else
            "give one value, or as many as the shape holds"))
    flat = array.reshape(-1)
    return np.concatenate([flat, flat[-1:].repeat(missing)]).reshape(shape)


def _lengths(value: Any, wanted: DType | None) -> Tensor:
    """A static shape, or an unknown length of one, as integers: int32 where they fit it."""
    if not isinstance(value, Shape) or not value.known:
        what = f"the partially known shape {value}" if isinstance(value, Shape) else "an unknown Dimension"
        raise errors.ShapeError(f"convert: {what} has no value before the step; use tf.shape")
    if wanted is not None and wanted.kind != "int":
        raise errors.DtypeError(f"convert: the shape {value} is integers but {wanted.name} is needed; cast it")
    large = next((d for d in value.static if d > 2**31 - 1), None)
    if large is not None and wanted is not None and wanted.name == "int32":
        raise errors.DtypeError(f"convert: the shape {value} does not fit int32: a dimension is too large ({large}); use int64")
    return constant(np.asarray(value.static, np.int32 if large is None else np.int64), wanted)


def convert(value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """A tensor from a tensor, a variable, or Python/NumPy data; DtypeError when a tensor has another dtype."""
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(value, IndexedSlices):
        value = ops.densify(value)
    elif hasattr(value, "__tensor__"):
        value = value.__tensor__()
    if isinstance(value, Tensor):
        if wanted is not None and value.dtype is not wanted:
            raise errors.DtypeError(f"convert: {value.name} is {value.dtype.name} but {wanted.name} is needed; cast it")
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) or hasattr(v, "__tensor__")
                                                for v in _flat(value)):
        wanted = wanted or next(convert(v).dtype for v in _flat(value) if isinstance(v, Tensor) or hasattr(v, "__tensor__"))
        return ops.stack([convert(v, wanted) for v in value])      # type: ignore[no-any-return]
    if isinstance(value, (Shape, Length)) and not isinstance(value, int):
        return _lengths(value, wanted)
    return constant(value, wanted, name=name)


def _flat(value: Any) -> list[Any]:
    return [v for item in value for v in (_flat(item) if isinstance(item, (list, tuple)) else [item])]


Builder = Callable[..., Any]
P = ParamSpec("P")
R = TypeVar("R")
fronts: dict[str, Callable[..., Any]] = {}
"""The functions that users call in place of the builder of the operation of the same name."""


class Ops:
    """Every operation and composition as a function: `ops.matmul(a, b, name="product")`.

    Found by name at each use, so that it does not matter which of an operation and its front was defined first.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        composition = compositions.get(name)
        return titled(composition) if composition is not None else fronts.get(name) or raw(name)

    def __dir__(self) -> list[str]:
        return sorted({*registry, *compositions})


ops = Ops()


def raw(name: str) -> Builder:
    """What adds the operation `name` to the graph, even where it has a front; UnimplementedError for an unknown name."""
    definition = registry.find(name)
    if definition.builder is None:
        definition.builder = _builder(definition)
    return definition.builder


def _builder(definition: OpDef) -> Builder:
    def build(*args: Any, name: str | None = None, **options: Any) -> Any:
        return _build(definition, args, options, name)
    build.__name__ = build.__qualname__ = definition.name
    build.__doc__ = documentation(definition)
    build.__signature__ = call_signature(definition)      # type: ignore[attr-defined]
    return build


def front(name: str) -> Callable[[Callable[Concatenate[Builder, P], R]], Callable[P, R]]:
    """Decorator: `ops.<name>(...)` calls the function, whose first argument is the operation's own builder.

    For defaults that follow from the arguments, and for calls that need no operation. AlreadyExistsError for a second
    front of one operation; `check_fronts` finds fronts without one.
    """
    def define(function: Callable[Concatenate[Builder, P], R]) -> Callable[P, R]:
        def call(*args: P.args, **options: P.kwargs) -> R:
            return function(raw(name), *args, **options)
        if name in fronts:
            raise errors.AlreadyExistsError(f"@front: {name!r} has a front already; keep one")
        signature = inspect.signature(function)
        call.__name__ = call.__qualname__ = name
        call.__module__, call.__doc__ = function.__module__, inspect.getdoc(function)
        call.__signature__ = signature.replace(      # type: ignore[attr-defined]
            parameters=list(signature.parameters.values())[1:])
        fronts[name] = call
        return call
    return define


def check_fronts() -> None:
    """UnimplementedError where a front has no operation behind it: for when all families are loaded."""
    for name in fronts:
        if name not in registry:
            raise errors.UnimplementedError(f"@front: there is no operation {name!r} behind it; define it with @op, or "
                                            "use @composed")


def _build(definition: OpDef, args: Sequence[Any], options: dict[str, Any], name: str | None) -> Any:
    most = len(definition.inputs) + bool(definition.variadic) + len(definition.attrs)
    if len(args) == most + 1 and (args[-1] is None or (name is None and isinstance(args[-1], str))):
        *args, last = args      # the name may also come last by position, as TensorFlow 1.x allows
        name = name or last
    values, given = arguments(definition, list(args), dict(options))
    late = next((key for key, value in given.items() if key in definition.late and _late(value)), None)
    if late is not None:
        return definition.late[late](*values, **given, name=name)
    attrs = {key: _attribute(key, value) for key, value in given.items()}
    graph = get_default_graph()
    above = name or graph.language.title(definition.name) if graph.language.below else ""
    node = graph.create(definition, _convert_inputs(definition, values, attrs, above), attrs, name)
    if not node.outputs and not _returns_list(definition, node):
        return node
    if definition.results is not None:
        return definition.results(*node.outputs)
    return node.outputs[0] if len(node.outputs) == 1 and not _returns_list(definition, node) else list(node.outputs)


def _returns_list(definition: OpDef, node: Operation) -> bool:
    return definition.shape is not None and bool(getattr(definition.shape, "returns_list", False))


def returns_list(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a shape rule whose operation returns a list even when it has one element (split, unstack)."""
    rule.returns_list = True      # type: ignore[attr-defined]
    return rule


def _late(value: Any) -> bool:
    """Is this a tensor, or a list with one, whose value only the step knows?"""
    if isinstance(value, (list, tuple)):
        return any(_late(item) for item in value)
    return (isinstance(value, Tensor) or hasattr(value, "__tensor__")) and constant_value(convert(value)) is None


def _attribute(key: str, value: Any) -> Any:
    if key in ("dtype", "out_type") and value is not None:
        return as_dtype(value)
    if isinstance(value, Tensor):
        known = constant_value(value)
        if known is None:
            raise errors.InvalidArgumentError(f"{key}: {value!r} is known only at run time but the graph needs it "
                                              "now; pass a Python value or a constant")
        value = known
    if isinstance(value, (list, tuple)):
        value = [_attribute("", item) if isinstance(item, Tensor) else item for item in value]
    return canonical(value)


def _convert_inputs(definition: OpDef, values: list[Any], attrs: dict[str, Any], above: str) -> list[Tensor]:
    """The inputs as tensors; constants made of them stand below the operation that is to be called `above`, if it is."""
    terms, _ = type_terms(definition, len(values), 0)
    ready: list[Tensor | None] = [None] * len(values)
    binding: dict[str, DType] = {}
    for position, (value, term) in enumerate(zip(values, terms)):
        if isinstance(value, (Tensor, IndexedSlices)) or hasattr(value, "__tensor__"):
            ready[position] = tensor = convert(value)
            if term[0].isupper():
                binding.setdefault(term.partition(":")[0], tensor.dtype)
    for position, (value, term) in enumerate(zip(values, terms)):
        if ready[position] is None:
            called = input_names(definition, len(values))[position]
            title = above and below(above, called)
            wanted = as_dtype(np.int32) if _sizes(called, value) else _hint(term, binding, attrs, value)
            ready[position] = tensor = convert(value, wanted, title or None)
            if term[0].isupper():
                binding.setdefault(term.partition(":")[0], tensor.dtype)
    return ready      # type: ignore[return-value]


def _sizes(name: str, value: Any) -> bool:
    """Are these sizes in an array of floats, which some languages take for integers?"""
    return name in ("shape", "dims", "multiples", "paddings") and isinstance(value, np.ndarray) and (
        value.dtype.kind == "f" and get_default_graph().language.arrays_are_cast)


def _hint(term: str, binding: dict[str, DType], attrs: dict[str, Any], value: Any) -> DType | None:
    letter, _, kind = term.partition(":")
    if letter.startswith("@"):
        return as_dtype(attrs[letter[1:]])
    if letter == "any":
        return None
    if letter == "int":
        array = np.asarray(value)
        return as_dtype(np.int32) if array.size == 0 else None
    if letter[0].isupper():
        found = binding.get(letter)
        if found is None and kind in ("float", "differentiable") and np.asarray(value).dtype.kind in "iu":
            return as_dtype(np.float32)
        return found
    return as_dtype(letter)


# values known at construction

_MOST = 1 << 16     # elements; larger constants are not evaluated while building


def constant_value(tensor: Tensor, known: dict[Tensor, Any] | None = None) -> np.ndarray[Any, Any] | None:
    """The value of `tensor` when it follows from constants alone, else None; `known` remembers values on the way."""
    memory = {} if known is None else known
    if tensor not in memory:
        memory[tensor] = _constant_value(tensor, memory)
    return memory[tensor]      # type: ignore[no-any-return]


def _constant_value(tensor: Tensor, memory: dict[Tensor, Any]) -> np.ndarray[Any, Any] | None:
    op = tensor.op
    if op.kind == "constant":
        return op.attrs["value"]      # type: ignore[no-any-return]
    known, outer = _known_shape_value(op), op.graph.outside(tensor)
    if known is not None or outer is not None:
        return known if outer is None else constant_value(outer, memory)
    d = op.definition
    if d.stateful or d.blocking or d.context or not op.inputs or not tensor.shape.known or op.controls:
        return None
    if op.has_bodies:      # a branch or loop has no kernel
        return None
    if (tensor.shape.num_elements() or 0) > _MOST or tensor.dtype.kind == "object":
        return None
    values = []
    for t in op.inputs:
        values.append(constant_value(t, memory))
        if values[-1] is None:
            return None
    try:
        with np.errstate(all="ignore"):
            return fit_one(tensor, guarded(d.reference)(*values, **op.attrs))      # type: ignore[no-any-return]
    except BaseException as error:      # it fails when it runs, if it ever does, with its name and place in the text
        if by_signal(error):
            raise
        return None


def _known_shape_value(op: Operation) -> np.ndarray[Any, Any] | None:
    if op.kind == "strided_slice" and op.inputs[0].op.kind == "shape":
        part = _part_of_shape(op)
        return None if part is None or (part < 0).any() else part
    if op.kind not in ("shape", "size", "rank"):
        return None
    shape = op.inputs[0].shape
    dtype = op.outputs[0].dtype.numpy
    if op.kind == "rank":
        return None if shape.rank is None else np.asarray(shape.rank, dtype)
    if not shape.known:
        return None
    return np.asarray(shape.static if op.kind == "shape" else shape.num_elements(), dtype)


def _part_of_shape(op: Operation) -> np.ndarray[Any, Any] | None:
    """What a slice reads of a tensor's shape, -1 for each length that is not known; None where the rank or the slice is not."""
    source, *bounds = op.inputs
    dims, values = source.op.inputs[0].shape.sizes, [constant_value(t) for t in bounds]
    if dims is None or any(value is None for value in values):
        return None
    lengths = np.array([-1 if d is None else d for d in dims], source.dtype.numpy)
    return np.asarray(op.definition.reference(lengths, *values, **op.attrs))


def constant_shape(tensor: Tensor) -> Shape:
    """The shape that an integer vector describes, with None where an element is unknown."""
    value = constant_value(tensor)
    if value is not None and value.ndim > 1:
        raise errors.ShapeError(f"shape: {value.tolist()} has rank {value.ndim}; a shape is a vector: pass a list of lengths")
    if value is not None:
        return Shape(None if d < 0 else d for d in np.atleast_1d(value).tolist())
    op = tensor.op
    if op.kind == "shape":
        return op.inputs[0].shape
    if op.kind == "stack" and tensor.shape.rank == 1:
        values = [constant_value(t) for t in op.inputs]
        return Shape(None if v is None or v < 0 else int(v) for v in values)
    if op.kind == "concat" and tensor.shape.rank == 1:
        result = Shape(())
        for part in op.inputs:
            result = result + constant_shape(part)
        return result
    if op.kind == "cast":
        return constant_shape(op.inputs[0])
    if op.kind == "gather" and op.inputs[0].shape.rank == 1 and (places := constant_value(op.inputs[1])) is not None:
        sizes = dict(enumerate(constant_shape(op.inputs[0]).sizes or ()))
        return Shape(sizes.get(at) for at in places.ravel().tolist())      # one outside is refused in the step
    if op.kind == "strided_slice" and op.inputs[0].op.kind == "shape" and (read := _part_of_shape(op)) is not None:
        return Shape(None if d < 0 else d for d in np.atleast_1d(read).tolist())
    length = tensor.shape.sizes[0] if tensor.shape.sizes else None
    return Shape(None) if length is None else Shape([None] * length)


# operators

def _binary(name: str, symbol: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: Any, other: Any) -> Any:
        try:
            return getattr(ops, name)(self, other, name=get_default_graph().language.names.get(symbol))
        except TypeError:      # what is no number may know itself what to do with a tensor
            if isinstance(other, _NUMBERS) or hasattr(other, "__tensor__") or not hasattr(type(other), f"__r{symbol[2:]}"):
                raise
            return NotImplemented

    def reflected(self: Any, other: Any) -> Any:
        return getattr(ops, name)(other, self, name=get_default_graph().language.names.get(symbol))
    return forward, reflected


_NUMBERS = (Tensor, int, float, complex, str, bytes, list, tuple, np.ndarray, np.generic)
OPERATORS = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "truediv", "floordiv": "floordiv",
             "mod": "floormod", "pow": "pow", "matmul": "matmul", "and": "logical_and", "or": "logical_or",
             "xor": "logical_xor"}
COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
UNARY = {"neg": "negative", "abs": "abs", "invert": "logical_not"}


def install_operators(cls: Any) -> None:
    """Give `cls` (Tensor, Variable) Python's operators; == stays identity, so tensors are dictionary keys."""
    for symbol, name in OPERATORS.items():
        forward, reflected = _binary(name, f"__{symbol}__")
        setattr(cls, f"__{symbol}__", forward)
        setattr(cls, f"__r{symbol}__", reflected)
    for symbol, name in COMPARISONS.items():
        setattr(cls, f"__{symbol}__", _binary(name, f"__{symbol}__")[0])
    for symbol, name in UNARY.items():
        setattr(cls, f"__{symbol}__", lambda self, _name=name: getattr(ops, _name)(self))
    cls.__getitem__ = lambda self, key: ops.getitem(convert(self), key)


install_operators(Tensor)
Tensor.OVERLOADABLE_OPERATORS = frozenset(f"__{name}__" for name in (      # type: ignore[attr-defined]      # for libraries
    *OPERATORS, *(f"r{name}" for name in OPERATORS), *COMPARISONS, *UNARY, "getitem"))


def canonical(value: Any) -> Any:
    """An attribute value in hashable, comparable form: lists and arrays become tuples, NumPy scalars Python ones."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return tuple(canonical(v) for v in value)
    if isinstance(value, np.generic):
        return value.item()
    return value
