"""Timelines, transfers, totals, critical paths and the Perfetto export, on hand-made spans."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from tests.viz import fixtures
from workbench.core.trace import Journal, Span
from workbench.viz.batch import Batch
from workbench.viz.chrome import to_chrome
from workbench.viz.critical_path import _SLACK, _Past, critical_path, explain
from workbench.viz.lanes import lanes
from workbench.viz.trace_view import op_totals
from workbench.viz.transfers import pairs

pytestmark = pytest.mark.tiny
A, B = "/job:ps/task:0", "/job:worker/task:0"
MESSAGE = f"1|w:0|{A}/device:cpu:0|{B}/device:cpu:0|:0"


def span(kind: str, name: str, task: str, start: float, end: float, message: str = "", detail: str = "") -> Span:
    return Span(kind, name, task, f"{task}/device:cpu:0", 0, start / 1e3, end / 1e3, 1, message, 8, detail)


CHAIN = [
    span("op", "read", A, 0, 2),
    span("send", "w:0", A, 2, 3, MESSAGE),
    span("recv", "w:0", B, 0, 4, MESSAGE),
    span("op", "matmul", B, 5, 9),
    span("op", "aside", A, 3, 6),
]


def test_transfers_are_paired_by_message_identity():
    twice = [*CHAIN, span("recv", "w:0", B, 3.5, 3.8, MESSAGE), span("send", "lost", A, 1, 2, "other")]
    [(send, recv)] = pairs(twice).values()
    assert send.name == "w:0" and recv.end == pytest.approx(0.004)
    assert pairs([span("send", "w:0", A, 5, 1, MESSAGE), CHAIN[2]]) == {}


def test_clock_offsets_are_taken_off_before_pairing():
    journal = Journal(capacity=100)
    journal.merge(A, CHAIN[:2])
    journal.merge(B, [s._replace(start=s.start + 100, end=s.end + 100) for s in CHAIN[2:4]], offset=100.0, error=1e-4)
    [(send, recv)] = pairs(journal.spans_since()[2]).values()
    assert (send.start, recv.end) == (pytest.approx(0.002), pytest.approx(0.004))
    assert to_chrome(journal.spans_since()[2], journal)["otherData"]["clock_offsets_us"][B] == [1e8, 100.0]


@pytest.mark.parametrize("seed", range(5))
def test_what_went_before_is_found_among_spans_that_overlap_nest_and_end_together(seed: int):
    """By looking at all of them, each time."""
    draw = random.Random(seed)
    kinds = ("op", "send", "recv", "wait") if seed % 2 else ("segment", "op", "send", "queue")
    spans = [span(draw.choice(kinds), f"s{i}", draw.choice((A, B)), start, start + draw.randrange(6))
             for i in range(120) for start in [draw.randrange(40)]]
    batch = Batch(spans)
    past = _Past(batch)
    leaves = sorted(past.leaves.tolist(), key=lambda place: (spans[place].end, spans[place].start))
    for place in leaves:
        own = [one for one in leaves if spans[one].task == spans[place].task]
        for moment in (spans[place].start, spans[place].end):
            before = [one for one in own if spans[one].end <= moment + _SLACK and one != place and spans[one].start < moment]
            last = before[-1] if before else None
            assert past.last(place, moment, place) == last
            under_way = [one for one in own if spans[one].end > moment + _SLACK and spans[one].start < moment
                         and spans[one].kind in ("op", "segment")]
            wanted = max(under_way, key=lambda one: spans[one].start) if under_way else last      # of equal ones the first
            assert past.left_from(place, moment, place) == wanted
        others = [one for one in leaves if spans[one].task != spans[place].task
                  and spans[one].kind not in ("recv", "wait", "queue")
                  and spans[place].start < spans[one].end <= spans[place].end + _SLACK]
        assert past.ended_last(place) == (others[-1] if others else None)


def test_the_critical_path_follows_the_message_to_its_sender():
    path = critical_path(CHAIN, 1)
    assert [(link.kind, link.name, round(link.start), round(link.end)) for link in path] == [
        ("work", "read", 0, 2),
        ("transfer", "w:0", 2, 4),
        ("gap", "", 4, 5),
        ("work", "matmul", 5, 9),
    ]
    assert explain(path) == "9 ms: 6 ms work, 2 ms transfer, 1 ms between spans; the longest link is matmul (4 ms)."


def test_what_is_under_way_when_a_message_leaves_is_the_path_before_it():
    spans = [
        span("segment", "short", A, 0, 2),
        span("segment", "long", A, 2, 10),
        span("send", "w:0", A, 6, 6.5, MESSAGE),
        span("recv", "w:0", B, 1, 8, MESSAGE),
        span("segment", "rest", B, 8, 12),
    ]
    assert [(link.kind, link.name, round(link.start), round(link.end)) for link in critical_path(spans, 1)] == [
        ("work", "short", 0, 2),
        ("work", "long", 2, 6),
        ("transfer", "w:0", 6, 8),
        ("work", "rest", 8, 12),
    ]


def test_a_barrier_leads_to_whoever_came_last():
    spans = [
        span("op", "quick", A, 0, 2),
        span("wait", "barrier", A, 2, 8),
        span("op", "slow", B, 0, 7),
        span("op", "apply", A, 8, 9),
    ]
    assert [link.name for link in critical_path(spans, 1)] == ["slow", "barrier", "apply"]


def test_links_of_a_path_follow_each_other():
    path = critical_path(fixtures.build(3, slow=1.5).spans_since()[2], 2)
    assert all(a.end == pytest.approx(b.start, abs=5e-3) for a, b in itertools.pairwise(path))
    assert {"/job:worker/task:1"} <= {link.task for link in path}


def test_no_spans_no_path():
    assert critical_path([], 0) == [] and explain([]) == "Nothing of this step was recorded."
    assert critical_path([Span("step", "s", A, "", 0, 0, 1, 1)], 1) == []


def test_spans_on_one_lane_nest_or_follow():
    placed = lanes(
        [
            span("segment", "s", A, 0, 10),
            span("op", "in", A, 2, 4),
            span("op", "across", A, 8, 12),
            span("op", "after", A, 12, 13),
        ]
    )
    assert [(s.name, lane) for lane, s in placed] == [("s", 0), ("in", 0), ("across", 1), ("after", 0)]


def test_operation_totals():
    totals = op_totals(
        [
            span("op", "m", A, 0, 2, detail="matmul"),
            span("op", "m", A, 3, 7),
            span("op", "n", A, 0, 1),
            span("op", "stuck", A, 5, 1),
        ]
    )
    assert [(t.name, t.count, round(t.total), round(t.longest), t.nbytes) for t in totals] == [
        ("m", 2, 6, 4, 16),
        ("n", 1, 1, 1, 8),
    ]
    assert totals[0].type == "matmul"


def test_operations_that_take_equally_long_stand_in_the_order_of_their_numbers():
    totals = op_totals([span("op", f"tower_{i}/conv", A, 0, 2) for i in (10, 2, 1, 11)])
    assert [t.name for t in totals] == [f"tower_{i}/conv" for i in (1, 2, 10, 11)]


def test_perfetto_export():
    journal = fixtures.build(3)
    journal.point("loss", 3, float("nan"))
    journal.span(Span("op", "stuck", A, "", 0, journal.origin + 2, 0.0, 2))
    document = to_chrome(journal.spans_since()[2], journal)
    events = json.loads(json.dumps(document, allow_nan=False))["traceEvents"]
    names = {(e["pid"], e["args"]["name"]) for e in events if e["name"] == "process_name"}
    assert names == {(1, "ps:0"), (2, "ps:1"), (3, "worker:0"), (4, "worker:1")}
    whole = next(e for e in events if e["ph"] == "X" and e["cat"] == "step")
    assert 4000 < whole["dur"] < 20_000 and whole["ts"] >= 0  # microseconds
    starts, ends = ({e["id"]: e for e in events if e["ph"] == phase} for phase in "sf")
    assert len(starts) == 3 * 8 and starts.keys() == ends.keys()
    assert all(starts[i]["ts"] <= ends[i]["ts"] and starts[i]["pid"] != ends[i]["pid"] for i in starts)
    assert [e["name"] for e in events if e["ph"] == "B"] == ["stuck"]


def test_chrome_lanes_nest_or_follow():
    events = to_chrome(fixtures.build(2).spans_since()[2], Journal(capacity=1))["traceEvents"]
    by_lane: dict = {}
    for e in events:
        if e["ph"] == "X":
            by_lane.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    for spans in by_lane.values():
        spans.sort(key=lambda s: (s[0], -s[1]))
        for a, b in itertools.pairwise(spans):
            assert b[0] >= a[1] - 0.01 or b[1] <= a[1] + 0.01
