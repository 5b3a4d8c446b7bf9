"""Where slim's examples come from: descriptions of data sets, readers side by side, and providers of single items."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.train.input.inputs import string_input_producer
from workbench.train.input.queues import FIFOQueue, RandomShuffleQueue
from workbench.train.saving import files, summary
from workbench.train.sessions.coordinator import Coordinator, QueueRunner, add_queue_runner, start_queue_runners

__all__ = ["DataProvider", "Dataset", "DatasetDataProvider", "ParallelReader", "QueueRunners", "get_data_files",
           "parallel_read", "single_pass_read"]


class Dataset:
    """What a data set consists of: its files, the reader of their records, the decoder of a record, how many there are, and
    what its items are; whatever else is named becomes an attribute as well."""

    def __init__(self, data_sources: Any, reader: Any, decoder: Any, num_samples: int | None,
                 items_to_descriptions: Mapping[str, str] | None, **kwargs: Any) -> None:
        vars(self).update(kwargs, data_sources=data_sources, reader=reader, decoder=decoder, num_samples=num_samples,
                          items_to_descriptions=items_to_descriptions)


class DataProvider:
    """Tensors of one example by the names of its items."""

    def __init__(self, items_to_tensors: Mapping[str, Any], num_samples: int | None) -> None:
        self._items_to_tensors, self._num_samples = items_to_tensors, num_samples

    def get(self, items: Sequence[str]) -> list[Any]:
        """The tensors of these items. InvalidArgumentErrors (ValueErrors) for items that are not there, and for no list."""
        if not isinstance(items, (list, tuple)):
            raise errors.InvalidArgumentError(f"DataProvider: items must be a list or tuple, not {items!r}")
        for item in items:
            if item not in self._items_to_tensors:
                raise errors.InvalidArgumentError(f"DataProvider: Item [{item}] is invalid. Valid entries include: "
                                                  f"{sorted(self._items_to_tensors)}")
        return [self._items_to_tensors[item] for item in items]

    def list_items(self) -> Any:
        """The names of the items."""
        return self._items_to_tensors.keys()

    def num_samples(self) -> int | None:
        """How many examples the data set has."""
        return self._num_samples


class DatasetDataProvider(DataProvider):
    """A provider of a Dataset's items, decoded from records that `num_readers` readers gather in a queue; the item
    `record_key` says where the example comes from. Threads of the graph's queue runners do it.

    InvalidArgumentError (a ValueError) where the data set has an item of that name.
    """

    def __init__(self, dataset: Any, num_readers: int = 1, reader_kwargs: Mapping[str, Any] | None = None, shuffle: bool = True,
                 num_epochs: int | None = None, common_queue_capacity: int = 256, common_queue_min: int = 128,
                 record_key: str = "record_key", seed: int | None = None, scope: str | None = None) -> None:
        items = list(dataset.decoder.list_items())
        if record_key in items:
            raise errors.InvalidArgumentError("DatasetDataProvider: The item name used for `record_key` cannot also be used "
                                              f"for a dataset item: {record_key}; the items are {items}")
        key, data = parallel_read(dataset.data_sources, dataset.reader, num_epochs, num_readers, reader_kwargs, shuffle, None,
                                  common_queue_capacity, common_queue_min, seed, scope)
        decoded = dict(zip(items, dataset.decoder.decode(data, items)))
        super().__init__({**decoded, record_key: key}, dataset.num_samples)


class ParallelReader:
    """Several readers of one class, each in a thread of its own: their records (key, value) meet in `common_queue`.

    TypeError unless the queue takes two strings.
    """

    def __init__(self, reader_class: Any, common_queue: Any, num_readers: int = 4,
                 reader_kwargs: Mapping[str, Any] | None = None) -> None:
        if [str(getattr(dtype, "name", dtype)) for dtype in common_queue.dtypes] != ["string", "string"]:
            raise TypeError(f"common_queue.dtypes must be [tf.string, tf.string], not {common_queue.dtypes}")
        self._readers = [reader_class(**(reader_kwargs or {})) for _ in range(num_readers)]
        self._common_queue = common_queue

    @property
    def num_readers(self) -> int:
        """How many readers there are."""
        return len(self._readers)

    @property
    def common_queue(self) -> Any:
        """Where the records wait."""
        return self._common_queue

    def _reading(self, queue: Any) -> Any:
        """The queue of records, which from here on is filled from the files whose names wait in `queue`."""
        enqueues = [self._common_queue.enqueue(reader.read(queue)) for reader in self._readers]
        add_queue_runner(QueueRunner(self._common_queue, enqueues))
        return self._common_queue

    def read(self, queue: Any, name: str | None = None) -> Any:
        """(key, value) of the next record of files whose names wait in `queue`: string scalars."""
        return self._reading(queue).dequeue(name=name)

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> Any:
        """(keys [n], values [n]) of `num_records` records, fewer only at the end; the common queue must know its shapes."""
        return self._reading(queue).dequeue_up_to(num_records, name)

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """Records of all readers so far: int64 scalar."""
        return ops.add_n([reader.num_records_produced() for reader in self._readers], name=name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """Files that the readers came to the end of: int64 scalar."""
        return ops.add_n([reader.num_work_units_completed() for reader in self._readers], name=name)


def parallel_read(data_sources: Any, reader_class: Any, num_epochs: int | None = None, num_readers: int = 4,
                  reader_kwargs: Mapping[str, Any] | None = None, shuffle: bool = True, dtypes: Any = None, capacity: int = 256,
                  min_after_dequeue: int = 128, seed: int | None = None, scope: str | None = None) -> Any:
    """(key, value) of the next record of these files, read by several readers and shuffled on the way if asked.

    Files are names or patterns, one or several; they are read `num_epochs` times, without it for ever.
    """
    sources = get_data_files(data_sources)
    with get_default_graph().name_scope(scope or "parallel_read"):
        names = string_input_producer(sources, num_epochs, shuffle, seed, name="filenames")
        kinds = dtypes or ["string", "string"]
        queue = (RandomShuffleQueue(capacity, min_after_dequeue, kinds, seed=seed, name="common_queue") if shuffle
                 else FIFOQueue(capacity, kinds, name="common_queue"))
        summary.scalar(f"fraction_of_{capacity}_full", ops.cast(queue.size(), "float32") * (1.0 / capacity))
        return ParallelReader(reader_class, queue, num_readers, reader_kwargs).read(names)


def single_pass_read(data_sources: Any, reader_class: Any, reader_kwargs: Mapping[str, Any] | None = None,
                     scope: str | None = None) -> Any:
    """(key, value) of the next record of these files, in order and once."""
    sources = get_data_files(data_sources)
    with get_default_graph().name_scope(scope or "single_pass_read"):
        names = string_input_producer(sources, 1, False, capacity=1, name="filenames")
        return reader_class(**(reader_kwargs or {})).read(names)


def get_data_files(data_sources: Any) -> list[str]:
    """The files that names and patterns (with *, ? or [) stand for; InvalidArgumentError (a ValueError) for none."""
    if isinstance(data_sources, (list, tuple)):
        found = [file for source in data_sources for file in get_data_files(source)]
    else:
        found = files.Glob(data_sources) if set(data_sources) & set("*?[") else [data_sources]
    if not found:
        raise errors.InvalidArgumentError(f"get_data_files: No data files found in {data_sources}; name files that are there")
    return found


@contextmanager
def QueueRunners(session: Any) -> Iterator[None]:
    """The graph's queue runners run inside of the `with`, and are stopped and waited for at its end."""
    coordinator = Coordinator()
    threads = start_queue_runners(session, coordinator)
    try:
        yield
    finally:
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=120)
