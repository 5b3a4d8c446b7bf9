"""What the tests of TensorFlow's graphs and sessions ask of modules that are not public, in its simplest form."""
from __future__ import annotations

import contextlib
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import workbench.tf1 as tf
from tests.public.operations import OPERATIONS
from workbench.core.graph.slices import IndexedSlicesValue


def as_it_is(test: Any) -> Any:
    """A decorator that changes nothing: there is one way to build graphs here."""
    return test


def called(*_given: Any) -> Callable[[Any], Any]:
    """A decorator with arguments that changes nothing."""
    return as_it_is


def nothing(*_given: Any, **_options: Any) -> None:
    """What only sets up TensorFlow's insides."""


@contextlib.contextmanager
def graph_mode() -> Iterator[None]:
    yield


def eager_mode() -> Any:
    raise unittest.SkipTest("there are graphs alone")


def of_infos(infos: Any, what: str) -> dict[str, Any]:
    """The shapes, or the types, of TensorInfos by name."""
    return {key: tf.TensorShape(info.tensor_shape) if what == "shape" else tf.as_dtype(info.dtype)
            for key, info in infos.items()}


def assert_ops_in_graph(expected_ops: dict[str, str], graph: Any) -> dict[str, Any]:
    """The nodes of these names, which are to be of these types."""
    found = {node.name: node for node in graph.as_graph_def().node if node.name in expected_ops}
    if {name: node.op for name, node in found.items()} != expected_ops:
        raise ValueError(f"expected {expected_ops}, found {found}")
    return found


def merge_device(spec: Any) -> Callable[[Any], str]:
    """A device function: what the operation asks for is completed by `spec`."""
    def placed(op: Any) -> str:
        found = tf.DeviceSpec.from_string(str(spec or ""))
        found.merge_from(tf.DeviceSpec.from_string(getattr(op, "device", "") or ""))
        return found.to_string()
    return placed


def canonical_name(device: Any) -> str:
    return "" if device is None else tf.DeviceSpec.from_string(str(device)).to_string()


def check_valid(spec: str) -> None:
    tf.DeviceSpec().parse_from_string(spec)


def unknown_shape(ndims: int | None = None) -> Any:
    return tf.TensorShape(None if ndims is None else [None] * ndims)


def scalar() -> Any:
    return tf.TensorShape([])


def vector(length: Any) -> Any:
    return tf.TensorShape([length])


def matrix(rows: Any, columns: Any) -> Any:
    return tf.TensorShape([rows, columns])


FRAMEWORK = {
    "RegisterStatistics": called,
    "with_c_api": as_it_is, "disable_c_api": as_it_is, "enable_c_api": as_it_is, "_USE_C_API": False,
    "_set_call_cpp_shape_fn": nothing, "call_cpp_shape_fn": nothing, "graph_mode": graph_mode, "eager_mode": eager_mode,
    "IsGoogleCudaEnabled": lambda: False, "assert_ops_in_graph": assert_ops_in_graph, "merge_device": merge_device,
    "canonical_name": canonical_name, "check_valid": check_valid, "unknown_shape": unknown_shape, "scalar": scalar,
    "scalar_shape": lambda op: [scalar()],
    "vector": vector, "matrix": matrix, "as_dimension": tf.Dimension, "as_shape": tf.TensorShape,
    "MakeNdarray": tf.make_ndarray, "ShapeEquals": lambda proto, shape: [d.size for d in proto.tensor_shape.dim] == list(shape),
    "get_signature_def_input_shapes": lambda told: of_infos(told.inputs, "shape"),
    "get_signature_def_output_shapes": lambda told: of_infos(told.outputs, "shape"),
    "get_signature_def_input_types": lambda told: of_infos(told.inputs, "dtype"),
    "get_signature_def_output_types": lambda told: of_infos(told.outputs, "dtype"),
    "IndexedSlicesValue": IndexedSlicesValue, **OPERATIONS}
"""Name of a module's content -> what stands in for it."""
