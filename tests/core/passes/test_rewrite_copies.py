"""A copied operation asks its rules again where an input stands for something of which more is known."""
from __future__ import annotations

import workbench as wb
from workbench.core.graph.check import verify
from workbench.core.passes.algebra import algebra
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
