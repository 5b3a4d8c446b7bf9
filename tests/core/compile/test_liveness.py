"""Random programs with loops and branches over shared buffers: compiled, taken apart and interpreted alike."""
from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.core.flow_evaluator import evaluate
from workbench.core.run.session import Session

SIZE = 3      # all tensors are SIZE x SIZE, so that any may stand for any
BINARY = ("matmul", "add", "subtract", "maximum")
UNARY = ("transpose", "tanh", "identity", "reshape", "negative", "view")
line = st.tuples(st.sampled_from((*BINARY, "matmul", *UNARY)), st.integers(0, 20), st.integers(0, 20))
lines = st.lists(line, min_size=1, max_size=5)


@st.composite
def flows(draw: Any) -> Any:
    """Lines before, structures (loop or branch, with lines inside and results picked), lines after."""
    structures = draw(st.lists(st.tuples(
        st.sampled_from(["loop", "branch", "branch in loop", "loop in loop"]), lines, lines,
        st.lists(st.integers(0, 20), min_size=2, max_size=2), st.integers(0, 3)), min_size=1, max_size=2))
    return draw(lines), structures, draw(lines), draw(st.lists(st.integers(0, 20), min_size=1, max_size=3))


PLACED = False      # on: lines go to one of three devices, by their numbers


def extend(known: list[Any], steps: Any) -> list[Any]:
    known = list(known)
    for kind, a, b in steps:
        with wb.device(f"/cpu:{(a + b) % 3}" if PLACED else None):
            known.append(one_line(kind, known[-1 - a % len(known)], known[-1 - b % len(known)]))
    return known


def one_line(kind: str, x: Any, y: Any) -> Any:
    if kind in BINARY:
        return wb.tanh(getattr(wb, kind)(x, y)) if kind != "matmul" else wb.tanh(wb.matmul(x, y) * 0.4 + 0.3)
    if kind == "reshape":
        return wb.reshape(wb.reshape(x, [SIZE * SIZE]), [SIZE, SIZE])
    if kind == "view":
        return wb.reshape(wb.matmul(x, x) * 0.3 + 0.2, [SIZE, SIZE])
    return getattr(wb, kind)(x)


def pick(known: list[Any], which: int) -> Any:
    return known[-1 - which % len(known)]


def structure(kind: str, known: list[Any], inner: Any, other: Any, results: Any, count: int, n: Any) -> list[Any]:
    def branch(i: Any, before: list[Any]) -> list[Any]:
        return wb.cond(wb.equal(i % 2, 0), lambda: [pick(extend(before, inner), r) for r in results],
                       lambda: [pick(extend(before, other), r + 1) for r in results])

    def body(i: Any, a: Any, b: Any) -> list[Any]:
        before = [*known[:4], a, b]
        if kind == "branch in loop":
            return [i + 1, *branch(i, before)]
        if kind == "loop in loop":
            deeper = wb.while_loop(lambda j, c: j < 2, lambda j, c: (j + 1, pick(extend([*before, c], other), results[0])),
                                   [0, a])[1]
            return [i + 1, *(pick(extend([*before, deeper], inner), r) for r in results)]
        return [i + 1, *(pick(extend(before, inner), r) for r in results)]
    if kind == "branch":
        return branch(n, known)
    return wb.while_loop(lambda i, a, b: i < n + count, body, [0, pick(known, results[0]), pick(known, results[1])])[1:]


def built(flow: Any, number: int) -> tuple[wb.Graph, list[Any], dict[Any, Any]]:
    before, structures, after, fetched = flow
    with wb.Graph().as_default() as graph:
        x, n = wb.placeholder("float32", [SIZE, SIZE]), wb.placeholder("int32", [])
        known = extend([x], before)
        for kind, inner, other, results, count in structures:
            known += structure(kind, known, inner, other, results, count, n)
            known = extend(known, after)
        fetches = list(dict.fromkeys(pick(known, f) for f in fetched))
    value = np.random.default_rng(0).uniform(-1, 1, (SIZE, SIZE)).astype(np.float32)
    return graph, fetches, {x: value, n: np.array(number, np.int32)}


def agrees(graph: wb.Graph, fetches: list[Any], feeds: Any, expected: list[Any], **options: Any) -> None:
    with Session(graph=graph, **options) as s:
        for _ in range(2):
            for found, wanted in zip(s.run(fetches, feeds), expected, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=str(options))


@settings(max_examples=40, deadline=None)
@given(flows(), st.integers(0, 2))
def test_compiled_taken_apart_and_interpreted_agree(flow, number):
    graph, fetches, feeds = built(flow, number)
    expected = evaluate(graph, feeds, fetches)
    for options in ({}, {"lower_all": True}, {"disabled_passes": ("fold", "algebra", "cse", "fuse")}):
        agrees(graph, fetches, feeds, expected, **options)


@settings(max_examples=25, deadline=None)
@given(flows(), st.integers(0, 2))
def test_loops_and_branches_across_devices_agree(flow, number):
    global PLACED
    PLACED = True
    try:
        graph, fetches, feeds = built(flow, number)
    finally:
        PLACED = False
    agrees(graph, fetches, feeds, evaluate(graph, feeds, fetches), devices=3)
