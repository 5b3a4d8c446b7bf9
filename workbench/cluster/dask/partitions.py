"""Rows of Dask collections as datasets: each worker task reads the partitions that lie on its own Dask worker."""
from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
from dask.utils import is_dataframe_like, is_series_like
from distributed import get_worker, wait

from workbench import errors
from workbench.cluster.task.columns import Column, Table, columns_of
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.shape import Shape
from workbench.train.input.contrib_data import unbatch
from workbench.train.input.data import Dataset
from workbench.train.input.data_structures import Part, flatten, pack, rebuilt

__all__ = ["Rows", "assigned", "from_dask"]

_LOOK = 1.0      # seconds between two looks whether the Dask workers that are waited for are still there
_numbers = itertools.count()


def from_dask(cluster: Any, data: Any, output_types: Any = None, output_shapes: Any = None, *, shuffle: bool = False,
              seed: int | None = None) -> Dataset:
    """The rows of Dask collections as a dataset, of which each worker task of `cluster` reads a part that lies beside it.

    `data` is a dask array, dataframe or series, or a nested tuple or dictionary of them, which have the same partitions; or
    a bag alone, whose elements `output_types` and `output_shapes` describe as for Dataset.from_generator. An element is what
    one row is in each: of an array [n, ...] a tensor [...], of a dataframe a dictionary of its columns; text is bytes.

    The partitions are shared out once among the worker tasks, to each as many, one more or less: as far as that goes
    those that its Dask worker holds; Dask brings the others there, from worker to worker. An iterator goes through those of
    the task that it lies in, in their order, with `shuffle` in another one in each repetition. What is not computed yet is
    computed for it. When tasks are opened anew after a loss each gets the same partitions again, for which Dask computes
    what was lost; so positions in checkpoints hold.

    ShapeError, DtypeError and InvalidArgumentError for collections whose rows are no tensors or do not belong together, also
    where only the partitions tell; FailedPreconditionError in the step for an iterator on another task. DataLossError when a
    partition was lost that Dask cannot compute again.
    """
    if not hasattr(cluster, "keep"):
        raise errors.InvalidArgumentError(f"from_dask: {cluster!r} is not a cluster; pass a workbench.Cluster, whose tasks are "
                                          "to read the data")
    tables, parts = _described(data, output_types, output_shapes)
    pieces = [_pieces(table, one) for table, one in zip(tables, flatten(data))]
    for table, found in zip(tables, pieces):
        if len(found) != len(pieces[0]):
            raise errors.InvalidArgumentError(f"from_dask: {tables[0].name} has {len(pieces[0])} partitions but {table.name} "
                                              f"{len(found)}; partition them alike")
    rows = Rows(f"rows {next(_numbers)}", tables, list(zip(*pieces)))
    cluster.keep(rows)
    whole = [part._replace(shape=Shape([None]) + part.shape) for part in flatten(parts)]
    partitions = Dataset(("partitions", rows.name), pack(parts, whole))
    return (partitions.shuffle(len(rows.pieces), seed) if shuffle else partitions).apply(unbatch())


# what collections say of themselves

def _described(data: Any, types: Any, shapes: Any) -> tuple[list[Table], Any]:
    """A table for each collection, and the structure of a row."""
    collections = flatten(data)
    if types is not None:
        if len(collections) != 1 or _kind(data) != "bag":
            raise errors.InvalidArgumentError("from_dask: output_types are for a bag alone; other collections say theirs")
        parts = rebuilt(types, shapes, None)
        columns = tuple(Column(None, p.dtype.name, None if p.shape.rank is None else tuple(p.shape.as_list()))
                        for p in flatten(parts))
        return [Table("the bag", "bag", columns, pack(parts, [c.dtype for c in columns]))], parts
    tables = [_table(one, f"collection {number}" if len(collections) > 1 else "the collection")
              for number, one in enumerate(collections)]
    found = [{c.name: _part(c) for c in t.columns} if t.kind == "frame" else _part(t.columns[0]) for t in tables]
    return tables, pack(data, found)


def _part(column: Column) -> Part:
    return Part(as_dtype(column.dtype), Shape(column.shape))


def _kind(collection: Any) -> str:
    if is_dataframe_like(collection):
        return "frame"
    if is_series_like(collection) or hasattr(collection, "chunks"):
        return "array"
    return "bag" if hasattr(collection, "npartitions") else ""


def _table(collection: Any, name: str) -> Table:
    kind = _kind(collection)
    if kind == "frame":
        return Table(name, kind, tuple(Column(key, _dtype(collection.dtypes[key], f"column {key!r} of {name}"), ())
                                       for key in sorted(collection.columns)))
    if kind == "array":
        return Table(name, kind, (Column(None, _dtype(collection.dtype, name), _row_shape(collection, name)),))
    if kind == "bag":
        raise errors.InvalidArgumentError("from_dask: a bag does not say what its elements are; pass it alone, and "
                                          "output_types")
    raise errors.InvalidArgumentError(f"from_dask: {name} is a {type(collection).__name__}; pass dask arrays, dataframes, "
                                      "series or a bag")


def _dtype(found: Any, name: str) -> str:
    """The element type of an array or column, by its name."""
    if not isinstance(found, np.dtype):      # an extension of pandas; of these text alone is an element type
        if str(found) in ("string", "str"):
            return "string"
        raise errors.DtypeError(f"from_dask: {name} is {found}, which is not an element type; convert it with astype")
    if found.kind == "O":
        raise errors.DtypeError(f"from_dask: {name} is of dtype object, which may hold anything; convert it with astype")
    return as_dtype(found).name


def _row_shape(array: Any, name: str) -> tuple[int, ...]:
    if is_series_like(array):
        return ()
    if array.ndim == 0:
        raise errors.ShapeError(f"from_dask: {name} is a scalar; pass arrays with rows")
    for axis, chunks in enumerate(array.chunks[1:], 1):
        if len(chunks) > 1:
            raise errors.ShapeError(f"from_dask: {name} is cut into {len(chunks)} along axis {axis}, so that no partition has "
                                    f"whole rows; rechunk it with {{{axis}: -1}}")
    return tuple(array.shape[1:])


def _pieces(table: Table, collection: Any) -> list[Any]:
    """What computes each partition."""
    found = collection.to_delayed()
    return list(found.ravel() if isinstance(found, np.ndarray) else found)


# where partitions go

def assigned(lie: Sequence[Mapping[str, int]], workers: Mapping[str, str]) -> dict[str, list[int]]:
    """task -> numbers of its partitions, of which each task has as many, one more or less.

    `lie` is for each partition Dask worker -> bytes of it there, `workers` task -> its Dask worker. As far as numbers
    allow, a partition goes where most of it lies. InvalidArgumentError for fewer partitions than tasks.
    """
    least, more = divmod(len(lie), len(workers))
    if not least:
        raise errors.InvalidArgumentError(f"from_dask: there are {len(lie)} partitions for {len(workers)} worker tasks; "
                                          "partition the data into at least one for each")
    found: dict[str, list[int]] = {task: [] for task in workers}

    def room(task: str) -> bool:
        """May it have another one?"""
        fuller = sum(len(one) > least for one in found.values())
        return len(found[task]) < least or (len(found[task]) == least and fuller < more)
    rest = []
    for number, places in enumerate(lie):
        here = [task for task, worker in workers.items() if places.get(worker) and room(task)]
        if here:
            found[min(here, key=lambda task: (-places[workers[task]], len(found[task])))].append(number)
        else:
            rest.append(number)
    for number in rest:
        found[min(found, key=lambda task: len(found[task]))].append(number)
    return {task: sorted(numbers) for task, numbers in found.items()}


class Rows:
    """Partitions of the data `name` in Dask's memory, and which task has which. `pieces` is for each partition what computes
    that of each of the `tables`."""

    def __init__(self, name: str, tables: Sequence[Table], pieces: Sequence[Sequence[Any]]) -> None:
        self.name, self._tables, self.pieces = name, tuple(tables), pieces
        self._futures: list[list[Any]] = []
        self.shares: dict[str, list[int]] = {}      # task -> numbers of its partitions

    def put(self, client: Any, session: int, addresses: Mapping[str, str]) -> None:
        """Have every worker task (task -> Dask worker) of the session keep its partitions; returns when all do."""
        if not self.shares:
            self._share(client, {task: at for task, at in addresses.items() if task.startswith("/job:worker/")})
        asked = [client.submit(_put, session, task, self.name, self._tables, numbers, [self._futures[n] for n in numbers],
                               key=f"workbench-{self.name}-{session:016x}-{task}", workers=[addresses[task]], pure=False)
                 for task, numbers in self.shares.items()]
        _settle(client, asked, [addresses[task] for task in self.shares])

    def _share(self, client: Any, workers: Mapping[str, str]) -> None:
        """Compute the partitions, and say which task has which."""
        if not workers:
            raise errors.InvalidArgumentError("from_dask: the cluster has no worker tasks; make it with worker=1 or more")
        computed = client.compute([one for partition in self.pieces for one in partition])
        _settle(client, computed, ())
        each = iter(computed)
        self._futures = [[next(each) for _ in partition] for partition in self.pieces]
        self.shares = assigned(self._lie(client, computed), workers)

    def _lie(self, client: Any, computed: Sequence[Any]) -> list[dict[str, int]]:
        """For each partition, Dask worker -> bytes of it there."""
        where, size = client.who_has(computed), client.nbytes([one.key for one in computed], summary=False)
        found: list[dict[str, int]] = []
        for partition in self._futures:
            places: dict[str, int] = {}
            for one in partition:
                for worker in where[one.key]:
                    places[worker] = places.get(worker, 0) + size[one.key]
            found.append(places)
        return found


def _there(client: Any, needed: Iterable[str]) -> set[str]:
    """The Dask workers that the scheduler has; those of `needed` when it does not answer, which `wait` tells in time.

    NOTE: `client.scheduler_info` may return what the client itself asks for meanwhile, every two seconds: nobody is there.
    """
    try:
        return set(client.sync(client.scheduler.identity, n_workers=-1)["workers"])
    except OSError:
        return set(needed)


def _settle(client: Any, futures: Sequence[Any], needed: Iterable[str]) -> None:
    """Wait until all are computed, and raise what one of them raised; UnavailableError when a Dask worker of `needed` is
    gone, whose part would wait for it for ever."""
    try:
        while True:
            try:
                wait(futures, timeout=_LOOK)
                break
            except TimeoutError:
                gone = set(needed) - _there(client, needed)
            if gone:
                raise errors.UnavailableError(f"from_dask: the Dask worker at {min(gone)} was lost while it took its "
                                              "partitions; run again")
        for one in futures:      # NOTE: result() would bring the rows here
            if one.status == "error":
                raise one.exception()
    except CancelledError as error:
        raise errors.DataLossError("from_dask: a partition was lost with its Dask worker, and Dask cannot compute it again; "
                                   "make the data by Dask's own functions instead of scattering them") from error


def _put(session: int, task: str, name: str, tables: Sequence[Table], numbers: Sequence[int],
         partitions: Sequence[Sequence[Any]]) -> None:
    """Runs on the Dask worker of the task, where Dask brought the partitions."""
    plugin: Any = get_worker().plugins["workbench"]
    found = plugin.host.tasks.get((session, task))
    if found is None:
        raise errors.UnavailableError(f"from_dask: {task} is no longer at {get_worker().address}; it was closed or lost")
    found.keep(name, [columns_of(tables, pieces, number) for number, pieces in zip(numbers, partitions)])
