"""Element types, shapes, arrays and attributes as protocol buffers, and back."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.shape import Shape, as_shape
from workbench.formats.messages import message
from workbench.formats.schema import ENUMS

__all__ = ["NUMBERED", "array_of", "attr", "attr_value", "dtype_number", "dtype_of_number", "kind_of", "shape_of",
           "shape_proto", "tensor_proto"]

_REFERENCE = 100
NUMBERED = {number: name for name, number in ENUMS["DataType"].items()}
"""Number of an element type -> TensorFlow's name of it, such as DT_FLOAT."""
_NAMES = {"HALF": "float16", "FLOAT": "float32", "DOUBLE": "float64"}
_BY_NUMBER = {number: _NAMES.get(name[3:], name[3:].lower()) for name, number in ENUMS["DataType"].items()
              if number < _REFERENCE}
_BY_NAME = {name: number for number, name in _BY_NUMBER.items()}
_LISTS = {"float32": "float_val", "float64": "double_val", "int64": "int64_val", "bool": "bool_val", "string": "string_val",
          "uint32": "uint32_val", "uint64": "uint64_val", "float16": "half_val", "bfloat16": "half_val",
          "complex64": "scomplex_val", "complex128": "dcomplex_val"}      # the other integers: int_val


def dtype_number(dtype: DType, reference: bool = False) -> int:
    """TensorFlow's number of an element type; with `reference` that of a reference to a variable of it."""
    return _BY_NAME[dtype.name] + _REFERENCE * reference


def dtype_of_number(number: int, where: str) -> DType:
    """The element type with TensorFlow's number, references as what they refer to. UnimplementedError for others."""
    name = _BY_NUMBER.get(number % _REFERENCE)
    try:
        return as_dtype(name)
    except errors.DtypeError:
        raise errors.UnimplementedError(f"{where}: element type {number} ({name or 'unknown'}) is not offered; convert the "
                                        "tensor before the graph is written") from None


# shapes

def shape_proto(shape: Any) -> Any:
    """TensorShapeProto of a shape, -1 for unknown dimensions."""
    found, dims = message("TensorShapeProto")(), as_shape(shape).sizes
    if dims is None:
        found.unknown_rank = True
    for dim in dims or ():
        found.dim.add(size=-1 if dim is None else int(dim))
    return found


def shape_of(proto: Any) -> Shape:
    """The shape that a TensorShapeProto tells."""
    return Shape(proto)


# arrays

def tensor_proto(array: Any, dtype: DType) -> Any:
    """TensorProto of an array; several numbers as raw little-endian memory, one number and strings in the list of their kind,
    where programs read them (`int_val[0]`)."""
    found = message("TensorProto")(dtype=dtype_number(dtype), tensor_shape=shape_proto(np.shape(array)))
    if dtype.kind == "string":
        found.string_val.extend(np.asarray(array, object).ravel().tolist())
        return found
    plain = np.ascontiguousarray(array, dtype.numpy)
    if plain.size == 1:
        getattr(found, _LISTS.get(dtype.name, "int_val")).extend(_listed(plain.reshape(-1), dtype))
        return found
    found.tensor_content = plain.astype(plain.dtype.newbyteorder("<")).tobytes()
    return found


def _listed(items: np.ndarray[Any, Any], dtype: DType) -> list[Any]:
    """Numbers as the list of their kind holds them; the other way round `_items`."""
    if dtype.kind == "complex":
        return [part for item in items.tolist() for part in (item.real, item.imag)]
    return list((items.view(np.uint16) if dtype.name in ("float16", "bfloat16") else items).tolist())


def array_of(proto: Any, where: str) -> np.ndarray[Any, Any]:
    """The array of a TensorProto; DataLossError when it holds another number of elements than its shape says."""
    dtype, shape = dtype_of_number(proto.dtype, where), shape_of(proto.tensor_shape)
    if not shape.known or any(d < 0 for d in shape.static):
        raise errors.DataLossError(f"{where}: a tensor has the shape {shape}; a value has a known one")
    count = shape.num_elements() or 0
    if proto.tensor_content and dtype.kind != "string":
        if len(proto.tensor_content) != count * dtype.size:
            raise errors.DataLossError(f"{where}: {dtype.name}{shape} has {count * dtype.size} bytes but the tensor holds "
                                       f"{len(proto.tensor_content)}; get the file again")
        return np.frombuffer(proto.tensor_content, dtype.numpy.newbyteorder("<")).astype(dtype.numpy).reshape(shape.static)
    items = _items(proto, dtype)
    if len(items) > count or (count and not len(items) and dtype.kind == "object"):
        raise errors.DataLossError(f"{where}: {dtype.name}{shape} has {count} elements but the tensor holds {len(items)}; "
                                   "get the file again")
    if count > _MOST_REPEATED and len(items) < count:
        raise errors.DataLossError(f"{where}: {dtype.name}{shape} would repeat one value {count} times; at most "
                                   f"{_MOST_REPEATED} are read")
    filler = items[-1:] if len(items) else np.zeros(1, dtype.numpy) if dtype.kind != "string" else np.array([b""], object)
    return np.concatenate([items, np.repeat(filler, count - len(items))]).reshape(shape.static)


_MOST_REPEATED = 1 << 28      # elements that a few bytes may stand for


def _items(proto: Any, dtype: DType) -> np.ndarray[Any, Any]:
    values = getattr(proto, _LISTS.get(dtype.name, "int_val"))
    if dtype.kind == "string":
        found = np.empty(len(values), object)
        found[:] = list(values)
        return found
    if dtype.kind == "complex":
        pairs = np.asarray(values, np.float64)
        return (pairs[0::2] + 1j * pairs[1::2]).astype(dtype.numpy)
    if dtype.name in ("float16", "bfloat16"):
        return np.asarray(values, np.uint16).view(dtype.numpy)
    return np.asarray(values).astype(dtype.numpy)


# attributes

def attr(kind: str, value: Any) -> Any:
    """AttrValue of `value`, whose `kind` is "type", "shape", "tensor", "s", "i", "f", "b", or "list(kind)"."""
    found = message("AttrValue")()
    if kind.startswith("list("):
        inner = kind[5:-1]
        getattr(found.list, inner).extend([_plain(inner, item) for item in value])
        found.list.SetInParent()
    elif kind in ("shape", "tensor"):
        getattr(found, kind).CopyFrom(_plain(kind, value))
    else:
        setattr(found, kind, _plain(kind, value))
    return found


def _plain(kind: str, value: Any) -> Any:
    if kind == "type":
        return value if isinstance(value, int) else dtype_number(as_dtype(value))
    if kind == "shape":
        return shape_proto(value)
    if kind == "s":
        return value if isinstance(value, bytes) else str(value).encode()
    if kind == "tensor":
        return value
    return {"i": int, "f": float, "b": bool}[kind](value)


def kind_of(value: Any) -> str:
    """Which kind of attribute a Python value becomes; UnimplementedError for one that has none."""
    for kind, types in (("b", (bool,)), ("i", (int, np.integer)), ("f", (float, np.floating)), ("s", (str, bytes)),
                        ("type", (DType,)), ("shape", (Shape,))):
        if isinstance(value, types):
            return kind
    if isinstance(value, Sequence):
        return f"list({kind_of(value[0]) if value else 'i'})"
    raise errors.UnimplementedError(f"as_graph_def: {value!r} ({type(value).__name__}) is not an attribute of a NodeDef; use "
                                    "numbers, text, dtypes or shapes")


def attr_value(proto: Any, where: str) -> Any:
    """The Python value of an AttrValue: text as str where it is text, lists as lists, tensors as arrays."""
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    if kind == "list":
        fields = proto.list.ListFields()
        return [_read(field.name, item, where) for field, items in fields for item in items]
    return _read(kind, getattr(proto, kind), where)


def _read(kind: str, value: Any, where: str) -> Any:
    if kind == "type":
        return dtype_of_number(value, where)
    if kind == "shape":
        return shape_of(value)
    if kind == "tensor":
        return array_of(value, where)
    if kind == "s":
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    if kind in ("func", "placeholder"):
        raise errors.UnimplementedError(f"{where}: functions as attributes are not offered; write the graph without them")
    return value
