"""Options of sessions and runs: what means something means it, what is not offered is refused by name."""
from __future__ import annotations

import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.core.run.target import passes_off
from workbench.train.config import ConfigProto, GPUOptions, GraphOptions, OptimizerOptions, RunOptions
from workbench.train.input.queues import FIFOQueue


def test_records_nest_as_programs_write_them():
    config = ConfigProto(use_per_session_threads=True)
    config.graph_options.optimizer_options.global_jit_level = OptimizerOptions.ON_1
    config.gpu_options.allow_growth = True
    other = ConfigProto()
    assert other != config
    other.CopyFrom(config)
    assert other == config and config.HasField("graph_options") and config.gpu_options == GPUOptions(allow_growth=True)


def test_level_0_leaves_rewrites_out_that_are_not_asked_for():
    def options(**given):
        return ConfigProto(graph_options=GraphOptions(optimizer_options=OptimizerOptions(**given)))
    assert passes_off(options()) == [] == passes_off(None)
    assert passes_off(options(opt_level=OptimizerOptions.L0)) == ["cse", "fold"]
    assert passes_off(options(opt_level=OptimizerOptions.L0, do_constant_folding=True)) == ["cse"]
    with Graph().as_default(), wb.Session(config=options(opt_level=OptimizerOptions.L0)) as session:
        assert session.run(ops.constant(1.0) + 2.0) == 3


@pytest.mark.parametrize(("make", "text"), [
    (lambda: RunOptions(inter_op_thread_pool=1), "inter_op_thread_pool=1 is not offered; steps share the threads"),
    (lambda: RunOptions(output_partition_graphs=True), "output_partition_graphs=True is not offered; see the graph view"),
    (lambda: GraphOptions(rewrite_options=3), "rewrite_options=3 is not offered; use Session"),
    (lambda: ConfigProto(placement_period=2), "placement_period=2 is not offered; operations are placed once"),
])
def test_what_is_not_offered_is_refused(make, text):
    with pytest.raises(errors.UnimplementedError) as caught:
        make()
    assert text in caught.value.message


def test_a_step_that_waits_too_long_ends():
    with Graph().as_default(), wb.Session() as session:
        waits = FIFOQueue(1, wb.float32).dequeue()
        with pytest.raises(errors.DeadlineExceededError, match="took more than 30 ms"):
            session.run(waits, options=RunOptions(timeout_in_ms=30, inter_op_thread_pool=0))
