"""Session.explain says of every operation what serves it, why it is not fused, what it costs and what memory it takes."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.kernels.options import KernelOptions

pytestmark = pytest.mark.usefixtures("graph")


def network():
    x = wb.placeholder("float32", [64, 300], name="x")
    w = wb.Variable(wb.ones([300, 200]), name="w")
    hidden = wb.nn.relu(wb.matmul(x, w, name="product"), name="hidden")
    chain = wb.tanh(hidden * 2.0 + 1.0, name="chain")
    return x, w, chain


def row(found, name):
    return next(r for r in found.rows if r.name == name)


def test_every_operation_of_the_step_is_there_with_what_serves_it():
    x, _, chain = network()
    with wb.Session() as session:
        found = session.explain(chain, {x: np.ones([64, 300], np.float32)})
        plain = session.explain(wb.reshape(chain, [-1]), {x: np.ones([64, 300], np.float32)})
    assert row(found, "product").library == "onednn" and row(found, "product").kernel
    fused = row(found, "chain")
    assert fused.library == "llvm" and "chain" in fused.members and len(fused.members) >= 3
    assert [r.kernel for r in found.rows if r.type == "read_variable"] == ["the variable's own buffer"]
    assert plain.rows[-1].library == "" and plain.rows[-1].kernel == "the same memory under another shape"
    names = {r.name for r in found.rows} | {m for r in found.rows for m in r.members}
    assert {"product", "hidden", "chain"} <= names


def test_costs_follow_from_the_shapes():
    x, _, chain = network()
    found = wb.explain(chain, {x: np.ones([64, 300], np.float32)})
    product = row(found, "product").cost
    assert product.operations == 2 * 64 * 300 * 200
    assert product.nbytes == 4 * (64 * 300 + 300 * 200 + 64 * 200)
    assert row(found, "chain").cost.operations == len(row(found, "chain").members) * 64 * 200
    open_shape = wb.explain(wb.exp(wb.placeholder("float32", [None, 2], name="open")) + 1.0,
                            {"open:0": np.ones([3, 2], np.float32)})
    assert open_shape.rows[-1].cost is not None      # shapes are those of the values that are fed


@pytest.mark.parametrize("build, reason", [
    (lambda x: wb.reduce_sum(wb.exp(x)), "no neighbour is elementwise"),
    (lambda x: wb.exp(wb.reduce_sum(x, 0)) * x, r"its neighbour 'multiply' has shape \[64,64\], it has \[64\]"),
    (lambda x: wb.exp(x[0, 0]) * 2.0, "joined with 1 more it would save .* its compilation costs .* over 10,000"),
    (lambda x: wb.exp(wb.cast(x, "float16")), "compiled loops do not compute it for float32|for float16"),
])
def test_what_is_not_fused_says_why(build, reason):
    x = wb.placeholder("float32", [64, 64], name="x")
    found = wb.explain(build(x), {x: np.ones([64, 64], np.float32)})
    texts = [r.unfused for r in found.rows if r.unfused]
    assert any(re.search(reason, text) for text in texts), texts


def test_a_pass_that_is_off_is_said():
    x, _, chain = network()
    with wb.Session(disabled_passes=["fuse"]) as session:
        found = session.explain(chain, {x: np.ones([64, 300], np.float32)})
    assert row(found, "chain").unfused == "the pass 'fuse' did not run" and not row(found, "chain").members


def test_a_session_without_libraries_explains_numpy():
    x, _, chain = network()
    with wb.Session(kernels=KernelOptions(libraries=())) as session:
        found = session.explain(chain, {x: np.ones([64, 300], np.float32)})
    assert {r.library for r in found.rows} == {"", "numpy"}
    assert row(found, "product").kernel == "reference"


def test_nothing_runs_unless_steps_are_asked_for_and_then_times_are_measured():
    count = wb.Variable(0.0, name="count")
    up = count.assign_add(1.0)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        before = session.explain(up)
        assert session.run(count.value()) == 0.0 and before.steps == 0 and all(r.measured is None for r in before.rows)
        after = session.explain(up, steps=3)
        assert session.run(count.value()) == 3.0 and after.steps == 3
        assert row(after, up.op.name).measured > 0 and "measured" in after.summary and "3 timed steps" in after.summary


def test_sources_on_request():
    x, _, chain = network()
    found = wb.explain(chain, {x: np.ones([64, 300], np.float32)})
    assert "def kernel(" in found.source("chain") and "tanh" in found.source("chain")
    member = next(m for m in row(found, "chain").members if m != "chain")
    assert found.source(member) == found.source("chain")
    assert "def segment_0" in found.source()
    with pytest.raises(errors.NotFoundError, match=r"explain: 'product' runs as onednn, .*; only generated kernels have"):
        found.source("product")
    with pytest.raises(errors.NotFoundError, match="explain: 'nobody' is not part of this step; the names are"):
        found.source("nobody")


def test_loops_and_branches_show_their_bodies():
    n = wb.placeholder("int32", [], name="n")
    found = wb.explain(wb.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, wb.exp(a)), [0, wb.ones([50])])[1], {n: 3})
    loop = next(r for r in found.rows if r.kernel == "Python while")
    assert {"exp", "less"} <= {r.type for r in found.rows if r.inside == loop.name}
    assert "  " in str(found)


def test_memory_is_what_the_plan_takes():
    x, _, chain = network()
    total = wb.reduce_sum(wb.matmul(chain, chain, transpose_a=True))
    with wb.Session() as session:
        found = session.explain(total, {x: np.ones([64, 300], np.float32)})
        [(_, plan)] = session.plans.__iter__().__next__().runner.compiled()
    [memory] = found.memory
    assert memory.arena == plan.arena_bytes and memory.variables == 4 * 300 * 200
    assert 4 * 200 * 200 <= memory.busiest <= memory.step <= memory.unshared + 64 * len(found.rows)
    assert sum(size for _, size in memory.largest) <= memory.busiest and memory.largest[0][1] == 4 * 200 * 200


def test_devices_tell_what_they_hold_and_held_at_most():
    w = wb.Variable(wb.zeros([1000]), name="w")
    with wb.Session() as session:
        session.run(w.initializer)
        [(device, used, peak)] = session.explain(w.value()).devices
        assert 4000 <= used <= peak and session.backend.memory(device).used == used
        large = wb.tanh(wb.matmul(wb.ones([200, 200]), w[:200, None] + wb.zeros([200, 200])))
        session.run(wb.reduce_sum(large))
        found = session.explain(w.value())
    assert found.devices[0][2] > peak and f"{found.devices[0][2]:,} at most" in str(found)


def test_the_text_is_one_line_for_each_operation():
    x, _, chain = network()
    found = wb.explain(chain, {x: np.ones([64, 300], np.float32)})
    head, *rest = str(found).split("\n\n")[1].splitlines()
    assert head.split() == ["operation", "type", "library", "kernel", "estimated", "measured", "bytes", "notes"]
    assert len(rest) == len(found.rows) and repr(found) == str(found)
    assert "arena" in str(found) and "fused: " in str(found)


def test_several_devices_are_explained_side_by_side():
    with wb.device("/device:CPU:0"):
        a = wb.exp(wb.placeholder("float32", [50, 50], name="a"))
    with wb.device("/device:CPU:1"):
        b = wb.matmul(a, a)
    with wb.Session(devices=2) as session:
        found = session.explain(b, {"a:0": np.ones([50, 50], np.float32)})
    devices = {r.type: r.device.rpartition(":")[2] for r in found.rows}
    assert devices["exp"] == "0" and devices["matmul"] == "1" and len(found.memory) == 2
    assert any(r.kernel == "receive: a segment of its own" for r in found.rows)


def test_what_cannot_be_run_cannot_be_explained():
    x = wb.placeholder("float32", [2], name="x")
    with pytest.raises(errors.InvalidArgumentError, match="placeholder 'x': it has no value"):
        wb.explain(x * 2.0)
    session = wb.Session()
    session.close()
    with pytest.raises(errors.FailedPreconditionError, match="the session is closed"):
        session.explain(x, {x: [1, 2]})
