"""SparseTensor: a tensor given by the places and values of what is not zero; conversions, products, lookups."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.graph.build import constant_shape, constant_value, convert, ops
from workbench.core.graph.dtype import DType
from workbench.core.graph.entered import get_default_session
from workbench.core.graph.graph import Graph, Tensor, get_default_graph
from workbench.core.graph.shape import Shape
from workbench.nn.embedding import embedding_lookup

__all__ = ["SparseTensor", "SparseTensorValue", "edit_distance", "embedding_lookup_sparse", "sparse_placeholder",
           "sparse_reduce_sum", "sparse_tensor_dense_matmul", "sparse_tensor_to_dense", "string_split"]


class SparseTensorValue(NamedTuple):
    """The value of a SparseTensor, fetched or to be fed: arrays int64 [n, rank], [n] and int64 [rank]."""

    indices: Any
    values: Any
    dense_shape: Any


class SparseTensor:
    """`values` [n] at `indices` int64 [n, rank] of a tensor of `dense_shape` int64 [rank]; zero (or empty) elsewhere.

    Indices are in row-major order and distinct, unless an operation says otherwise. Can be fetched, and, when made of
    placeholders, fed with a SparseTensorValue or a tuple of its parts. Raises ShapeError when the parts do not fit.
    """

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        self.indices, self.values = convert(indices, "int64"), convert(values)
        self.dense_shape = convert(dense_shape, "int64")
        for part, rank in ((self.indices, 2), (self.values, 1), (self.dense_shape, 1)):
            if part.shape.rank not in (None, rank):
                raise errors.ShapeError(f"SparseTensor: {part.name} has shape {part.shape}; indices are [n, rank], "
                                        "values [n], dense_shape [rank]")

    @property
    def dtype(self) -> DType:
        return self.values.dtype

    @property
    def graph(self) -> Graph:
        return self.values.graph

    @property
    def op(self) -> Any:
        return self.values.op

    def get_shape(self) -> Shape:
        """The static shape, as far as `dense_shape` is known."""
        return constant_shape(self.dense_shape)

    shape = property(get_shape)

    def __iter__(self) -> Iterator[Tensor]:
        """Its parts: datasets of TensorFlow 1.4 gave these three, and programs make a SparseTensor of them."""
        return iter((self.indices, self.values, self.dense_shape))

    def __graph_parts__(self) -> tuple[list[Tensor], Callable[..., Any]]:
        return [self.indices, self.values, self.dense_shape], SparseTensorValue

    @staticmethod
    def __part_shapes__(shape: Shape) -> list[Shape]:
        return [Shape([None, shape[0]]), Shape([None]), shape]      # given as that of `dense_shape`

    def __parts__(self) -> tuple[list[Tensor], Callable[[list[Tensor]], SparseTensor]]:
        """The tensors of which it is one in branches and loops, and how it is made of new ones."""
        return [self.indices, self.values, self.dense_shape], lambda new: SparseTensor(*new)

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> SparseTensor:
        """A SparseTensor of a SparseTensorValue, or of another SparseTensor. TypeError for anything else."""
        if not isinstance(sparse_tensor_value, (SparseTensor, SparseTensorValue)):
            raise TypeError(f"SparseTensor.from_value: {sparse_tensor_value!r} is not a SparseTensorValue; pass one")
        parts = sparse_tensor_value
        return cls(parts.indices, parts.values, parts.dense_shape)

    def eval(self, feed_dict: Any = None, session: Any = None) -> SparseTensorValue:
        """The value, by `session` or the default one."""
        return (session or get_default_session()).run(self, feed_dict)

    def _with(self, dense: Any, kind: str) -> SparseTensor:
        """The values combined with those that `dense`, broadcast to this shape, has at their places."""
        other = convert(dense, None if hasattr(dense, "op") else self.dtype)
        at = ops.ensure_shape(ops.gather_nd(ops.broadcast_to(other, self.dense_shape), self.indices), self.values.shape)
        return SparseTensor(self.indices, getattr(ops, kind)(self.values, at), self.dense_shape)

    def __mul__(self, dense: Any) -> SparseTensor:
        return self._with(dense, "multiply")

    __rmul__ = __mul__

    def __truediv__(self, dense: Any) -> SparseTensor:
        return self._with(dense, "truediv")

    def __repr__(self) -> str:
        return f"<SparseTensor {self.dtype.name}{self.get_shape()}>"


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """A sparse tensor to be fed with (indices, values, dense_shape); `shape`, a tensor too, fixes the dense shape."""
    with get_default_graph().name_scope(name or "sparse_placeholder"):
        rank = None if shape is None else shape.shape.as_list()[0] if isinstance(shape, Tensor) else len(shape)
        if isinstance(shape, Tensor):
            dense = ops.cast(shape, "int64")
        elif shape is not None and None not in list(shape):
            dense = convert(list(shape), "int64")
        else:
            dense = ops.placeholder("int64", [rank], name="shape")
        return SparseTensor(ops.placeholder("int64", [None, rank], name="indices"),
                            ops.placeholder(dtype, [None], name="values"), dense)


def sparse_of(value: Any, where: str) -> SparseTensor:
    """A SparseTensor as it is; one of a SparseTensorValue or of three parts. TypeError for anything else."""
    if isinstance(value, SparseTensor):
        return value
    if isinstance(value, tuple) and len(value) == 3:
        return SparseTensor(*value)
    raise TypeError(f"{where}: {value!r} is not a SparseTensor; make one of indices, values and dense_shape")


def sparse_tensor_to_dense(sp_input: SparseTensor, default_value: Any = None, validate_indices: bool = True,
                           name: str | None = None) -> Tensor:
    """The dense tensor; `default_value` (0, False or "") stands where nothing is given."""
    sp_input = sparse_of(sp_input, "sparse_tensor_to_dense")
    values = sp_input.values
    if default_value is None:
        default_value = {"string": b"", "bool": False}.get(values.dtype.kind, 0)
    return ops.sparse_fill(sp_input.indices, values, sp_input.dense_shape, convert(default_value, values.dtype),
                           validate_indices=validate_indices, name=name)


def sparse_tensor_dense_matmul(sp_a: SparseTensor, b: Any, adjoint_a: bool = False, adjoint_b: bool = False,
                               name: str | None = None) -> Tensor:
    """Sparse matrix · dense matrix b, either transposed and conjugated first; gives a dense matrix."""
    sp_a = sparse_of(sp_a, "sparse_tensor_dense_matmul")
    dense, indices, values, shape = convert(b, sp_a.dtype), sp_a.indices, sp_a.values, sp_a.dense_shape
    if adjoint_a:
        indices, shape, values = ops.reverse(indices, axis=[1]), ops.reverse(shape, axis=[0]), ops.conj(values)
    return ops.sparse_matmul(indices, values, shape, ops.conj(ops.transpose(dense)) if adjoint_b else dense, name=name)


def sparse_reduce_sum(sp_input: SparseTensor, axis: Any = None, keep_dims: bool = False, reduction_axes: Any = None,
                      keepdims: bool = False) -> Tensor:
    """The sum over `axis` (or `reduction_axes`, default: all) as a dense tensor."""
    dense = sparse_tensor_to_dense(sp_input, validate_indices=False)
    return ops.reduce_sum(dense, axis=reduction_axes if axis is None else axis, keepdims=keep_dims or keepdims)


def edit_distance(hypothesis: SparseTensor, truth: SparseTensor, normalize: bool = True,
                  name: str = "edit_distance") -> Tensor:
    """Levenshtein distances of the sequences along the last axis: float32 of the shape without that axis.

    With `normalize` divided by the length of the true sequence (inf when only that one is empty).
    """
    hypothesis, truth = sparse_of(hypothesis, "edit_distance"), sparse_of(truth, "edit_distance")
    return ops.edit_distances(hypothesis.indices, hypothesis.values, hypothesis.dense_shape, truth.indices, truth.values,
                              truth.dense_shape, normalize=normalize, name=name)


def string_split(source: Any, delimiter: Any = " ", skip_empty: bool = True) -> SparseTensor:
    """The words of each of the strings [n] as a sparse matrix; every character of `delimiter` separates words: text, bytes or a
    tensor that is known while building."""
    if not isinstance(delimiter, (str, bytes)):
        known = constant_value(convert(delimiter))
        if known is None:
            raise errors.InvalidArgumentError(f"string_split: delimiter is {delimiter!r}, which only the step knows; give text")
        delimiter = known.item()
    separators = delimiter.decode() if isinstance(delimiter, bytes) else delimiter
    return SparseTensor(*ops.string_split(source, delimiter=separators, skip_empty=skip_empty))


def embedding_lookup_sparse(params: Any, sp_ids: SparseTensor, sp_weights: SparseTensor | None,
                            partition_strategy: str = "mod", name: str | None = None, combiner: str = "mean",
                            max_norm: float | None = None) -> Tensor:
    """For each row of the sparse matrix of ids, the combined rows of the table: [rows with ids, width].

    `combiner` "sum" adds them (times their weights), "mean" divides by Σ weights, "sqrtn" by √Σ weights². Rows without
    ids give zeros where a row with ids comes after them, as in TensorFlow. InvalidArgumentError for another combiner.
    """
    if combiner not in ("sum", "mean", "sqrtn"):
        raise errors.InvalidArgumentError(f"embedding_lookup_sparse: combiner {combiner!r} is unknown; use sum, mean or "
                                          "sqrtn")
    with get_default_graph().name_scope(name or "embedding_lookup_sparse"):
        segments = ops.cast(sp_ids.indices[:, 0], "int32")
        rows = embedding_lookup(params, sp_ids.values, partition_strategy, max_norm=max_norm)
        weights = _beside(rows, ops.ones_like(segments, rows.dtype) if sp_weights is None
                          else ops.cast(sp_weights.values, rows.dtype))
        total = ops.segment_sum(rows * weights, segments)
        if combiner == "sum":
            return total
        if combiner == "mean":
            return _divided(total, ops.segment_sum(weights, segments))
        return _divided(total, ops.sqrt(ops.segment_sum(ops.square(weights), segments)))


def _beside(rows: Tensor, weights: Tensor) -> Tensor:
    """A number for each row, with as many axes as the rows: a table may hold matrices, or more."""
    if rows.shape.rank is not None:
        return ops.expand_dims(weights, tuple(range(1, rows.shape.rank)))
    return ops.reshape(weights, ops.concat([ops.shape(weights), ops.ones_like(ops.shape(rows)[1:])], 0))


def _divided(total: Tensor, by: Tensor) -> Tensor:
    """total / by, and 0 where there is nothing to divide."""
    empty = ops.equal(by, 0.0)
    safe = ops.select(empty, ops.ones_like(by), by)
    return total / safe
