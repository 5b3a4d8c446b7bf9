"""Monitored sessions, flags and files of old programs."""
from __future__ import annotations

import sys
from pathlib import Path

import pytest

import workbench as wb
from workbench import errors
from workbench.train import app
from workbench.train.saving import files

pytestmark = pytest.mark.usefixtures("graph")

# monitored sessions

def model():
    step = wb.train.get_or_create_global_step()
    w = wb.Variable(10.0)
    return w, wb.train.GradientDescentOptimizer(0.1).minimize(w * w, step)


def test_a_monitored_session_trains_saves_and_goes_on(tmp_path: Path):
    for expected in (5, 8):
        with wb.Graph().as_default():
            w, train = model()
            hook = wb.train.StopAtStepHook(last_step=expected)
            with wb.train.MonitoredTrainingSession(checkpoint_dir=tmp_path, hooks=[hook],
                                                   save_checkpoint_steps=2) as session:
                while not session.should_stop():
                    session.run(train)
                value = float(session.run(w))
            assert value == pytest.approx(10 * 0.8 ** expected, rel=1e-5)
    assert wb.train.latest_checkpoint(tmp_path).endswith("model.ckpt-8")


def test_hooks_see_every_step_and_errors_pass_through(capsys: pytest.CaptureFixture[str]):
    w, train = model()
    log = wb.train.LoggingTensorHook({"w": w}, every_n_iter=2)
    with wb.train.MonitoredTrainingSession(hooks=[wb.train.StopAtStepHook(num_steps=3), log]) as session:
        while not session.should_stop():
            session.run(train)
    assert capsys.readouterr().out.count("w = ") == 2
    with pytest.raises(errors.InvalidArgumentError), wb.train.MonitoredTrainingSession() as session:
        session.run(wb.placeholder(wb.float32, []))


def test_the_end_of_the_input_ends_a_monitored_session():
    queue = wb.FIFOQueue(5, wb.int32, [()])
    with wb.train.MonitoredTrainingSession() as session:
        session.run(queue.close())
        session.run(queue.dequeue())


def test_hooks_need_what_they_count():
    with pytest.raises(errors.InvalidArgumentError, match="num_steps is None and last_step None; give exactly one"):
        wb.train.StopAtStepHook()
    with pytest.raises(errors.FailedPreconditionError, match="there is no global step"):
        wb.train.MonitoredTrainingSession(hooks=[wb.train.StopAtStepHook(num_steps=1)])


# flags and files

def test_flags_read_the_command_line_once(monkeypatch: pytest.MonkeyPatch):
    flags = app.Flags()
    monkeypatch.setattr(app, "FLAGS", flags)
    monkeypatch.setattr(sys, "argv", ["train.py", "--rate=0.5", "--fast", "--names=a,b", "data.txt", "-f",
                                      "kernel.json"])
    app.DEFINE_float("rate", 0.1, "learning rate")
    app.DEFINE_integer("steps", 10, "steps")
    app.DEFINE_boolean("fast", False, "hurry")
    app.DEFINE_list("names", "", "names")
    app.DEFINE_string("folder", "/tmp/x", "folder")
    assert (flags.rate, flags.steps, flags.fast, flags.names, flags.folder) == (0.5, 10, True, ["a", "b"], "/tmp/x")
    flags.steps = 3
    assert flags.flag_values_dict()["steps"] == 3
    with pytest.raises(AttributeError, match=r"FLAGS.missing: no such flag; define it"):
        _ = flags.missing
    app.DEFINE_enum("mode", "a", ["a", "b"], "mode")
    assert flags.mode == "a"


def test_run_calls_main_and_exits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(app, "FLAGS", app.Flags())
    seen = []
    with pytest.raises(SystemExit) as caught:
        app.run(lambda argv: seen.append(argv) or 3, ["prog", "rest"])
    assert caught.value.code == 3 and seen == [["prog", "rest"]]


def test_files(tmp_path: Path):
    folder, file = tmp_path / "a" / "b", tmp_path / "a" / "b" / "x.txt"
    files.MakeDirs(folder)
    with files.Open(str(file), "w") as stream:
        stream.write("é")
    assert files.Exists(file) and files.IsDirectory(folder) and files.ListDirectory(folder) == ["x.txt"]
    with files.GFile(file) as stream:
        assert stream.read() == "é"
    assert files.Glob(str(folder / "*.txt")) == [str(file)]
    files.Copy(file, folder / "y.txt")
    with pytest.raises(errors.AlreadyExistsError, match="exists; pass overwrite=True"):
        files.Copy(file, folder / "y.txt")
    files.Rename(folder / "y.txt", folder / "z.txt")
    files.Remove(folder / "z.txt")
    assert [names for _, _, names in files.Walk(folder)] == [["x.txt"]]
    files.DeleteRecursively(tmp_path / "a")
    for call in (files.Stat, files.Remove, files.DeleteRecursively, files.ListDirectory):
        with pytest.raises(errors.NotFoundError, match="check the path"):
            call(file)


def test_a_gfile_is_opened_when_it_is_used(tmp_path: Path):
    path = str(tmp_path / "lines.txt")
    with files.GFile(path, "w") as file:
        file.write("one\n")
        file.write(b"two\n")
        assert file.size() == 8 and (file.name, file.mode) == (path, "w")
        with pytest.raises(errors.PermissionDeniedError, match=r"File isn't open for reading: .* has mode 'w'; open it with"):
            file.read()
    text = files.GFile(path)
    assert text.readline() == "one\n" and text.tell() == 4 and list(text) == ["two\n"]
    text.seek(1)
    assert (text.read(2), text.readlines(), next(text, "end")) == ("ne", ["\n", "two\n"], "end")
    text.seek(position=0)
    with pytest.raises(TypeError, match="pass one of them"):
        text.seek()
    text.close()
    with files.GFile(path, "rb") as file:
        assert file.read() == b"one\ntwo\n"
    picture = str(tmp_path.parent / "lines.png")
    with files.GFile(picture, "w") as file:      # as tensorflow/nmt writes those of its attention
        file.write(b"\x89PNG")
        file.write("\u00c4")
    with open(picture, "rb") as plain:
        assert plain.read() == b"\x89PNG" + "\u00c4".encode()
    assert files.Stat(path)[0] == 8 and not files.Stat(path).is_directory
    missing = files.GFile(path + "x")
    with pytest.raises(errors.NotFoundError, match=r"lines.txtx' does not exist; check the path"):
        missing.read()
    with pytest.raises(errors.InvalidArgumentError, match="mode 'q' is unknown"):
        files.GFile(path, "q")
    assert files.Glob([path, str(tmp_path / "*")]) == [path]


def test_flags_as_programs_of_the_time_use_them(monkeypatch: pytest.MonkeyPatch):
    flags = app.Flags()
    monkeypatch.setattr(app, "FLAGS", flags)
    monkeypatch.setattr(sys, "argv", ["train.py", "--nofast", "--size", "3", "--size=4", "--name", "x", "more"])
    app.DEFINE_boolean("fast", True, "hurry")
    app.DEFINE_multi_integer("size", 1, "sizes")
    app.DEFINE_multi_float("rate", [0.5], "rates")
    app.DEFINE_multi_string("word", None, "words")
    app.DEFINE_string("name", None, "name")
    app.mark_flag_as_required("name")
    assert flags._parse_flags() == ["more"]
    assert (flags.fast, flags.size, flags.rate, flags.word, flags.name) == (False, [3, 4], [0.5], None, "x")
    assert getattr(flags, "__flags") is vars(flags)["__flags"]
    assert getattr(flags, "__flags")["size"] == [3, 4] and "fast" in flags and sorted(flags)[0] == "fast"
    assert flags["name"].value == "x" and flags(["prog", "--name=y", "rest"]) == ["prog", "rest"] and flags.name == "y"
    del flags.name
    assert "name" not in flags
    with pytest.raises(errors.InvalidArgumentError, match=r"Flag --name must have a value other than None.; pass --name="):
        flags.parse([])
    with pytest.raises(errors.NotFoundError, match="there is no flag 'zzz'; define it first"):
        app.mark_flags_as_required(["zzz"])
