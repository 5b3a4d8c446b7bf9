"""More of tf.contrib.data: SQL, sparse batches, resampling by class, batches of parsed examples, its methods of 2017."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import as_shape
from workbench.nn.sparse import SparseTensor
from workbench.train.input import contrib_data
from workbench.train.input.contrib_data import Transformation
from workbench.train.input.data import Dataset, TFRecordDataset
from workbench.train.input.data_structures import Part, flatten, pack
from workbench.train.input.examples import parse_example

__all__ = ["SqlDataset", "dense_to_sparse_batch", "read_batch_features", "rejection_resample"]

_ESTIMATED = 32      # elements from one estimate of the classes' shares to the next
_COLUMNS = ("string", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool", "float64")      # what SQL gives
_BEFORE = 10         # how often each class counts as seen before the first element


class SqlDataset(Dataset):
    """The rows of a query: scalars in the structure of `output_types`, one for each column (string, int8 to int64, uint8,
    uint16, bool, float64).

    `driver_name` is "sqlite", `data_source_name` a file, which is only read, in the task that holds the iterator. Errors in the
    step: InvalidArgumentError for another driver or number of columns, UnknownError where the database refuses.
    """

    def __init__(self, driver_name: Any, data_source_name: Any, query: Any, output_types: Any) -> None:
        dtypes = [as_dtype(t) for t in flatten(output_types)]
        for dtype in dtypes:
            if dtype.name not in _COLUMNS:
                raise errors.DtypeError(f"SqlDataset: a column cannot be {dtype.name}; use one of {', '.join(_COLUMNS)}")
        texts = [convert(given, "string") for given in (driver_name, data_source_name, query)]
        super().__init__(("rows", *texts, tuple(dtype.name for dtype in dtypes)),
                         pack(output_types, [Part(dtype, as_shape([])) for dtype in dtypes]))


def dense_to_sparse_batch(batch_size: Any, row_shape: Any) -> Transformation:
    """`batch_size` elements of any shapes within `row_shape` as one SparseTensor of shape [batch_size, *row_shape]."""
    def to_sparse(dense: Tensor) -> SparseTensor:
        size = row_shape if isinstance(row_shape, Tensor) else [-1 if n is None else n for n in as_shape(row_shape).sizes or ()]
        whole = ops.cast(convert(size), "int64")
        shape = ops.where(ops.less(whole, 0), ops.cast(ops.shape_vector(dense), "int64"), whole)
        everywhere = ops.where_indices(ops.ones_like(dense, dtype="bool"))
        return SparseTensor(everywhere, ops.reshape(dense, [-1]), shape)
    return lambda dataset: dataset.map(to_sparse).batch(batch_size)


def rejection_resample(class_func: Callable[..., Any], target_dist: Any, initial_dist: Any = None,
                       seed: int | None = None) -> Transformation:
    """Pairs of class and element, of which as many are left out as bring the classes (int32 scalars that `class_func` gives)
    to the shares `target_dist`. Without their shares `initial_dist` these are estimated from what came so far."""
    def resampled(dataset: Dataset) -> Dataset:
        wanted = convert(target_dist)
        classes = dataset.map(class_func)
        if initial_dist is not None:
            kept = Dataset.from_tensors(_acceptance(convert(initial_dist), wanted)).repeat()
        else:
            count = wanted.shape.static[0]

            def estimate(seen: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
                total = seen + ops.reduce_sum(ops.one_hot(batch, count, dtype="int64"), axis=0)
                shares = ops.cast(total, wanted.dtype) / ops.cast(ops.reduce_sum(total), wanted.dtype)
                return total, ops.tile(ops.expand_dims(shares, 0), [_ESTIMATED, 1])
            before = ops.fill([count], ops.constant(_BEFORE, "int64"))
            shares = classes.batch(_ESTIMATED).apply(contrib_data.scan(before, estimate)).apply(contrib_data.unbatch())
            kept = shares.map(lambda share: _acceptance(share, wanted))
        drawn = Dataset.zip((classes, kept, dataset)).filter(lambda kind, share, *_: ops.less(
            ops.random_uniform([], dtype=wanted.dtype, seed=seed), ops.gather(share, kind)))
        return drawn.map(lambda kind, _, *element: (kind, element[0] if len(element) == 1 else element))
    return resampled


def _acceptance(initial: Tensor, target: Tensor) -> Tensor:
    """How likely an element of each class is kept: the class that is rarest for what is wanted always."""
    tiny = ops.constant(1e-30, target.dtype)
    ratio = ops.where(ops.greater(target, 0), target / ops.maximum(ops.cast(initial, target.dtype), tiny),
                      ops.zeros_like(target))
    found: Tensor = ratio / ops.reduce_max(ratio)
    return found


def read_batch_features(file_pattern: Any, batch_size: int, features: Any, reader: Any = TFRecordDataset,
                        reader_args: Any = None, randomize_input: bool = True, num_epochs: int | None = None,
                        capacity: int = 10000) -> Any:
    """The parsed examples of the next `batch_size` records of files, by the names of `features`: tensors and SparseTensors.

    `reader(filenames, *reader_args)` gives a dataset of serialized examples; `randomize_input` shuffles `capacity` of them.
    """
    files = Dataset.list_files(file_pattern)
    records = (files.shuffle(capacity) if randomize_input else files).flat_map(lambda name: reader(name, *(reader_args or ())))
    if randomize_input:
        records = records.shuffle(capacity)
    made = records.repeat(num_epochs).batch(batch_size).map(lambda batch: parse_example(batch, features))
    return made.make_one_shot_iterator().get_next()


def _method(make: Callable[..., Transformation]) -> Callable[..., Dataset]:
    def method(self: Dataset, *args: Any, **options: Any) -> Dataset:
        return self.apply(make(*args, **options))
    method.__doc__ = f"Dataset.apply({make.__name__}(…)), as tf.contrib.data's datasets had it."
    return method


_METHODS: dict[str, Callable[..., Transformation]] = {
    "dense_to_sparse_batch": dense_to_sparse_batch, "enumerate": contrib_data.enumerate_dataset,
    "group_by_window": contrib_data.group_by_window, "ignore_errors": contrib_data.ignore_errors,
    "unbatch": contrib_data.unbatch}
for _name, _make in _METHODS.items():
    setattr(Dataset, _name, _method(_make))
