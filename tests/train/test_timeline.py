"""The trace of a step for Chrome: a record of each operation, devices as processes, arrows where the graph is known."""
from __future__ import annotations

import json

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


def test_memory_that_is_asked_for_is_said_to_be_shown_elsewhere(caplog):
    """google/seq2seq asks for it in a hook, whose training shall go on."""
    made = Timeline(type("Stats", (), {"dev_stats": []})()).generate_chrome_trace_format(show_memory=True)
    assert json.loads(made) == {"traceEvents": []} and "Session.explain and the report show it" in caplog.text
