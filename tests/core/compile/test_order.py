"""The order of a block: a possible one, never hungrier than construction order, and state is seen as before."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import workbench as wb
from tests.core.random_graphs import build, recipes
from tests.growth import growth
from workbench.core.compile.order import order, peak
from workbench.core.compile.plan import Plan, compile_plan
from workbench.core.graph.graph import Operation
from workbench.core.graph.program import Program
from workbench.core.graph.shape import Shape
from workbench.core.passes.pipeline import DEVICE_PASSES, run_passes
from workbench.core.passes.prune import prune

pytestmark = pytest.mark.usefixtures("graph")


def ordered(*fetches: Any, targets: Any = ()) -> list[Operation]:
    """What `fetches` and `targets` need, rearranged; operations keep their names."""
    tensors = [wb.convert_to_tensor(f) for f in fetches]
    program = prune(wb.get_default_graph(), tensors, [getattr(t, "op", t) for t in targets], {})
    return order(program.graph.operations, program.fetches)


def names(operations: list[Operation]) -> list[str]:
    return [op.name for op in operations]


def training(layers: int, batch: int, width: int, optimizer: Any) -> Program:
    x, labels = wb.placeholder("float32", [batch, width]), wb.placeholder("int32", [batch])
    h = x
    for _ in range(layers):
        w, b = wb.Variable(wb.zeros([width, width])), wb.Variable(wb.zeros([width]))
        h = wb.nn.relu(wb.matmul(h, w) + b)
    loss = wb.reduce_mean(wb.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=h))
    step = optimizer.minimize(loss)
    return run_passes(prune(wb.get_default_graph(), [loss], [step], {t: t.shape for t in (x, labels)}))


def planned(program: Program, disabled: tuple[str, ...] = ()) -> Plan:
    return compile_plan(run_passes(program, disabled, stages=DEVICE_PASSES))


# memory

def test_an_update_runs_as_soon_as_its_gradient_exists():
    program = training(12, 16, 128, wb.train.AdamOptimizer(0.1))
    weight = 128 * 128 * 4
    assert planned(program).arena_bytes < 4 * weight      # in construction order all 12 gradients wait for the end


@pytest.mark.parametrize("width", [64, 512])
def test_updates_by_sums_of_many_rows_need_no_more_memory_than_their_gradients(width):
    """Folded into the product, the update waits for one more matrix of all rows, and so does the product's scratch."""
    program = training(12, 2048, width, wb.train.GradientDescentOptimizer(0.1))
    with_updates, without = planned(program), planned(program, ("epilogue",))
    assert with_updates.arena_bytes <= without.arena_bytes


def test_fused_updates_do_not_keep_activations_alive():
    program = training(12, 512, 256, wb.train.GradientDescentOptimizer(0.1))
    with_updates, without = planned(program), planned(program, ("epilogue",))
    assert any(op.type == "apply_matmul_descent" for op in with_updates.program.graph.operations)
    assert with_updates.arena_bytes < 1.1 * without.arena_bytes      # 1.75 times in construction order


@settings(max_examples=60, deadline=None)
@given(recipes(most=25))
def test_every_order_is_possible_and_needs_no_more_memory(recipe):
    with wb.Graph().as_default() as graph:
        fetches, feeds = build(recipe)
        program = prune(graph, fetches, [], {t: Shape(np.shape(v)) for t, v in feeds.items()})
    before = program.graph.operations
    found = order(before, program.fetches)
    assert sorted(names(found)) == sorted(names(before))
    done: set[Operation] = set()
    for op in found:
        assert {t.op for t in op.inputs} | set(op.controls) <= done
        done.add(op)
    assert peak(found, program.fetches) <= peak(before, program.fetches)
    assert order(before, program.fetches) == found


def test_the_peak_counts_what_is_alive_together():
    x = wb.zeros([100], name="x")                # 400 bytes, a constant of the block
    a = wb.exp(x, name="a")                      # 800
    view = wb.reshape(a, [10, 10])               # the same memory
    b = wb.reduce_sum(wb.tanh(view, name="b"), name="sum")
    program = prune(wb.get_default_graph(), [b], [], {})
    assert peak([op for op in program.graph.operations if op.type != "constant"], program.fetches) == 800


def test_ordering_is_linear():
    def prepare(layers: int) -> Callable[[], Any]:
        with wb.Graph().as_default():
            program = training(layers, 16, 8, wb.train.GradientDescentOptimizer(0.1))
        return functools.partial(order, program.graph.operations, program.fetches)
    assert growth(prepare, 20) < 2.3


# state

BIG = 1000


def hungry_then_update(v: Any) -> tuple[Any, Any]:
    """(a value computed from a big one, an update that frees another big one): the update would like to run early."""
    gradient = wb.random_uniform([BIG], name="gradient")
    update = wb.assign_add(v, gradient, name="update")
    return gradient, update


def test_a_read_built_before_a_write_runs_before_it_and_one_built_after_runs_after_it():
    v = wb.Variable(np.zeros(BIG, np.float32), name="v")
    gradient = wb.random_uniform([BIG], name="gradient")
    big = wb.exp(wb.ones([BIG]) * gradient[0], name="big")
    early = wb.reduce_sum(v.read_value() * big, name="early")
    update = wb.assign_add(v, gradient, name="update")
    late = wb.reduce_sum(v.read_value(), name="late")
    found = names(ordered(early, late, targets=[update]))
    reads = [n for n in found if "read" in n]
    assert len(reads) == 2 and found.index(reads[0]) < found.index("update") < found.index(reads[1])
    assert found.index("early") < found.index("update") or found.index("multiply_1") < found.index("update")


def test_a_write_waits_for_those_who_use_the_value_read_before():
    """The variable could not be updated in place while they hold its buffer."""
    v = wb.Variable(np.ones(BIG, np.float32), name="v")
    read = wb.reshape(v.read_value(), [10, BIG // 10], name="view")
    gradient = wb.random_uniform([BIG], name="gradient")
    wide = wb.exp(wb.random_uniform([50 * BIG], name="noise"), name="wide")
    user = wb.multiply(read, wb.reduce_sum(wide), name="user")
    update = wb.assign_add(v, gradient, name="update")
    found = names(ordered(user, targets=[update]))
    assert found.index("user") < found.index("update")


@pytest.mark.parametrize("refuse", [
    lambda t: wb.Assert(wb.reduce_all(t > 0.5), [t], name="refuse"),
    lambda t: wb.check_numerics(t, "no", name="refuse")])
def test_a_write_does_not_pass_what_may_stop_the_step(refuse):
    v, other = (wb.Variable(np.zeros(BIG, np.float32), name=n) for n in "vw")
    gradient = wb.random_uniform([BIG], name="gradient")
    refused = refuse(wb.exp(wb.random_uniform([BIG], name="noise")))
    updates = [wb.assign_add(v, gradient, name="update"), wb.assign_add(other, gradient * 2.0, name="other")]
    found = names(ordered(targets=[refused, *updates]))
    assert found.index("refuse") < min(found.index("update"), found.index("other"))


def test_two_handles_of_one_shared_name_are_one_variable(graph):
    attrs = {"dtype": wb.float32, "shape": [BIG], "shared_name": "shared", "container": ""}
    one, two = (graph.create("variable", (), attrs, name).outputs[0] for name in ("one", "two"))
    gradient = wb.random_uniform([BIG], name="gradient")
    noise = wb.exp(wb.random_uniform([BIG]), name="noise")
    read = wb.multiply(wb.ops.read_variable(one, dtype=wb.float32, shape=[BIG]), noise, name="user")
    update = wb.ops.assign_add(two, gradient, name="update")
    found = names(ordered(read, targets=[update]))
    assert found.index("user") < found.index("update")


def test_operations_with_effects_keep_their_order():
    """The first number is wanted last."""
    first, second = (wb.random_uniform([], name=n) for n in ("first", "second"))
    noise = wb.random_uniform([BIG], name="noise")
    wide = wb.exp(noise * second, name="wide")
    last = wb.reduce_sum(wb.exp(wide * 2.0) * first, name="last")
    found = names(ordered(last))
    assert found.index("first") < found.index("second") < found.index("noise")
