"""What a picture costs the kernel, counted in calls of functions: what is done for each span is done by columns."""
from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.panel_update import step
from tests.ui.records import large
from workbench.core.rings import Rows
from workbench.core.trace import Journal, Span
from workbench.viz import blame
from workbench.viz.accounting import Accounting
from workbench.viz.batch import Batch
from workbench.viz.books import Sample
from workbench.viz.graph_view import GraphPicture
from workbench.viz.hub import Hub, Watcher, hub_of
from workbench.viz.node_view import LISTED
from workbench.viz.schema import NodeDetails
from workbench.viz.step_index import StepIndex
from workbench.viz.verdict import judge
from workbench.viz.views.timeline import TimelineParameters
from workbench.widgets.wire import pack

WORKERS = 252
TASKS = WORKERS + 4


def calls(work: Callable[[], object]) -> int:
    """Functions that `work` calls, those in C included."""
    count = 0

    def heard(frame: Any, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(heard)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def recorded(steps: int) -> list[list[Span]]:
    """The spans of each of some steps of many tasks."""
    random.seed(5)
    found = []
    for number in range(steps):
        journal = Journal(capacity=10_000)
        journal.enabled = True
        step(journal, number, 0.05 * number, WORKERS)
        found.append(journal.spans_since(0)[2])
    return found


def test_one_more_step_and_its_verdict_cost_few_calls_however_many_spans_it_has():
    """After the first ones, which everything is new to."""
    accounting, steps = Accounting(), recorded(12)
    for spans in steps[:-1]:
        accounting.feed(spans)
        accounting.settle(everything=True)
        judge(accounting)
    accounting.feed(steps[-1])
    assert calls(lambda: accounting.settle(everything=True)) < 0.75 * len(steps[-1])
    assert calls(lambda: judge(accounting)) < 12 * TASKS


def test_the_first_verdict_loads_no_part_of_numpy_besides():
    """`np.unique` alone loads masked arrays, which takes as long as ten updates."""
    program = "\n".join((
        "import sys", "from tests.viz.test_update_costs import Accounting, judge, recorded", "accounting = Accounting()",
        "before = set(sys.modules)", "for spans in recorded(3):", "    accounting.feed(spans)",
        "accounting.settle(everything=True)", "judge(accounting)",
        "print(*sorted({name for name in set(sys.modules) - before if name.startswith('numpy')}))"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_what_travels_is_packed_by_its_records_not_by_each_of_their_fields():
    hub, _watcher = drawing(recorded(6))
    picture = hub.whole("timeline")
    assert len(picture.lanes) == 40 and calls(lambda: pack(picture)) < 24 * len(picture.lanes)


def test_spans_are_taken_in_by_their_steps_not_one_by_one():
    """By whoever finds them again, and by whoever accounts for them."""
    index, sample, accounting = StepIndex(100), Sample(), Accounting()

    def take(spans: list[Span]) -> None:
        batch = Batch(spans)
        index.take(batch, 0, 0.0)
        accounting.take(batch, sample.of(batch, "session_0", sparing=False))
    few, many = recorded(2), recorded(2)
    take([span for one in few for span in one])
    assert accounting.waiting == 2 and [step.number for step in index.of("session_0")] == [0, 1]
    assert calls(lambda: take([span for one in many for span in one])) < 0.1 * len(many[0])


def test_what_a_step_says_of_who_holds_it_up_is_found_once_however_many_verdicts_look_at_it(monkeypatch):
    found, accounting = list[int](), Accounting()
    find = blame._blame
    monkeypatch.setattr(blame, "_blame", lambda *given: (found.append(1), find(*given))[1])
    for spans in recorded(5):
        accounting.feed(spans)
        accounting.settle(everything=True)
        judge(accounting)
    assert len(found) == 5


def drawing(steps: list[list[Span]]) -> tuple[Hub, Watcher]:
    """The hub of a journal that holds these steps, and somebody who watches its timeline."""
    journal = Journal(capacity=100_000)
    journal.enabled = True
    hub = hub_of(journal)
    watcher = hub.watcher()
    watcher.watch({"timeline": None})
    for now, one in enumerate(steps):
        for span in one:
            journal.span(span)
        hub.look(float(now))
    hub.look(9.0)  # no more of the last step will come
    return hub, watcher


def test_the_picture_of_a_step_costs_few_calls_however_many_spans_it_has():
    """Not one for each of what the picture leaves out."""
    spans = recorded(6)
    hub, _watcher = drawing(spans)
    hub.whole("timeline", TimelineParameters(step=4))  # whose places are all new
    seen = []
    assert calls(lambda: seen.append(hub.whole("timeline"))) < 4 * len(spans[-1])
    assert seen[0].step == 5 and len(seen[0].lanes) == 40 and seen[0].lane_count > TASKS


def test_the_picture_of_a_step_reads_no_spans_of_later_ones(monkeypatch):
    spans, read = recorded(6), list[int]()
    hub, _watcher = drawing(spans)
    between = Rows.between
    monkeypatch.setattr(Rows, "between", lambda *given: read.append(len(found := between(*given))) or found)
    assert hub.whole("timeline", TimelineParameters(step=1)).step == 1
    assert 0 < sum(read) <= len(spans[1])


def test_what_is_known_of_a_scope_costs_few_calls_however_many_operations_it_holds():
    picture = GraphPicture(large(9_000))
    [stack] = [id for id, scope in picture.tree.scopes.items() if scope.kind == "stack" and scope.parent == ""][:1]
    picture.details(stack)      # the first one numbers the types
    found: list[NodeDetails | None] = []
    assert calls(lambda: found.append(picture.details(stack))) < 1_500
    assert found[0] is not None and "4,455 operations" in found[0].facts[0].value
    assert [link.id for link in found[0].inputs] == ["images"] and len(found[0].outputs) == LISTED
