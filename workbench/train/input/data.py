"""Dataset: input described step by step, read by the graph itself; functions of its elements are bodies of the graph."""
from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.build import constant_shape, convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.graph.subgraph import Subgraph
from workbench.nn.sparse import SparseTensor
from workbench.train.input.data_generator import generated
from workbench.train.input.data_iterators import Iterator, resolved
from workbench.train.input.data_structures import (
    Elements,
    Part,
    common,
    components,
    converted,
    flatten,
    leaves,
    pack,
    parts_of,
    tensors,
)
from workbench.train.input.examples import compression_of

__all__ = ["Dataset", "FixedLengthRecordDataset", "Iterator", "TFRecordDataset", "TextLineDataset"]


AHEAD = 8
"""How many elements wait where it is ours to choose."""


class Dataset(Elements):
    """Elements, each a tensor (dense or sparse) or a nested tuple or dictionary of tensors, described by where they come from.

    Make one with from_tensor_slices, from_tensors, from_generator, range or a file dataset; each method returns a new dataset.
    Get elements by an iterator. Functions become bodies of the graph: they are built once, and called for each element in the
    task that holds the iterator. What they read from outside is read when the iterator begins, state when they are called.
    """

    def __init__(self, program: tuple[Any, ...] = (), parts: Any = ()) -> None:
        self._program, self._parts = program, parts      # nested tuples with tensors and bodies; a structure of Parts

    # sources
    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """The rows of the tensors: each [n, ...] gives n elements. ShapeError for a scalar."""
        found = converted(tensors)
        parts = flatten(found)
        for part in parts:
            if isinstance(part, SparseTensor):
                raise errors.UnimplementedError("from_tensor_slices: sparse tensors are not cut into rows here; use "
                                                "from_tensors")
            if part.shape.rank == 0:
                raise errors.ShapeError(f"from_tensor_slices: {part.name} is a scalar; pass tensors with rows")
        counts = {part.shape.as_list()[0] for part in parts if part.shape.rank} - {None}
        if len(counts) > 1:
            raise errors.ShapeError(f"from_tensor_slices: the tensors have {', '.join(map(str, sorted(counts)))} rows; give "
                                    "each the same number")
        rows = [Part(part.dtype, part.shape[1:] if part.shape.rank else Shape(None)) for part in parts]
        return Dataset(("slices", tuple(parts)), pack(found, rows))

    @staticmethod
    def from_sparse_tensor_slices(sparse_tensor: SparseTensor) -> Dataset:
        """The rows of a sparse tensor [n, ...]: n sparse tensors."""
        if not isinstance(sparse_tensor, SparseTensor):
            raise TypeError(f"`sparse_tensor` must be a `tf.SparseTensor` object, not a {type(sparse_tensor).__name__}; use "
                            "from_tensor_slices for dense ones")
        indices, values, shape = sparse_tensor.indices, sparse_tensor.values, sparse_tensor.dense_shape

        def row(number: Tensor) -> SparseTensor:
            mine = ops.equal(indices[:, 0], number)
            return SparseTensor(ops.boolean_mask(indices, mine)[:, 1:], ops.boolean_mask(values, mine), shape[1:])
        return Dataset.range(shape[0]).map(row)

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """One element: the tensors themselves."""
        found = converted(tensors)
        return Dataset(("tensors", tuple(components(found))), parts_of(found))

    @staticmethod
    def from_generator(generator: Callable[..., Any], output_types: Any, output_shapes: Any = None,
                       args: Any = None) -> Dataset:
        """What `generator(*args)` yields, anew each time the data begin: structures as `output_types`, of dtypes and shapes so.

        It runs in this process, as a py_func does. InvalidArgumentError in the step for an element of another kind.
        """
        made: Dataset = generated(Dataset, generator, output_types, output_shapes, args)
        return made

    @staticmethod
    def range(*args: Any) -> Dataset:
        """int64 scalars, with the arguments of Python's range: stop, (start, stop) or (start, stop, step)."""
        if not 1 <= len(args) <= 3:
            raise errors.InvalidArgumentError(f"Dataset.range: {len(args)} arguments were given; pass stop, (start, stop) or "
                                              "(start, stop, step)")
        start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
        return Dataset(("range", *map(_number, (start, stop, step))), Part(as_dtype("int64"), Shape(())))

    @staticmethod
    def list_files(file_pattern: Any, shuffle: bool | None = None, seed: int | None = None) -> Dataset:
        """The paths that match `file_pattern`, or any of several: string scalars, sorted unless they are to be shuffled."""
        paths = ops.matching_files(convert(file_pattern))
        found = Dataset.from_tensor_slices(paths)
        return found.shuffle(ops.maximum(ops.cast(ops.size(paths), "int64"), 1), seed) if shuffle else found

    @staticmethod
    def zip(datasets: Any) -> Dataset:
        """Elements side by side, in the structure in which the datasets are given; ends with the shortest."""
        found = flatten(datasets)
        if not all(isinstance(one, Dataset) for one in found):
            raise TypeError("The argument to `Dataset.zip()` must be a nested structure of `Dataset` objects.")
        return Dataset(("zip", tuple(one._program for one in found)), pack(datasets, [one._parts for one in found]))

    # order and number
    def _with(self, *program: Any) -> Dataset:
        return Dataset(program, self._parts)

    def repeat(self, count: Any = None) -> Dataset:
        """All elements `count` times; for ever when it is None or -1."""
        return self._with("repeat", self._program, _number(-1 if count is None else count))

    def shuffle(self, buffer_size: Any, seed: Any = None, reshuffle_each_iteration: bool | None = None) -> Dataset:
        """Elements in random order: each drawn from `buffer_size` that wait, so use as many as there are to mix well.

        Another order at each repetition, unless `reshuffle_each_iteration` is False. A tensor as `seed` is read when the
        iterator begins.
        """
        again = reshuffle_each_iteration is not False
        seeds = (ops.random_seeds(0)[0], _number(seed)) if isinstance(seed, Tensor) else ops.random_seeds(seed)
        if not again and seeds == (0, 0):
            seeds = ops.random_seeds(secrets.randbits(31))
        return self._with("shuffle", self._program, _number(buffer_size), *seeds, again)

    def take(self, count: Any) -> Dataset:
        """The first `count` elements; all when it is -1."""
        return self._with("take", self._program, _number(count))

    def skip(self, count: Any) -> Dataset:
        """All but the first `count` elements; none when it is -1."""
        return self._with("skip", self._program, _number(count))

    def shard(self, num_shards: Any, index: Any) -> Dataset:
        """Every `num_shards`-th element, from number `index` on. InvalidArgumentError unless 0 <= index < num_shards."""
        shards, first = _number(num_shards), _number(index)
        if isinstance(first, int) and isinstance(shards, int) and not 0 <= first < shards:
            raise errors.InvalidArgumentError(f"Dataset.shard: index is {first} and num_shards {shards}; num_shards must be >= "
                                              "1, and index one of 0 … num_shards - 1")
        return self._with("shard", self._program, shards, first)

    def concatenate(self, dataset: Dataset) -> Dataset:
        """These elements and then those of `dataset`, which has the same dtypes. DtypeError for others."""
        return Dataset(("concatenate", (self._program, dataset._program)),
                       common("Dataset.concatenate", self._parts, dataset._parts))

    def prefetch(self, buffer_size: Any) -> Dataset:
        """The same elements, read ahead by a thread of their own until `buffer_size` of them wait.

        The thread ends with the data, when the iterator begins anew, and with the session. Errors come where the elements
        would have. -1 stands for AHEAD of them; InvalidArgumentError when it is asked for less than one otherwise.
        """
        chosen = isinstance(buffer_size, int) and buffer_size == -1
        return self._with("prefetch", self._program, _number(AHEAD if chosen else buffer_size))

    def with_options(self, options: Any) -> Dataset:
        """The same elements: how they are read is not chosen by options here."""
        return self._with(*self._program)

    def cache(self, filename: Any = "") -> Dataset:
        """The same elements, kept in memory when they have been read to the end once, until the iterator begins anew; or in
        the file `filename`.tfrecord, which is read from then on, in later runs of the program too.

        Errors in the step: AlreadyExistsError while another iterator writes that file, DataLossError where it is damaged.
        """
        return self._with("cache", self._program, convert(filename, "string"))

    # contents
    def _call(self, function: Callable[..., Any], values: Any) -> Any:
        """`function` of the element that has these components: a tuple, unless its parts have names, as several arguments. A
        sparse tensor is one, or for a function of three its indices, values and dense shape."""
        element = tensors(self._parts, values)
        if isinstance(element, SparseTensor) and _takes(function, 3) and not _takes(function, 1):
            element = element.indices, element.values, element.dense_shape
        return function(*element) if type(element) is tuple else function(element)

    def _body(self, name: str, build: Callable[..., Any], before: tuple[Part, ...] = ()) -> Subgraph:
        """The body that `build` makes of the components of `before` and of an element."""
        stored = [part.stored for part in (*before, *flatten(self._parts))]
        body: Subgraph = ops.dataset_function(build, [d for d, _ in stored], [s for _, s in stored], name)
        return body

    def map(self, map_func: Callable[..., Any], num_parallel_calls: Any = None, num_threads: Any = None,
            output_buffer_size: Any = None) -> Dataset:
        """`map_func` of each element: a tuple is passed as several arguments. Gives whatever structure it returns, for a list
        the tuple of its parts.

        The data end where it raises OutOfRangeError. Elements are computed one after the other, whatever
        `num_parallel_calls` is, and `num_threads`, its older name; so many as `output_buffer_size` wait ahead.
        """
        made: list[Any] = []

        def build(*values: Tensor) -> list[Tensor]:
            found = self._call(map_func, values)
            made[:] = [converted(tuple(found) if isinstance(found, list) else found)]
            return components(made[0])
        body = self._body("map", build)
        mapped = Dataset(("map", self._program, body), parts_of(made[0]))
        return mapped if output_buffer_size is None else mapped.prefetch(output_buffer_size)

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """The elements for which `predicate` is true, a bool scalar. ValueError (InvalidArgumentError) for anything else."""
        def build(*values: Tensor) -> list[Tensor]:
            kept = convert(self._call(predicate, values))
            if kept.dtype.name != "bool" or not kept.shape.compatible(Shape(())):
                raise errors.InvalidArgumentError(f"Dataset.filter: `predicate` must return a scalar boolean tensor, not "
                                                  f"{kept.dtype.name}{kept.shape}; reduce it")
            return [kept]
        return self._with("filter", self._program, self._body("filter", build))

    def _opened(self, name: str, function: Callable[..., Any], *numbers: Any) -> Dataset:
        """The datasets that a function returns for each element, put together as `name` says."""
        made: list[Any] = []

        def build(*values: Tensor) -> list[Tensor]:
            inner = self._call(function, values)
            if not isinstance(inner, Dataset):
                raise TypeError("`map_func` must return a `Dataset` object.")
            program, sources = resolved(inner._program)
            made[:] = [program, inner._parts]
            return sources
        body = self._body(name, build)
        return Dataset((name, self._program, body, made[0], *numbers), made[1])

    def flat_map(self, map_func: Callable[..., Dataset]) -> Dataset:
        """The elements of the dataset that `map_func` returns for each element, one dataset after the other."""
        return self._opened("flat_map", map_func)

    def interleave(self, map_func: Callable[..., Dataset], cycle_length: Any, block_length: Any = 1,
                   num_parallel_calls: Any = None) -> Dataset:
        """As flat_map, from `cycle_length` datasets at a time, each giving `block_length` elements in its turn, whatever
        `num_parallel_calls` is."""
        return self._opened("interleave", map_func, _number(cycle_length), _number(block_length))

    def batch(self, batch_size: Any, drop_remainder: bool = False) -> Dataset:
        """Elements stacked, `batch_size` at a time; the last batch may be smaller unless `drop_remainder`.

        Sparse tensors get one more dimension, and a shape that holds all.
        """
        size = int(batch_size) if drop_remainder and not isinstance(batch_size, Tensor) else None
        return Dataset(("batch", self._program, _number(batch_size), bool(drop_remainder)),
                       pack(self._parts, [_stacked(part, size) for part in flatten(self._parts)]))

    def padded_batch(self, batch_size: Any, padded_shapes: Any, padding_values: Any = None,
                     drop_remainder: bool = False) -> Dataset:
        """As batch, of elements filled up to `padded_shapes` (a structure; None or -1: to the longest of the batch).

        `padding_values` fill them, by default 0 or "". DataLossError in the step for an element that is larger.
        """
        parts = flatten(self._parts)
        if any(part.sparse for part in parts):
            raise TypeError("Batching of padded sparse tensors is not currently supported")
        shapes = [_sizes(shape) for shape in leaves(self._parts, padded_shapes)]
        fillers = [_filler(part, value) for part, value in zip(
            parts, [None] * len(parts) if padding_values is None else flatten(padding_values))]
        size = int(batch_size) if drop_remainder and not isinstance(batch_size, Tensor) else None
        made = [part._replace(shape=Shape([size]) + shape) for part, (_, shape) in zip(parts, shapes)]
        return Dataset(("padded", self._program, _number(batch_size), tuple(t for t, _ in shapes), tuple(fillers),
                        bool(drop_remainder)), pack(self._parts, made))

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """What `transformation_func` makes of this dataset. TypeError where it is none."""
        made = transformation_func(self)
        if not isinstance(made, Dataset):
            raise TypeError("`transformation_func` must return a Dataset.")
        return made

    # what comes out
    def make_one_shot_iterator(self) -> Iterator:
        """An iterator that needs no initialisation and goes through the data once; the data must not be placeholders."""
        return Iterator.over(self, once=True)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Iterator:
        """An iterator that begins whenever its `initializer` runs; placeholders are fed there."""
        return Iterator.over(self, shared_name=shared_name)


def _number(value: Any) -> Any:
    """A count as it stands in a program: a number, or the tensor that holds it."""
    return convert(value) if isinstance(value, Tensor) or hasattr(value, "__tensor__") else int(value)


def _stacked(part: Part, size: int | None) -> Part:
    if part.sparse and part.batched:
        raise errors.UnimplementedError("Dataset.batch: batches of sparse tensors cannot be batched again; use one batch")
    return part._replace(shape=Shape([size]) + part.shape, batched=part.sparse)


def _sizes(given: Any) -> tuple[Tensor, Shape]:
    """A padded shape as the tensor that the program reads (-1: the longest), and as far as it is known."""
    if isinstance(given, Tensor):
        return ops.cast(given, "int64"), constant_shape(given)
    shape = as_shape([None if d is not None and int(d) == -1 else d for d in (
        given.as_list() if hasattr(given, "as_list") else given)])
    return ops.constant([-1 if d is None else d for d in shape.as_list()], "int64", [len(shape.as_list())]), shape


def _filler(part: Part, value: Any) -> Tensor:
    if value is None:
        value = {"string": b"", "bool": False}.get(part.dtype.kind, 0)
    made: Tensor = convert(value, part.dtype)
    return made


# files

_LINE = Part(as_dtype("string"), Shape(()))


def _compression(where: str, kind: Any) -> Any:
    """A name, or a tensor that says it when the iterator begins."""
    return convert(kind, "string") if isinstance(kind, Tensor) else compression_of(where, kind)


class TextLineDataset(Dataset):
    """The lines of files (a name or several), without their ends: string scalars. NotFoundError when one is missing."""

    def __init__(self, filenames: Any, compression_type: Any = None, buffer_size: Any = None) -> None:
        kind = _compression("TextLineDataset", compression_type)
        super().__init__(("lines", convert(filenames, "string"), kind), _LINE)


class TFRecordDataset(Dataset):
    """The records of TFRecord files (a name or several): string scalars. DataLossError where one is damaged."""

    def __init__(self, filenames: Any, compression_type: Any = None, buffer_size: Any = None,
                 num_parallel_reads: Any = None) -> None:
        kind = _compression("TFRecordDataset", compression_type)
        super().__init__(("records", convert(filenames, "string"), kind), _LINE)


class FixedLengthRecordDataset(Dataset):
    """Records of `record_bytes` between a header and a footer of files (a name or several): string scalars."""

    def __init__(self, filenames: Any, record_bytes: int, header_bytes: int | None = None,
                 footer_bytes: int | None = None, buffer_size: Any = None) -> None:
        if record_bytes < 1:
            raise errors.InvalidArgumentError(f"FixedLengthRecordDataset: record_bytes is {record_bytes}; use 1 or more")
        super().__init__(("fixed", convert(filenames, "string"), int(record_bytes), header_bytes or 0, footer_bytes or 0),
                         _LINE)


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Can it be called with `count` arguments by position, as far as it says?"""
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError):
        return False
    return True
