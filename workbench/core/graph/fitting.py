"""What kernels written in Python get and give: inputs that the rules allow and they cannot write, results as declared."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import DType, bare
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.opdef import from_outside
from workbench.core.graph.shape import Shape
from workbench.core.graph.signature import parse

__all__ = ["agreeing", "fit", "fit_all", "fit_one", "guarded", "ruled"]

Array = np.ndarray[Any, Any]


def fit(tensor: Tensor) -> Callable[[Any], Any]:
    """A check of `tensor`'s value: C-contiguous and aligned (copied if not), of the declared dtype and shape.

    Compiled kernels read raw memory by the declared dtype and shape, so that a wrong one would give garbage. The elements of
    text are looked at where the kernel is one from outside this package.
    """
    op, dtype, declared = tensor.op, tensor.dtype.numpy, tensor.shape
    shape = declared.static if declared.known else None
    array = np.ndarray
    number = tensor.index if len(op.outputs) > 1 else None

    def check(value: Any) -> Any:
        if type(value) is array and value.dtype == dtype and (
                value.shape == shape if shape is not None else _compatible(declared, value.shape)):
            flags = value.flags
            return value if flags.c_contiguous and flags.aligned else value.copy()
        return agreeing(op.kind, value, tensor.dtype, declared, number, from_outside(op.definition.reference))

    def check_text(value: Any) -> Any:
        found = check(value)
        for element in found.flat:
            if not isinstance(element, bytes):
                raise errors.DtypeError(f"{op.kind}: its kernel gave {_which(number)} an element of {type(element).__name__} "
                                        "but it is declared string; return an array of object that holds bytes")
        return found
    return check_text if tensor.dtype.kind == "string" and from_outside(op.definition.reference) else check


def fit_all(op: Operation, checks: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """The checks of an operation with several outputs."""
    def check(values: Any) -> list[Any]:
        return [one(value) for one, value in zip(checks, _counted(op, values))]

    def check_two(values: Any) -> tuple[Any, Any]:      # as loops take from their lists, many in each iteration
        first, second = values if type(values) is tuple and len(values) == 2 else _counted(op, values)
        return one(first), other(second)

    if len(checks) != 2:
        return check
    one, other = checks
    return check_two


def fit_one(tensor: Tensor, values: Any) -> Any:
    """The value of `tensor` among what the kernel of its operation gave, checked."""
    return fit(tensor)(values if len(tensor.op.outputs) == 1 else _counted(tensor.op, values)[tensor.index])


def _counted(op: Operation, values: Any) -> Sequence[Any]:
    if not isinstance(values, (tuple, list)) or len(values) != len(op.outputs):
        given = f"{len(values)} values" if isinstance(values, (tuple, list)) else f"a {type(values).__name__}"
        raise errors.InvalidArgumentError(f"{op.kind}: its kernel gave {given} for {len(op.outputs)} outputs; return a tuple "
                                          "with one array for each")
    return values


def _compatible(declared: Shape, shape: tuple[int, ...]) -> bool:
    dims = declared.sizes
    return dims is None or (len(dims) == len(shape) and all(
        d is None or d == n for d, n in zip(dims, shape)))


def agreeing(kind: str, value: Any, dtype: DType, shape: Shape, number: int | None = None, foreign: bool = True) -> Array:
    """`value`, which the kernel of a `kind` gave for its output `number` (None: its only one), as an array in C order.

    Numbers and subclasses become one; DtypeError and ShapeError where it is not what is declared: by the kernel's author
    where that one is `foreign`, else by the program.
    """
    if number is None and isinstance(value, (tuple, list)) and len(value) == 1 and isinstance(value[0], np.ndarray):
        value = value[0]      # a kernel that lists its outputs, of which there is one
    found: Array = np.array(value, object) if dtype.kind == "string" and isinstance(value, bytes) else np.asarray(
        bare(value, f"{kind}: its kernel's result"))
    if found.dtype != dtype.numpy:
        raise errors.DtypeError(f"{kind}: its kernel gave {found.dtype} but {_which(number)} is declared {dtype.name}; return "
                                f"an array of {dtype.name}, or correct types= of the operation")
    if not _compatible(shape, found.shape):
        if foreign:
            raise errors.ShapeError(f"{kind}: its kernel gave shape {list(found.shape)} but {_which(number)} is declared "
                                    f"{shape}; return that shape, or correct the signature of the operation")
        raise errors.ShapeError(f"{kind}: {_which(number)} has shape {list(found.shape)} but was said to have {shape}; correct "
                                "what set_shape or ensure_shape says of it, or the values that reach it")
    return found if found.flags.c_contiguous and found.flags.aligned else found.copy()


def _which(number: int | None) -> str:
    return "the output" if number is None else f"output {number}"


def guarded(kernel: Callable[..., Any], inputs: int | None = None) -> Callable[..., Any]:
    """`kernel`, which gets its (first) `inputs` read-only: a feed, a variable, an arena are not its to write.

    The kernels of this package are tested with read-only inputs and get them as they are.
    """
    if not from_outside(kernel):
        return kernel

    def call(*values: Any, **attributes: Any) -> Any:
        count = len(values) if inputs is None else inputs
        return kernel(*map(_read_only, values[:count]), *values[count:], **attributes)
    return call


def _read_only(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


_SHAPES = 256       # combinations of shapes that an operation remembers as allowed


def ruled(op: Operation, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """`kernel`, called for shapes that the rules of `op` allow: where the plan leaves shapes open, the step's are asked.

    Raises what the rules would have raised when the graph was built. What works on the state of a task (`context`) compares
    shapes with those of the state itself.
    """
    open_ = [i for i, t in enumerate(op.inputs) if not t.shape.known and t.dtype.kind != "object"]
    terms = parse(op.definition.text(op.attrs))[0]
    if not open_ or op.definition.context or (op.definition.shape is None and all(term.dims is None for term in terms)):
        return kernel
    allowed: set[tuple[Any, ...]] = set()

    def call(*values: Any, **attributes: Any) -> Any:
        shapes = tuple([values[i].shape for i in open_])
        if shapes not in allowed:
            found = dict(zip(open_, shapes))
            op.graph.infer(op, [Tensor(t.op, t.index, t.dtype, Shape(found.get(i, t.shape))) for i, t in enumerate(op.inputs)])
            if len(allowed) >= _SHAPES:
                allowed.clear()
            allowed.add(shapes)
        return kernel(*values, **attributes)
    return call
