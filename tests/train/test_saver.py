"""Saver: round trips, what is kept, and one clear error for each kind of wrong or damaged checkpoint."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")


def variables():
    w = wb.Variable([[1.0, 2.0], [3.0, 4.0]], name="w")
    n = wb.Variable(7, dtype=wb.int64, name="n", trainable=False)
    return w, n


def test_values_come_back_in_another_session_without_initialisation(tmp_path: Path):
    w, n = variables()
    saver = wb.train.Saver()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run([w.assign_add([[1.0, 1.0], [1.0, 1.0]]), n.assign(42)])
        path = saver.save(session, tmp_path / "model.ckpt", global_step=n)
    assert path == str(tmp_path / "model.ckpt-42") and saver.last_checkpoints == [path]
    with wb.Session() as session:
        saver.restore(session, path)
        assert session.run(w).tolist() == [[2, 3], [4, 5]] and int(session.run(n)) == 42


def test_a_single_text_and_a_single_number_come_back(tmp_path: Path):
    title, half = wb.Variable("grüße", name="title"), wb.Variable(0.5, dtype="bfloat16", name="half")
    saver = wb.train.Saver()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        path = saver.save(session, tmp_path / "model.ckpt")
    with wb.Session() as session:
        saver.restore(session, path)
        assert session.run(title).decode() == "grüße" and float(session.run(half)) == 0.5


def test_training_goes_on_exactly_where_it_stopped(tmp_path: Path):
    w = wb.Variable(np.linspace(-1, 1, 6).reshape(2, 3).astype(np.float32))
    train = wb.train.AdamOptimizer(0.1).minimize(wb.reduce_sum(wb.square(w)))
    saver = wb.train.Saver()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for _ in range(5):
            session.run(train)
        path = saver.save(session, str(tmp_path / "m"), 5)
        for _ in range(5):
            session.run(train)
        straight = session.run(w)
    with wb.Session() as session:
        saver.restore(session, path)
        for _ in range(5):
            session.run(train)
        np.testing.assert_array_equal(session.run(w), straight)      # slots and powers are restored too


def test_a_dictionary_gives_names_and_parts(tmp_path: Path):
    w, _ = variables()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        path = wb.train.Saver({"weights": w}).save(session, tmp_path / "part")
        session.run(w.assign(np.zeros((2, 2), np.float32)))
        wb.train.Saver({"weights": w}).restore(session, path)
        assert session.run(w).tolist() == [[1, 2], [3, 4]] and path == str(tmp_path / "part")


def test_the_newest_are_kept(tmp_path: Path):
    variables()
    saver = wb.train.Saver(max_to_keep=2)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        paths = [saver.save(session, tmp_path / "m", step) for step in range(4)]
    assert saver.last_checkpoints == paths[2:]
    assert [wb.train.checkpoint_exists(p) for p in paths] == [False, False, True, True]
    state = wb.train.get_checkpoint_state(tmp_path)
    assert state.model_checkpoint_path == paths[3] and state.all_model_checkpoint_paths == paths[2:]
    assert wb.train.latest_checkpoint(tmp_path) == paths[3]


def test_one_for_every_few_hours_stays(tmp_path: Path):
    variables()
    saver = wb.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=0.0)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        paths = [saver.save(session, tmp_path / "m", step) for step in range(3)]
    assert all(wb.train.checkpoint_exists(p) for p in paths) and saver.last_checkpoints == paths[2:]


def test_all_are_kept_on_request_and_an_earlier_run_can_be_taken_over(tmp_path: Path):
    variables()
    keep_all = wb.train.Saver(max_to_keep=None)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        paths = [keep_all.save(session, tmp_path / "m", step) for step in range(7)]
        assert all(wb.train.checkpoint_exists(p) for p in paths)
        follower = wb.train.Saver(max_to_keep=1)
        follower.set_last_checkpoints(paths[5:])
        follower.save(session, tmp_path / "m", 7)
    assert [wb.train.checkpoint_exists(p) for p in paths[4:]] == [True, False, False]


def test_an_empty_folder_has_no_checkpoint(tmp_path: Path):
    assert wb.train.latest_checkpoint(tmp_path) is None and wb.train.get_checkpoint_state(tmp_path / "none") is None
    assert not wb.train.checkpoint_exists(tmp_path / "m-1")


def saved(tmp_path: Path) -> str:
    with wb.Graph().as_default():
        variables()
        with wb.Session() as session:
            session.run(wb.global_variables_initializer())
            return wb.train.Saver().save(session, tmp_path / "m", 1)


@pytest.mark.parametrize(("build", "kind", "text"), [
    (lambda: wb.Variable(np.zeros((2, 3), np.float32), name="w"), errors.InvalidArgumentError,
     r"Saver.restore: variable 'w' is float32\[2,3\] but the checkpoint .*m-1 holds float32\[2,2\]; build the model "
      "that"),
    (lambda: wb.Variable(np.zeros((2, 2)), name="w"), errors.InvalidArgumentError,
     r"variable 'w' is float64\[2,2\] but the checkpoint .* holds float32\[2,2\]"),
    (lambda: wb.Variable(1.0, name="other"), errors.NotFoundError, "Key other not found in checkpoint, which holds"),
])
def test_a_checkpoint_of_another_model_is_refused_and_nothing_changes(tmp_path: Path, build, kind, text: str):
    path = saved(tmp_path)
    variable = build()
    saver = wb.train.Saver([variable])
    with wb.Session() as session:
        session.run(variable.initializer)
        before = session.run(variable)
        with pytest.raises(kind, match=text):
            saver.restore(session, path)
        np.testing.assert_array_equal(session.run(variable), before)


def test_a_damaged_checkpoint_is_named_and_the_session_stays_usable(tmp_path: Path):
    path = saved(tmp_path)
    shard, = tmp_path.glob("*.safetensors")
    raw = bytearray(shard.read_bytes())
    raw[-1] ^= 1
    shard.write_bytes(raw)
    w, _ = variables()
    saver = wb.train.Saver()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        with pytest.raises(errors.DataLossError, match=r"checkpoint .*m-1: tensor '.' in .*safetensors has crc32 \w+ "
                                                        "but was "
                                                       r"written with \w+; the file is damaged"):
            saver.restore(session, path)
        assert session.run(w).tolist() == [[1, 2], [3, 4]]


def test_a_truncated_and_a_missing_checkpoint_are_named(tmp_path: Path):
    path = saved(tmp_path)
    shard, = tmp_path.glob("*.safetensors")
    shard.write_bytes(shard.read_bytes()[:-4])
    variables()
    saver = wb.train.Saver()
    with wb.Session() as session:
        with pytest.raises(errors.DataLossError, match=r"has \d+ bytes but was written with \d+"):
            saver.restore(session, path)
        with pytest.raises(errors.NotFoundError, match="nowhere"):
            saver.restore(session, tmp_path / "nowhere")
        with pytest.raises(errors.InvalidArgumentError, match=r"the path is None; latest_checkpoint\(\) found none"):
            saver.restore(session, None)


def test_there_must_be_something_to_save():
    with pytest.raises(errors.InvalidArgumentError, match="Saver: there are 0 variables to save; make variables first"):
        wb.train.Saver()


def test_saving_what_was_never_initialised_says_so(tmp_path: Path):
    variables()
    with wb.Session() as session, pytest.raises(errors.FailedPreconditionError, match=r"variable '.': Attempting to "
                                                                                      r"use uninitialized value"):
        wb.train.Saver().save(session, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_reshaping_on_request(tmp_path: Path):
    path = saved(tmp_path)
    flat = wb.Variable(np.zeros(4, np.float32), name="w")
    with wb.Session() as session:
        wb.train.Saver([flat], reshape=True).restore(session, path)
        assert session.run(flat).tolist() == [1, 2, 3, 4]


def test_sharded_savers_write_a_file_for_each_device(tmp_path: Path):
    with wb.device("/cpu:0"):
        w, n = wb.Variable([1.0], name="w"), wb.Variable([2.0], name="n")
    other = wb.Variable([3.0], name="other")
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        path = wb.train.Saver(sharded=True).save(session, tmp_path / "model.ckpt")
        assert len(list(tmp_path.glob("*.safetensors"))) == 2
        session.run([v.assign([0.0]) for v in (w, n, other)])
        wb.train.Saver().restore(session, path)
        assert [float(v[0]) for v in session.run([w, n, other])] == [1, 2, 3]


def parts_of(table: np.ndarray, sizes: list[int]) -> list[wb.Variable]:
    ends = np.cumsum(sizes)
    return [wb.Variable(table[end - size:end], name=f"part_{i}") for i, (size, end) in enumerate(zip(sizes, ends))]


def test_parts_of_a_tensor_come_back_as_any_other_parts(tmp_path: Path):
    table = np.random.default_rng(1).standard_normal((11, 3)).astype(np.float32)
    path = None
    for sizes in ([3, 3, 3, 2], [6, 5], [11], [1, 4, 6]):
        with wb.Graph().as_default(), wb.Session() as session:
            parts = parts_of(table if path is None else np.zeros_like(table), sizes)
            saver = wb.train.Saver({"table": parts})
            if path is None:
                session.run(wb.global_variables_initializer())
            else:
                saver.restore(session, path)
            assert np.concatenate(session.run(parts)).tobytes() == table.tobytes()
            path = saver.save(session, tmp_path / f"m{len(sizes)}")
    with wb.Graph().as_default(), wb.Session() as session:
        whole = wb.Variable(np.zeros_like(table), name="table")
        wb.train.Saver([whole]).restore(session, path)
        assert session.run(whole).tobytes() == table.tobytes()


def test_parts_must_be_those_of_one_tensor(tmp_path: Path):
    parts = [wb.Variable(np.zeros((2, 3))), wb.Variable(np.zeros((2, 4)))]
    with pytest.raises(errors.InvalidArgumentError, match=r"Saver: 'table' has parts of shapes \[2,3\] and \[2,4\]; parts of"):
        wb.train.Saver({"table": parts})
    path = saved(tmp_path)
    rows = [wb.Variable(np.zeros((2, 2), np.float32)), wb.Variable(np.zeros((1, 2), np.float32))]
    text = r"is float32\[3,2\] but the checkpoint .* holds float32\[2,2\]; build the model"
    with wb.Session() as session, pytest.raises(errors.InvalidArgumentError, match=text):
        wb.train.Saver({"w": rows}).restore(session, path)


def test_a_url_holds_checkpoints_as_a_folder_does(tmp_path: Path):
    w, _ = variables()
    saver = wb.train.Saver(max_to_keep=2)
    folder = f"memory://{tmp_path.name}"
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        paths = [saver.save(session, f"{folder}/m", step) for step in range(3)]
        assert paths[2] == f"{folder}/m-2" == wb.train.latest_checkpoint(folder)
        assert wb.train.get_checkpoint_state(folder).all_model_checkpoint_paths == paths[1:]
        assert not wb.train.checkpoint_exists(paths[0]) and wb.train.checkpoint_exists(paths[1])
        session.run(w.assign(np.zeros((2, 2), np.float32)))
        saver.restore(session, paths[1])
        assert session.run(w).tolist() == [[1, 2], [3, 4]]


def test_a_folder_is_meant_from_where_this_process_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    variables()
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        assert wb.train.Saver().save(session, "m", 1) == "m-1"
        wb.train.Saver().restore(session, "m-1")
    assert (tmp_path / "m-1.manifest.json").exists()


def test_an_empty_saver_is_allowed_where_it_is_asked_for(tmp_path: Path):
    saver = wb.train.Saver(allow_empty=True)
    with wb.Session() as session:
        assert saver.save(session, tmp_path / "model.ckpt") is None and list(tmp_path.iterdir()) == []
        saver.restore(session, tmp_path / "model.ckpt")


def test_what_a_saver_cannot_mean_is_refused(tmp_path: Path):
    variables()
    with pytest.raises(errors.UnimplementedError, match="Saver: builder=1 has no meaning here"):
        wb.train.Saver(builder=1)
    with pytest.raises(TypeError, match="max_to_kep"):
        wb.train.Saver(max_to_kep=3)
    with wb.Session() as session, pytest.raises(errors.UnimplementedError, match="write_state=False"):
        wb.train.Saver().save(session, tmp_path / "model.ckpt", write_state=False)
    with pytest.raises(errors.UnimplementedError, match="latest_filename='other'"):
        wb.train.latest_checkpoint(tmp_path, "other")
    assert wb.train.latest_checkpoint(tmp_path, "checkpoint") is None
