"""Functions of `tf` whose parameters TensorFlow calls otherwise, and those that are a few of ours."""
from __future__ import annotations

import functools
from collections.abc import Callable, MutableMapping
from typing import Any

import numpy as np

import workbench as wb
from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.shape import as_shape
from workbench.nn import lookups, partitioned, partitions, templates, variables
from workbench.tf1.devices import DeviceSpec
from workbench.tf1.spelling import spelled

__all__ = ["FUNCTIONS", "install"]

_WORDS = """
    Print: input_ data message first_n summarize name
    add_n: inputs=values name
    as_dtype: type_value=value
    boolean_mask: tensor mask name axis
    check_numerics: tensor=x message name
    cholesky: input=x name
    count_nonzero: input_tensor=x axis keep_dims=keepdims dtype name reduction_indices=axis keepdims
    diag: diagonal=x name
    diag_part: input=x name
    gather: params indices ?validate_indices name axis
    is_variable_initialized: ref=variable ?name
    matrix_band_part: input=x num_lower num_upper name
    matrix_determinant: input=x name
    matrix_inverse: input=x adjoint name
    norm: tensor ord axis keep_dims=keepdims name keepdims
    ones_like: tensor dtype name ?optimize
    reverse_sequence: input=x seq_lengths seq_axis batch_axis name seq_dim=seq_axis batch_dim=batch_axis
    scan: fn elems initializer parallel_iterations back_prop swap_memory infer_shape name reverse
    strided_slice: input_=x begin end strides begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask ?var name
    zeros_like: tensor dtype name ?optimize
"""

_LINALG = {"cholesky": "input=x name", "det": "input=x name", "inv": "input=x adjoint name",
           "band_part": "input=x num_lower num_upper name",
           "tensor_diag": "diagonal=x name", "tensor_diag_part": "input=x name",
           "norm": "tensor ord axis keep_dims=keepdims name keepdims"}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(partitions, name) for name in partitions.__all__ if name != "PartitionedVariable"},
    "create_partitioned_variables": partitioned.create_partitioned_variables,
    "make_template": templates.make_template}
"""Name -> function, for the namespace `tf`."""


def _offered(function: Callable[..., Any]) -> Callable[..., Any]:
    FUNCTIONS[function.__name__.rstrip("_")] = function
    return function


@_offered
def accumulate_n(inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Tensor:
    """add_n of a list of inputs that are to have this shape and type; the input itself where it is the only one and no name is
    given. ValueError for what is no list of tensors of one type, ShapeError (a ValueError) where shapes contradict, DtypeError
    (a TypeError) where tensor_dtype is another."""
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise errors.InvalidArgumentError(f"accumulate_n: inputs are {inputs!r}; give a list of at least one tensor")
    values = [convert(value) for value in inputs]
    if (other := next((v for v in values if v.dtype is not values[0].dtype), None)) is not None:
        raise errors.InvalidArgumentError(f"accumulate_n: {values[0].name} is {values[0].dtype.name} but {other.name} is "
                                          f"{other.dtype.name}; cast one, so that all have one type")
    agreed = as_shape(shape)
    for value in values:
        agreed = agreed.merge(value.shape, "accumulate_n")
    if tensor_dtype is not None and values[0].dtype is not wb.as_dtype(tensor_dtype):
        raise errors.DtypeError(f"accumulate_n: the inputs are {values[0].dtype.name} but tensor_dtype is "
                                f"{wb.as_dtype(tensor_dtype).name}; make them agree")
    if len(values) == 1:
        return values[0] if name is None else ops.identity(values[0], name=name)
    found: Tensor = ops.accumulate_n(values, name=name or "AccumulateNV2")
    found.set_shape(agreed)
    return found


def install(names: MutableMapping[str, Any]) -> None:
    """Put TensorFlow's spelling, and the functions below, into a namespace."""
    for line in _WORDS.strip().splitlines():
        name, _, words = line.strip().partition(":")
        names[name] = spelled(names[name], words)
    names.update(FUNCTIONS)
    names.update({name: _of_sparse(names[name], _on_values(names[name])) for name in _ELEMENTWISE})
    names.update({name: _of_sparse(names[name], sparse) for name, sparse in _SHAPES.items()})
    spectral, image = vars(names["spectral"]), vars(names["image"])
    spectral.update({name: spelled(function, "input=input_tensor fft_length name") for name, function in spectral.items()
                     if "rfft" in name})
    for name in ("rgb_to_hsv", "hsv_to_rgb"):
        image[name] = spelled(image[name], f"images={name[:3]} name")
    linalg = vars(names["linalg"])
    for name, words in _LINALG.items():
        linalg[name] = spelled(linalg[name], words)


# sparse tensors, for which some functions of dense ones have a meaning

_ELEMENTWISE = ("abs", "erf", "negative", "sign", "sqrt", "square", "tanh")      # what makes zeros of zeros


def _of_sparse(dense: Callable[..., Any], sparse: Callable[..., Any]) -> Callable[..., Any]:
    """`dense`, or for a SparseTensor or its value `sparse`."""
    @functools.wraps(dense)
    def call(*args: Any, **options: Any) -> Any:
        first = args[0] if args else next((options[key] for key in ("input", "x") if key in options), None)
        if isinstance(first, wb.SparseTensorValue):
            first = wb.SparseTensor.from_value(first)
        if not isinstance(first, wb.SparseTensor):
            return dense(*args, **options)
        return sparse(first, *args[1:], **{key: value for key, value in options.items() if key not in ("input", "x")})
    return call


def _on_values(dense: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any, name: str | None = None) -> Any:
        return wb.SparseTensor(x.indices, dense(x.values, name=name), x.dense_shape)
    return call


_SHAPES: dict[str, Callable[..., Any]] = {
    "shape": lambda x, name=None, out_type="int32": ops.cast(x.dense_shape, out_type, name=name),
    "size": lambda x, name=None, out_type="int32": ops.cast(ops.reduce_prod(x.dense_shape), out_type, name=name),
    "cast": lambda x, dtype, name=None: wb.SparseTensor(x.indices, ops.cast(x.values, dtype, name=name), x.dense_shape),
    "rank": lambda x, name=None: ops.size(x.dense_shape, name=name)}


def _folding(fold: Callable[..., Any]) -> Callable[..., Any]:
    """`fold` over one tensor: a list of elements is put together, as in TensorFlow 1.4."""
    @functools.wraps(fold)
    def call(fn: Any, elems: Any, *more: Any, **options: Any) -> Any:
        return fold(fn, ops.stack(elems) if isinstance(elems, list) else elems, *more, **options)
    return call


FUNCTIONS["foldl"], FUNCTIONS["foldr"] = _folding(ops.foldl), _folding(ops.foldr)


@_offered
def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const", verify_shape: bool = False) -> Tensor:
    """A constant; the last of too few values fills the rest of `shape`, unless `verify_shape`, which is a TypeError then."""
    if shape is None:
        return wb.ops.constant(value, dtype, name=name)
    wanted = [int(d) for d in as_shape(shape).static]
    if verify_shape and list(np.shape(value)) != wanted:
        raise TypeError(f"constant: Expected Tensor's shape: {tuple(wanted)}, got {np.shape(value)}.")
    return wb.ops.constant(value, dtype, shape=wanted, name=name)


@_offered
def cond(pred: Any, true_fn: Any = None, false_fn: Any = None, strict: bool = False, name: str | None = None,
         fn1: Any = None, fn2: Any = None) -> Any:
    """cond; without `strict` a list of one, as a function returns it, is that one. `fn1` and `fn2` are the names before 1.2."""
    chosen = [old if new is None else new for new, old in ((true_fn, fn1), (false_fn, fn2))]
    if (true_fn is not None and fn1 is not None) or (false_fn is not None and fn2 is not None):
        raise TypeError("cond(): true_fn and fn1, false_fn and fn2 are the same; pass one of each")
    if isinstance(pred, bool):
        raise TypeError("pred must not be a Python bool")
    return ops.cond(pred, *(chosen if strict else map(_alone, chosen)), name=name)


@_offered
def case(pred_fn_pairs: Any, default: Any = None, exclusive: bool = False, strict: bool = False, name: str = "case") -> Any:
    """case; without `strict` a list of one is given as that one."""
    if not strict and isinstance(pred_fn_pairs, dict):
        pred_fn_pairs = {pred: _alone(function) for pred, function in pred_fn_pairs.items()}
    elif not strict and isinstance(pred_fn_pairs, (list, tuple)):
        pred_fn_pairs = [(pred, _alone(function)) for pred, function in pred_fn_pairs]
    return ops.case(pred_fn_pairs, default if strict else _alone(default), exclusive, name=name)


def _alone(function: Any) -> Any:
    """The function, but the only one of its results itself."""
    def call() -> Any:
        found = function()
        return found[0] if isinstance(found, (list, tuple)) and len(found) == 1 else found
    return call if callable(function) else function


@_offered
def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, adjoint_a: bool = False,
           adjoint_b: bool = False, a_is_sparse: bool = False, b_is_sparse: bool = False, name: str | None = None) -> Tensor:
    """The matrix product; `adjoint` also conjugates. That a matrix is mostly zeros changes no value."""
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise errors.InvalidArgumentError("matmul: Only one of transpose_a and adjoint_a can be True, and of transpose_b and "
                                          "adjoint_b; leave one out")
    first, second = (_conjugated(convert(x)) if adjoint else x for x, adjoint in ((a, adjoint_a), (b, adjoint_b)))
    turned_a, turned_b = transpose_a or adjoint_a, transpose_b or adjoint_b
    if a_is_sparse or b_is_sparse:
        first, second = convert(first), convert(second)
        if {first.dtype.name, second.dtype.name} <= _SPARSE:
            return sparse_matmul(first, second, turned_a, turned_b, a_is_sparse, b_is_sparse, name)
    return ops.matmul(first, second, transpose_a=turned_a, transpose_b=turned_b, name=name)


_SPARSE = {"float32", "bfloat16"}


@_offered
def sparse_matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, a_is_sparse: bool = False,
                  b_is_sparse: bool = False, name: str | None = None) -> Tensor:
    """The matrix product of float32 and bfloat16 matrices, in float32. That a matrix is mostly zeros changes no value."""
    parts = [convert(a), convert(b)]
    if not {part.dtype.name for part in parts} <= _SPARSE:
        raise errors.DtypeError(f"sparse_matmul: a is {parts[0].dtype.name} and b {parts[1].dtype.name}; both must be float32 "
                                "or bfloat16, so cast them, or use matmul")
    first, second = (ops.cast(part, "float32") for part in parts)
    return ops.matmul(first, second, transpose_a=transpose_a, transpose_b=transpose_b, name=name)


def _conjugated(x: Tensor) -> Tensor:
    return ops.conj(x) if x.dtype.kind == "complex" else x


@_offered
def transpose(a: Any, perm: Any = None, name: str | None = "transpose", conjugate: bool = False) -> Tensor:
    """The axes of `a` in the order `perm` (None: reversed); `conjugate` also takes the complex conjugate."""
    turned: Tensor = ops.transpose(_conjugated(convert(a)) if conjugate else a, perm=perm, name=name)
    return turned


@_offered
def shape(input: Any, name: str | None = None, out_type: Any = "int32") -> Tensor:
    """The dimensions [rank] of a tensor, or of a sparse one, in `out_type`."""
    found: Tensor = (ops.cast(input.dense_shape, out_type, name=name) if _is_sparse(input) else
                     ops.shape(input, out_type=out_type, name=name))
    return found


@_offered
def size(input: Any, name: str | None = None, out_type: Any = "int32") -> Tensor:
    """The number of elements of a tensor, or of a sparse one with its zeros, in `out_type`."""
    found: Tensor = (ops.cast(ops.reduce_prod(input.dense_shape), out_type, name=name) if _is_sparse(input) else
                     ops.size(input, out_type=out_type, name=name))
    return found


@_offered
def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of dimensions of a tensor, or of a sparse one: int32 scalar."""
    found: Tensor = ops.size(input.dense_shape, name=name) if _is_sparse(input) else ops.rank(input, name=name)
    return found


def _is_sparse(value: Any) -> bool:
    return isinstance(value, (wb.SparseTensor, wb.SparseTensorValue))


@_offered
class SparseConditionalAccumulator(wb.SparseConditionalAccumulator):
    """Gathers IndexedSlices; the mean of a row is over the gradients that have it."""

    def __init__(self, dtype: Any, shape: Any = None, shared_name: str | None = None,
                 name: str = "sparse_conditional_accumulator", reduction_type: str = "MEAN") -> None:
        super().__init__(dtype, shape, shared_name, name, "ROW_MEAN" if reduction_type == "MEAN" else reduction_type)


def position(operation: Any) -> Any:
    """argmax or argmin with TensorFlow's arguments in their order."""
    def find(input: Any, axis: Any = None, name: str | None = None, dimension: Any = None, output_type: Any = "int64") -> Any:
        """The position of the largest (argmin: smallest) element along `axis` (0), also called `dimension`."""
        if axis is not None and dimension is not None:
            raise errors.InvalidArgumentError("argmax: axis and dimension are one argument; give one")
        along = dimension if axis is None else axis
        return operation(input, axis=0 if along is None else along, dtype=output_type, name=name)
    return find


@_offered
def device(device_name_or_function: Any) -> Any:
    """Operations made below are placed there: a name, a DeviceSpec, or a function from operation to either."""
    return wb.device(str(device_name_or_function) if isinstance(device_name_or_function, DeviceSpec)
                     else device_name_or_function)


@_offered
def op_scope(values: Any, name: str | None, default_name: str | None = None) -> Any:
    """name_scope, with the values first."""
    return wb.name_scope(name, default_name, values)


@_offered
def variable_op_scope(values: Any, name_or_scope: Any, default_name: str | None = None, initializer: Any = None,
                      regularizer: Any = None, caching_device: Any = None, partitioner: Any = None, custom_getter: Any = None,
                      reuse: Any = None, dtype: Any = None, use_resource: Any = None, constraint: Any = None) -> Any:
    """variable_scope, with the values first."""
    return wb.variable_scope(name_or_scope, default_name, values, initializer, regularizer, caching_device, partitioner,
                             custom_getter, reuse, dtype, use_resource, constraint)


@_offered
def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """(seed of the graph, seed of an operation) as random operations use them."""
    graph = variables.root_graph()
    if graph.seed is not None:
        return graph.seed, len(graph.operations) if op_seed is None else op_seed
    return (87654321, op_seed) if op_seed is not None else (None, None)


@_offered
def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A sparse tensor as it is, anything else as a tensor."""
    if isinstance(value, wb.SparseTensorValue):
        value = wb.SparseTensor(value.indices, value.values, value.dense_shape)
    return value if isinstance(value, wb.SparseTensor) else wb.convert_to_tensor(value, dtype, name)


@_offered
def convert_to_tensor_or_indexed_slices(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Indexed slices as they are, anything else as a tensor."""
    return value if isinstance(value, IndexedSlices) else wb.convert_to_tensor(value, dtype, name)


@_offered
def count_up_to(ref: Any, limit: int, name: str | None = None) -> Tensor:
    """Add 1 to an integer variable and give the value before; OutOfRangeError once it is `limit`."""
    with wb.name_scope(name, "CountUpTo"):
        return ref.count_up_to(limit)


FUNCTIONS["tables_initializer"] = FUNCTIONS["initialize_all_tables"] = lookups.tables_initializer


@_offered
def moving_average_variables(scope: str | None = None) -> list[Any]:
    """The variables whose moving averages are kept."""
    return wb.get_collection(wb.GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


@_offered
def container(container_name: str) -> Any:
    """Variables, queues and other state made below belong to this part of a task's state; Session.reset forgets parts."""
    return get_default_graph().container(container_name)


@_offered
def add_to_collections(names: Any, value: Any) -> None:
    """Append a value to several collections of the default graph."""
    get_default_graph().add_to_collections(names, value)


@_offered
def no_regularizer(_: Any) -> None:
    """None: no loss, whatever the scope's regularizer."""
    return


@_offered
def register_tensor_conversion_function(base_type: Any, conversion_func: Any, priority: int = 100) -> None:
    """Let values of `base_type` be used as tensors: `conversion_func(value, dtype, name, as_ref)` makes one."""
    def tensor(self: Any) -> Tensor:
        return conversion_func(self, None, None, False)
    for kind in base_type if isinstance(base_type, tuple) else (base_type,):
        try:
            kind.__tensor__ = tensor
        except TypeError as error:
            raise errors.UnimplementedError(f"register_tensor_conversion_function: {kind.__name__} is a built-in type, which "
                                            "takes no conversion; make a class of your own") from error
