"""Small functions of TensorFlow's inner modules that programs borrow: of graphs, recurrent cells and metrics."""
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import workbench.tf1 as tf
from workbench.core.graph.build import ops as _ops
from workbench.formats.registered import forms as _forms
from workbench.formats.registered import register_proto_function as _register_proto
from workbench.nn import nest
from workbench.nn.weights import checked_weights as _checked

__all__ = ["ARRAYS", "FILES", "FLOW", "GRAPHS", "INITIAL", "ITERATORS", "METRICS", "RECURRENT", "RESOURCES", "SESSIONS",
           "STATE", "WEIGHTS", "with_dependencies"]


# graphs

def with_dependencies(dependencies: Sequence[Any], output_tensor: Any, name: str | None = None) -> Any:
    """`output_tensor` (or IndexedSlices), computed after `dependencies`."""
    with tf.name_scope(name, "control_dependency", [*dependencies, output_tensor]) as scope, tf.control_dependencies(
            dependencies):
        if isinstance(output_tensor, tf.IndexedSlices):
            return tf.IndexedSlices(tf.identity(output_tensor.values), output_tensor.indices, output_tensor.dense_shape)
        return tf.identity(output_tensor, name=scope)


def _converted(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False, preferred_dtype: Any = None,
               ctx: Any = None) -> Any:
    """convert_to_tensor, with the arguments that only TensorFlow's own code gives."""
    del as_ref, ctx      # there are no references here, and graphs alone
    return tf.convert_to_tensor(value, dtype, name, preferred_dtype)


def _all_converted(values: Sequence[Any], dtype: Any = None, name: str | None = None, preferred_dtype: Any = None) -> list[Any]:
    """Each of `values` as a tensor, called `name_0`, `name_1`, …"""
    return [_converted(value, dtype, None if name is None else f"{name}_{place}", preferred_dtype=preferred_dtype)
            for place, value in enumerate(values)]


def _all_converted_or_slices(values: Sequence[Any], dtype: Any = None, name: str | None = None) -> list[Any]:
    """Each of `values` as a tensor, or as it is where it is IndexedSlices or None."""
    return [value if value is None else tf.convert_to_tensor_or_indexed_slices(
        value, dtype, None if name is None else f"{name}_{place}") for place, value in enumerate(values)]


def _without_scope(name: str, export_scope: str | None) -> str:
    """`name` of a node, of an input ("^name") or of a colocation ("loc:@name") without the scope before it."""
    return re.sub(rf"(^|[\^]|loc:@){re.escape(export_scope)}/", r"\1", name, count=1) if export_scope else name


def _within_scope(name: str, import_scope: str | None) -> str:
    """`name` of a node, of an input or of a colocation below a scope."""
    return re.sub(r"^(\^|loc:@)?", lambda found: f"{found.group()}{import_scope}/", name, count=1) if import_scope else name


def _register_shape(_op_type: str) -> Callable[[Any], Any]:
    """A decorator of a rule of shapes, which is not asked: every operation here states its own."""
    return lambda f: f


def _shapes_are_set(op: Any) -> None:
    """The shapes of an operation's outputs, known since it was made."""


def _form_of(part: int) -> Callable[[str], Any]:
    """A function of a collection's name that gives one part of how its objects are written, None where none is registered."""
    return lambda collection_name: _forms[collection_name][part] if collection_name in _forms else None


GRAPHS = {"register_proto_function": _register_proto, "get_collection_proto_type": _form_of(0),
          "get_to_proto_function": _form_of(1), "get_from_proto_function": _form_of(2),
          "RegisterShape": _register_shape, "set_shapes_for_outputs": _shapes_are_set,
          "internal_convert_to_tensor": _converted, "convert_n_to_tensor": _all_converted,
          "internal_convert_n_to_tensor": _all_converted, "convert_n_to_tensor_or_indexed_slices": _all_converted_or_slices,
          "convert_to_tensor_or_indexed_slices": tf.convert_to_tensor_or_indexed_slices,
          "strip_name_scope": _without_scope, "prepend_name_scope": _within_scope}
"""Name in `framework.ops` -> function."""


# files

def _restored(prefix: Any, tensor_names: Sequence[str], shape_and_slices: Sequence[str], dtypes: Sequence[Any],
              name: str | None = None) -> list[Any]:
    """The tensors of these names in the checkpoint at `prefix`, or the block of each that a text such as "5 3 0,3:0,3" says."""
    def read(path: bytes) -> list[Any]:
        reader = tf.train.NewCheckpointReader(path.decode())
        return [reader.get_tensor(one)[_block(spec)] for one, spec in zip(tensor_names, shape_and_slices, strict=True)]
    found = tf.py_func(read, [prefix], list(dtypes), name=name)
    for tensor, spec in zip(found, shape_and_slices):
        if spec:
            *shape, parts = spec.split()
            tensor.set_shape([int(whole) if part == "-" else int(part.partition(",")[2])
                              for whole, part in zip(shape, parts.split(":"))])
    return list(found)


def _block(spec: str) -> tuple[slice, ...]:
    """Where a block of a larger tensor is: all of it for ""."""
    ends = [part.partition(",") for part in spec.split()[-1].split(":")] if spec else []
    return tuple(slice(None) if begin == "-" else slice(int(begin), int(begin) + int(length)) for begin, _, length in ends)


FILES = {"restore_v2": _restored}
"""Name in `ops.io_ops` -> function."""


# sessions

def _register_session_run(tensor_type: type, fetch_function: Callable[[Any], Any],
                          feed_function: Callable[[Any, Any], Any] | None = None,
                          feed_function_for_partial_run: Callable[[Any], Any] | None = None) -> None:
    """Let sessions fetch objects of a class, by `fetch_function(object)`: (tensors, function of the list of their values), and
    feed them, by `feed_function(object, value)`: pairs of a tensor and its value. ValueError for a class registered before."""
    if "__fetches__" in vars(tensor_type):
        raise ValueError(f"{tensor_type} has already been registered so ignore it.")
    changed: Any = tensor_type
    changed.__fetches__ = lambda self: fetch_function(self)
    if feed_function is not None:
        changed.__feeds__ = lambda self, value: feed_function(self, value)


SESSIONS = {"register_session_run_conversion_functions": _register_session_run}
"""Name in `client.session` -> function."""


# arrays

def _with_added(input: Any, indices: Any, updates: Any, name: str | None = None) -> Any:
    """`input` with the updates added at the index vectors [..., depth]; duplicates add up. What it is made of stays."""
    x, where = tf.convert_to_tensor(input), tf.convert_to_tensor(indices)
    return tf.add(x, tf.scatter_nd(where, tf.convert_to_tensor(updates, x.dtype), tf.shape(x, out_type=where.dtype)), name=name)


ARRAYS = {"scatter_nd_non_aliasing_add": _with_added}
"""Name in `ops.array_ops` -> function."""


# iterators

def _saved_iterator(iterator_resource: Any, path: Any, name: str | None = None) -> Any:
    """Write where an iterator is to a file."""
    return tf.write_file(path, _ops.iterator_position(iterator_resource), name=name)


def _restored_iterator(iterator_resource: Any, path: Any, name: str | None = None) -> Any:
    """Go on from where the iterator was that wrote the file; one that has not begun begins with its data, if it has any."""
    begins = [op for op in iterator_resource.consumers()
              if op.kind in ("iterator_initialize", "iterator_next") and op.attrs["program"]]
    how = {key: begins[0].attrs[key] for key in ("program", "functions")} if begins else {}
    return _ops.iterator_resume(iterator_resource, tf.read_file(path), begins[0].inputs[1:] if begins else [], **how, name=name)


ITERATORS = {"save_iterator": _saved_iterator, "restore_iterator": _restored_iterator}
"""Name in `ops.gen_dataset_ops` -> function."""


# resources

def _initialized(resource_list: Sequence[Any], name: str = "init") -> Any:
    """One operation that makes all these resources."""
    return tf.group(*[made.create for made in resource_list], name=name)


def _registered(handle: Any, create_op: Any, is_initialized_op: Any, is_shared: bool = True) -> None:
    """Put a resource into the collection of those that all tasks see, or of those of this one."""
    key = tf.GraphKeys.RESOURCES if is_shared else tf.GraphKeys.LOCAL_RESOURCES
    tf.add_to_collection(key, _Resource(handle, create_op, is_initialized_op))


class _Resource(NamedTuple):
    handle: Any
    create: Any
    is_initialized: Any


RESOURCES = {
    "initialize_resources": _initialized, "register_resource": _registered,
    "shared_resources": lambda: tf.get_collection(tf.GraphKeys.RESOURCES),
    "local_resources": lambda: tf.get_collection(tf.GraphKeys.LOCAL_RESOURCES)}
"""Name in `ops.resources` -> function."""


# state

def _initialized_by(v: Any, init: Any, name: str = "init") -> Any:
    """The operation that gives a variable the value of a tensor, or of a function of (shape, dtype)."""
    with tf.name_scope(None, f"{v.op.name}/", [v, init]) as scope:
        made = init(v.get_shape().as_list(), v.dtype.base_dtype) if callable(init) else init
        return tf.assign(v, made, name=scope + name)


def _assert_float(dtype: Any) -> Any:
    """`dtype`, ValueError where it is not of floats."""
    if not tf.as_dtype(dtype).is_floating:
        raise ValueError(f"Expected floating point type, got {tf.as_dtype(dtype)}.")
    return dtype


STATE = {"init_variable": _initialized_by}
"""Name in `ops.state_ops` -> function."""


# control flow

class _Merged(NamedTuple):
    output: Any
    value_index: Any


def _switch(data: Any, pred: Any, dtype: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """(`data` where `pred` is false, where it is true): what uses the other one does not run."""
    x = tf.convert_to_tensor_or_indexed_slices(data, dtype)
    if isinstance(x, tf.IndexedSlices):
        (values, no_values), (indices, no_indices) = _ops.switch(x.values, pred), _ops.switch(x.indices, pred)
        return tf.IndexedSlices(values, indices, x.dense_shape), tf.IndexedSlices(no_values, no_indices, x.dense_shape)
    false, true = _ops.switch(x, pred, name=name or "Switch")
    return false, true


def _merge(inputs: Sequence[Any], name: str | None = None) -> _Merged:
    """(the one input that ran, its place), both None of which but one may run. ValueError where one is None."""
    if any(one is None for one in inputs):
        raise ValueError(f"At least one of the merge inputs is None: {inputs}")
    return _Merged(*_ops.merge([tf.convert_to_tensor(one) for one in inputs], name=name or "Merge"))


FLOW = {"switch": _switch, "merge": _merge}
"""Name in `ops.control_flow_ops` -> function."""


# recurrent cells

def _like_a_cell(cell: Any) -> bool:
    """Has it what a cell has, of whatever class it is?"""
    return callable(cell) and hasattr(cell, "output_size") and hasattr(cell, "state_size") and (
        hasattr(cell, "zero_state") or getattr(cell, "call", None) is not None)


def _assert_like_a_cell(cell_name: str, cell: Any) -> None:
    """TypeError for what is no cell."""
    if not _like_a_cell(cell):
        raise TypeError(f"The argument {cell_name!r} ({cell}) is not an RNNCell: it needs output_size, state_size, zero_state "
                        "and a call")


def _joined(prefix: Any, suffix: Any, static: bool = False) -> Any:
    """A shape, or with `static` a list of lengths, of a batch's length and the lengths behind it; tensors may be among them."""
    parts = [part if isinstance(part, tf.Tensor) else tf.TensorShape(part).as_list() if not isinstance(
        part, (int, np.integer)) else [int(part)] for part in (prefix, suffix)]
    if not any(isinstance(part, tf.Tensor) for part in parts):
        known = [length for part in parts for length in part]
        if static or None not in known:
            return known if static else tf.constant(known, tf.int32)
    lengths = [tf.expand_dims(part, 0) if isinstance(part, tf.Tensor) and part.shape.ndims == 0 else part for part in parts]
    return tf.concat(lengths, 0)


def _zeros(state_size: Any, batch_size: Any, dtype: Any) -> Any:
    """Zeros [batch, size] for each part of a state."""
    return nest.map_structure(lambda size: tf.zeros(_joined(batch_size, size), dtype), state_size)


def _swapped(x: Any) -> Any:
    """The first two axes change places; a tensor of rank 1 or 0 stays."""
    x = tf.convert_to_tensor(x)
    if x.shape.ndims is not None and x.shape.ndims < 2:
        return x
    return tf.transpose(x, tf.concat([[1, 0], tf.range(2, tf.rank(x))], 0))


def _batch_of(flat_input: Sequence[Any]) -> Any:
    """The length of the batch of inputs [time, batch, ...]: a number where one of them tells."""
    known = [x.shape.as_list()[1] for x in flat_input if x.shape.ndims is not None and x.shape.ndims > 1]
    return next((length for length in known if length is not None), None) or tf.shape(flat_input[0])[1]


def _dtype_of_state(explicit_dtype: Any, state: Any) -> Any:
    """The dtype asked for, or that of all parts of a state. ValueError where they differ or there are none."""
    if explicit_dtype is not None:
        return explicit_dtype
    kinds = {x.dtype for x in nest.flatten(state)}
    if len(kinds) != 1:
        raise ValueError(f"State has tensors of {sorted(kind.name for kind in kinds) or 'no'} dtype; give the dtype")
    return kinds.pop()


RECURRENT = {"_like_rnncell": _like_a_cell, "assert_like_rnncell": _assert_like_a_cell, "_concat": _joined,
             "_zero_state_tensors": _zeros, "_transpose_batch_time": _swapped, "_best_effort_input_batch_size": _batch_of,
             "_infer_state_dtype": _dtype_of_state, "_WEIGHTS_VARIABLE_NAME": "kernel", "_BIAS_VARIABLE_NAME": "bias",
             "_LayerRNNCell": tf.nn.rnn_cell.RNNCell, "LayerRNNCell": tf.nn.rnn_cell.RNNCell}
"""Name in `ops.rnn` or `ops.rnn_cell_impl` -> thing."""


# metrics

def _metric_variable(shape: Any, dtype: Any, validate_shape: bool = True, name: str | None = None) -> Any:
    """Zeros in a variable of the collections LOCAL_VARIABLES and METRIC_VARIABLES."""
    return tf.Variable(tf.zeros(shape, dtype), trainable=False, validate_shape=validate_shape, name=name,
                       collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES])


def _local(name: str, shape: Any, collections: Any = None, validate_shape: bool = True, dtype: Any = tf.float32) -> Any:
    """Zeros in a variable of the collection LOCAL_VARIABLES and of `collections`."""
    return tf.Variable(tf.zeros(shape, dtype), trainable=False, validate_shape=validate_shape, name=name,
                       collections=[*(collections or []), tf.GraphKeys.LOCAL_VARIABLES])


def _quotient(numerator: Any, denominator: Any, name: str | None = None) -> Any:
    """numerator / denominator, 0 where the denominator is not above 0."""
    above = tf.greater(denominator, 0)
    safe = tf.where(above, denominator, tf.ones_like(denominator))
    return tf.where(above, tf.truediv(numerator, safe), tf.zeros_like(numerator), name=name)


def _confusions(labels: Any, predictions: Any, num_classes: Any, weights: Any = None) -> tuple[Any, Any]:
    """(matrix [classes, classes] of all batches, operation that adds one): labels by rows, predictions by columns."""
    total = _metric_variable([num_classes, num_classes], tf.float64, name="total_confusion_matrix")
    flat = [None if x is None else tf.reshape(x, [-1]) for x in (labels, predictions, weights)]
    batch = tf.confusion_matrix(tf.to_int64(flat[0]), tf.to_int64(flat[1]), num_classes, dtype=tf.float64, weights=flat[2])
    return total, tf.assign_add(total, batch)


def _fits(weights: Any, values: Any) -> Any:
    """The operation that checks that `weights` are a scalar, or of the rank of `values` with each length theirs or 1."""
    given = tf.convert_to_tensor(weights)
    return tf.group(_checked(given, tf.convert_to_tensor(values), "assert_broadcastable", given.dtype))


def _broadcast(weights: Any, values: Any) -> Any:
    """`weights`, which fit `values`, in their shape."""
    wanted = tf.convert_to_tensor(values)
    return tf.multiply(_checked(weights, wanted, "broadcast_weights"), tf.ones_like(wanted), name="broadcast_weights")


WEIGHTS = {"assert_broadcastable": _fits, "broadcast_weights": _broadcast}
"""Name in `ops.weights_broadcast_ops` -> function."""
INITIAL = {"_assert_float_dtype": _assert_float}
"""Name in `ops.init_ops` -> function."""
METRICS = {"metric_variable": _metric_variable, "_create_local": _local, "_safe_div": _quotient,
           "_local_variable": tf.contrib.framework.local_variable, "_streaming_confusion_matrix": _confusions}
"""Name in `ops.metrics_impl` -> function."""
