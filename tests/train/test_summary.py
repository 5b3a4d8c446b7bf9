"""Summaries reach the journal and the file; monitored sessions, flags and files of old programs."""
from __future__ import annotations

import base64
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.trace import journal
from workbench.train import app, files, summary
from workbench.train.summary import read_events


@pytest.fixture(autouse=True)
def graph():
    with wb.Graph().as_default() as graph:
        yield graph


def test_summaries_go_to_the_file_and_scalars_to_the_journal(tmp_path: Path):
    x = wb.placeholder(wb.float32, [None], name="x")
    with wb.name_scope("train"):
        wb.summary.scalar("mean", wb.reduce_mean(x))
    wb.summary.histogram("values", x)
    wb.summary.text("note", wb.constant("hällo"))
    merged = wb.summary.merge_all()
    cursor = journal.points_since()[0]
    with wb.Session() as session, wb.summary.FileWriter(tmp_path, session.graph) as writer:
        for step in range(2):
            writer.add_summary(session.run(merged, {x: [1, 2, np.nan, 3 + step]}), step)
    events = list(read_events(tmp_path))
    assert [(e["step"], e["kind"], e["tag"]) for e in events[:3]] == [
        (0, "scalar", "train/mean"), (0, "histogram", "values"), (0, "text", "note")]
    assert events[1]["count"] == 4 and events[1]["not_finite"] == 1 and events[1]["max"] == 3
    assert sum(events[4]["counts"]) == 3 and events[2]["text"] == ["hällo"]
    points = [p for p in journal.points_since(cursor)[2] if p.series == "train/mean"]
    assert [p.step for p in points] == [0, 1]
    assert "train/mean = scalar_summary(train/reduce_mean:0)" in (tmp_path / "graph.txt").read_text()


def test_a_graph_without_summaries_has_none_and_a_closed_writer_says_so(tmp_path: Path):
    assert wb.summary.merge_all() is None
    writer = wb.summary.FileWriter(tmp_path)
    writer.close()
    writer.close()
    with pytest.raises(errors.FailedPreconditionError, match=r"it is closed; call reopen\(\) first"):
        writer.add_summary(b"", 0)
    writer.reopen()
    writer.add_summary(json.dumps({"kind": "text", "tag": "t", "text": []}).encode())
    writer.flush()
    writer.close()
    assert [e["step"] for e in read_events(tmp_path)] == [-1]


def test_damaged_and_missing_event_files_are_named(tmp_path: Path):
    with pytest.raises(errors.NotFoundError, match="pass the folder of a FileWriter"):
        list(read_events(tmp_path))
    (tmp_path / "events.jsonl").write_text('{"a": 1}\nnot json\n')
    with pytest.raises(errors.DataLossError, match=r"line 2 of .* is no JSON"):
        list(read_events(tmp_path))


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
    for call in (files.GFile, files.Remove, files.DeleteRecursively, files.ListDirectory):
        with pytest.raises(errors.NotFoundError, match="check the path"):
            call(file)


# pictures, and summaries made in Python

def pixels_of(line: bytes):
    from PIL import Image
    event = json.loads(line)
    with Image.open(io.BytesIO(base64.b64decode(event["png"]))) as picture:
        return event, np.asarray(picture)


def test_pictures_of_bytes_are_exact():
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 3)).astype(np.uint8)
    with wb.Session() as session:
        lines = session.run(summary.image("digit", images)).splitlines()
        one = session.run(summary.image("one", images[..., :1], max_outputs=1))
    assert [pixels_of(line)[0]["tag"] for line in lines] == ["digit/image/0", "digit/image/1"]
    event, pixels = pixels_of(lines[1])
    np.testing.assert_array_equal(pixels, images[1])
    assert (event["height"], event["width"], event["channels"]) == (3, 4, 3)
    assert pixels_of(one)[0]["tag"] == "one/image"
    np.testing.assert_array_equal(pixels_of(one)[1], images[0, :, :, 0])


@pytest.mark.parametrize(("values", "expected"), [
    ([0, 1, 2], [0, 127, 255]), ([-1, 0, 0.5], [1, 128, 191]), ([0, 0, 0], [0, 0, 0]), ([np.nan, 0, 4], [255, 0, 255])])
def test_pictures_of_floats_are_scaled_to_be_visible(values, expected):
    with wb.Session() as session:
        line = session.run(summary.image("x", np.float32(values).reshape(1, 1, 3, 1)))
    assert pixels_of(line)[1].ravel().tolist() == expected


def test_pictures_need_colours():
    with wb.Session() as session, pytest.raises(errors.InvalidArgumentError, match="the images have 2 channels; use 1, 3 or 4"):
        session.run(summary.image("x", np.zeros((1, 2, 2, 2), np.float32)))


def test_summaries_made_in_python(tmp_path):
    made = summary.Summary(value=[summary.Summary.Value(tag="loss", simple_value=0.5)])
    made.value.add(tag="accuracy", simple_value=0.75)
    late = made.value.add()
    late.tag, late.simple_value = "late", 1
    with summary.FileWriter(tmp_path) as writer:
        writer.add_summary(made, 3)
    assert [(e["tag"], e["value"], e["step"]) for e in summary.read_events(tmp_path)] == [
        ("loss", 0.5, 3), ("accuracy", 0.75, 3), ("late", 1, 3)]
    with wb.Session() as session:
        raw = session.run(summary.merge([summary.scalar("a", 2.0), summary.histogram("h", [1.0])]))
    found = summary.Summary.FromString(raw)
    assert [(v.tag, v.simple_value) for v in found.value] == [("a", 2)] and found.SerializeToString().startswith(b"{")


def test_a_writer_hands_on_its_lines_when_enough_wait(tmp_path):
    path = tmp_path / "events.v2.jsonl"
    writer = wb.summary.FileWriter(tmp_path, max_queue=2, flush_secs=1e9, filename_suffix=".v2")
    one = summary.Summary(value=[summary.Summary.Value(tag="a", simple_value=1.0)])
    writer.add_summary(one, 1)
    assert path.read_text() == ""
    writer.add_summary(one, 2)
    assert path.read_text().count("\n") == 2
    writer.close()


def test_a_writer_keeps_the_graph_of_each_step(tmp_path):
    with wb.summary.FileWriter(tmp_path) as writer, wb.Graph().as_default() as graph:
        wb.constant(1.0, name="one")
        writer.add_graph(graph, 7)
    assert "one = constant" in (tmp_path / "graph_7.txt").read_text()


def test_writers_refuse_what_they_cannot_mean(tmp_path):
    with pytest.raises(errors.InvalidArgumentError, match="max_queue is 0"):
        wb.summary.FileWriter(tmp_path, max_queue=0)
    with pytest.raises(TypeError, match="flush_seconds"):
        wb.summary.FileWriter(tmp_path, flush_seconds=3)
