"""The live view without a browser: what each page is sent, what it may ask, the picture that stays, and that all of it ends."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from tests.viz import fixtures
from tests.widgets.reading import read
from workbench import errors
from workbench.core.run.gate import Gate
from workbench.core.trace import Journal
from workbench.viz.hub import hub_of
from workbench.viz.svg import to_plain
from workbench.widgets.base import reply_at_once
from workbench.widgets.live import LiveView

DOT = "digraph { n0 [width=1.0]; n1; n0 -> n1 [label=\"a × b\"]; }"


@pytest.fixture
def journal() -> Journal:
    return fixtures.build(10, slow=1.8)


class Page:
    """One page that shows a view: what it was sent, and what it says."""

    def __init__(self, view: LiveView, name: str = "one") -> None:
        self.view, self.name = view, name
        self.got: list[dict] = []
        self._news = threading.Condition()
        view.heard.append(self._heard)

    def say(self, command: str, argument: object = None, number: int = 1) -> None:
        self.view._heard(self.view, {"page": self.name, "id": number, "command": command, "argument": argument}, [])

    def _heard(self, content: dict) -> None:
        if content["page"] == self.name:
            with self._news:
                self.got.append(content)
                self._news.notify_all()

    def wait(self, good) -> dict:
        """The first message for which `good` holds, acknowledging the updates before it."""
        seen = 0
        while True:
            with self._news:
                assert self._news.wait_for(lambda seen=seen: len(self.got) > seen, 20), self.got
                content, seen = self.got[seen], seen + 1
            said = content.get("said") or {}
            if said.get("kind") == "update":
                self.say("ack", said["seq"])
            if good(said or content):
                return said or content


class Shown(LiveView):
    """A view whose messages can be read here."""

    def __init__(self, *given: object) -> None:
        self.heard: list = []
        super().__init__(*given)

    def send(self, content, buffers=None) -> None:
        said = content.get("said")
        for heard in list(self.heard):
            heard({**content, "said": read(said, buffers)} if said else content)


@pytest.fixture
def view(journal):
    view = Shown(journal, Gate(journal))
    yield view
    view.close()


class Seen:
    """A sink that counts, and says when it was served."""

    def __init__(self) -> None:
        self.count = 0
        self.came = threading.Event()

    def serve(self, now: float) -> None:
        self.count += 1
        self.came.set()


# the thread
def test_the_hub_serves_until_it_is_told_not_to(journal):
    hub, seen = hub_of(journal), Seen()
    hub.attach(seen)
    assert seen.came.wait(60)
    hub.detach(seen)
    thread = hub._thread
    if thread is not None:
        thread.join(60)
    assert hub._thread is None


def test_a_sink_that_is_gone_is_forgotten(journal):
    hub, seen = hub_of(journal), Seen()
    reference = weakref.ref(seen)
    hub.attach(seen)
    thread = hub._thread
    assert seen.came.wait(60)
    del seen
    gc.collect()
    hub.wake()
    thread.join(60)
    assert reference() is None and not thread.is_alive()


def test_a_fault_in_a_sink_is_reported_and_does_not_end_the_thread(journal, caplog):
    class Faulty(Seen):
        def serve(self, now: float) -> None:
            super().serve(now)
            if self.count == 1:
                raise ValueError("no")

    hub, seen = hub_of(journal), Faulty()
    hub.attach(seen)
    assert seen.came.wait(60)
    seen.came.clear()
    hub.wake()
    assert seen.came.wait(60)
    hub.detach(seen)
    assert seen.count >= 2 and "'Faulty' could not be served" in caplog.text


def test_views_of_one_journal_share_a_hub_and_its_thread(view, journal):
    other = LiveView(journal, Gate(journal))
    assert other._hub is view._hub is hub_of(journal)
    assert sum(thread.name == "workbench-hub" and thread is view._hub._thread for thread in threading.enumerate()) == 1
    other.close()


# the view
def test_a_page_gets_the_topics_it_watches(view):
    page = Page(view)
    page.say("watch", {"steps": {}, "graph": {}})
    assert page.wait(lambda said: said["kind"] == "answer")["ok"]
    update = page.wait(lambda said: "steps" in said.get("topics", {}))
    assert len(update["topics"]["steps"]["tasks"]) == 4
    page.wait(lambda said: "graph" in said.get("topics", {}))


def test_each_page_has_its_own_topics_and_a_later_one_gets_the_whole(view):
    first, second = Page(view), Page(view, "two")
    first.say("watch", {"steps": {}})
    first.wait(lambda said: "steps" in said.get("topics", {}))
    second.say("watch", {"series": {}, "steps": {}})
    update = second.wait(lambda said: "series" in said.get("topics", {}))
    assert [one["name"] for one in update["topics"]["series"]["series"]] == ["loss", "accuracy"]
    assert all("series" not in (content.get("said") or {}).get("topics", {}) for content in first.got)


def test_a_page_that_was_forgotten_is_asked_what_it_watches(view):
    page = Page(view)
    page.say("ack", 7)
    assert page.wait(lambda content: True) == {"page": "one", "kind": "again"}


def test_commands_reach_the_gate_at_once_and_are_answered(view, journal):
    page = Page(view)
    page.say("pause")
    assert view._gate.closed and journal.status.state == "paused"
    page.wait(lambda said: said["kind"] == "answer" and said["ok"])
    page.say("resume")
    assert not view._gate.closed
    page.say("exit", number=3)
    refused = page.wait(lambda said: said.get("id") == 3)
    assert not refused["ok"] and refused["error"].startswith("command: 'exit' is not one of")


def test_a_command_that_comes_too_late_says_why(view, journal):
    journal.inside.clear()
    journal.set_status(state="finished")
    page = Page(view)
    page.say("stop")
    assert "stop: nothing is running" in page.wait(lambda said: said["kind"] == "answer")["error"]
    assert not view._gate.closed


def test_only_messages_of_pages_are_heard(view):
    for content in ({"command": "pause"}, {"page": 3, "command": "pause"}, "text", None):
        view._heard(view, content, [])
    assert not view._gate.closed


def test_the_kernel_lays_out_what_a_page_cannot(view):
    page = Page(view)
    page.say("layout", DOT, 5)
    answer = page.wait(lambda content: content.get("id") == 5)
    assert answer["plain"] == to_plain(DOT) and answer["plain"].startswith("graph ") and answer["error"] == ""
    page.say("layout", "digraph { a -> ", 6)
    assert page.wait(lambda content: content.get("id") == 6)["error"].startswith("graph layout: ")


def test_a_layout_outside_is_the_layout_inside():
    assert to_plain(DOT, 15.0) == to_plain(DOT)
    with pytest.raises(errors.InvalidArgumentError, match="graph layout: "):
        to_plain("digraph { a -> ", 15.0)


def test_a_picture_stays_beside_the_widget_and_after_it(view, journal):
    shown, ended = [], threading.Event()

    class Display:
        def update(self, data, **options):
            shown.append(data)
            ended.set()

    data, _ = view._bundle()
    assert "application/vnd.jupyter.widget-view+json" in data
    for words in ("<svg", "<b>Running</b> · step 9", "worker:1 costs", "loss, nats", "ps:0"):
        assert words in data["text/html"]
    page = Page(view)
    page.say("watch", {})
    page.wait(lambda said: said["kind"] == "update")  # the view was served, so it knows that the run goes on
    view._display = Display()
    journal.set_status(state="ready")
    view._hub.wake()
    assert ended.wait(60)
    view.close()
    assert "application/vnd.jupyter.widget-view+json" in shown[0]  # the run ended
    assert set(shown[-1]) == {"text/html", "text/plain"}  # the view was closed
    assert "<script" not in shown[-1]["text/html"]


def test_nothing_recorded_leaves_no_picture():
    view = LiveView(Journal(capacity=10))
    assert view.static_html() == ""
    view.close()


def test_closing_twice_is_fine(view):
    view.close()
    view.close()
    assert not view.running


def test_words_of_the_picture_are_escaped(view, journal):
    journal.set_status(cause="<img src=x>")
    assert "&lt;img" in view.static_html() and "<img" not in view.static_html()


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
