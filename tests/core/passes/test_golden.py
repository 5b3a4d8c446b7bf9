"""The text of real graphs before the passes, what each pass changes, and what is left in the end.

UPDATE_GOLDEN=1 writes the files anew; look at the difference before you commit them.
"""
from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

import workbench as wb
from tests.core.passes.programs import PROGRAMS
from workbench.core.graph.check import verify
from workbench.core.graph.program import Program
from workbench.core.graph.shape import Shape
from workbench.core.graph.text import to_text
from workbench.core.passes.pipeline import DEVICE_PASSES, PASSES
from workbench.core.passes.prune import prune
from workbench.core.passes.rewrite import rewrite

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def pruned(name: str) -> Program:
    with wb.Graph().as_default() as graph:
        fetches, feeds = PROGRAMS[name]()
    tensors = [f for f in fetches if isinstance(f, wb.Tensor)]
    targets = [f for f in fetches if not isinstance(f, wb.Tensor)]
    return prune(graph, tensors, targets, {t: Shape(s) for t, s in feeds.items()})


def story(program: Program) -> str:
    """The whole text, the lines each pass took away (-) and put in (+), and the whole text again."""
    verify(program, "prune")
    text = to_text(program)
    told = [f"== pruned ({text.count(chr(10)) - 1} operations)\n{text}"]
    for name, function, sentence in PASSES + DEVICE_PASSES:
        program = function(program)
        verify(program, name)
        before, text = text, to_text(program)
        changes = [line for line in difflib.unified_diff(before.splitlines(True), text.splitlines(True), n=0)
                   if line[:2] not in ("--", "++", "@@")]
        told.append(f"== {name}: {sentence}\n{''.join(changes)}")
    told.append(f"== run ({text.count(chr(10)) - 1} operations)\n{text}")
    return "\n".join(told)


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_after_each_pass(name):
    found, path = story(pruned(name)), GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(found, encoding="utf-8")
    expected = path.read_text(encoding="utf-8")
    if found != expected:
        diff = "".join(difflib.unified_diff(expected.splitlines(True), found.splitlines(True), f"golden/{path.name}",
                                            "now", n=1))
        pytest.fail(f"the graph of {name} changed; if it should, run UPDATE_GOLDEN=1 pytest {__name__}\n{diff}")


def live_text(program: Program) -> str:
    """Without what nothing needs any more: each pass leaves that to the next."""
    return to_text(rewrite(program, lambda op, inputs, state: None))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_pass_run_twice_changes_nothing_more(name):
    program = pruned(name)
    for title, function, _ in PASSES + DEVICE_PASSES:
        program = function(program)
        assert live_text(function(program)) == live_text(program), f"{title} is not idempotent"


@pytest.mark.parametrize("name", PROGRAMS)
def test_passes_leave_the_graph_they_are_given_alone(name):
    program = pruned(name)
    for _, function, _ in PASSES + DEVICE_PASSES:
        before, count = to_text(program), len(program.graph.operations)
        after = function(program)
        assert to_text(program) == before and len(program.graph.operations) == count
        program = after
