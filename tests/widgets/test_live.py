"""The notebook widgets without a browser: what they are sent, what they answer, and that they end."""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import asdict

import numpy as np
import pytest

from tests.viz import fixtures
from workbench.core.run.gate import Gate
from workbench.core.trace import Journal
from workbench.viz.hub import Hub, hub_of
from workbench.widgets.base import columns, reply_at_once
from workbench.widgets.graph import GraphWidget
from workbench.widgets.live import LiveView
from workbench.widgets.series import LossWidget
from workbench.widgets.steps import StepTimesWidget


@pytest.fixture
def journal() -> Journal:
    return fixtures.build(10, slow=1.8)


@pytest.fixture
def frame(journal):
    hub = Hub(journal)
    watcher = hub.watcher()
    watcher.watch({"graph": {}, "steps": {}, "series": {}})
    hub.look()
    return {topic: asdict(hub.whole(topic)) for topic in watcher.topics}


class Seen:
    """A sink that counts, and says when it was served."""

    def __init__(self) -> None:
        self.count = 0
        self.came = threading.Event()

    def serve(self, now: float) -> None:
        self.count += 1
        self.came.set()


@pytest.fixture
def view(journal):
    view = LiveView(journal, Gate(journal))
    wait_for(view.status, "value", lambda text: "step" in text)
    yield view
    view.close()


def wait_for(widget, trait: str, good) -> None:
    """Wait until `good(value)`; the trait's change is the event."""
    done = threading.Event()

    def look(change):
        if good(change["new"]):
            done.set()

    widget.observe(look, trait)
    if not good(getattr(widget, trait)):
        assert done.wait(20), getattr(widget, trait)
    widget.unobserve(look, trait)


# the three pictures
def test_columns_are_float32_behind_each_other():
    lengths, data = columns([[1, 2], [None, 3.5, 4]])
    assert lengths == [2, 3]
    np.testing.assert_array_equal(np.frombuffer(data, "<f4"), np.array([1, 2, np.nan, 3.5, 4], "f4"))


def test_step_times_travel_as_bytes_with_their_facts(frame):
    widget = StepTimesWidget()
    widget.show(frame["steps"])
    assert widget.meta["lengths"] == [10] * 8 and len(widget.data) == 4 * 80
    assert widget.meta["tasks"][2]["task"] == "/job:worker/task:0" and "times" not in widget.meta["tasks"][2]
    assert "worker:1" in widget.static_html() and StepTimesWidget().static_html() == ""


def test_series_travel_as_bytes_with_their_facts(frame):
    widget = LossWidget()
    widget.show(frame["series"])
    assert [s["name"] for s in widget.meta["series"]] == ["loss", "accuracy"] and widget.meta["lengths"] == [
        10,
        10,
        2,
        2,
    ]
    assert "loss, nats" in widget.static_html()


def test_timings_recolour_without_a_new_drawing(frame):
    widget = GraphWidget()
    widget.show(frame["graph"])
    drawing, values = widget.svg, widget.values
    assert 'data-id="softmax/matmul"' in drawing and len(values) == 4 * len(widget.nodes)
    widget.show({**frame["graph"], "stats": {"softmax/matmul": 7.0}})
    assert widget.svg is drawing and widget.values != values
    assert "ps:0" in widget.static_html() and "<svg" in widget.static_html()


def test_a_layout_that_fails_keeps_the_old_drawing_and_says_so(frame):
    widget = GraphWidget()
    widget.show(frame["graph"])
    drawing = widget.svg
    widget.show({**frame["graph"], "dot": "digraph { a -> "})
    assert widget.svg == drawing and widget.note.startswith("graph layout: ")


def test_only_known_messages_are_heard():
    asked = []
    widget = GraphWidget(lambda *command: asked.append(command))
    for content in (
        {"command": "expand", "argument": "loss"},
        {"command": "pause"},
        {"command": "exit"},
        "text",
        None,
    ):
        widget._heard(widget, content, [])
    assert asked == [("expand", "loss")]


def test_scripts_are_small_and_text():
    for kind in (GraphWidget, StepTimesWidget, LossWidget):
        assert (
            isinstance(kind._esm, str)
            and len(kind._esm) < 20_000
            and "http" not in kind._esm.replace("http://www.w3.org", "")
        )


# the thread
def test_the_hub_serves_until_it_is_told_not_to(journal):
    hub, seen = hub_of(journal), Seen()
    hub.attach(seen)
    assert seen.came.wait(10)
    hub.detach(seen)
    thread = hub._thread
    if thread is not None:
        thread.join(10)
    assert hub._thread is None


def test_a_sink_that_is_gone_is_forgotten(journal):
    hub, seen = hub_of(journal), Seen()
    reference = weakref.ref(seen)
    hub.attach(seen)
    thread = hub._thread
    assert seen.came.wait(10)
    del seen
    gc.collect()
    hub.wake()
    thread.join(10)
    assert reference() is None and not thread.is_alive()


def test_a_fault_in_a_sink_is_reported_and_does_not_end_the_thread(journal, caplog):
    class Faulty(Seen):
        def serve(self, now: float) -> None:
            super().serve(now)
            if self.count == 1:
                raise ValueError("no")

    hub, seen = hub_of(journal), Faulty()
    hub.attach(seen)
    assert seen.came.wait(10)
    seen.came.clear()
    hub.wake()
    assert seen.came.wait(10)
    hub.detach(seen)
    assert seen.count >= 2 and "'Faulty' could not be served" in caplog.text


def test_views_of_one_journal_share_a_hub_and_its_thread(view, journal):
    other = LiveView(journal, Gate(journal))
    wait_for(other.status, "value", lambda text: "step" in text)
    assert other._hub is view._hub is hub_of(journal)
    assert sum(thread.name == "workbench-hub" and thread is view._hub._thread for thread in threading.enumerate()) == 1
    other.close()


# the whole
def test_the_view_shows_what_the_journal_holds(view):
    assert "<b>Running</b> · step 9" in view.status.value and "worker:1 costs" in view.status.value
    assert view.graph.svg and view.steps.data and view.series.data


def test_buttons_reach_the_gate_at_once(view, journal):
    assert [view.buttons[n].disabled for n in ("pause", "resume", "stop")] == [False, True, False]
    view.buttons["pause"].click()
    assert view._gate.closed and journal.status.state == "paused"
    wait_for(view.buttons["resume"], "disabled", lambda off: not off)
    assert "Paused" in view.status.value
    view.buttons["resume"].click()
    assert not view._gate.closed
    view.buttons["stop"].click()
    assert view._gate.stopped


def test_a_click_on_a_scope_opens_and_closes_it(view):
    view.graph._heard(view.graph, {"command": "expand", "argument": "gradients"}, [])
    wait_for(view.graph, "svg", lambda svg: "gradients/matmul" in svg)
    view.graph._heard(view.graph, {"command": "collapse", "argument": "gradients"}, [])
    wait_for(view.graph, "svg", lambda svg: "gradients/matmul" not in svg)


def test_a_button_that_comes_too_late_says_why(view, journal):
    journal.inside.clear()
    journal.set_status(state="finished")
    view.buttons["stop"].click()
    wait_for(view.status, "value", lambda text: "stop: nothing is running" in text)
    assert not view._gate.closed


def test_a_picture_stays_beside_the_widget_and_after_it(view, journal):
    shown = []

    class Display:
        def update(self, data, **options):
            shown.append(data)

    data, _ = view._bundle()
    assert "application/vnd.jupyter.widget-view+json" in data and "<svg" in data["text/html"]
    view._display = Display()
    journal.set_status(state="ready")
    wait_for(view.status, "value", lambda text: "Ready" in text)
    view.close()
    assert "application/vnd.jupyter.widget-view+json" in shown[0]  # the run ended
    assert set(shown[-1]) == {"text/html", "text/plain"}  # the view was closed
    assert "<script" not in shown[-1]["text/html"]


def test_closing_ends_the_thread_and_closing_twice_is_fine(view):
    view.close()
    view.close()
    assert not view.running


def test_status_text_is_escaped(view, journal):
    journal.set_status(cause="<img src=x>")
    wait_for(view.status, "value", lambda text: "img" in text)
    assert "<img" not in view.status.value


def test_messages_are_answered_on_the_shell_they_came_by():
    class Comm:
        def _reply_subshell_for(self, data, default):
            return "main"

    class Holder:
        comm = Comm()

    reply_at_once(Holder)
    assert Holder.comm._reply_subshell_for({}, "sub") == "sub"
    Holder.comm = None
    reply_at_once(Holder)
