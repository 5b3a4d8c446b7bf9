"""Staging areas: tuples wait between steps."""
from __future__ import annotations

import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.graph import Graph
from workbench.train.input.staging import StagingArea


def test_tuples_come_out_in_their_order_by_position_or_name():
    with Graph().as_default():
        plain, named = StagingArea([wb.float32], shapes=[[2]]), StagingArea([wb.float32, wb.int32], names=["x", "n"])
        put, get, size = plain.put([[1.0, 2.0]]), plain.get(), plain.size()
        stage, found = named.put({"x": 1.5, "n": 3}), named.get()
        with wb.Session() as session:
            session.run(put)
            assert session.run(size) == 1 and [v.tolist() for v in session.run(get)] == [[1, 2]] and session.run(size) == 0
            session.run(stage)
            assert session.run(found) == {"x": 1.5, "n": 3}
        assert plain.dtypes == [wb.float32] and named.names == ["x", "n"] and plain.shapes == [[2]]


def test_a_limit_in_bytes_is_refused():
    with pytest.raises(errors.UnimplementedError, match="StagingArea: memory_limit=5 is not offered; use capacity"):
        StagingArea([wb.float32], memory_limit=5)
