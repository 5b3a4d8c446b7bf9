"""Tensors as bytes and back: the protocol buffer TensorProto, with element type, shape and values."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape
from workbench.formats.messages import decode
from workbench.formats.values import array_of, dtype_of_number, tensor_proto

BYTES: dict[str, Any] = {"differentiable": False}


@op("tensor? -> []", types="any -> string", **BYTES)
def serialize_tensor(tensor: Any) -> Any:
    """The bytes of a TensorProto with this value: string scalar."""
    array = np.asarray(tensor)
    return np.asarray(tensor_proto(array, as_dtype("string" if array.dtype == object else array.dtype)).SerializeToString(),
                      dtype=object)


@op("serialized? -> ?", types="string -> @out_type", shape=lambda inputs, attrs: [Shape(None)], **BYTES)
def parse_tensor(serialized: Any, *, out_type: Any) -> Any:
    """The value that a TensorProto's bytes, a string scalar, hold.

    InvalidArgumentError for bytes that are none, or hold another type than `out_type`; DataLossError for a value that is cut.
    """
    raw, wanted = np.asarray(serialized, object), as_dtype(out_type)
    if raw.shape:
        raise errors.InvalidArgumentError("parse_tensor: Expected `serialized` to be a scalar, got shape: "
                                          f"[{','.join(map(str, raw.shape))}]; parse one at a time, with map_fn")
    try:
        proto = decode("TensorProto", raw.item(), "parse_tensor")
    except errors.DataLossError as error:
        shown = raw.item()[:80].decode("utf-8", "backslashreplace")
        raise errors.InvalidArgumentError(f"parse_tensor: Could not parse `serialized` as TensorProto: '{shown}'; "
                                          f"{error.message}") from None
    found = dtype_of_number(proto.dtype, "parse_tensor")
    if found != wanted:
        raise errors.InvalidArgumentError(f"parse_tensor: Type mismatch between parsed tensor ({found.name}) and dtype "
                                          f"({wanted.name}); ask for what was written")
    return array_of(proto, "parse_tensor")
