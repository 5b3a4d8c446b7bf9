"""What tf.contrib.data has beyond Dataset: each call gives a function for Dataset.apply."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.shape import Shape, as_shape
from workbench.train.input.data import Dataset
from workbench.train.input.data_iterators import get_single_element, make_saveable_from_iterator, resolved
from workbench.train.input.data_structures import Part, components, converted, flatten, leaves, pack, parts_of, tensors

__all__ = ["Counter", "batch_and_drop_remainder", "bucket_by_sequence_length", "enumerate_dataset", "get_single_element",
           "group_by_window", "ignore_errors", "make_saveable_from_iterator", "map_and_batch",
           "padded_batch_and_drop_remainder", "parallel_interleave", "prefetch_to_device", "scan", "shuffle_and_repeat",
           "sloppy_interleave", "unbatch"]

Transformation = Callable[[Dataset], Dataset]
_INT64 = Part(as_dtype("int64"), Shape(()))


def batch_and_drop_remainder(batch_size: Any) -> Transformation:
    """Batches of exactly `batch_size` elements; what is left at the end is dropped."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(batch_size: Any, padded_shapes: Any, padding_values: Any = None) -> Transformation:
    """Dataset.padded_batch of exactly `batch_size` elements; what is left at the end is dropped."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)


def map_and_batch(map_func: Callable[..., Any], batch_size: Any, num_parallel_batches: int = 1,
                  drop_remainder: bool = False) -> Transformation:
    """map, then batch; the batches are the same whatever `num_parallel_batches` is."""
    return lambda dataset: dataset.map(map_func).batch(batch_size, drop_remainder)


def prefetch_to_device(device: str, buffer_size: Any = None) -> Transformation:
    """prefetch: elements wait in the memory of the host until the step copies them, whatever `device` is."""
    return lambda dataset: dataset.prefetch(1 if buffer_size is None else buffer_size)


def shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: int | None = None) -> Transformation:
    """shuffle, then repeat: in another order each time."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def ignore_errors() -> Transformation:
    """The elements that can be made: one whose function raises is left out."""
    return lambda dataset: Dataset(("whole", dataset._program), dataset._parts)


def unbatch() -> Transformation:
    """The rows of each element: what batch puts together. InvalidArgumentError in the step where parts differ in rows."""
    def split(dataset: Dataset) -> Dataset:
        parts = flatten(dataset._parts)
        if any(not part.batched if part.sparse else part.shape.rank == 0 for part in parts):
            raise errors.ShapeError("unbatch: an element has a part without rows; batch it first")
        made = [part._replace(shape=part.shape[1:] if part.shape.rank else part.shape, batched=False) for part in parts]
        return Dataset(("unbatch", dataset._program), pack(dataset._parts, made))
    return split


def enumerate_dataset(start: Any = 0) -> Transformation:
    """Pairs of a number, an int64 scalar from `start` on, and the element."""
    return lambda dataset: Dataset.zip((Counter(start), dataset))


def Counter(start: Any = 0, step: int = 1, dtype: Any = "int64") -> Dataset:
    """start, start + step, … without end: scalars of `dtype`."""
    end = (1 if step > 0 else -1) * (2**63 - 1)
    found = Dataset.range(start, end, step)
    return found if as_dtype(dtype).name == "int64" else found.map(lambda number: ops.cast(number, as_dtype(dtype)))


def parallel_interleave(map_func: Callable[..., Dataset], cycle_length: Any, block_length: Any = 1, sloppy: bool = False,
                        buffer_output_elements: Any = None, prefetch_input_elements: Any = None) -> Transformation:
    """Dataset.interleave; `sloppy`, which lets the order depend on time, does not change it here."""
    return lambda dataset: dataset.interleave(map_func, cycle_length, block_length)


def sloppy_interleave(map_func: Callable[..., Dataset], cycle_length: Any, block_length: Any = 1) -> Transformation:
    """Dataset.interleave: the order is always the same here."""
    return parallel_interleave(map_func, cycle_length, block_length)


def scan(initial_state: Any, scan_func: Callable[..., Any]) -> Transformation:
    """The second results of (state, output) = scan_func(state, element), where each call gets the state of the last one.

    DtypeError where the state changes its dtypes; its shapes may change, and are known as far as they do not.
    """
    def scanned(dataset: Dataset) -> Dataset:
        first = converted(initial_state)
        states, given, made = parts_of(first), flatten(parts_of(first)), list[Any]()

        def build(*values: Tensor) -> list[Tensor]:
            count = len(given)
            state, output = scan_func(tensors(states, values[:count]), tensors(dataset._parts, values[count:]))
            new = converted(state)
            if [t.dtype for t in flatten(new)] != [part.dtype for part in given]:
                raise errors.DtypeError(f"scan: the state is {', '.join(p.dtype.name for p in given)} but scan_func gives "
                                        f"{', '.join(t.dtype.name for t in flatten(new))}; cast it")
            made[:] = new, converted(output)
            return components(new) + components(made[1])
        while True:      # until the shapes of the state hold for what comes back
            body = dataset._body("scan", build, tuple(given))
            lasting = [part._replace(shape=part.shape.common(t.get_shape())) for part, t in zip(given, flatten(made[0]))]
            if lasting == given:
                return Dataset(("scan", dataset._program, body, tuple(components(first))), parts_of(made[1]))
            given, states = lasting, pack(states, lasting)
    return scanned


def group_by_window(key_func: Callable[..., Any], reduce_func: Callable[[Tensor, Dataset], Dataset], window_size: Any = None,
                    window_size_func: Callable[[Tensor], Any] | None = None) -> Transformation:
    """Elements of one key (int64 scalar) gather until there are `window_size` (or `window_size_func(key)`) of them; then
    `reduce_func(key, window)` makes a dataset of theirs. What is left at the end is reduced too, by ascending keys.

    ValueError (InvalidArgumentError) unless one of the two sizes is given.
    """
    if (window_size is None) == (window_size_func is None):
        raise errors.InvalidArgumentError("group_by_window: Must pass either window_size or window_size_func; pass one")

    def size_of(key: Tensor) -> list[Tensor]:
        wanted = window_size if window_size_func is None else window_size_func(key)
        return [ops.cast(convert(wanted), "int64")]

    def grouped(dataset: Dataset) -> Dataset:
        made: list[Any] = []

        def key_of(*values: Tensor) -> list[Tensor]:
            found = dataset._call(key_func, values)
            key = convert(found) if isinstance(found, Tensor) else convert(found, "int64")
            if key.dtype.name != "int64" or not key.shape.compatible(Shape(())):
                raise errors.InvalidArgumentError(f"group_by_window: `key_func` must return a single tf.int64 tensor, not "
                                                  f"{key.dtype.name}{key.shape}; cast it")
            return [key]

        def reduced(key: Tensor) -> list[Tensor]:
            inner = reduce_func(key, Dataset(("window",), dataset._parts))
            program, sources = resolved(inner._program)
            made[:] = [program, inner._parts]
            return sources
        single = [_INT64.dtype], [_INT64.shape]
        reduce = ops.dataset_function(reduced, *single, "reduce")
        return Dataset(("windows", dataset._program, dataset._body("key", key_of),
                        ops.dataset_function(size_of, *single, "size"), reduce, made[0]), made[1])
    return grouped


def bucket_by_sequence_length(element_length_func: Callable[..., Any], bucket_boundaries: Sequence[int],
                              bucket_batch_sizes: Sequence[int], padded_shapes: Any = None, padding_values: Any = None,
                              pad_to_bucket_boundary: bool = False) -> Transformation:
    """Padded batches of elements of similar length: one bucket below each boundary and one above, each with its batch size.

    Open lengths are filled up to the longest of the batch, or with `pad_to_bucket_boundary` to one less than the boundary, so
    that there are few shapes; an element that is as long as the last boundary is an InvalidArgumentError in the step then.
    ValueError (InvalidArgumentError) unless there is one batch size more than boundaries.
    """
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise errors.InvalidArgumentError("bucket_by_sequence_length: len(bucket_batch_sizes) must equal "
                                          f"len(bucket_boundaries) + 1; they are {len(bucket_batch_sizes)} and "
                                          f"{len(bucket_boundaries)}")
    sizes, boundaries = [int(size) for size in bucket_batch_sizes], [int(boundary) for boundary in bucket_boundaries]

    def key_of(*element: Any) -> Tensor:
        length = ops.cast(convert(element_length_func(*element)), "int64")
        return ops.reduce_sum(ops.cast(ops.greater_equal(length, ops.constant(boundaries, "int64")), "int64"))

    def size_of(key: Tensor) -> Tensor:
        return ops.gather(ops.constant(sizes, "int64"), key)

    def bounded(key: Tensor, shape: Any) -> Tensor:
        there = ops.Assert(ops.less(key, len(boundaries)), ["bucket_by_sequence_length: When pad_to_bucket_boundary=True, "
                           f"elements must have length < max(bucket_boundaries), which is {boundaries[-1]}; filter them"])
        with get_default_graph().control_dependencies([there]):
            end = ops.gather(ops.constant(boundaries, "int64"), key) - 1
        return ops.stack([end if length is None or length == -1 else ops.constant(length, "int64") for length in shape])

    def bucketed(dataset: Dataset) -> Dataset:
        shapes = dataset.output_shapes if padded_shapes is None else padded_shapes

        def batched(key: Tensor, window: Dataset) -> Dataset:
            wanted = shapes if not pad_to_bucket_boundary else pack(
                dataset._parts, [bounded(key, as_shape(shape).as_list()) for shape in leaves(dataset._parts, shapes)])
            return window.padded_batch(size_of(key), wanted, padding_values)
        return dataset.apply(group_by_window(key_of, batched, window_size_func=size_of))
    return bucketed
