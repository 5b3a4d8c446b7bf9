"""What a notebook shows of graphs, sessions, trainings and errors, in a shell of IPython without a notebook."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

import workbench as wb
from tests.eventually import eventually
from workbench import errors
from workbench.core.run.gate import gate
from workbench.train.progress import Progress
from workbench.train.sessions.background import Training
from workbench.viz.hub import Hub
from workbench.widgets import displays, tracebacks
from workbench.widgets.peer import PACE
from workbench.widgets.training import TrainingView, bundle


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    made = InteractiveShell()
    displays.install(made)
    tracebacks.install(made)
    yield made
    made.history_manager.end_session()


@pytest.fixture
def training() -> Iterator[tuple[Training, threading.Event]]:
    go = threading.Event()

    def records() -> Iterator[Progress]:
        yield Progress(3, 10, loss=0.5, accuracy=0.25, steps_per_second=7.0)
        go.wait(30)
        yield Progress(10, 10, loss=0.125)

    made = Training(records())
    yield made, go
    go.set()
    made.join(30)


def seen(training: Training, step: int) -> None:
    """Wait for a record of the training's thread."""
    eventually(lambda: training.progress.step >= step)


def test_a_graph_says_what_it_holds(shell):
    with wb.Graph().as_default() as graph:
        with wb.name_scope("<layer>"[1:-1]):
            wb.matmul(wb.zeros([2, 3]), wb.zeros([3, 4]))
        wb.Variable(1.0)
    data, _ = shell.display_formatter.format(graph)
    assert "operations, 1 variables" in data["text/html"] and "matmul 1" in data["text/html"]
    assert "layer" in data["text/html"]


def test_a_session_says_what_it_does(shell):
    with wb.Graph().as_default(), wb.Session() as session:
        session.run(wb.constant(1.0))
        data, _ = shell.display_formatter.format(session)
    assert session.name in data["text/html"] and "operations" in data["text/html"]


def test_a_training_is_a_live_widget_with_a_text_beside_it(shell, training):
    run, _ = training
    seen(run, 3)
    data, _ = shell.display_formatter.format(run)
    assert "application/vnd.jupyter.widget-view+json" in data
    facts = ("3 of 10 steps", "7 steps/s", "1 s left", "loss 0.5", "accuracy 25.0 %")
    places = [data["text/html"].find(words) for words in facts]
    assert places == sorted(places) and places[0] > 0, "how far and how long still, then how well"
    assert data["text/plain"] == repr(run) == "<Training running: 3 of 10 steps, loss 0.5, accuracy 0.25>"


def test_the_widget_follows_to_the_end(training):
    run, go = training
    seen(run, 3)
    view = TrainingView(run)
    assert view.bar.value == pytest.approx(0.3) and not view.stop.disabled and view.bar.bar_style == "info"
    ended = threading.Event()
    view.stop.observe(lambda change: ended.set(), "disabled")
    go.set()
    assert ended.wait(60)
    assert view.bar.value == 1.0 and view.bar.bar_style == "success" and "<b>Finished</b>" in view.facts.value


@pytest.fixture
def unserved(monkeypatch):
    """No thread serves what is made meanwhile: the test alone does."""
    monkeypatch.setattr(Hub, "attach", lambda hub, sink: None)


def test_the_widget_of_a_paused_training_says_so_whether_or_not_it_has_begun(training, unserved):
    run, _ = training
    seen(run, 3)
    gate.pause()
    try:
        view = TrainingView(run)
        assert "<b>Paused</b>" in view.facts.value and view.pause.description == "Resume"
    finally:
        gate.resume()
    view.show()
    assert "<b>Running</b>" in view.facts.value and view.pause.description == "Pause"


def test_the_widget_says_new_numbers_at_the_pace_of_pages(training, unserved, monkeypatch):
    run, _ = training
    seen(run, 3)
    view, shown = TrainingView(run), []
    monkeypatch.setattr(view, "show", lambda: shown.append(1))
    for now in (1e6, 1e6 + 0.1, 1e6 + 0.9 * PACE, 1e6 + 1.1 * PACE):
        view.serve(now)
    assert len(shown) == 2


def test_a_training_that_failed_says_why():
    def records() -> Iterator[Progress]:
        yield Progress(2, 9)
        raise errors.AbortedError("step 2: <worker:1> died; start it again\nand more")

    run = Training(records())
    with pytest.raises(errors.AbortedError):
        run.join(60)
    assert repr(run) == "<Training failed: 2 of 9 steps: AbortedError: step 2: <worker:1> died; start it again>"
    shown = bundle(run)["text/html"]
    assert shown.endswith("<div>AbortedError: step 2: &lt;worker:1&gt; died; start it again</div></div>"), "a line of its own"
    assert shown.count("nowrap") == 2, "state and step, each in one piece"


def test_a_mistake_is_shown_in_few_lines_at_the_cell_and_line(shell, capsys):
    shell.run_cell("import workbench as wb\nx = wb.zeros([2, 3])")
    shell.run_cell("def layer(x):\n    return wb.matmul(x, x)\n\ny = layer(x)", store_history=True)
    lines = capsys.readouterr().out.strip().splitlines()
    assert 3 <= len(lines) <= 8, lines
    assert lines[0].endswith("line 4: y = layer(x)") and lines[1].endswith("line 2: return wb.matmul(x, x)")
    assert lines[0].startswith("cell In[") and lines[2].startswith("ShapeError: matmul: ")
    assert lines[-1].startswith("(") and lines[-1].endswith("are folded; %tb shows all)")
    shell.run_line_magic("tb", "")
    assert "graph.py" in capsys.readouterr().out


def test_where_an_operation_was_built_is_said_as_cell_and_line(shell, capsys):
    shell.run_cell("import workbench as wb\ng = wb.Graph()\nwith g.as_default():\n    v = wb.Variable(1.0)")
    shell.run_cell("with g.as_default(), wb.Session() as s:\n    s.run(v)")
    out = capsys.readouterr().out
    assert "FailedPreconditionError" in out and "/ipykernel" not in out
    assert out.startswith("cell In[") and "line 2: s.run(v)" in out


def test_an_error_of_others_is_left_alone(shell, capsys):
    shell.run_cell("1 / 0")
    assert "ZeroDivisionError" in capsys.readouterr().out


def test_a_misspelt_name_is_answered_with_near_ones():
    with pytest.raises(AttributeError, match="module 'workbench' has no attribute 'matmull'; did you mean matmul"):
        _ = wb.matmull
    with pytest.raises(AttributeError, match=r"has no attribute 'qqqqqqqq'$"):
        _ = wb.qqqqqqqq


def test_the_journal_is_short_in_signatures():
    import inspect

    assert str(inspect.signature(wb.Cluster)).endswith("journal: 'Journal' = journal) -> 'None'")


def test_an_explanation_is_a_table_of_its_operations(shell):
    with wb.Graph().as_default():
        x = wb.placeholder("float32", [300, 300], name="x")
        found = wb.explain(wb.tanh(x * 2.0 + 1.0, name="chain"), {x: [[1.0] * 300] * 300})
    shown = shell.display_formatter.format(found)[0]
    assert shown["text/plain"] == str(found)
    assert shown["text/html"].count("<tr>") == 1 + len(found.rows) and "<td" in shown["text/html"]
    assert "arena" in shown["text/html"] and "<script" not in shown["text/html"] and "fused: multiply" in shown["text/html"]


def test_progress_says_what_was_measured_in_few_digits():
    assert repr(Progress(2500, 4000, 0.006886091083288193, None, 171.33457027256546)) == (
        "Progress(step=2500, steps=4000, loss=0.006886, steps_per_second=171.3)")
    assert repr(Progress(1, 4, message="worker 1 joined")) == "Progress(step=1, steps=4, message='worker 1 joined')"
