"""What kernels written in Python get and give: inputs they cannot write, results as the operation declares them or an error."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import DType, bare
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.opdef import from_outside
from workbench.core.graph.shape import Shape

__all__ = ["agreeing", "fit", "fit_all", "fit_one", "guarded"]

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
        return agreeing(op.kind, value, tensor.dtype, declared, number)

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
    return check


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


def agreeing(kind: str, value: Any, dtype: DType, shape: Shape, number: int | None = None) -> Array:
    """`value`, which the kernel of a `kind` gave for its output `number` (None: its only one), as an array in C order.

    Numbers and subclasses become one; DtypeError and ShapeError where it is not what is declared.
    """
    if number is None and isinstance(value, (tuple, list)) and len(value) == 1 and isinstance(value[0], np.ndarray):
        value = value[0]      # a kernel that lists its outputs, of which there is one
    found: Array = np.array(value, object) if dtype.kind == "string" and isinstance(value, bytes) else np.asarray(
        bare(value, f"{kind}: its kernel's result"))
    if found.dtype != dtype.numpy:
        raise errors.DtypeError(f"{kind}: its kernel gave {found.dtype} but {_which(number)} is declared {dtype.name}; return "
                                f"an array of {dtype.name}, or correct types= of the operation")
    if not _compatible(shape, found.shape):
        raise errors.ShapeError(f"{kind}: its kernel gave shape {list(found.shape)} but {_which(number)} is declared "
                                f"{shape}; return that shape, or correct the signature of the operation")
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
