"""The topic "graph": one of the run's graphs, its scopes as the watcher opened them, and the newest times on it."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from workbench.core.names import task_of
from workbench.core.trace import GraphRecord, Journal, Span
from workbench.viz.books import Books
from workbench.viz.failure import Place, cause_of, failed_in, holds, place_of, until
from workbench.viz.graph_view import GraphPicture, choose_graph
from workbench.viz.heat import Heat
from workbench.viz.palette import natural, short_task
from workbench.viz.reader import CATCH_UP, Reader, Shared
from workbench.viz.schema import (
    Fact,
    Failed,
    GraphChoice,
    GraphParameters,
    GraphStage,
    GraphUpdate,
    GraphView,
    NodeDetails,
    Picture,
)
from workbench.viz.scopes import ScopeTree
from workbench.viz.stage_view import Staged, staged, stages_of
from workbench.viz.views.base import View, view

__all__ = ["Graphs"]

CHOICES = 100  # graphs that a screen may choose from
REMEMBERED = 64  # executables
DRAWN = 16  # drawings kept: of several watchers, and so that opening and closing a scope again costs nothing
SPARING = 5.0  # a new stage is looked at when this many times the cost of the last one has passed


@view("graph", GraphUpdate, GraphParameters)
class Graphs(View):
    """The graph asked for, else the largest of the current session; of each executable the stage it has come to."""

    large = True

    def __init__(self, journal: Journal, books: Books, shared: Shared) -> None:
        super().__init__(journal, books, shared)
        self._spans, self._records = Reader(shared.since, CATCH_UP), Reader(journal.graphs_since)
        self.readers = (self._spans, self._records)
        self._newest: dict[str, GraphRecord] = {}  # key -> its newest whole-graph stage
        self._taken: dict[str, GraphRecord] = {}  # the stages that are drawn
        self._taking = 0  # how often they changed
        self._heard = 0  # stages so far
        self._next = 0.0  # when another stage may be drawn
        self._trees: OrderedDict[Hashable, ScopeTree] = OrderedDict()
        self._pictures: OrderedDict[Hashable, GraphPicture] = OrderedDict()
        self._staged: OrderedDict[Hashable, tuple[GraphRecord, Staged]] = OrderedDict()
        self._places: OrderedDict[Hashable, tuple[Place, str]] = OrderedDict()
        self._times: dict[str, Heat] = {}
        self._session = ""
        self._mine: list[GraphRecord] = []
        self._choices: list[GraphChoice] = []

    def advance(self, now: float) -> None:
        for record in self._records.new():
            self._heard += 1
            if not record.split:
                self._newest.pop(record.key, None)
                self._newest[record.key] = record
                if len(self._newest) > REMEMBERED:
                    del self._newest[next(iter(self._newest))]
        self._feed(self.shared.batch(self._spans.new()).operations)
        session = self.journal.status.session
        stale = session != self._session or any(self._taken.get(key) is not r for key, r in self._newest.items())
        if stale and (now >= self._next or self._newest.keys() != self._taken.keys()):
            self._session, self._taken = session, dict(self._newest)
            self._taking += 1
            self._mine = self._of_session()
            self._choices = [GraphChoice(record.key, _label(record)) for record in self._mine[:CHOICES]]

    def _feed(self, spans: Iterable[Span]) -> None:
        for span in spans:
            if span.end >= span.start:
                times = self._times.get(span.executable)
                if times is None:
                    times = self._times[span.executable] = Heat()
                    if len(self._times) > REMEMBERED:
                        del self._times[next(iter(self._times))]
                times.add(span)

    def _of_session(self) -> list[GraphRecord]:
        """The graphs of the current session, the largest first; of all sessions when it has none."""
        mine = [r for r in self._taken.values() if self._session and r.key.startswith(f"{self._session}_")]
        return sorted(mine or self._taken.values(), key=lambda r: (-len(r.nodes), natural(r.key)))

    def _chosen(self, params: GraphParameters) -> GraphRecord | None:
        wanted = next((record for record in self._mine if record.key == params.key), None)
        return wanted or choose_graph(self._taken.values(), self._session)

    def _stage(self, record: GraphRecord, params: GraphParameters) -> tuple[int, Staged]:
        """(the stage's number, what is drawn); -1 and the newest of the whole graph when there is no such stage."""
        stages = self._stages(record) if params.stage >= 0 else []
        if not 0 <= params.stage < len(stages):
            return -1, Staged(record, {}, "")
        known = record.key, params.stage, bool(params.before)
        before, made = self._staged.get(known, (None, None))
        if made is None or before is not stages[params.stage]:
            made = staged(stages, params.stage, bool(params.before))
            self._staged[known] = stages[params.stage], made
            if len(self._staged) > DRAWN:
                self._staged.popitem(last=False)
        return params.stage, made

    def _stages(self, record: GraphRecord) -> list[GraphRecord]:
        return stages_of(self.journal.graphs_since(0)[2], record.key)

    def _picture(self, record: GraphRecord, params: GraphParameters) -> GraphPicture:
        known = (record.key, params.stage, params.before, params.opened, params.closed, params.shown)
        picture = self._pictures.get(known)
        if picture is None or picture.record is not record:
            picture = self._pictures[known] = GraphPicture(record, self._tree(record))
            for scope in params.opened:
                picture.expand(scope)
            for scope in params.closed:
                picture.collapse(scope)
            picture.reveal(params.shown)
            picture.view()
            if len(self._pictures) > DRAWN:
                self._pictures.popitem(last=False)
        self._pictures.move_to_end(known)
        return picture

    def _tree(self, record: GraphRecord) -> ScopeTree:
        known = record.key, record.stage
        tree = self._trees.pop(known, None)
        if tree is None or tree.record is not record:
            began = time.perf_counter()
            tree = ScopeTree(record)
            ended = time.perf_counter()
            self._next = ended + SPARING * (ended - began)
        self._trees[known] = tree
        if len(self._trees) > DRAWN:
            self._trees.popitem(last=False)
        return tree

    def _failed(self, record: GraphRecord, number: int, picture: GraphPicture, params: GraphParameters) -> Failed | None:
        """The operation that ended the run, in the graph that is shown, else in another one that a page may ask for."""
        status = self.journal.status
        what, task = cause_of(status)
        if not what:
            return None
        known = record.key, number, params.before, self._heard, self._taking, what, task
        if known not in self._places:
            place = place_of(status, until(self._stages(record), record, number, bool(params.before)))
            self._places[known] = place, record.key if place.id else self._holder(what)
            if len(self._places) > DRAWN:
                self._places.popitem(last=False)
        place, key = self._places[known]
        if key != record.key:
            return Failed(what, key, what, -1) if key else None
        return failed_in(picture, place, what)

    def _holder(self, what: str) -> str:
        """The largest graph of the session with operation `what`, as it was built or as it is now."""
        built = {record.key: record for record in reversed(self.journal.graphs_since(0)[2])}
        return next((one.key for one in self._mine if holds(one, what) or holds(built.get(one.key, one), what)), "")

    def _details(self, picture: GraphPicture, id: str) -> NodeDetails | None:
        """What is known of a node, and of an operation how it is computed."""
        details = picture.details(id)
        if details is not None and details.kind == "op":
            details.facts += [Fact(name, value) for name, value in self.journal.kernel(picture.record.key, id)]
        return details

    def _timed(self, record: GraphRecord) -> Heat:
        return self._times.get(record.key) or self._times.get("") or _NEVER

    def version(self, params: Any) -> Hashable:
        record = self._chosen(params)
        if record is None:
            return None
        scopes = params.opened, params.closed, params.shown, params.stage, params.before
        failed = cause_of(self.journal.status)
        return record.key, self._taking, self._heard, scopes, params.chosen, params.search, self._timed(record).version, failed

    def whole(self, params: Any) -> GraphView | None:
        record = self._chosen(params)
        if record is None:
            return None
        picture = self._picture(self._stage(record, params)[1].record, params)
        return replace(picture.view(), dot=picture.dot(), stats=picture.stats(self._timed(record).milliseconds))

    def delta(self, sent: Any, params: Any) -> tuple[GraphUpdate | None, Any]:
        version = self.version(params)
        record = self._chosen(params)
        if record is None or (sent is not None and version == sent.version):
            return None, sent
        number, shown = self._stage(record, params)
        picture = self._picture(shown.record, params)
        view, had = picture.view(), sent or _NOTHING
        drawing = Picture(view.nodes, view.edges, view.devices, picture.marks(shown.marks))
        moved = drawing != had.drawing
        stats = picture.stats(self._timed(record).milliseconds)
        made = GraphUpdate(view.key, None, [stats.get(node.id) for node in view.nodes], view.note, stage=number,
                           rewrite=shown.sentence, failed=self._failed(record, number, picture, params))
        if moved:
            made.picture = drawing
        if had.choices != self._choices:
            made.graphs = self._choices
        if had.staged != (record.key, self._heard):
            made.stages = [GraphStage(one.stage, one.note, len(one.nodes)) for one in self._stages(record)]
        if params.chosen and (moved or had.chosen != params.chosen):
            made.details = self._details(picture, params.chosen)
        if params.search and (moved or had.search != params.search):
            made.found = picture.search(params.search)
        return made, _Sent(version, drawing, self._choices, params.chosen, params.search, (record.key, self._heard))


class _Sent(NamedTuple):
    """What a watcher has."""

    version: Hashable = None
    drawing: Picture | None = None
    choices: list[GraphChoice] | None = None
    chosen: str = ""
    search: str = ""
    staged: Hashable = None  # whose stages


_NOTHING = _Sent()


_NEVER = Heat()


def _label(record: GraphRecord) -> str:
    """Where a graph computes, and how large it is: replicas of one program differ in their first worker."""
    counts = Counter(short_task(task_of(node.device)) for node in record.nodes if node.device and not node.stateful)
    where = ", ".join(sorted(counts, key=natural)[:3]) + (f" and {len(counts) - 3} more" if len(counts) > 3 else "")
    return f"{len(record.nodes):,} operations" + (f" on {where}" if where else "") + f" ({record.key})"  # what says least last
