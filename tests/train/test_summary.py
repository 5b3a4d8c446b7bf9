"""Summaries are TensorFlow's protocol buffers; scalars also reach the journal."""
from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.trace import journal
from workbench.formats.messages import message
from workbench.train.saving import summary

pytestmark = pytest.mark.usefixtures("graph")


def values_of(tensor, feeds=None):
    with wb.Session() as session:
        return list(summary.Summary.FromString(session.run(tensor, feeds)).value)


def events_of(folder: Path):
    """What the writers of a folder wrote, without the first event of each file."""
    files = sorted(folder.glob("events.out.tfevents.*"))
    return [event for file in files for event in list(wb.train.summary_iterator(file))[1:]]


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
            writer.add_summary(session.run(merged, {x: [1, 2, 3 + step]}), step)
    graph, first, second = events_of(tmp_path)
    assert {n.name: n.op for n in message("GraphDef").FromString(graph.graph_def).node}["train/mean"] == "ScalarSummary"
    assert [(v.tag, v.WhichOneof("value")) for v in first.summary.value] == [
        ("train/mean", "simple_value"), ("values", "histo"), ("note", "tensor")]
    assert first.summary.value[0].simple_value == 2 and first.summary.value[1].histo.num == 3
    assert list(first.summary.value[2].tensor.string_val) == ["hällo".encode()]
    assert (first.step, second.step) == (0, 1)
    # what shows a series is told once
    assert first.summary.value[2].metadata.plugin_data.plugin_name == "text"
    assert not second.summary.value[2].HasField("metadata")
    points = [p for p in journal.points_since(cursor)[2] if p.series == "train/mean"]
    assert [(p.step, p.value) for p in points] == [(0, 2), (1, pytest.approx(7 / 3))]


# names

def test_tags_are_the_scopes_and_differ():
    def tag(made):
        return values_of(made)[0].tag, made.op.name
    assert tag(wb.summary.scalar("loss", 1.0)) == ("loss", "loss")
    assert tag(wb.summary.scalar("loss", 1.0)) == ("loss_1", "loss_1")
    with wb.name_scope("outer"):
        assert tag(wb.summary.scalar("a b:c", 1.0)) == ("outer/a_b_c", "outer/a_b_c")
        assert tag(wb.summary.scalar("x", 1.0, family="f")) == ("f/outer/f/x", "outer/f/x")
    assert tag(wb.summary.scalar("/x", 1.0)) == ("x", "x")


def test_collections():
    made = wb.summary.scalar("a", 1.0, collections=["mine"])
    assert wb.get_collection("mine") == [made] and wb.summary.merge_all() is None
    merged = wb.summary.merge([made], collections=["all"])
    assert wb.get_collection("all") == [merged] and values_of(wb.summary.merge_all("mine"))[0].tag == "a"


# histograms

def test_a_histogram_has_tensorflows_buckets():
    [value] = values_of(wb.summary.histogram("h", [1.0, 1.0, 3.0, -2.0]))
    found = value.histo
    assert (found.min, found.max, found.num, found.sum, found.sum_squares) == (-2, 3, 4, 3, 15)
    filled = {limit: count for limit, count in zip(found.bucket_limit, found.bucket) if count}
    assert sorted(filled.values()) == [1, 1, 2] and len(found.bucket) == 7
    limits = np.array(list(found.bucket_limit))
    assert (np.diff(limits) > 0).all() and limits[-1] == np.finfo(float).max


def test_a_histogram_of_nothing_has_one_empty_bucket():
    found = values_of(wb.summary.histogram("h", np.zeros([0], np.float32)))[0].histo
    assert found.num == 0 and list(found.bucket) == [0]


# pictures

def pixels_of(value):
    from PIL import Image
    with Image.open(io.BytesIO(value.image.encoded_image_string)) as picture:
        return np.asarray(picture)


def test_pictures_of_bytes_are_exact():
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 3)).astype(np.uint8)
    several = values_of(summary.image("digit", images))
    [one] = values_of(summary.image("one", images[..., :1], max_outputs=1))
    assert [value.tag for value in several] == ["digit/image/0", "digit/image/1"] and one.tag == "one/image"
    np.testing.assert_array_equal(pixels_of(several[1]), images[1])
    found = several[1].image
    assert (found.height, found.width, found.colorspace) == (3, 4, 3)
    np.testing.assert_array_equal(pixels_of(one), images[0, :, :, 0])


@pytest.mark.parametrize(("values", "expected"), [
    ([0, 1, 2], [0, 127, 255]), ([-1, 0, 0.5], [1, 128, 191]), ([0, 0, 0], [0, 0, 0]), ([np.nan, 0, 4], [255, 0, 255])])
def test_pictures_of_floats_are_scaled_to_be_visible(values, expected):
    [value] = values_of(summary.image("x", np.float32(values).reshape(1, 1, 3, 1)))
    assert pixels_of(value).ravel().tolist() == expected


# sound

def test_sounds_are_wav_files():
    import wave
    clips = np.float32([[[0.0, 1.0], [-1.0, 0.5], [2.0, -2.0]]])
    [value] = values_of(summary.audio("tone", clips, 8000, max_outputs=1))
    found = value.audio
    assert (value.tag, found.sample_rate, found.num_channels, found.length_frames, found.content_type) == (
        "tone/audio", 8000, 2, 3, "audio/wav")
    with wave.open(io.BytesIO(found.encoded_audio_string)) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (8000, 2, 2)
        samples = np.frombuffer(sound.readframes(3), "<i2").tolist()
    assert samples == [0, 32767, -32768, 16384, 32767, -32768]
    assert [v.tag for v in values_of(summary.audio("tones", np.zeros([3, 4], np.float32), 8000, max_outputs=2))] == [
        "tones/audio/0", "tones/audio/1"]


# tensors

def test_tensors_travel_whole():
    plugin = wb.summary.Summary.Value().metadata
    plugin.plugin_data.plugin_name = "mine"
    made = summary.tensor_summary("t", [[1, 2]], summary_description="two", summary_metadata=plugin, display_name="T")
    [value] = values_of(made)
    assert (value.metadata.plugin_data.plugin_name, value.metadata.display_name, value.metadata.summary_description) == (
        "mine", "T", "two")
    assert np.frombuffer(value.tensor.tensor_content, "<i4").tolist() == [1, 2]
    assert [d.size for d in value.tensor.tensor_shape.dim] == [1, 2]


def test_the_description_of_a_node():
    node = message("NodeDef")(name="n", op="TensorSummary")
    node.attr["description"].s = b'{"typeHint": "scalar"}'
    assert summary.get_summary_description(node).type_hint == "scalar"
    with pytest.raises(ValueError, match="Can't get_summary_description on Add"):
        summary.get_summary_description(message("NodeDef")(op="Add"))
    node.attr["description"].s = b"{"
    with pytest.raises(errors.DataLossError, match="node 'n': the text cannot be read as SummaryDescription in JSON"):
        summary.get_summary_description(node)


# bad input

@pytest.mark.parametrize(("make", "text"), [
    (lambda: summary.image("x", np.zeros((1, 2, 2, 2), np.float32)), "the images have 2 channels; use 1, 3 or 4"),
    (lambda: summary.histogram("h", [1.0, np.nan]), "Nan in summary histogram for: h; 1 of 2 elements are not finite"),
    (lambda: summary.histogram("h", [np.inf]), "the first inf; mend what computes them"),
    (lambda: summary.audio("a", np.zeros([3], np.float32), 8000), "the audio has rank 1; use [clips, frames]"),
    (lambda: summary.audio("a", np.zeros([1, 3], np.float32), 0), "sample_rate is 0.0; use one above 0"),
    (lambda: summary.merge([summary.scalar("a", 1.0)] * 2),
     "Duplicate tag a found in summary inputs; give each summary a name of its own")])
def test_what_no_summary_shows(make, text: str):
    with wb.Session() as session, pytest.raises(errors.InvalidArgumentError, match=re.escape(text)):
        session.run(make())


def test_bytes_that_are_no_summary():
    with wb.Session() as session, pytest.raises(errors.DataLossError, match="merge_summary: 3 bytes cannot be read as Summary"):
        session.run(summary.merge([wb.constant(b"\xff\xff\xff")]))


def test_text_is_text():
    with pytest.raises(errors.DtypeError, match=r"Expected tensor .* to have dtype string, got float32"):
        summary.text("t", 1.0)


class Names(summary.PluginAsset):
    plugin_name = "names"

    def __init__(self) -> None:
        self.known: list[str] = []

    def assets(self) -> dict[str, str]:
        return {"known.txt": "\n".join(self.known)}


def test_files_of_plugins_are_written_with_the_graph(graph, tmp_path: Path):
    names = summary.get_plugin_asset(Names)
    names.known += ["a", "ü"]
    assert summary.get_plugin_asset(Names, graph) is names and summary.get_all_plugin_assets() == [names]
    assert summary.get_all_plugin_assets(wb.Graph()) == []
    wb.summary.FileWriter(tmp_path, graph).close()
    assert (tmp_path / "plugins" / "names" / "known.txt").read_text(encoding="utf-8") == "a\nü"


def test_plugins_need_names_of_their_own():
    class Others(summary.PluginAsset):
        plugin_name = "names"
    with pytest.raises(ValueError, match="Class PluginAsset has no plugin_name; give it one"):
        summary.get_plugin_asset(summary.PluginAsset)
    summary.get_plugin_asset(Names)
    with pytest.raises(ValueError, match="Plugin 'names' is Names in this graph, not Others; choose another plugin_name"):
        summary.get_plugin_asset(Others)
    with pytest.raises(errors.UnimplementedError, match=r"PluginAsset\.assets: it does not say which files there are"):
        summary.PluginAsset().assets()
