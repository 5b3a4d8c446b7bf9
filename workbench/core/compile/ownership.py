"""Who may keep, alias and overwrite which array: the rules of docs/ownership.md, as code generation asks them."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.compile.values import Constant, Handle, Local, Packed, Value
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.shape import Shape

__all__ = ["fit", "fit_all", "guarded", "in_list", "kept", "own", "to_caller", "to_segment"]

Array = np.ndarray[Any, Any]


# which value has to be copied on its way; each rule is asked about one value of a plan

def to_caller(value: Value) -> bool:
    """A fetch belongs to the caller: everything is copied but a new array that nothing else refers to."""
    return value.array and not (isinstance(value, Local) and value.fresh and not value.roots)


def to_segment(value: Value) -> bool:
    """Another segment may run after the arena has been written again; all else stays as it is for the step."""
    return value.array and bool(value.roots)


def in_list(value: Value) -> bool:
    """A list lives for the step and refers to its elements."""
    return to_segment(value)


def kept(value: Value) -> bool:
    """What an operation keeps beyond the step is its own; only constants, which nobody may write, are shared."""
    return value.array and not isinstance(value, Constant | Packed | Handle)


def own(array: Any) -> Any:
    """`array` for somebody who keeps it, at run time."""
    return array.copy() if isinstance(array, np.ndarray) and array.flags.writeable else array


# what kernels written in Python give and get

def fit(op: Operation, tensor: Tensor) -> Callable[[Any], Any]:
    """A check of `tensor`'s value: C-contiguous and aligned (copied if not), of the declared dtype and shape.

    Compiled kernels read raw memory by the declared dtype and shape, so that a wrong one would give garbage.
    """
    dtype, declared = tensor.dtype.numpy, tensor.shape
    shape = declared.static if declared.known else None
    array = np.ndarray

    def check(value: Any) -> Any:
        if type(value) is array and value.dtype == dtype and (
                value.shape == shape if shape is not None else _compatible(declared, value.shape)):
            flags = value.flags
            return value if flags.c_contiguous and flags.aligned else value.copy()
        return _converted(op, tensor, value)
    return check


def fit_all(op: Operation, checks: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """The checks of an operation with several outputs."""
    def check(values: Any) -> list[Any]:
        if not isinstance(values, (tuple, list)) or len(values) != len(checks):
            given = f"{len(values)} values" if isinstance(values, (tuple, list)) else f"a {type(values).__name__}"
            raise errors.InvalidArgumentError(f"{op.kind}: its kernel gave {given} for {len(checks)} outputs; return a tuple "
                                              "with one array for each")
        return [one(value) for one, value in zip(checks, values)]
    return check


def _compatible(declared: Shape, shape: tuple[int, ...]) -> bool:
    dims = declared.sizes
    return dims is None or (len(dims) == len(shape) and all(
        d is None or d == n for d, n in zip(dims, shape)))


def _converted(op: Operation, tensor: Tensor, value: Any) -> Any:
    """What is not yet an array of the right kind: numbers and subclasses become one, all else is an error."""
    if len(op.outputs) == 1 and isinstance(value, (tuple, list)) and len(value) == 1 and isinstance(value[0], np.ndarray):
        value = value[0]      # a kernel that lists its outputs, of which there is one
    dtype = tensor.dtype
    found: Array = np.array(value, object) if dtype.kind == "string" and isinstance(value, bytes) else np.asarray(value)
    which = f"output {tensor.index}" if len(op.outputs) > 1 else "the output"
    if found.dtype != dtype.numpy:
        raise errors.DtypeError(f"{op.kind}: its kernel gave {found.dtype} but {which} is declared {dtype.name}; return an "
                                f"array of {dtype.name}, or correct types= of the operation")
    if not _compatible(tensor.shape, found.shape):
        raise errors.ShapeError(f"{op.kind}: its kernel gave shape {list(found.shape)} but {which} is declared "
                                f"{tensor.shape}; return that shape, or correct the signature of the operation")
    return found if found.flags.c_contiguous and found.flags.aligned else found.copy()


def guarded(kernel: Callable[..., Any], inputs: int | None = None) -> Callable[..., Any]:
    """`kernel`, which gets its (first) `inputs` read-only: a feed, a variable, an arena are not its to write.

    The kernels of this package are tested with read-only inputs and get them as they are.
    """
    if str(getattr(kernel, "__module__", "")).startswith("workbench."):
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
