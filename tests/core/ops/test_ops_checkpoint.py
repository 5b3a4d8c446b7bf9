"""Checkpoints as operations: written and read where the variables are, with one clear error for whatever fails."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.state import checkpoint
from workbench.core.state.shards import write_shard

pytestmark = pytest.mark.usefixtures("graph")


def handle(value, name):
    value = np.asarray(value)
    made = ops.variable(dtype=value.dtype, shape=value.shape, name=name)
    return made, ops.assign(made, ops.constant(value, value.dtype))


def saved(session, base, *arguments, **options):
    return json.loads(session.run(ops.save(str(base), *arguments, **options)))


def test_variables_are_written_and_read_back(tmp_path: Path):
    (w, fill_w), (n, fill_n) = handle(np.float32([[1, 2], [3, 4]]), "w"), handle(np.int64(7), "n")
    base = checkpoint.base_of(tmp_path / "m", 7)
    with wb.Session() as session:
        session.run([fill_w, fill_n])
        record = saved(session, base, [w, n], parts=(("w",), ("n",)))
        assert record["file"].endswith("-00000-of-00001.safetensors") and checkpoint.latest(tmp_path) is None
        checkpoint.publish(base, 7, [record])
        found = session.run(ops.restore(str(base), tensors=("n", "w"), dtypes=("int64", "float32"), shapes=([], [2, None])))
    assert int(found[0]) == 7 and found[1].tolist() == [[1, 2], [3, 4]]


def test_pinned_tensors_are_written_as_they_were(tmp_path: Path):
    fed, base = ops.placeholder("float32", [2]), checkpoint.base_of(tmp_path / "m", 1)
    pin = ops.pin_tensors([fed, ops.constant("text")], names=("numbers", "words"), shared_name="moment")
    write, value = ops.save_tensors(str(base), [], snapshot="moment"), np.float32([1, 2])
    with wb.Session() as session:
        session.run(pin, {fed: value})
        value[:] = 9
        checkpoint.publish(base, 1, [json.loads(session.run(write))])
        found = checkpoint.read(base).tensors
        assert found["numbers"].tolist() == [1, 2] and found["words"].item() == b"text"
        with pytest.raises(errors.FailedPreconditionError, match="snapshot 'moment': nothing is pinned"):
            session.run(write)


def test_blocks_of_a_tensor_become_other_blocks_of_it(tmp_path: Path):
    whole = np.arange(10, dtype=np.float32).reshape(5, 2)
    (a, fill_a), (b, fill_b) = handle(whole[:2], "a"), handle(whole[2:], "b")
    base = checkpoint.base_of(tmp_path / "m", None)
    with wb.Session() as session:
        session.run([fill_a, fill_b])
        records = [saved(session, base, [a], parts=(("w", (0, 0), (5, 2)),), index=0, count=2),
                   saved(session, base, [b], parts=(("w", (2, 0), (5, 2)),), index=1, count=2)]
        checkpoint.publish(base, None, records)
        blocks = session.run(ops.restore(str(base), tensors=("w", "w", "w"), dtypes=("float32",) * 3,
                                         shapes=([1, 2], [4, 2], [5, 2]), starts=((0, 0), (1, 0), None)))
    for found, rows in zip(blocks, (slice(0, 1), slice(1, 5), slice(0, 5))):
        np.testing.assert_array_equal(found, whole[rows])


def test_what_is_saved_is_of_one_moment(tmp_path: Path):
    """Two variables that one operation updates together are never saved one before and one after."""
    (w, fill_w), (m, fill_m) = handle(np.zeros(1000), "w"), handle(np.zeros(1000), "m")
    one = ops.constant(1.0, "float64")
    update = ops.apply_momentum(w, m, one, ops.fill([1000], one), one)      # m += 1, w -= m
    record = ops.save(str(tmp_path / "m"), [w, m], parts=(("w",), ("m",)))
    with wb.Session() as session:
        session.run([fill_w, fill_m])
        over = threading.Event()

        def train():
            while not over.is_set():
                session.run(update.op)
        trainer = threading.Thread(target=train)
        trainer.start()
        try:
            for step in range(20):
                base = checkpoint.base_of(tmp_path / f"{step}", None)
                checkpoint.publish(base, None, [saved_at(session, record, base)])
                found = checkpoint.read(base).tensors
                steps = found["m"][0]
                assert (found["m"] == steps).all() and (found["w"] == -steps * (steps + 1) / 2).all()
        finally:
            over.set()
            trainer.join()


def saved_at(session, record, base):
    return json.loads(session.run(record, {record.op.inputs[0]: str(base)}))


@pytest.mark.parametrize(("options", "kind", "text"), [
    ({"tensors": ("v",), "dtypes": ("float32",), "shapes": ([2],)}, errors.NotFoundError,
     "Key v not found in checkpoint, which holds 'w'; ask for one of these"),
    ({"tensors": ("w",), "dtypes": ("float64",), "shapes": ([2],)}, errors.InvalidArgumentError,
     r"restore: 'w' is announced as float64\[2\] but the checkpoint .*m holds float32\[2\]; build the model that was saved"),
    ({"tensors": ("w",), "dtypes": ("float32",), "shapes": ([3],)}, errors.InvalidArgumentError,
     r"restore: 'w' is announced as float32\[3\] but the checkpoint .*m holds float32\[2\]; build"),
    ({"tensors": ("w",), "dtypes": ("float32",), "shapes": ([3],), "reshape": True}, errors.InvalidArgumentError,
     r"restore: 'w' is announced as float32\[3\]"),
    ({"tensors": ("w",), "dtypes": ("float32",), "shapes": ([2],), "starts": ((1,),)}, errors.InvalidArgumentError,
     r"\[2\] at \[1\] is wanted of 'w', whose shape is \[2\]; ask for a block inside"),
])
def test_what_does_not_fit_is_refused(tmp_path: Path, options, kind, text):
    checkpoint.write(tmp_path / "m", None, {"w": np.ones(2, np.float32)})
    with wb.Session() as session, pytest.raises(kind, match=text):
        session.run(ops.restore(str(tmp_path / "m"), **options))


def test_reshaping_on_request(tmp_path: Path):
    checkpoint.write(tmp_path / "m", None, {"w": np.arange(6.0)})
    with wb.Session() as session:
        found = session.run(ops.restore(str(tmp_path / "m"), tensors=("w",), dtypes=("float64",), shapes=([2, 3],),
                                        reshape=True))
    assert found[0].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_variable_without_a_value_and_a_file_in_the_way(tmp_path: Path):
    w, fill = handle(np.ones(2), "w")
    (tmp_path / "file").write_text("")
    with wb.Session() as session:
        with pytest.raises(errors.FailedPreconditionError, match="variable 'w': Attempting to use uninitialized value w"):
            saved(session, tmp_path / "m", [w], parts=(("w",),))
        session.run(fill)
        with pytest.raises(errors.FailedPreconditionError,
                           match=r"checkpoint: .*file/m\.\S+ cannot be written .*; choose another folder, or make this"):
            saved(session, tmp_path / "file" / "m", [w], parts=(("w",),))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


READ_ONLY = """
    import os, sys
    import numpy as np
    import workbench as wb
    from workbench import errors
    w = wb.Variable(np.ones(3), name="w")
    with wb.Session() as session:
        session.run(w.initializer)
        os.setuid(65534)                 # whoever runs the tests: permissions hold for nobody
        try:
            wb.train.Saver().save(session, sys.argv[1])
        except errors.FailedPreconditionError as problem:
            print(problem)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody without permissions")
def test_a_read_only_folder_is_one_clear_error():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(READ_ONLY), f"{folder}/m"], capture_output=True, text=True,
                              timeout=60, check=False)
        left = os.listdir(folder)
    assert f"checkpoint: {folder}/m." in done.stdout and "Permission denied" in done.stdout, done.stderr
    assert "choose another folder, or make this one writable" in done.stdout and left == []


def test_a_writer_that_is_told_to_stop_leaves_no_file(tmp_path: Path):
    def stop() -> None:
        raise errors.CancelledError("enough")
    with pytest.raises(errors.CancelledError):
        write_shard(tmp_path / "m", [("w", np.ones(1))], check=stop)
    assert list(tmp_path.iterdir()) == []
