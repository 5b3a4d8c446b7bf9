"""Dataset and Iterator: input described step by step, read by the graph itself."""
from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Graph, Operation, Tensor, get_default_graph
from workbench.core.graph.shape import Shape, as_shape
from workbench.train.examples import compression_of

__all__ = ["Dataset", "FixedLengthRecordDataset", "Iterator", "TFRecordDataset", "TextLineDataset"]


# structures: tensors in nested tuples and dictionaries

def _flatten(structure: Any) -> list[Any]:
    if isinstance(structure, dict):
        return [leaf for key in sorted(structure) for leaf in _flatten(structure[key])]
    if isinstance(structure, tuple):
        return [leaf for part in structure for leaf in _flatten(part)]
    return [structure]


def _pack(like: Any, leaves: list[Any]) -> Any:
    """`leaves`, which are used up, in the structure of `like`."""
    if isinstance(like, dict):
        return {key: _pack(like[key], leaves) for key in sorted(like)}
    if isinstance(like, tuple):
        parts = [_pack(part, leaves) for part in like]
        return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
    return leaves.pop(0)


def _converted(structure: Any) -> Any:
    """Tensors in the place of arrays, numbers and lists."""
    leaves = [convert(leaf) for leaf in _flatten(structure)]
    return _pack(structure, leaves)


class Dataset:
    """Elements, each a tensor or a nested tuple or dictionary of tensors, described by where they come from.

    Make one with from_tensor_slices, from_tensors, range or a file dataset; each method returns a new dataset. Get
    elements by an iterator. Functions of map become part of the graph that get_next() is called in; everything else runs
    beside the graph, in the task that holds the iterator.
    """

    def __init__(self, program: tuple[Any, ...], sources: Sequence[Tensor], dtypes: Sequence[Any],
                 shapes: Sequence[Shape], structure: Any, build: Callable[[list[Tensor]], Any] | None = None) -> None:
        self._program, self._sources = program, list(sources)
        self._dtypes, self._shapes, self._structure = list(dtypes), list(shapes), structure
        self._mapped = build      # raw components of an element -> the element; None: they are it
        self._traced: dict[Graph, Any] = {}

    def _element(self, components: list[Tensor]) -> Any:
        return self._mapped(components) if self._mapped is not None else _pack(self._structure, list(components))

    # sources
    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """The rows of the tensors: each [n, ...] gives n elements. ShapeError for a scalar."""
        found = _converted(tensors)
        parts = _flatten(found)
        for part in parts:
            if part.shape.rank == 0:
                raise errors.ShapeError(f"from_tensor_slices: {part.name} is a scalar; pass tensors with rows")
        counts = {part.shape.as_list()[0] for part in parts if part.shape.rank} - {None}
        if len(counts) > 1:
            raise errors.ShapeError(f"from_tensor_slices: the tensors have {', '.join(map(str, sorted(counts)))} rows; give "
                                    "each the same number")
        shapes = [part.shape[1:] if part.shape.rank else Shape(None) for part in parts]
        return Dataset(("slices", 0, len(parts)), parts, [p.dtype for p in parts], shapes, found)

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """One element: the tensors themselves."""
        found = _converted(tensors)
        parts = _flatten(found)
        return Dataset(("tensors", 0, len(parts)), parts, [p.dtype for p in parts], [p.shape for p in parts], found)

    @staticmethod
    def range(*args: Any) -> Dataset:
        """int64 scalars, with the arguments of Python's range: stop, (start, stop) or (start, stop, step)."""
        if not 1 <= len(args) <= 3:
            raise errors.InvalidArgumentError(f"Dataset.range: {len(args)} arguments were given; pass stop, (start, stop) or "
                                              "(start, stop, step)")
        start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
        made = Dataset((), (), [as_dtype("int64")], [Shape(())], 0)
        return made._with(("range", *(made._number(v) for v in (start, stop, step))))

    @staticmethod
    def zip(datasets: Any) -> Dataset:
        """Elements side by side, in the structure in which the datasets are given; ends with the shortest."""
        parts = _flatten(datasets)
        programs: list[Any] = []
        sources: list[Tensor] = []
        dtypes, shapes = [], []
        counts = [len(part._dtypes) for part in parts]
        for part in parts:
            programs.append(_moved(part._program, len(sources)))
            sources += part._sources
            dtypes += part._dtypes
            shapes += part._shapes

        def build(components: list[Tensor]) -> Any:
            rest = list(components)
            pieces = [[rest.pop(0) for _ in range_(count)] for count in counts]
            return _pack(datasets, [part._element(piece) for part, piece in zip_(parts, pieces)])
        return Dataset(("zip", tuple(programs)), sources, dtypes, shapes, None, build)

    # order and number
    def _with(self, program: tuple[Any, ...], **changes: Any) -> Dataset:
        fields = {"shapes": self._shapes, "build": self._mapped, **changes}
        return Dataset(program, self._sources, self._dtypes, fields["shapes"], self._structure, fields["build"])

    def _number(self, value: Any) -> Any:
        """A count as it stands in a program; a tensor becomes one more source."""
        if isinstance(value, Tensor) or hasattr(value, "__tensor__"):
            self._sources = [*self._sources, convert(value)]
            return ("source", len(self._sources) - 1)
        return int(value)

    def repeat(self, count: Any = None) -> Dataset:
        """All elements `count` times; for ever when it is None or -1."""
        return self._with(("repeat", self._program, self._number(-1 if count is None else count)))

    def shuffle(self, buffer_size: Any, seed: int | None = None, reshuffle_each_iteration: bool | None = None) -> Dataset:
        """Elements in random order: each drawn from `buffer_size` that wait, so use as many as there are to mix well.

        Another order at each repetition, unless `reshuffle_each_iteration` is False.
        """
        again = reshuffle_each_iteration is not False
        seeds = ops.random_seeds(seed)
        if not again and seeds == (0, 0):
            seeds = ops.random_seeds(secrets.randbits(31))
        return self._with(("shuffle", self._program, self._number(buffer_size), *seeds, again))

    def take(self, count: Any) -> Dataset:
        """The first `count` elements; all when it is -1."""
        return self._with(("take", self._program, self._number(count)))

    def skip(self, count: Any) -> Dataset:
        """All but the first `count` elements; none when it is -1."""
        return self._with(("skip", self._program, self._number(count)))

    def shard(self, num_shards: Any, index: Any) -> Dataset:
        """Every `num_shards`-th element, from number `index` on."""
        return self._with(("shard", self._program, self._number(num_shards), self._number(index)))

    def concatenate(self, dataset: Dataset) -> Dataset:
        """These elements and then those of `dataset`, which has the same dtypes; neither may be mapped."""
        if self._mapped is not None or dataset._mapped is not None:
            raise errors.UnimplementedError("Dataset.concatenate: mapped datasets cannot be joined here; concatenate first, "
                                            "then map")
        if self._dtypes != dataset._dtypes:
            raise errors.DtypeError(f"Dataset.concatenate: {', '.join(t.name for t in self._dtypes)} and "
                                    f"{', '.join(t.name for t in dataset._dtypes)} do not fit; cast one of them")
        shapes = [_common(a, b) for a, b in zip_(self._shapes, dataset._shapes)]
        program = ("concatenate", (self._program, _moved(dataset._program, len(self._sources))))
        return Dataset(program, [*self._sources, *dataset._sources], self._dtypes, shapes, self._structure)

    def prefetch(self, buffer_size: Any) -> Dataset:
        """The same elements: they are read when asked for, beside what runs."""
        return self

    def cache(self, filename: Any = "") -> Dataset:
        """The same elements: tensors are in memory already, files are read again at each repetition."""
        return self

    # contents
    def map(self, map_func: Callable[..., Any], num_parallel_calls: Any = None) -> Dataset:
        """`map_func` of each element: a tuple is passed as several arguments. Gives whatever structure it returns."""
        def build(components: list[Tensor]) -> Any:
            element = self._element(components)
            made = map_func(*element) if isinstance(element, tuple) else map_func(element)
            return _converted(made)
        return self._with(self._program, build=build)

    def batch(self, batch_size: Any, drop_remainder: bool = False) -> Dataset:
        """Elements stacked, `batch_size` at a time; the last batch may be smaller unless `drop_remainder`."""
        size = int(batch_size) if drop_remainder and not isinstance(batch_size, Tensor) else None
        shapes = [Shape([size]) + shape for shape in self._shapes]
        build = None if self._mapped is None else lambda components: _rows(self._mapped, components, self._shapes, size)
        number = self._number(batch_size)
        return self._with(("batch", self._program, number, bool(drop_remainder)), shapes=shapes, build=build)

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """What `transformation_func` makes of this dataset."""
        return transformation_func(self)

    # what comes out
    def _trace(self) -> Any:
        graph = get_default_graph()
        if graph not in self._traced:
            with graph.name_scope("dataset"):
                inputs = [ops.placeholder(t, s) for t, s in zip_(self._dtypes, self._shapes)]
                self._traced[graph] = self._element(inputs)
        return self._traced[graph]

    @property
    def output_types(self) -> Any:
        """The dtypes of an element, in its structure."""
        found = self._trace()
        return _pack(found, [t.dtype for t in _flatten(found)])

    @property
    def output_shapes(self) -> Any:
        """The static shapes of an element, in its structure."""
        found = self._trace()
        return _pack(found, [t.shape for t in _flatten(found)])

    @property
    def output_classes(self) -> Any:
        """Tensor for every part of an element."""
        found = self._trace()
        return _pack(found, [Tensor for _ in _flatten(found)])

    def make_one_shot_iterator(self) -> Iterator:
        """An iterator that needs no initialisation and goes through the data once; the data must not be placeholders."""
        return Iterator(self, once=True)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Iterator:
        """An iterator that begins whenever its `initializer` runs; placeholders are fed there."""
        return Iterator(self, shared_name=shared_name)


range_, zip_ = range, zip      # inside Dataset these names are its own


def _moved(program: Any, by: int) -> Any:
    """A program whose sources begin `by` places later."""
    if not isinstance(program, tuple):
        return program
    kind = program[0] if program else None
    if kind == "source":
        return ("source", program[1] + by)
    if kind in ("slices", "tensors", "lines", "records", "fixed"):
        return (kind, program[1] + by, *program[2:])
    return tuple(_moved(part, by) for part in program)


def _common(a: Shape, b: Shape) -> Shape:
    if a.rank is None or a.rank != b.rank:
        return Shape(None)
    return Shape([m if m == n else None for m, n in zip(a.as_list(), b.as_list())])


def _rows(build: Any, components: list[Tensor], shapes: Sequence[Shape], size: int | None) -> Any:
    """The elements that `build` makes of each row of the components, stacked."""
    made: list[Any] = []

    def body(row: Tensor, lists: Any, results: Any) -> Any:
        parts = [ops.list_pop(rest, dtype=c.dtype, shape=s) for rest, c, s in zip(lists, components, shapes)]
        made[:] = [build([value for _, value in parts])]
        leaves = _flatten(made[0])
        grown = [ops.list_push(r, leaf) for r, leaf in zip(results, leaves)]
        return row + 1, tuple(rest for rest, _ in parts), tuple(grown)
    lists = tuple(ops.list_from_tensor(c, reverse=True) for c in components)
    # the number of results is known once the function was called: on placeholders that nothing will run
    leaves = _flatten(build([ops.placeholder(c.dtype, s) for c, s in zip(components, shapes)]))
    count = ops.shape(components[0])[0]
    _, _, results = ops.while_loop(lambda row, *_: row < count, body,
                                   (ops.constant(0), lists, tuple(ops.list_new() for _ in leaves)))
    stacked = [ops.list_stack(r, dtype=leaf.dtype, shape=leaf.shape, length=size)
               for r, leaf in zip(results, _flatten(made[0]))]
    return _pack(made[0], stacked)


# files

class TextLineDataset(Dataset):
    """The lines of files (a name or several), without their ends: string scalars. NotFoundError when one is missing."""

    def __init__(self, filenames: Any, compression_type: Any = None, buffer_size: Any = None) -> None:
        kind = compression_of("TextLineDataset", compression_type)
        super().__init__(("lines", 0, kind), [convert(filenames, "string")], [as_dtype("string")], [Shape(())], 0)


class TFRecordDataset(Dataset):
    """The records of TFRecord files (a name or several): string scalars. DataLossError where one is damaged."""

    def __init__(self, filenames: Any, compression_type: Any = None, buffer_size: Any = None,
                 num_parallel_reads: Any = None) -> None:
        kind = compression_of("TFRecordDataset", compression_type)
        super().__init__(("records", 0, kind), [convert(filenames, "string")], [as_dtype("string")], [Shape(())], 0)


class FixedLengthRecordDataset(Dataset):
    """Records of `record_bytes` between a header and a footer of files (a name or several): string scalars."""

    def __init__(self, filenames: Any, record_bytes: int, header_bytes: int | None = None,
                 footer_bytes: int | None = None, buffer_size: Any = None) -> None:
        if record_bytes < 1:
            raise errors.InvalidArgumentError(f"FixedLengthRecordDataset: record_bytes is {record_bytes}; use 1 or more")
        super().__init__(("fixed", 0, int(record_bytes), header_bytes or 0, footer_bytes or 0),
                         [convert(filenames, "string")], [as_dtype("string")], [Shape(())], 0)


class Iterator:
    """A place in a dataset: `get_next()` gives the next element at each run, and OutOfRangeError at the end."""

    def __init__(self, dataset: Dataset | None, once: bool = False, shared_name: str | None = None) -> None:
        with get_default_graph().name_scope("iterator"):
            self._handle: Tensor = ops.dataset_iterator(shared_name=shared_name or "")
            self._dataset, self._once = dataset, once
            self._initializer = None if dataset is None or once else self._starting(dataset)

    def _starting(self, dataset: Dataset, name: str | None = None) -> Operation:
        return ops.iterator_initialize(self._handle, dataset._sources, program=dataset._program, name=name)

    @staticmethod
    def from_structure(output_types: Any, output_shapes: Any = None, shared_name: str | None = None,
                       output_classes: Any = None) -> Iterator:
        """An iterator over any dataset of these dtypes and shapes, chosen by running what make_initializer gives.

        Such datasets must not be mapped: map what get_next() returns.
        """
        types = [as_dtype(t) for t in _flatten(output_types)]
        shapes = [Shape(None)] * len(types) if output_shapes is None else [as_shape(s) for s in _leaves(
            output_types, output_shapes)]
        if any(found is not Tensor for found in _flatten(output_classes or ())):
            raise errors.UnimplementedError(f"Iterator.from_structure: output_classes is {output_classes!r}; elements are "
                                            "tensors here")
        made = Iterator(None, shared_name=shared_name)
        made._dataset = Dataset((), (), types, shapes, output_types)
        return made

    def make_initializer(self, dataset: Dataset, name: str | None = None) -> Operation:
        """An operation that begins with `dataset`. DtypeError or ShapeError when it has other elements."""
        announced = self._dataset
        assert announced is not None
        if dataset._mapped is not None:
            raise errors.UnimplementedError("make_initializer: mapped datasets cannot be exchanged here; map what get_next() "
                                            "returns")
        if dataset._dtypes != announced._dtypes:
            raise errors.DtypeError(f"make_initializer: the dataset gives {', '.join(t.name for t in dataset._dtypes)} but "
                                    f"the iterator {', '.join(t.name for t in announced._dtypes)}; make them agree")
        for ours, theirs in zip(announced._shapes, dataset._shapes):
            ours.merge(theirs, "make_initializer: shapes of the iterator and the dataset")
        return self._starting(dataset, name)

    @property
    def initializer(self) -> Operation:
        """The operation that begins anew; ValueError (InvalidArgumentError) for iterators without one."""
        if self._initializer is None:
            raise errors.InvalidArgumentError("Iterator.initializer: a one-shot iterator begins by itself, and one from a "
                                              "structure by make_initializer(dataset)")
        return self._initializer

    def get_next(self, name: str | None = None) -> Any:
        """The next element, another one at each run. OutOfRangeError at the end."""
        dataset = self._dataset
        assert dataset is not None
        sources, program = (dataset._sources, dataset._program) if self._once else ((), ())
        found = ops.iterator_next(self._handle, list(sources), dtypes=tuple(dataset._dtypes), shapes=tuple(dataset._shapes),
                                  program=program, name=name)
        return dataset._element(list(found))

    @property
    def output_types(self) -> Any:
        return None if self._dataset is None else self._dataset.output_types

    @property
    def output_shapes(self) -> Any:
        return None if self._dataset is None else self._dataset.output_shapes


def _leaves(like: Any, structure: Any) -> list[Any]:
    """The parts of `structure` where `like` has its leaves: shapes may themselves be tuples."""
    if isinstance(like, dict):
        return [leaf for key in sorted(like) for leaf in _leaves(like[key], structure[key])]
    if isinstance(like, tuple):
        return [leaf for part, inner in zip(like, structure) for leaf in _leaves(part, inner)]
    return [structure]
