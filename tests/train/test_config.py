"""Options of sessions and runs: what means something means it, what is not offered is refused by name."""
from __future__ import annotations

from types import SimpleNamespace

import pytest

import workbench as wb
from workbench import errors
from workbench.core.device.host import HostDevice
from workbench.core.device.interface import device_types
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.core.run.local import LocalBackend
from workbench.core.run.target import passes_off
from workbench.train.config import ConfigProto, GPUOptions, GraphOptions, OptimizerOptions, RewriterConfig, RunOptions
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


def test_rewrites_that_are_turned_off_are_left_out():
    config = ConfigProto()
    config.graph_options.rewrite_options.constant_folding = RewriterConfig.OFF
    assert passes_off(config) == ["fold"]
    config.graph_options.rewrite_options.arithmetic_optimization = RewriterConfig.OFF
    assert passes_off(config) == ["fold", "algebra"]
    with Graph().as_default(), wb.Session(config=config) as session:
        assert session.run(ops.constant(1.0) + 0.0) == 1


@pytest.mark.parametrize(("make", "text"), [
    (lambda: RunOptions(inter_op_thread_pool=1), "inter_op_thread_pool=1 is not offered; steps share the threads"),
    (lambda: RewriterConfig(optimizers=["fold"]), "optimizers=['fold'] is not offered; use Session"),
    (lambda: GraphOptions(build_cost_model_after=3), "build_cost_model_after=3 is not offered; use RunMetadata"),
    (lambda: ConfigProto(placement_period=2), "placement_period=2 is not offered; operations are placed once"),
])
def test_what_is_not_offered_is_refused(make, text):
    with pytest.raises(errors.UnimplementedError) as caught:
        make()
    assert text in caught.value.message


def test_a_session_with_gpus_refuses_what_chooses_among_them_and_one_without_takes_it(monkeypatch):
    def begun(**options):
        config = ConfigProto(device_count={"GPU": 1}, gpu_options=GPUOptions(**options))
        return wb.Session(graph=Graph(), config=config).close()
    begun(visible_device_list="0")
    monkeypatch.setitem(device_types, "GPU", HostDevice)
    begun(allow_growth=True)
    for options in ({"visible_device_list": "0"}, {"per_process_gpu_memory_fraction": 0.5}):
        with pytest.raises(errors.UnimplementedError, match=r"use device_count={'GPU': number} and device_memory_limit"):
            begun(**options)


@pytest.mark.parametrize(("limit", "text"), [
    ({"cpu": 10}, "gives devices of type 'cpu' 10 bytes; this session has CPU, and"),
    ({"GPU": 10}, "gives devices of type 'GPU' 10 bytes; this session has CPU, and"),
    ({"CPU": -1}, "gives devices of type 'CPU' -1 bytes; this session has CPU, and bytes are whole numbers from 0"),
    ({"CPU": 0.5}, "gives devices of type 'CPU' 0.5 bytes; "),
    (5, "device_memory_limit is 5 but a limit belongs to a type of device; write {'CPU': bytes}"),
])
def test_a_limit_of_memory_that_could_bind_nothing_is_refused(limit, text):
    with pytest.raises(errors.InvalidArgumentError) as caught:
        wb.Session(graph=Graph(), config=ConfigProto(device_memory_limit=limit))
    assert text in caught.value.message


def test_a_limit_of_memory_is_not_for_the_tasks_of_a_cluster():
    with pytest.raises(errors.UnimplementedError, match="sets threads, devices or memory"):
        wb.Session(SimpleNamespace(backend=LocalBackend), Graph(), ConfigProto(device_memory_limit={"CPU": 10}))


def test_a_step_that_waits_too_long_ends():
    with Graph().as_default(), wb.Session() as session:
        waits = FIFOQueue(1, wb.float32).dequeue()
        with pytest.raises(errors.DeadlineExceededError, match="took more than 30 ms"):
            session.run(waits, options=RunOptions(timeout_in_ms=30, inter_op_thread_pool=0))
