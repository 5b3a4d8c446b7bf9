"""The live model: what changed, cheaply, and commands that never wait."""

from __future__ import annotations

import json
import time

import pytest

from tests.viz import fixtures
from workbench import errors
from workbench.core.run.gate import Gate
from workbench.core.trace import Journal, Span
from workbench.viz.live import LiveModel

pytestmark = pytest.mark.tiny


@pytest.fixture
def journal() -> Journal:
    return fixtures.build(20, slow=1.8)


def test_first_frame_holds_everything_as_json(journal):
    frame = LiveModel(journal).frame()
    assert json.loads(json.dumps(frame, allow_nan=False)) == frame
    assert frame["v"] == 2 and frame["kind"] == "frame" and frame["seq"] == 1
    assert frame["status"]["state"] == "running" and frame["status"]["tasks"] == list(fixtures.TASKS)
    assert [task["task"] for task in frame["steps"]["tasks"]] == list(fixtures.TASKS)
    assert [series["name"] for series in frame["series"]["series"]] == ["loss", "accuracy"]
    assert frame["stragglers"]["rows"][0]["task"] == "/job:worker/task:1"
    assert frame["graph"]["stats"]["softmax/matmul"] > frame["graph"]["stats"]["softmax/add"] > 0


def test_nothing_new_is_none_and_parts_that_did_not_change_are_none(journal):
    model = LiveModel(journal)
    assert model.frame() is not None and model.frame() is None
    journal.point("loss", 20, 0.5)
    frame = model.frame()
    assert frame["series"] is not None and frame["graph"] is frame["steps"] is frame["stragglers"] is None
    journal.set_status(what="saving")
    frame = model.frame()
    assert frame["status"]["what"] == "saving" and frame["series"] is None and frame["seq"] == 3


def test_a_verdict_comes_with_new_steps_and_once_more_when_they_end(journal, monkeypatch):
    model = LiveModel(journal)
    assert model.frame()["stragglers"]["verdict"]["subject"] == fixtures.TASKS[3]
    monkeypatch.setattr("workbench.viz.live.JUDGED", 0.0)
    fixtures.write_step(journal, 20, journal.origin + 2, 1.8)
    frame = model.frame()
    assert frame is None or frame["stragglers"] is None      # its spans may not all have come
    monkeypatch.setattr("workbench.viz.accounting.SETTLED", 0.0)
    assert model.frame()["stragglers"] is not None and model.frame() is None


def test_windows_are_bounded_and_counts_are_not(journal):
    model = LiveModel(journal)
    task = fixtures.TASKS[2]
    for step in range(20, 1500):
        start = journal.origin + 100 + 0.01 * step
        journal.span(Span("step", "train", task, f"{task}/device:cpu:0", 0, start, start + 0.005, step))
    steps = next(t for t in model.frame()["steps"]["tasks"] if t["task"] == task)
    assert len(steps["times"]) == 500 and steps["count"] >= 500


def test_what_the_journal_lost_is_said():
    journal = Journal(capacity=100)
    model = LiveModel(journal)
    for step in range(250):
        journal.point("loss", step, 1.0)
    frame = model.frame()
    assert frame["lost"] == {"spans": 0, "points": 150, "graphs": 0}
    assert frame["series"]["series"][0]["count"] == 100


def test_expand_and_collapse_redraw(journal):
    model = LiveModel(journal)
    model.frame()
    model.command("expand", "gradients")
    assert "gradients/matmul" in {node["id"] for node in model.frame()["graph"]["nodes"]}
    model.command("collapse", "gradients")
    model.command("collapse", "no such scope")
    assert "gradients" in {node["id"] for node in model.frame()["graph"]["nodes"]}
    model.command("expand", "no such scope")
    assert model.frame() is None


def test_scopes_opened_by_hand_survive_the_next_stage(journal):
    model = LiveModel(journal)
    model.frame()
    model.command("expand", "gradients")
    model.frame()
    journal.graph(fixtures.mnist_graph())
    assert "gradients/matmul" in {node["id"] for node in model.frame()["graph"]["nodes"]}


def test_pause_resume_and_stop_reach_the_gate_at_once(journal):
    gate = Gate(journal)
    model = LiveModel(journal, gate)
    model.command("pause")
    assert gate.closed and model.frame()["status"]["state"] == "paused"
    model.command("resume")
    assert not gate.closed and model.frame()["status"]["state"] == "running"
    model.command("stop")
    with pytest.raises(errors.CancelledError):
        gate.enter()
    assert model.frame()["status"]["state"] == "stopped"


def test_stop_does_nothing_when_nothing_runs(journal):
    journal.inside.clear()
    journal.set_status(state="finished")
    gate = Gate(journal)
    LiveModel(journal, gate).command("stop")
    assert not gate.closed


def test_an_unknown_command_is_refused_by_name(journal):
    with pytest.raises(
        errors.InvalidArgumentError, match="command: 'explode' is not one of pause, resume, stop, expand"
    ):
        LiveModel(journal).command("explode")


def test_every_graph_of_the_run_can_be_shown(journal):
    model = LiveModel(journal)
    assert [one["key"] for one in model.frame()["graph"]["graphs"]] == ["session_0"]
    journal.graph(fixtures.dense_graph(2, key="session_7"))
    journal.graph(fixtures.dense_graph(1, key="session_8"))
    graph = model.frame()["graph"]
    assert [one["key"] for one in graph["graphs"]] == ["session_7", "session_0", "session_8"] and graph["key"] == "session_7"
    assert graph["graphs"][1]["label"].endswith("operations on ps:0, ps:1, worker:0")
    model.command("show", "session_8")
    assert model.frame()["graph"]["key"] == "session_8"
    journal.graph(fixtures.dense_graph(3, key="session_9"))
    assert model.frame()["graph"]["key"] == "session_8"      # what was asked for stays


def test_the_step_is_the_newest_also_between_two_changes_of_the_status(journal):
    model = LiveModel(journal)
    model.frame()
    journal.ran = ("session", 40)
    assert model.status()["step"] == 40 and model.frame()["status"]["step"] == 40
    journal.ran = ("another session", 99)
    assert model.status()["step"] == 19


def test_a_training_loop_s_own_number_is_the_one_that_is_shown(journal):
    model = LiveModel(journal)
    journal.count(7, 100)
    journal.ran = ("session", 40)
    journal.set_status(state="running", step=40)
    status = model.frame()["status"]
    assert (status["state"], status["step"], status["of"]) == ("running", 7, 100)
    journal.set_status(session="next", state="ready")
    status = model.frame()["status"]
    assert (status["step"], status["of"]) == (0, 0)


def test_a_new_session_is_shown_in_place_of_the_old_one(journal):
    model = LiveModel(journal)
    model.frame()
    journal.graph(fixtures.dense_graph(2, key="next_0"))
    journal.set_status(session="next")
    assert model.frame()["graph"]["key"] == "next_0"


def test_an_empty_journal_gives_one_frame_that_says_so():
    frame = LiveModel(Journal(capacity=10)).frame()
    assert frame["status"]["state"] == "empty"
    assert frame["graph"] is frame["steps"] is frame["series"] is frame["stragglers"] is None


def test_a_frame_costs_little_however_long_the_run(journal):
    model = LiveModel(journal)
    now, costs = journal.origin + 1, []
    for frame in range(60):
        for step in range(10):
            now = fixtures.write_step(journal, 20 + 10 * frame + step, now)
        began = time.thread_time()
        model.frame()
        costs.append(time.thread_time() - began)
    assert sorted(costs)[len(costs) // 2] < 0.005
