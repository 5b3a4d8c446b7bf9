"""Records of files as batches of keys and examples, or of their features, by the names of tf.contrib.learn."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.train.input.examples import parse_example
from workbench.train.input.inputs import batch_join, shuffle_batch_join, string_input_producer
from workbench.train.input.readers import TFRecordReader
from workbench.train.saving.files import Glob

__all__ = ["read_batch_examples", "read_batch_features", "read_batch_record_features", "read_keyed_batch_examples",
           "read_keyed_batch_examples_shared_queue", "read_keyed_batch_features", "read_keyed_batch_features_shared_queue"]

_KEY = "__key__"


def _names(pattern: Any, shuffled: bool) -> list[str]:
    if isinstance(pattern, list) and not pattern:
        raise ValueError("read_batch_examples: No files given to dequeue_examples.; list some")
    found = [name for one in (pattern if isinstance(pattern, list) else [pattern]) for name in Glob(one)]
    if not found:
        raise ValueError(f"read_batch_examples: No files match {pattern}.")
    return found if shuffled else sorted(found)


def _checked(batch_size: Any, capacity: int, **counts: Any) -> None:
    if not capacity or capacity <= 0:
        raise ValueError(f"read_batch_examples: Invalid queue_capacity {capacity}.; use 1 or more")
    if batch_size is None or (not isinstance(batch_size, Tensor) and not 0 < batch_size < capacity):
        raise ValueError(f"read_batch_examples: Invalid batch_size {batch_size}, with queue_capacity {capacity}.; use 1 or "
                         "more, and less than the queue holds")
    for name, value in counts.items():
        if not isinstance(value, Tensor) and (value is None or value <= 0):
            raise ValueError(f"read_batch_examples: Invalid {name} {value}.; use 1 or more")


def read_keyed_batch_examples(file_pattern: Any, batch_size: Any, reader: Any, randomize_input: bool = True,
                              num_epochs: int | None = None, queue_capacity: int = 10000, num_threads: int = 1,
                              read_batch_size: int = 1, parse_fn: Callable[[Any], Any] | None = None,
                              name: str | None = None, seed: int | None = None) -> tuple[Any, Any]:
    """(keys [batch], serialised examples [batch]) of the files that match a pattern, or a list of them, through queues.

    `reader()` makes what reads them, `read_batch_size` records at once; `parse_fn(example)` may make a tensor, or a
    dictionary of such, of each. With `randomize_input` files and examples come in an order by `seed`. With `num_epochs` the
    last batch may be smaller. ValueErrors for files that are not there, and for numbers below 1.
    """
    names = _names(file_pattern, randomize_input)
    counts = {"read_batch_size": read_batch_size, "num_threads": num_threads}
    _checked(batch_size, queue_capacity, **counts, **({} if num_epochs is None else {"num_epochs": num_epochs}))
    with get_default_graph().name_scope(name or "read_batch_examples"):
        queue = string_input_producer(names, num_epochs, randomize_input, seed, name="file_name_queue")
        rows = [_read(reader, queue, read_batch_size, parse_fn) for _ in range(num_threads)]
        some, many = num_epochs is not None, read_batch_size > 1
        if randomize_input:
            least = int(queue_capacity * 0.4) if isinstance(batch_size, Tensor) else max(queue_capacity - 3 * batch_size,
                                                                                         batch_size)
            found: Any = shuffle_batch_join(rows, batch_size, queue_capacity, least, seed, many, allow_smaller_final_batch=some)
        else:
            found = batch_join(rows, batch_size, queue_capacity, many, allow_smaller_final_batch=some)
    return (found.pop(_KEY), found) if isinstance(found, dict) else tuple(found)


def _read(reader: Any, queue: Any, count: int, parse: Callable[[Any], Any] | None) -> Any:
    with get_default_graph().name_scope("read"):
        keys, examples = reader().read_up_to(queue, count) if count > 1 else reader().read(queue)
    found = examples if parse is None else parse(examples)
    return {**found, _KEY: keys} if isinstance(found, Mapping) else [keys, found]


def read_keyed_batch_examples_shared_queue(file_pattern: Any, batch_size: Any, reader: Any, randomize_input: bool = True,
                                           num_epochs: int | None = None, queue_capacity: int = 10000, num_threads: int = 1,
                                           read_batch_size: int = 1, parse_fn: Callable[[Any], Any] | None = None,
                                           name: str | None = None, seed: int | None = None) -> tuple[Any, Any]:
    """read_keyed_batch_examples: its queue of file names is one for all workers where the program places it on one task."""
    return read_keyed_batch_examples(file_pattern, batch_size, reader, randomize_input, num_epochs, queue_capacity, num_threads,
                                     read_batch_size, parse_fn, name, seed)


def read_batch_examples(file_pattern: Any, batch_size: Any, reader: Any, randomize_input: bool = True,
                        num_epochs: int | None = None, queue_capacity: int = 10000, num_threads: int = 1,
                        read_batch_size: int = 1, parse_fn: Callable[[Any], Any] | None = None, name: str | None = None,
                        seed: int | None = None) -> Any:
    """The examples of read_keyed_batch_examples."""
    return read_keyed_batch_examples(file_pattern, batch_size, reader, randomize_input, num_epochs, queue_capacity, num_threads,
                                     read_batch_size, parse_fn, name, seed)[1]


def read_keyed_batch_features(file_pattern: Any, batch_size: Any, features: Mapping[str, Any], reader: Any,
                              randomize_input: bool = True, num_epochs: int | None = None, queue_capacity: int = 10000,
                              reader_num_threads: int = 1, feature_queue_capacity: int = 100, num_enqueue_threads: int = 2,
                              parse_fn: Callable[[Any], Any] | None = None, name: str | None = None,
                              read_batch_size: int | None = None) -> tuple[Any, dict[str, Any]]:
    """(keys [batch], features by name) of the files, as `features` says that they are read; otherwise as
    read_keyed_batch_examples. They are parsed in the step that asks for them, ahead of which no queue is kept."""
    with get_default_graph().name_scope(name or "read_batch_features"):
        keys, examples = read_keyed_batch_examples(
            file_pattern, batch_size, reader, randomize_input, num_epochs, queue_capacity, reader_num_threads,
            (1 if isinstance(batch_size, Tensor) else batch_size) if read_batch_size is None else read_batch_size, parse_fn)
        return ops.identity(keys), parse_example(examples, features)


def read_keyed_batch_features_shared_queue(file_pattern: Any, batch_size: Any, features: Mapping[str, Any], reader: Any,
                                           randomize_input: bool = True, num_epochs: int | None = None,
                                           queue_capacity: int = 10000, reader_num_threads: int = 1,
                                           feature_queue_capacity: int = 100, num_queue_runners: int = 2,
                                           parse_fn: Callable[[Any], Any] | None = None,
                                           name: str | None = None) -> tuple[Any, dict[str, Any]]:
    """read_keyed_batch_features: its queue of file names is one for all workers where the program places it on one task."""
    return read_keyed_batch_features(file_pattern, batch_size, features, reader, randomize_input, num_epochs, queue_capacity,
                                     reader_num_threads, feature_queue_capacity, num_queue_runners, parse_fn, name)


def read_batch_features(file_pattern: Any, batch_size: Any, features: Mapping[str, Any], reader: Any,
                        randomize_input: bool = True, num_epochs: int | None = None, queue_capacity: int = 10000,
                        feature_queue_capacity: int = 100, reader_num_threads: int = 1, num_enqueue_threads: int = 2,
                        parse_fn: Callable[[Any], Any] | None = None, name: str | None = None,
                        read_batch_size: int | None = None) -> dict[str, Any]:
    """The features of read_keyed_batch_features."""
    return read_keyed_batch_features(file_pattern, batch_size, features, reader, randomize_input, num_epochs, queue_capacity,
                                     reader_num_threads, feature_queue_capacity, num_enqueue_threads, parse_fn, name,
                                     read_batch_size)[1]


def read_batch_record_features(file_pattern: Any, batch_size: Any, features: Mapping[str, Any], randomize_input: bool = True,
                               num_epochs: int | None = None, queue_capacity: int = 10000, reader_num_threads: int = 1,
                               name: str = "dequeue_record_examples") -> dict[str, Any]:
    """read_batch_features of TFRecord files."""
    return read_batch_features(file_pattern, batch_size, features, TFRecordReader, randomize_input, num_epochs, queue_capacity,
                               reader_num_threads=reader_num_threads, name=name)
