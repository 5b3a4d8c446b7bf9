"""One hub per journal: reads what is new once, however many watch, and tells each watcher what it has not heard yet."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from operator import attrgetter
from typing import Any, Protocol

from workbench.core.trace import Journal, StatusRecord
from workbench.viz.books import books_of
from workbench.viz.lost import broken
from workbench.viz.palette import device_order
from workbench.viz.reader import Shared, per_journal
from workbench.viz.schema import Answer, Update
from workbench.viz.views import VIEWS, View, parameters

__all__ = ["BEAT", "HEARTBEAT", "LARGEST", "RATE", "Hub", "Sink", "Watcher", "hub_of"]

RATE = 10.0  # updates per second, at most
BEAT = 0.5  # seconds between two looks at the journal of which nobody asked for one: pages are told no more often
SOON = 0.35  # seconds after a look from which on one follows as soon as all tasks elsewhere have told more
TOGETHER = 0.2  # seconds that the answers of tasks asked at once lie apart, at most: until then not all have told more
LATEST = 0.9  # seconds between two looks while tasks elsewhere tell what they did: else one would come just before they do
LARGEST = 64_000  # bytes of an update
HEARTBEAT = 1.0  # seconds between two looks while nobody watches anything
DESCRIBED = 20  # lost tasks whose cause and fix travel; of the others the name

log = logging.getLogger(__name__)


class Sink(Protocol):
    """Who is called on the hub's thread after each look at the journal, and takes what its watchers have not heard."""

    def serve(self, now: float) -> None: ...


class Watcher:
    """One who watches: its topics with their parameters, and what it has of each.

    `take` belongs to one thread at a time; `watch` and `answer` may be called from any and wait for no picture.
    """

    def __init__(self, hub: Hub, weigh: Callable[[Update], int] | None = None) -> None:
        self._hub, self._weigh = hub, weigh
        self._taking, self._telling = threading.Lock(), threading.Lock()
        self.topics: dict[str, Any] = {}
        self._sent: dict[str, Any] = {}
        self._faults: dict[str, str] = {}
        self._refused: dict[str, str] = {}  # topic -> what was too large
        self._status: dict[str, Any] = {}
        self._sequence = 0
        self._told = 0.0  # when it was told something last

    def watch(self, topics: Mapping[str, Any]) -> None:
        """From now on these topics, {topic: parameters}, and no others; a topic that stays keeps what was sent.

        Raises InvalidArgumentError for what is no topic or parameter; then nothing changes.
        """
        wanted = {topic: parameters(topic, topics[topic]) for topic in sorted(topics, key=_large)}
        self._hub.revive(wanted.keys() - self.topics.keys())
        self.topics = wanted
        self._hub.wake()

    def answer(self, answer: Answer, say: Callable[[Answer], None]) -> None:
        """Say `answer` with what changed of the status; no update with an older status can come after it."""
        with self._telling:
            answer.status = self._changed()
            say(answer)

    def take(self, now: float, say: Callable[[Update], None]) -> None:
        """Say what this watcher has not heard yet; nothing when that is nothing and it has been told within a second.

        Of topics that are too large together the last ones come with the next update; one that is too large alone is
        refused, and the watcher is told so.
        """
        with self._taking:
            topics, faults = self._fitting()
            status = self._hub.said
            with self._telling:
                moved = any(status[name] != self._status.get(name, _NOTHING) for name in status if name != "seconds")
                if topics or faults or moved or now - self._told >= HEARTBEAT:
                    self._sequence += 1
                    self._told = now
                    say(Update(self._sequence, self._changed(), topics, faults))

    def _fitting(self) -> tuple[dict[str, Any], dict[str, str]]:
        wanted = self.topics
        while True:
            before = dict(self._sent)
            topics, faults = self._news(wanted)
            nbytes = self._weigh(Update(0, self._unheard(self._hub.said), topics, faults)) if self._weigh and topics else 0
            if nbytes <= LARGEST:
                return topics, faults
            self._sent = before
            if len(topics) == 1:
                [topic] = topics
                self._refused[topic] = (f"{topic}: what is to be shown takes {nbytes:,} bytes, an update holds {LARGEST:,}; "
                                        "close scopes, or show fewer rows or a shorter time")
                self._sent[topic] = self._hub.news(topic, before.get(topic), wanted[topic])[1]
            wanted = {topic: wanted[topic] for topic in list(topics)[:-1] or topics}

    def _changed(self) -> dict[str, Any]:
        """What changed of the status since it was told last, and how long the state has lasted."""
        status = self._hub.status()
        changed, self._status = self._unheard(status), status
        return changed

    def _unheard(self, status: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in status.items() if self._status.get(name, _NOTHING) != value}

    def _news(self, wanted: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        topics, faults = {}, {}
        self._sent = {topic: self._sent.get(topic) for topic in self.topics}
        for topic, params in wanted.items():
            news, self._sent[topic], fault = self._hub.news(topic, self._sent.get(topic), params)
            if news is not None:
                topics[topic] = news
                self._refused.pop(topic, None)
            fault = fault or self._refused.get(topic, "")
            if fault != self._faults.get(topic, ""):
                faults[topic] = self._faults[topic] = fault
        return topics, faults


_NOTHING = object()
_SAID = tuple(one.name for one in fields(StatusRecord))
_said = attrgetter(*_SAID)


def _large(topic: str) -> bool:
    return topic in VIEWS and VIEWS[topic].large


class Hub:
    """The views of one journal. `look` belongs to the hub's thread, which runs while there is a sink; the rest to all."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._lock = threading.RLock()
        self._books, self._shared = books_of(journal), Shared(journal.rows_since)
        self._views: dict[str, View] = {topic: kind(journal, self._books, self._shared) for topic, kind in VIEWS.items()}
        self._faults: dict[str, str] = {}
        self._looks = 0
        self._news: dict[str, tuple[int, Any, Any, tuple[Any, Any, str]]] = {}  # topic -> look, sent, parameters and answer
        self._watchers: weakref.WeakSet[Watcher] = weakref.WeakSet()
        self._sinks: list[weakref.ref[Sink]] = []
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._asked, self._looked = True, float("-inf")  # did somebody since the last look, and when that was
        self._told, self._telling = journal.told, False  # until when all tasks elsewhere had told then; more than before?
        self._said: dict[str, Any] | None = None
        self.state: str = self.said["state"]  # at the last turn

    # watching
    def watcher(self, weigh: Callable[[Update], int] | None = None) -> Watcher:
        """Somebody new, who watches nothing yet; it is forgotten when nobody holds it.

        `weigh`: bytes that an update takes on its way, which is then at most `LARGEST`.
        """
        made = Watcher(self, weigh)
        with self._lock:
            self._watchers.add(made)
        return made

    @property
    def watched(self) -> set[str]:
        with self._lock:
            return {topic for watcher in self._watchers for topic in tuple(watcher.topics)}

    @property
    def said(self) -> dict[str, Any]:
        """The status since the last turn, made when the first one asks."""
        said = self._said
        if said is None:
            said = self._said = self.status()
        return said

    def status(self) -> dict[str, Any]:
        """What the run says now, as JSON data; `seconds`: how long the state has lasted."""
        record = self.journal.current()
        status = dict(zip(_SAID, _said(record)))
        status["tasks"] = list(record.tasks)
        if record.tasks and all(device_order(task)[0] == "localhost" for task in record.tasks):
            status["page"] = ""  # of a cluster that this run does not use
        status["lost"] = [{**asdict(lost), **({} if i < DESCRIBED else {"cause": "", "fix": ""})}
                          for i, lost in enumerate(record.lost)]
        status["broken"] = [list(words) for words in broken(record)]
        status["records_lost"] = self._lost()
        status["seconds"] = round(time.perf_counter() - record.since, 1)
        return status

    def _lost(self) -> int:
        """Records that a view should have seen and did not: its own, and those that tasks could not keep."""
        own = [self._books.spans.lost, *(sum(r.lost for r in view.readers) for view in self._views.values())]
        return max(own) + sum(list(self.journal.lost_elsewhere.values()))

    @property
    def _accounted(self) -> bool:
        """Does somebody watch what the books of steps say?"""
        return any(VIEWS[topic].accounts for topic in self.watched)

    # looking
    def look(self, now: float | None = None) -> None:
        """Read what is new, once for all views that somebody watches."""
        now = time.perf_counter() if now is None else now
        with self._lock:
            told, self._asked, self._looked = self.journal.told, False, now
            self._told, self._telling = told, told - self._told >= TOGETHER
            self._looks += 1
            watched = self.watched
            self._shared.renew()
            self._account(self._accounted)
            for topic, view in self._views.items():
                if view.always or topic in watched:
                    self._advance(topic, view, now)
                else:
                    view.rest()
                    self._news.pop(topic, None)
            self._said, self.state = None, self.journal.current().state

    def turn(self) -> None:
        """Look where it is time, somebody asked, the state is another, tasks elsewhere have told more or a verdict is in work
        for those who watch; else at the state alone."""
        now, before = time.perf_counter(), self.state
        self._said, self.state = None, self.journal.current().state
        due = self._asked or self.state != before or (now - self._looked >= SOON and now - self._looked >= self._beat())
        if due or (self._books.judging and self._accounted):
            self.look(now)

    def _beat(self) -> float:
        """Seconds between two looks, as tasks tell: `SOON` is the shortest."""
        return SOON if self.journal.told - self._told >= TOGETHER else LATEST if self._telling else BEAT

    def _account(self, wanted: bool) -> None:
        if not wanted:
            self._books.spans.rest()
            return
        try:
            self._books.advance(self._shared)
        except Exception as fault:
            for topic, view in self._views.items():
                if view.accounts and topic not in self._faults:
                    self._failed(topic, fault)

    def _advance(self, topic: str, view: View, now: float) -> None:
        if topic not in self._faults:
            try:
                view.advance(now)
            except Exception as fault:
                self._failed(topic, fault)

    def _failed(self, topic: str, fault: Exception) -> None:
        """One view that fails ends neither the others nor the training; it is said once, here and on screen."""
        log.exception("the view %r could not be made", topic)
        self._faults[topic] = f"{type(fault).__name__}: {fault}"

    def revive(self, topics: Iterable[str]) -> None:
        """Somebody begins to watch these: one that failed is tried anew."""
        with self._lock:
            for topic in topics:
                if self._faults.pop(topic, ""):
                    self._news.pop(topic, None)
                    self._views[topic] = VIEWS[topic](self.journal, self._books, self._shared)

    def news(self, topic: str, sent: Any, params: Any) -> tuple[Any, Any, str]:
        """(record or None, what the watcher has then, why it cannot be shown or ""): the same for those who have the same."""
        with self._lock:
            look, had, asked, answer = self._news.get(topic, (-1, None, None, (None, None, "")))
            if look != self._looks or had is not sent or asked != params:
                answer = self._made(topic, sent, params)
                self._news[topic] = self._looks, sent, params, answer
            return answer

    def _made(self, topic: str, sent: Any, params: Any) -> tuple[Any, Any, str]:
        if topic not in self._faults:
            try:
                return *self._views[topic].delta(sent, params), ""
            except Exception as raised:
                self._failed(topic, raised)
        return None, sent, self._faults[topic]

    def whole(self, topic: str, params: Any = None) -> Any:
        """The whole picture of a topic as its record, for those who live in this process; None before there is one."""
        with self._lock:
            return self._views[topic].whole(VIEWS[topic].params() if params is None else params)

    def version(self, topic: str, params: Any = None) -> Any:
        """What changes whenever `whole` does."""
        with self._lock:
            return self._views[topic].version(VIEWS[topic].params() if params is None else params)

    # the thread
    def attach(self, sink: Sink) -> None:
        """Call `sink.serve` after each look, until it is detached or thrown away."""
        with self._lock:
            self._sinks = [*(one for one in self._sinks if one() is not None), weakref.ref(sink)]
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=_run, args=(weakref.ref(self), self._wake), name="workbench-hub",
                                                daemon=True)
                self._thread.start()

    def detach(self, sink: Sink) -> None:
        """`serve` is not called again; it may be within a call."""
        with self._lock:
            self._sinks = [one for one in self._sinks if one() not in (None, sink)]
        self.wake()

    def wake(self) -> None:
        """Look now."""
        self._asked = True
        self._wake.set()

    def tick(self) -> float | None:
        """One turn and one call of each sink; the seconds until the next, None when nobody is left to serve."""
        began = time.monotonic()
        with self._lock:
            sinks = [sink for one in self._sinks if (sink := one()) is not None]
            if not sinks:
                self._thread = None
                for topic in self._views.keys() - self.watched:
                    self._views[topic].rest()
                self._shared.renew()
                return None
        self.turn()
        for sink in sinks:
            try:
                sink.serve(time.monotonic())
            except Exception:
                log.exception("workbench live: %r could not be served", type(sink).__name__)
        pause = 1 / RATE if self.watched else HEARTBEAT
        return max(0.0, pause - (time.monotonic() - began))


def _run(reference: weakref.ref[Hub], wake: threading.Event) -> None:
    """The thread. It holds the hub only while it looks."""
    while True:
        hub = reference()
        pause = hub.tick() if hub is not None else None
        del hub
        if pause is None:
            return
        wake.wait(pause)
        wake.clear()


hub_of = per_journal(Hub)
"""The hub of a journal, one for all who hold it."""
