"""Event files: what TensorBoard reads; damaged ones; writers by folder."""
from __future__ import annotations

import re
from pathlib import Path

import pytest

import workbench as wb
from workbench import errors
from workbench.core.state import tfrecord as records
from workbench.formats.messages import message
from workbench.train.config import RunMetadata, RunOptions
from workbench.train.saving import summary


def file_of(folder: Path, suffix: str = "") -> Path:
    [found] = folder.glob(f"events.out.tfevents.*{suffix}")
    return found


def kinds(path: Path):
    return [event.WhichOneof("what") for event in wb.train.summary_iterator(str(path))]


def one(tag: str = "a"):
    return summary.Summary(value=[summary.Summary.Value(tag=tag, simple_value=1.0)])


def test_a_file_begins_with_its_version(tmp_path: Path):
    summary.FileWriter(str(tmp_path / "new" / "folder"), filename_suffix=".v2").close()
    [first] = wb.train.summary_iterator(file_of(tmp_path / "new" / "folder", ".v2"))
    assert first.file_version == "brain.Event:2" and first.wall_time > 1e9
    assert re.fullmatch(r"events\.out\.tfevents\.\d{10}\.[\w.-]+\.v2", file_of(tmp_path / "new" / "folder").name)


def test_summaries_made_in_python(tmp_path: Path):
    made = one("loss")
    made.value.add(tag="accuracy", simple_value=0.75)
    late = made.value.add()
    late.tag, late.simple_value = "late", 1
    with summary.FileWriter(tmp_path) as writer:
        writer.add_summary(made, 3)
        writer.add_summary(made.SerializeToString())
    _, first, second = wb.train.summary_iterator(file_of(tmp_path))
    assert [(v.tag, v.simple_value) for v in first.summary.value] == [("loss", 1), ("accuracy", 0.75), ("late", 1)]
    assert (first.step, second.step) == (3, 0) and second.summary == first.summary


def test_every_kind_of_event(tmp_path: Path):
    with wb.Graph().as_default() as graph:
        stranger = wb.ops.list_top(wb.ops.list_new(), 1)      # TensorFlow has no such operation
        wb.tanh(wb.placeholder(wb.float32, [], name="one"), name="two")
        patches = wb.ops.image_patches_grad(      # TensorFlow has it of a known depth alone
            wb.placeholder(wb.float32), [1, 2, 2, 1], ksize=(1, 1), strides=(1, 1), padding="VALID", dilations=(1, 1))
        assert patches.shape.as_list() == [1, 2, 2, 1]
    with summary.FileWriter(tmp_path, graph) as writer:
        writer.add_graph(graph, 7)
        writer.add_graph(None, graph_def=message("GraphDef")())
        writer.add_session_log(summary.SessionLog(status=summary.SessionLog.START), 2)
        writer.add_event(summary.Event(step=5, wall_time=1.0, summary=one()))
        writer.add_meta_graph(message("MetaGraphDef")(), 4)
        with graph.as_default(), wb.Session() as session:
            options = RunOptions(trace_level=RunOptions.FULL_TRACE)
            ran = RunMetadata()
            session.run("two:0", {"one:0": 2.0}, options=options, run_metadata=ran)
        writer.add_run_metadata(ran, "step1", 1)
        with pytest.raises(ValueError, match="The provided tag was already used for this event type"):
            writer.add_run_metadata(ran, "step1")
    events = list(wb.train.summary_iterator(file_of(tmp_path)))
    assert [e.WhichOneof("what") for e in events] == [
        "file_version", "graph_def", "graph_def", "graph_def", "session_log", "summary", "meta_graph_def",
        "tagged_run_metadata"]
    assert [e.step for e in events] == [0, 0, 7, 0, 2, 5, 4, 1]
    nodes = {n.name: n.op for n in message("GraphDef").FromString(events[2].graph_def).node}
    assert nodes["two"] == "Tanh" and nodes[stranger.op.name] == "list_top"
    traced = message("RunMetadata").FromString(events[-1].tagged_run_metadata.run_metadata)
    assert any(n.all_start_micros > 1e15 for d in traced.step_stats.dev_stats for n in d.node_stats)


def test_a_writer_hands_on_its_events_when_enough_wait(tmp_path: Path):
    writer = summary.FileWriter(tmp_path, max_queue=2, flush_secs=1e9)
    writer.add_summary(one(), 1)
    assert kinds(file_of(tmp_path)) == ["file_version"]
    writer.add_summary(one(), 2)
    assert len(kinds(file_of(tmp_path))) == 3
    writer.add_summary(one(), 3)
    writer.flush()
    assert len(kinds(file_of(tmp_path))) == 4
    writer.close()


def test_a_closed_writer_goes_on_in_another_file(tmp_path: Path):
    writer = summary.FileWriter(tmp_path)
    writer.close()
    writer.close()
    with pytest.raises(errors.FailedPreconditionError, match=r"it is closed; call reopen\(\) first"):
        writer.add_summary(b"", 0)
    writer.reopen()
    writer.add_summary(one())
    writer.reopen()
    writer.close()
    files = sorted(tmp_path.iterdir())
    assert [kinds(f) for f in files] == [["file_version"], ["file_version", "summary"]] and writer.get_logdir() == str(tmp_path)


def test_one_writer_per_folder(tmp_path: Path):
    cache = summary.FileWriterCache
    first = cache.get(str(tmp_path))
    assert cache.get(str(tmp_path)) is first
    cache.clear()
    assert cache.get(str(tmp_path)) is not first
    cache.clear()


@pytest.mark.parametrize(("action", "kind", "text"), [
    (lambda w: w.add_summary(b"\xff\xff"), errors.DataLossError, "add_summary: 2 bytes cannot be read as Summary"),
    (lambda w: w.add_graph("graph"), TypeError, "The passed graph must be an instance of `Graph`"),
    (lambda w: w.add_meta_graph("graph"), TypeError, "meta_graph_def must be type MetaGraphDef, saw type"),
    (lambda w: w.add_run_metadata(3, "t"), errors.InvalidArgumentError, "run_metadata is a int; pass the RunMetadata"),
    (lambda w: summary.FileWriter(w.get_logdir(), max_queue=0), errors.InvalidArgumentError, "max_queue is 0"),
    (lambda w: summary.FileWriter(w.get_logdir(), flush_seconds=3), TypeError, "flush_seconds")])
def test_what_no_event_is(tmp_path: Path, action, kind, text: str):
    with summary.FileWriter(tmp_path) as writer, pytest.raises(kind, match=re.escape(text)):
        action(writer)


@pytest.mark.parametrize(("damage", "text"), [
    (lambda raw: raw[:-1], "should have {size} bytes but is cut short; get the file again"),
    (lambda raw: raw[:-1] + b"?", "should have {size} bytes but is damaged; get the file again"),
    (lambda raw: raw + records.frame(b"\xff\xff"), "the record at byte {end} of {path!r}: 2 bytes cannot be read as Event"),
    (lambda raw: raw + b"garbage garbage", "no record begins at byte {end}")])
def test_damaged_files_are_named(tmp_path: Path, damage, text: str):
    with summary.FileWriter(tmp_path) as writer:
        writer.add_summary(one())
    path = file_of(tmp_path)
    raw = path.read_bytes()
    size = len(raw) - 40 - 16
    path.write_bytes(damage(raw))
    with pytest.raises(errors.DataLossError) as caught:
        kinds(path)
    assert text.format(size=size, end=len(raw), path=str(path)) in caught.value.message


def test_a_missing_file():
    with pytest.raises(errors.NotFoundError, match=r"'/no/such' cannot be read \(No such file or directory\)"):
        list(wb.train.summary_iterator("/no/such"))
