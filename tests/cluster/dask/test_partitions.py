"""Which task gets which partition, and what collections say of their rows, without a cluster."""
from __future__ import annotations

import contextlib
from types import SimpleNamespace

import dask.array as da
import dask.bag as db
import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.cluster.dask import partitions
from workbench.cluster.dask.partitions import assigned

A, B, C = "tcp://a", "tcp://b", "tcp://c"
TWO = {"/job:worker/task:0": A, "/job:worker/task:1": B}


class Kept:
    """What is used of a cluster: it keeps rows."""

    def keep(self, rows):
        self.rows = rows


class Frame:
    """What is used of a dataframe of dask: the names and types of its columns, and what computes its partitions."""

    groupby = head = merge = mean = None

    def __init__(self, **columns):
        self.columns, self.dtypes = list(columns), columns

    def to_delayed(self):
        return ["first", "second"]


@pytest.mark.parametrize(("lie", "shares"), [
    ([{A: 1}, {B: 1}, {A: 1}, {B: 1}], [[0, 2], [1, 3]]),
    ([{A: 9, B: 10}, {A: 10, B: 9}], [[1], [0]]),                              # where most of it lies
    ([{B: 1}, {B: 1}, {A: 1}, {B: 1}], [[2, 3], [0, 1]]),                      # no more than its share
    ([{A: 1}, {A: 1}, {C: 1}], [[0, 1], [2]]),                                 # one more
    ([{C: 1}, {C: 1}, {C: 1}, {}, {B: 1}], [[0, 1, 3], [2, 4]]),               # beside nobody: evenly
])
def test_partitions_go_where_they_lie_as_far_as_numbers_allow(lie, shares):
    assert list(assigned(lie, TWO).values()) == shares


def test_tasks_of_one_dask_worker_share_what_lies_there():
    found = assigned([{A: 1}] * 5 + [{B: 1}], {"/job:worker/task:0": A, "/job:worker/task:1": A, "/job:worker/task:2": B})
    assert list(found.values()) == [[0, 2], [1, 3], [4, 5]]


def test_fewer_partitions_than_tasks_are_refused():
    with pytest.raises(errors.InvalidArgumentError, match="there are 1 partitions for 2 worker tasks; partition the data"):
        assigned([{A: 1}], TWO)


def test_rows_have_the_structure_of_the_collections():
    x, cluster = da.zeros((6, 3), chunks=(3, 3), dtype="float32"), Kept()
    frame = Frame(b=np.dtype("float64"), a=np.dtype("U3"))
    rows = wb.from_dask(cluster, {"x": x, "more": (frame, x[:, 0])})
    assert rows.output_types == {"x": wb.float32, "more": ({"a": wb.string, "b": wb.float64}, wb.float32)}
    assert rows.output_shapes["x"].as_list() == [3] and rows.output_shapes["more"][1].as_list() == []
    assert len(cluster.rows.pieces) == 2 and [len(partition) for partition in cluster.rows.pieces] == [3, 3]


@pytest.mark.parametrize(("data", "kind", "text"), [
    (da.zeros((4, 4), chunks=2), errors.ShapeError, "the collection is cut into 2 along axis 1, so that no partition has whole "
                                                    r"rows; rechunk it with \{1: -1\}"),
    (da.zeros(()), errors.ShapeError, "the collection is a scalar; pass arrays with rows"),
    (da.zeros(4).astype(object), errors.DtypeError, "the collection is of dtype object, which may hold anything; convert"),
    (da.zeros(4).astype("M8[s]"), errors.DtypeError, "is not an element type"),
    (Frame(when="category"), errors.DtypeError, "column 'when' of the collection is category, which is not an element"),
    ((da.zeros(4, chunks=2), da.zeros(4, chunks=1)), errors.InvalidArgumentError,
     "collection 0 has 2 partitions but collection 1 4; partition them alike"),
    ((da.zeros(4), np.zeros(4)), errors.InvalidArgumentError, "collection 1 is a ndarray; pass dask arrays, dataframes, "),
    (db.from_sequence([1, 2]), errors.InvalidArgumentError, "a bag does not say what its elements are; pass it alone, and "),
])
def test_collections_whose_rows_are_no_tensors_are_refused(data, kind, text):
    with pytest.raises(kind, match=text):
        wb.from_dask(Kept(), data)


class Asked:
    """A Dask client that has just looked for itself who is there, which it does every two seconds and without workers."""

    def __init__(self, *workers):
        self.scheduler = SimpleNamespace(identity=lambda n_workers: {"workers": dict.fromkeys(workers)})

    def sync(self, function, **options):
        return function(**options)

    def scheduler_info(self, n_workers):
        return {"workers": {}}


@pytest.mark.parametrize("there", [(A, B, C), (A, C)])
def test_only_a_worker_that_the_scheduler_does_not_have_is_lost(monkeypatch, there):
    looks = iter([TimeoutError(), TimeoutError(), None])

    def wait(futures, timeout):
        if error := next(looks):
            raise error
    monkeypatch.setattr(partitions, "wait", wait)
    with contextlib.nullcontext() if B in there else pytest.raises(errors.UnavailableError, match=f"worker at {B} was lost"):
        partitions._settle(Asked(*there), [], [A, B])


def test_types_are_for_bags_alone():
    with pytest.raises(errors.InvalidArgumentError, match="output_types are for a bag alone; other collections say theirs"):
        wb.from_dask(Kept(), da.zeros(4), wb.float32)


def test_processes_of_a_server_hold_no_partitions():
    server = wb.Server.create_local_server()
    try:
        with pytest.raises(errors.UnimplementedError, match="is a process of its own and no Dask worker; use "):
            wb.from_dask(server.target, da.zeros(4))
    finally:
        server.close()


def test_without_a_cluster_there_is_a_word_on_what_to_do():
    with pytest.raises(errors.InvalidArgumentError, match="from_dask: None is not a cluster"):
        wb.from_dask(None, da.zeros(4))
