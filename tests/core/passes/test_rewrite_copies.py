"""A copied operation asks its rules again where an input stands for something of which more is known."""
from __future__ import annotations

import workbench as wb
from workbench.core.graph.check import verify
from workbench.core.graph.program import Program
from workbench.core.passes.algebra import algebra
from workbench.core.passes.cse import cse
from workbench.core.passes.pipeline import DEVICE_PASSES, PASSES
from workbench.core.passes.prune import prune
from workbench.core.passes.rewrite import copied, rewrite


def test_an_input_that_became_a_constant_tells_its_reader_more():
    with wb.Graph().as_default() as graph:
        size = wb.placeholder_with_default([2, 3], [2])
        y = wb.zeros([6, 1]) + wb.reshape(wb.placeholder("float32", [6]), size)[:1, :1]
        program = prune(graph, [y], [], {op.outputs[0]: op.outputs[0].shape for op in graph.get_operations()
                                         if op.type == "placeholder"})
    verify(algebra(program), "algebra")


def test_what_a_pass_leaves_alone_is_not_another_program():
    with wb.Graph().as_default() as graph:
        y = wb.tanh(wb.matmul(wb.placeholder("float32", [2, 3]), wb.placeholder("float32", [3, 2])))
        program = prune(graph, [y], [], {op.outputs[0]: op.outputs[0].shape for op in graph.get_operations()
                                         if op.type == "placeholder"})
    same, copy = rewrite(program, lambda op, inputs, state: None), copied(program)
    assert same is program
    assert copy is not program and [op.name for op in copy.graph.operations] == [op.name for op in program.graph.operations]


def model() -> Program:
    with wb.Graph().as_default() as graph:
        x = first = wb.placeholder("float32", [2, 3])
        for _ in range(20):
            x = wb.tanh(x + wb.square(x))
        return prune(graph, [x], [], {first: first.shape})


def test_nothing_is_copied_before_something_changes(monkeypatch):
    program, copies, adopt = model(), [], wb.Graph.adopt
    monkeypatch.setattr(wb.Graph, "adopt", lambda graph, op, *a, **k: copies.append(op) or adopt(graph, op, *a, **k))
    for name, function, _ in (*PASSES, *DEVICE_PASSES[:2]):
        assert function(program) is program and not copies, name


def test_a_change_at_the_end_is_made_in_a_graph_of_its_own():
    program = model()
    before = [op.name for op in program.graph.operations]

    def visit(op, inputs, state):
        return [state.create("sin", inputs, {}, op.name, op).outputs[0]] if op.outputs[0] in program.fetches else None
    new = rewrite(program, visit)
    verify(new, "test")
    assert [op.name for op in program.graph.operations] == before == [op.name for op in new.graph.operations]
    assert (program.fetches[0].op.type, new.fetches[0].op.type) == ("tanh", "sin")


def test_what_reads_a_shared_value_is_copied_without_asking_its_rules_again(monkeypatch):
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [2])
        a, b = (wb.reduce_sum(wb.exp(x)) for _ in range(2))
        program = prune(graph, [wb.tanh(a) + wb.sin(b) * b], [], {x: x.shape})
    asked: list[str] = []
    monkeypatch.setattr(wb.Graph, "infer", lambda graph, op, f=wb.Graph.infer: asked.append(op.name) or f(graph, op))
    assert len(cse(program).graph.operations) == len(program.graph.operations) - 2
    assert asked == []
