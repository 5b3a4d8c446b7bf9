"""Mirrored replicas: copies on every worker that learn alike without a server, are restored from one of them, and share with
other modes."""
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.compile.partition import partition
from workbench.core.compile.place import place
from workbench.core.passes.prune import prune
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


def trained(workers: Sequence[str], mode: str, devices: int = 1, **options: Any) -> list[list[np.ndarray]]:
    """[variable or slot][worker] after six steps of Momentum; `options` are those of the replicas."""
    with wb.Graph().as_default() as graph:
        step = wb.train.get_or_create_global_step()
        optimizer = wb.train.MomentumOptimizer(0.1, 0.9)
        replicas = replicate(model, optimizer, workers, mode=mode, global_step=step, **options)
        held = copies(graph, len(workers) if mode == "mirror" else 1)
        with wb.Session(devices=devices) as session:
            session.run(wb.global_variables_initializer())
            replicas.start(session)
            for number in range(6):
                session.run(replicas.steps[0], feed(replicas, number))
            assert session.run(step) == 6
            return session.run(held)


@pytest.mark.parametrize(("count", "options"), [(1, {}), (2, {}), (3, {}), (4, {}), (3, {"bucket_bytes": 0}),
                                                (3, {"bucket_bytes": 60})])
def test_all_copies_learn_the_same_bits_and_what_one_process_learns(count: int, options: dict[str, int]):
    """Parts of a ring of different lengths, rows of a table, a variable without elements; gradients alone and together."""
    found = trained(places(count), "mirror", devices=count, **options)
    alone = trained(["/cpu:0"] * count, "sync")
    for same, (single,) in zip(found, alone, strict=True):
        assert len(same) == count and len({value.tobytes() for value in same}) == 1
        np.testing.assert_allclose(same[0], single, rtol=1e-4, atol=1e-5)


def many(shapes: Sequence[tuple[str, list[int]]]) -> Tower:
    """Variables of these dtypes and shapes, and in the middle of them a table of which rows are read."""
    half, parts = len(shapes) // 2, []
    for number, (dtype, shape) in enumerate(shapes):
        if number == half:
            table = wb.get_variable("table", [9, 2], initializer=wb.zeros_initializer())
            parts.append(wb.reduce_sum(wb.gather(table, wb.constant([3, 1]))))
        one = wb.get_variable(f"v{number}", shape, dtype, initializer=wb.zeros_initializer())
        parts.append(wb.cast(wb.reduce_sum(wb.square(one - 1)), "float32"))
    return Tower(wb.add_n(parts), ())


def sent(shapes: Sequence[tuple[str, list[int]]], count: int, **options: int) -> Counter[tuple[str, int]]:
    """How many messages with so many elements of a dtype one step of mirrors on so many devices sends."""
    with wb.Graph().as_default() as graph:
        step = replicate(lambda: many(shapes), wb.train.GradientDescentOptimizer(0.1), places(count), mode="mirror",
                         **options).steps[0]
    program = prune(graph, [], [step], {})
    placement = place(program, [f"/job:localhost/task:0/device:CPU:{number}" for number in range(count)])
    return Counter((made.dtype.name, made.shape.num_elements()) for part in partition(program, placement)
                   for op in part.program.graph.operations if op.type == "receive" for made in op.outputs)


SMALL = [("float32", [6])] * 50


@pytest.mark.parametrize("count", [2, 3])
def test_fifty_small_gradients_go_around_as_one(count: int):
    """One ring is n parts, each of which is sent n - 1 times to be summed and n - 1 times to be known; rows go to all."""
    rows = Counter({("float32", 4): count * (count - 1)})
    assert sent(SMALL, count) - rows == {("float32", 300 // count): 2 * count * (count - 1)}


@pytest.mark.parametrize(("most", "sizes"), [(0, [6] * 50), (23, [6] * 50), (24, [6] * 50), (48, [12] * 25),
                                             (24 * 20, [120, 120, 60]), (1200, [300])])
def test_gradients_travel_together_up_to_so_many_bytes(most: int, sizes: list[int]):
    rings = {("float32", size // 2): 4 * count for size, count in Counter(sizes).items()}
    assert sent(SMALL, 2, bucket_bytes=most) - Counter({("float32", 4): 2}) == rings


def test_gradients_of_other_dtypes_and_large_ones_travel_alone():
    """In the order from the last variable on; what does not fit begins anew."""
    shapes = [("float32", [2]), ("float64", [4]), ("float32", [100]), ("float64", [6]), ("float32", [8]), ("float32", [12])]
    assert sent(shapes, 2, bucket_bytes=100) - Counter({("float32", 4): 2}) == {
        ("float32", 10): 4, ("float64", 5): 4, ("float32", 50): 4, ("float32", 1): 4}


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
