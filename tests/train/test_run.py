"""The training loop: what one call goes on from, in a session of this process; losses of tasks are tests of the cluster."""
from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors, train
from workbench.core.state import checkpoint
from workbench.train.saving.checkpoints import Checkpointer
from workbench.train.saving.saver import Saver

pytestmark = pytest.mark.usefixtures("graph")


def model(initializable: bool = False) -> tuple[Any, Any, list[Any]]:
    """Weights trained on shuffled rows with random noise: whatever is not brought back shows in their bits."""
    wb.set_random_seed(7)
    rows = np.random.default_rng(0).standard_normal((24, 4)).astype(np.float32)
    data = wb.data.Dataset.from_tensor_slices(rows).shuffle(16, seed=3).repeat().batch(4)
    source = data.make_initializable_iterator() if initializable else data.make_one_shot_iterator()
    x = source.get_next() + wb.random_normal([4, 4], stddev=0.1)
    w = wb.Variable(np.ones((4, 2), np.float32), name="w")
    step = train.get_or_create_global_step()
    minimize = train.MomentumOptimizer(0.01, 0.9).minimize(wb.reduce_mean(wb.square(wb.matmul(x, w) - 1.0)), step)
    return w, minimize, [source.initializer] if initializable else []


def trained(folder: Path, *stops: int, initializable: bool = False, **options: Any) -> np.ndarray:
    """The weights after runs to each of `stops`, each with a graph and a session of its own, as after a restart."""
    found: list[Any] = [None]
    for stop in stops:
        with wb.Graph().as_default():
            w, minimize, init = model(initializable)
            found = train.run([w.value(), minimize], steps=stop, folder=folder, init=init, **options) or found
            with wb.Session() as session:
                Saver([w]).restore(session, train.latest_checkpoint(folder))
                found = [session.run(w)]
    return found[0]


@pytest.mark.parametrize("initializable", [False, True])
def test_a_run_that_was_ended_goes_on_bit_for_bit(tmp_path: Path, initializable: bool):
    straight = trained(tmp_path / "a", 30, initializable=initializable)
    pieces = trained(tmp_path / "b", 11, 12, 30, 30, initializable=initializable)
    assert straight.tobytes() == pieces.tobytes()
    assert not np.array_equal(straight, np.ones((4, 2)))


def test_training_ends_at_its_step_where_a_run_makes_several_updates(tmp_path: Path):
    """It was learnt a run too late: what a run reads of the step may be from before its updates."""
    step, value = train.get_or_create_global_step(), wb.Variable(0.0, name="value")
    first = value.assign_add(1.0)
    with wb.control_dependencies([first]):      # after what every run reads
        updates = step.assign_add(5)
    train.run(updates, steps=20, folder=tmp_path, save_steps=10)
    with wb.Session() as session:
        Saver([step, value]).restore(session, train.latest_checkpoint(tmp_path))
        assert session.run([step, value]) == [20, 4.0]


def test_input_belongs_to_steps(tmp_path: Path):
    x = wb.placeholder(wb.float32, [])
    total = wb.Variable(0.0, name="total")
    step = train.get_or_create_global_step()
    with wb.get_default_graph().control_dependencies([total.assign_add(x)]):
        count = step.assign_add(1)
    seen: list[int] = []

    def feed(number: int) -> dict[Any, Any]:
        seen.append(number)
        return {x: float(number)}
    values: list[int] = []
    assert int(train.run(count, steps=5, folder=tmp_path, feed=feed, on_step=lambda v: values.append(int(v)))) == 5
    assert seen == [0, 1, 2, 3, 4] and values == [1, 2, 3, 4, 5]
    assert int(train.run(count, steps=8, folder=tmp_path, feed=feed)) == 8 and seen[5:] == [5, 6, 7]
    assert train.run(count, steps=8, folder=tmp_path, feed=feed) is None
    assert checkpoint.read(tmp_path).tensors["total"] == sum(range(8))


def test_only_the_newest_checkpoints_stay(tmp_path: Path):
    _, minimize, _ = model()
    train.run(minimize, steps=12, folder=tmp_path, save_steps=2, keep=3)
    assert [info.step for info in checkpoint.list_checkpoints(tmp_path)] == [8, 10, 12]


def test_a_damaged_checkpoint_is_passed_over_by_name(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    straight = trained(tmp_path / "a", 20)
    trained(tmp_path / "b", 10, save_steps=5)
    shard, = (tmp_path / "b").glob("model.ckpt-10.*.safetensors")
    shard.write_bytes(shard.read_bytes()[:-1] + b"!")
    with caplog.at_level(logging.WARNING):
        assert trained(tmp_path / "b", 20).tobytes() == straight.tobytes()
    assert "passing over a damaged checkpoint: checkpoint" in caplog.text and "model.ckpt-10" in caplog.text


def test_a_folder_that_cannot_be_written_ends_the_run_with_its_name(tmp_path: Path):
    (tmp_path / "file").write_text("")
    _, minimize, _ = model()
    with pytest.raises(errors.FailedPreconditionError, match=r"checkpoint: .*file/model.ckpt-0\S+ cannot be written .*; ch"):
        train.run(minimize, steps=3, folder=tmp_path / "file")


def test_what_is_written_is_the_moment_of_the_pin_whatever_comes_after(tmp_path: Path):
    w = wb.Variable(np.zeros(1000, np.float32), name="w")
    grow = w.assign_add(np.ones(1000, np.float32))
    checkpoints = Checkpointer(tmp_path / "m")
    gate = threading.Event()
    with wb.Session() as session:
        session.run(w.initializer)
        run = session.run

        def late(fetches: Any, *feeds: Any) -> Any:
            if fetches is checkpoints._records:
                gate.wait(30)                                  # the disk is slow
            return run(fetches, *feeds)
        session.run = late
        for _ in range(5):
            session.run(grow.op)
        checkpoints.save(session, 5)
        for _ in range(5):
            session.run(grow.op)
        assert checkpoints.writing and train.latest_checkpoint(tmp_path) is None
        gate.set()
        checkpoints.wait()
        assert (checkpoint.read(tmp_path / "m-5").tensors["w"] == 5).all() and (session.run(w) == 10).all()
        assert checkpoints.restore_newest(session) == str(tmp_path / "m-5") and (session.run(w) == 5).all()


def test_a_failed_checkpoint_is_told_at_the_next_one_and_costs_nothing(tmp_path: Path):
    w = wb.Variable(1.0, name="w")
    checkpoints = Checkpointer(tmp_path / "in" / "m")
    with wb.Session() as session:
        session.run(w.initializer)
        (tmp_path / "in").write_text("")
        checkpoints.save(session, 1)
        with pytest.raises(errors.FailedPreconditionError, match="cannot be written"):
            checkpoints.wait()
        (tmp_path / "in").unlink()
        checkpoints.save(session, 2)
        checkpoints.wait()
    assert train.latest_checkpoint(tmp_path / "in") == str(tmp_path / "in" / "m-2")


def test_impossible_numbers_and_a_graph_without_a_step_are_refused(tmp_path: Path):
    w = wb.Variable(1.0)
    with pytest.raises(errors.InvalidArgumentError, match="run: steps is -1 and keep 5; both are 0 or more"):
        train.run(w.assign(2.0), steps=-1, folder=tmp_path)
    with pytest.raises(errors.FailedPreconditionError, match="there is no global step; call get_or_create_global_step"):
        train.run(w.assign(2.0), steps=1, folder=tmp_path)
