"""Mirrored replicas: copies on every worker that learn alike without a server, are restored from one of them, and share with
other modes."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.nn.partitions import fixed_size_partitioner
from workbench.train.replicas import Replicas, Tower, replicate

ROWS, NAMES = 7, ("table", "weights", "bias", "nothing")


def model() -> Tower:
    """A table of which rows are read, a matrix of 15 elements, a bias of three, and one without any."""
    ids, wanted = wb.placeholder("int32", [None]), wb.placeholder("float32", [None, 3])
    table = wb.get_variable("table", [ROWS, 5], initializer=wb.random_uniform_initializer(-1.0, 1.0, seed=1))
    weights = wb.get_variable("weights", [5, 3], initializer=wb.random_uniform_initializer(-1.0, 1.0, seed=2))
    bias = wb.get_variable("bias", [3], initializer=wb.zeros_initializer())
    nothing = wb.get_variable("nothing", [0, 2], initializer=wb.zeros_initializer())
    found = wb.matmul(wb.nn.embedding_lookup(table, ids), weights) + bias
    return Tower(wb.reduce_mean(wb.square(found - wanted)) + wb.reduce_sum(nothing), (ids, wanted))


def feed(replicas: Replicas, step: int) -> dict[Any, Any]:
    """The step's batch, a share of it for each tower."""
    rng, count = np.random.default_rng(step), len(replicas.towers)
    ids, wanted = rng.integers(0, ROWS, 12), rng.standard_normal((12, 3)).astype(np.float32)
    return {tensor: value for number, tower in enumerate(replicas.towers)
            for tensor, value in zip(tower.feeds, (ids[number::count], wanted[number::count]))}


def copies(graph: wb.Graph, count: int) -> list[list[wb.Tensor]]:
    """[variable or its momentum][worker]: the values of all copies; those of one process where the count is one."""
    own = ["", *(f"/mirror_{number}" for number in range(1, count))]
    return [[graph.get_tensor_by_name(f"{name}{mirror}{slot}/read:0") for mirror in own]
            for name in NAMES for slot in ("", "/Momentum")]


def places(count: int) -> list[str]:
    return [f"/cpu:{number}" for number in range(count)]


def trained(workers: Sequence[str], mode: str, steps: int = 6, **options: Any) -> list[list[np.ndarray]]:
    """[variable or slot][worker] after some steps of Momentum; `options` are those of the Session."""
    with wb.Graph().as_default() as graph:
        step = wb.train.get_or_create_global_step()
        optimizer = wb.train.MomentumOptimizer(0.1, 0.9)
        replicas = replicate(model, optimizer, workers, mode=mode, global_step=step)
        held = copies(graph, len(workers) if mode == "mirror" else 1)
        with wb.Session(**options) as session:
            session.run(wb.global_variables_initializer())
            replicas.start(session)
            for number in range(steps):
                session.run(replicas.steps[0], feed(replicas, number))
            assert session.run(step) == steps
            return session.run(held)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_all_copies_learn_the_same_bits_and_what_one_process_learns(count: int):
    """Parts of a ring of different lengths, rows of a table, a variable without elements."""
    found = trained(places(count), "mirror", devices=count)
    alone = trained(["/cpu:0"] * count, "sync")
    for same, (single,) in zip(found, alone, strict=True):
        assert len(same) == count and len({value.tobytes() for value in same}) == 1
        np.testing.assert_allclose(same[0], single, rtol=1e-4, atol=1e-5)


def test_mirrors_take_over_from_another_mode_and_give_back():
    with wb.Graph().as_default() as graph:
        step, optimizer = wb.train.get_or_create_global_step(), wb.train.AdamOptimizer(0.1)
        modes = {mode: replicate(model, optimizer, places(2), mode=mode, global_step=step) for mode in ("sync", "mirror")}
        variables = wb.trainable_variables()
        assert [variable.op.name for variable in variables] == list(NAMES)
        assert not any("mirror" in variable.op.name for variable in wb.global_variables())
        state = [*variables, *optimizer.variables()]
        ends = []
        for order in (["sync"] * 4, ["sync", "mirror", "sync", "mirror"]):
            with wb.Session(devices=2, graph=graph) as session:
                session.run(wb.global_variables_initializer())
                for number, mode in enumerate(order):
                    modes[mode].start(session)
                    session.run(modes[mode].steps[0], feed(modes[mode], number))
                    modes[mode].finish(session)
                assert session.run(step) == 4
                ends.append(session.run([v for v in state if "mirror" not in v.op.name]))
        for one, other in zip(*ends, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def run_on(count: int, steps: int, folder: Path) -> list[np.ndarray]:
    """The variables and slots after wb.train.run with so many workers, as its newest checkpoint has them."""
    with wb.Graph().as_default() as graph:
        step = wb.train.get_or_create_global_step()
        replicas = replicate(model, wb.train.MomentumOptimizer(0.1, 0.9), ["/cpu:0"] * count, mode="mirror", global_step=step)
        held = wb.global_variables()
        wb.train.run(replicas.steps[0], steps=steps, folder=folder, init=[replicas.begin], feed=lambda n: feed(replicas, n))
        with wb.Session(graph=graph) as session:
            wb.train.Saver(held).restore(session, wb.train.latest_checkpoint(folder))
            return session.run(held)


def test_a_checkpoint_holds_one_copy_and_is_restored_into_any_number(tmp_path: Path):
    """Three steps on three workers and three more on two end where six on one do, momentum included."""
    run_on(3, 3, tmp_path / "several")
    for found, expected in zip(run_on(2, 6, tmp_path / "several"), run_on(1, 6, tmp_path / "one"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_mirrors_have_no_server_and_no_slices():
    optimizer = wb.train.GradientDescentOptimizer(0.1)
    with wb.Graph().as_default(), pytest.raises(errors.InvalidArgumentError, match="mode 'mirror' has no servers but 1 are"):
        replicate(model, optimizer, places(2), ["/job:ps/task:0"], mode="mirror")

    def sliced() -> Tower:
        part = wb.get_variable("part", [4], partitioner=fixed_size_partitioner(2))
        return Tower(wb.reduce_sum(wb.convert_to_tensor(part)), ())
    with wb.Graph().as_default(), pytest.raises(errors.InvalidArgumentError, match="'part' is in slices, which have no mirr"):
        replicate(sliced, optimizer, places(2), mode="mirror")
