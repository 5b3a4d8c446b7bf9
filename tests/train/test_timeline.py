"""The trace of a step for Chrome: a record of each operation, devices as processes, arrows where the graph is known."""
from __future__ import annotations

import json

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.train.config import RunMetadata, RunOptions
from workbench.train.saving.timeline import Timeline


def test_a_traced_step_is_a_chrome_trace():
    with Graph().as_default() as graph:
        x = wb.Variable(ops.ones([20, 20]))
        product = ops.matmul(ops.matmul(x, x, name="first"), x, name="second")
        with wb.Session() as session:
            session.run(x.initializer)
            report = RunMetadata()
            assert not report.HasField("step_stats") and report.partition_graphs == []
            session.run(product, options=RunOptions(trace_level=RunOptions.FULL_TRACE), run_metadata=report)
    assert report.HasField("step_stats")
    events = json.loads(Timeline(report.step_stats, graph).generate_chrome_trace_format())["traceEvents"]
    assert events[0]["ph"] == "M" and events[0]["args"]["name"] == report.step_stats.dev_stats[0].device
    by_name = {e["args"]["name"]: e for e in events if e["ph"] == "X"}
    assert {"first", "second"} <= set(by_name) and by_name["second"]["args"]["input0"] == "first"
    assert by_name["first"]["ts"] <= by_name["second"]["ts"] and all(e["dur"] >= 1 for e in by_name.values())
    assert [e["name"] for e in events if e["ph"] == "s" and e["name"] == "first"] == ["first"]
    plain = json.loads(Timeline(report.step_stats).generate_chrome_trace_format())["traceEvents"]
    assert plain == events
    assert {e["ph"] for e in json.loads(Timeline(report.step_stats).generate_chrome_trace_format(show_dataflow=False))[
        "traceEvents"]} == {"M", "X"}


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(errors.InvalidArgumentError, match=r"Timeline: step_stats is None; pass RunMetadata\.step_stats"):
        Timeline(None)


def test_what_was_computed_and_its_memory():
    """A batch whose size only the step knows: of one value its bytes tell it. 4 rows of 6, then of 2, then a number."""
    with Graph().as_default():
        x = wb.placeholder("float32", [None, 6], name="x")
        first = ops.matmul(x, ops.ones([6, 2]), name="first")
        total = ops.reduce_sum(ops.exp(first, name="second"), name="third")
        report = RunMetadata()
        with wb.Session() as session:
            session.run(total, {x: np.ones((4, 6), np.float32)}, options=RunOptions(trace_level=RunOptions.FULL_TRACE),
                        run_metadata=report)
    nodes = {node.node_name: node for device in report.step_stats.dev_stats for node in device.node_stats}
    last = nodes["third"].output[0].tensor_description
    assert last.dtype == "float32" and last.shape.static == () and last.allocation_description.requested_bytes == 4
    read = RunMetadata.FromString(report.SerializeToString())
    for node in (nodes["first"], {n.node_name: n for d in read.step_stats.dev_stats for n in d.node_stats}["first"]):
        told = node.output[0].tensor_description
        assert told.allocation_description.requested_bytes == 32 == node.memory[0].total_bytes
        assert list(told.shape.as_list() if hasattr(told.shape, "as_list") else [d.size for d in told.shape.dim]) == [4, 2]
        assert told.allocation_description.allocator_name == node.memory[0].allocator_name == "cpu"
    for stats in (report.step_stats, read.step_stats):
        events = json.loads(Timeline(stats).generate_chrome_trace_format(show_memory=True))["traceEvents"]
        counted = [e["args"]["bytes"] for e in events if e["ph"] == "C"]
        assert max(counted) >= 32 and counted[-1] == 0 and min(counted) >= 0
        assert not [e for e in json.loads(Timeline(stats).generate_chrome_trace_format())["traceEvents"] if e["ph"] == "C"]


def test_memory_of_no_records():
    made = Timeline(type("Stats", (), {"dev_stats": []})()).generate_chrome_trace_format(show_memory=True)
    assert json.loads(made) == {"traceEvents": []}
