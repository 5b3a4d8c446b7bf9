"""Time stamps of traced steps: loops leave one record per line and one for themselves."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.core.compile.test_plan import plan_of
from workbench.core.compile.instance import Instance
from workbench.core.state.container import Container
from workbench.core.trace import Journal

pytestmark = pytest.mark.usefixtures("graph")
CPU = "/job:localhost/task:0/device:CPU:0"


def spans_of(fetch, feeds=(), values=()):
    instance = Instance(plan_of(fetch, feeds=list(feeds)), Container(), CPU, traced=True)
    journal = Journal(capacity=100_000)
    instance.run(*values)
    instance.operation_spans(0, journal)
    return journal.spans_since()[2]


def counting(turns, name="loop"):
    return wb.while_loop(lambda i: wb.less(i, np.int64(turns)), lambda i: wb.add(i, np.int64(1)), [np.int64(0)], name=name)


def test_records_of_a_loop_do_not_grow_with_its_turns():
    few, many = spans_of(counting(10)), spans_of(counting(20_000))
    assert len(many) == len(few) < 20


def test_the_loop_itself_is_an_operation_with_its_turns_and_its_lines_are_parts_of_it():
    spans = {s.name: s for s in spans_of(counting(500))}
    whole = next(s for s in spans.values() if s.detail == "while")
    lines = [s for s in spans.values() if s.kind == "loop"]
    assert whole.kind == "op" and whole.turns == 500 and whole.name == "loop"
    assert {s.turns for s in lines} == {500, 501}
    assert all(whole.start <= s.start and s.end <= whole.end and 0 < s.longest <= s.total for s in lines)
    assert sum(s.total for s in lines) <= whole.end - whole.start


def test_a_loop_in_a_loop_adds_up():
    def body(i):
        inner = counting(7, name="inner")
        return wb.add(i, wb.floordiv(inner, inner))
    spans = spans_of(wb.while_loop(lambda i: wb.less(i, np.int64(5)), body, [np.int64(0)], name="outer"))
    whiles = {s.name.rpartition("/")[2]: s for s in spans if s.detail == "while"}
    assert (whiles["outer"].kind, whiles["outer"].turns) == ("op", 5)
    assert (whiles["inner"].kind, whiles["inner"].turns) == ("loop", 35)
