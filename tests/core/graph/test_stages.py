"""What views are told of a program's way: a record per stage, whole until it is split, then all shares side by side."""
from __future__ import annotations

import tracemalloc

import numpy as np

import workbench as wb
from workbench.core.graph.program import Program
from workbench.core.graph.stages import GIVEN, Stages
from workbench.core.passes.pipeline import DEVICE_PASSES, PASSES
from workbench.core.passes.prune import prune
from workbench.core.passes.rewrite import copied
from workbench.core.rings import bytes_of_nodes
from workbench.core.trace import GraphRecord, Journal, journal
from workbench.nn.functions import Defun
from workbench.train.config import RunOptions


def stages_of(session: wb.Session) -> dict[str, GraphRecord]:
    """The stages of the session's first executable, by name."""
    return {record.stage: record for record in journal.graphs_since()[2] if record.key == f"{session.name}_0"}


def test_every_stage_of_a_program_on_two_devices_is_recorded():
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [100, 100], name="x")
        with wb.device("/cpu:1"):
            y = wb.tanh(x * 2.0 + 1.0, name="y")
        with wb.device("/cpu:0"):
            z = wb.sqrt(wb.exp(y) + 2.0, name="z")
        with wb.Session(graph=graph, devices=2) as session:
            session.run(z, {x: np.ones((100, 100), np.float32)})
            stages = stages_of(session)
    assert list(stages) == ["built", *(name for name, _, _ in PASSES), "placed", "partition",
                            *(name for name, _, _ in DEVICE_PASSES)]
    assert [stage for stage, record in stages.items() if record.split] == [
        "partition", *(name for name, _, _ in DEVICE_PASSES)]
    assert all(record.note.endswith(".") for record in stages.values())
    shares = stages["partition"].nodes
    assert {node.device for node in shares} == {f"/job:localhost/task:0/device:CPU:{i}" for i in (0, 1)}
    ends = [node for node in shares if node.type in ("send", "receive")]
    assert sorted(node.type for node in ends) == ["receive", "send"]
    assert {node.message for node in ends} == {"|".join(["y:0", *(f"/job:localhost/task:0/device:CPU:{i}" for i in (1, 0))])}
    assert [node.type for node in stages["fuse"].nodes].count("fused") == 2


def test_a_name_that_two_devices_have_names_its_device_and_inputs_follow():
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [], name="x")
        with wb.device("/cpu:1"):
            y = wb.sin(x, name="y")
        with wb.device("/cpu:0"):
            z = wb.cos(x, name="z")
        with wb.Session(graph=graph, devices=2) as session:
            session.run([y, z], {x: 1.0})
            nodes = {node.name: node for node in stages_of(session)["partition"].nodes}
    fed = [name for name in nodes if name.startswith("x")]
    assert sorted(fed) == [f"x on /job:localhost/task:0/device:CPU:{i}" for i in (0, 1)]
    assert nodes["y"].inputs == ("x on /job:localhost/task:0/device:CPU:1:0",)
    assert nodes["z"].inputs == ("x on /job:localhost/task:0/device:CPU:0:0",)


def test_the_bodies_of_loops_and_branches_are_recorded_under_the_names_that_running_steps_tell():
    with wb.Graph().as_default() as graph, wb.Session(graph=graph) as session:
        x = wb.placeholder("float32", [4, 4], name="x")
        step = lambda i, m: (i + 1, wb.cond(i > 2, lambda: wb.tanh(m @ m), lambda: m))      # noqa: E731
        out = wb.while_loop(lambda i, m: i < 5, step, [0, x])
        cursor = journal.spans_since()[0]
        session.run(out, {x: np.ones((4, 4), np.float32)}, options=RunOptions(trace_level=RunOptions.FULL_TRACE))
        stages = stages_of(session)
    told = {span.name for span in journal.spans_since(cursor)[2] if span.kind in ("op", "loop")}
    assert {"while", "while/cond/less", "while/body/add", "while/body/cond/then/tanh"} <= told
    for stage in ("built", "placed", "partition"):
        nodes = {node.name: node for node in stages[stage].nodes}
        assert told <= set(nodes), stage
        assert nodes["while/body/cond/then/tanh"].inputs == ("while/body/cond/then/matmul:0",)
        given = nodes[next(name for name, node in nodes.items() if name.startswith("while/body/") and node.type == GIVEN)]
        assert given.control == ("while",) and not given.inputs
        assert all(node.device == nodes["while"].device for name, node in nodes.items() if name.startswith("while/"))
        assert all(text.rpartition(":")[0] in nodes for node in nodes.values() for text in node.inputs)
    assert [node.type for node in stages["built"].nodes].count("argument") == 1, "what is fed is told from what a body is given"


def test_the_body_of_a_function_is_recorded_below_each_of_its_calls():
    with wb.Graph().as_default() as graph, wb.Session(graph=graph) as session:
        square = Defun(wb.float32, func_name="square")(lambda m: wb.tanh(m @ m))
        x = wb.placeholder("float32", [4, 4], name="x")
        out = wb.while_loop(lambda i, m: i < 2, lambda i, m: (i + 1, square(m)), [0, square(square(x))])
        cursor = journal.spans_since()[0]
        session.run(out, {x: np.ones((4, 4), np.float32)}, options=RunOptions(trace_level=RunOptions.FULL_TRACE))
        stages = stages_of(session)
    told = {span.name for span in journal.spans_since(cursor)[2] if span.kind in ("op", "loop")}
    bodies = {f"{call}/{op}" for call in ("square", "square_1", "while/body/square") for op in ("matmul", "tanh")}
    for stage in ("built", "partition"):
        names = {node.name: node.type for node in stages[stage].nodes}
        assert bodies <= told <= set(names) and "call" not in names.values(), stage


def chain(length: int) -> Program:
    with wb.Graph().as_default():
        x = y = wb.placeholder("float32", [8], name="x")
        for i in range(length):
            with wb.name_scope(f"layer_{i}"):
                y = wb.tanh(y + x)
        return prune(y.graph, [y], [], {x: x.shape})


def again(program: Program) -> Program:
    """The same, all of it copied, as a pass leaves it that found nothing."""
    return copied(program)


def test_what_a_pass_left_alone_is_kept_once():
    stages, program = Stages("s_0", ()), chain(100)
    first, second = stages.whole("built", "A.", program), stages.whole("fold", "B.", again(program))
    assert len(second.nodes) == len(first.nodes) == 201
    assert all(a is b for a, b in zip(first.nodes, second.nodes)) and second.nbytes == 8 * 202
    moved = stages.whole("placed", "C.", program, {op.name: "/cpu:0" for op in program.graph.operations})
    assert {node.device for node in moved.nodes} == {"/cpu:0"} and moved.nbytes < first.nbytes
    assert all(a.inputs is b.inputs and a.outputs is b.outputs for a, b in zip(first.nodes, moved.nodes))


def test_a_stage_of_the_same_program_is_one_reference_and_a_device_is_news():
    stages, program = Stages("s_0", ()), chain(10)
    first, second = stages.whole("fold", "A.", program), stages.whole("stable", "B.", program)
    assert second.nodes is first.nodes and (second.stage, second.note, second.nbytes) == ("stable", "B.", 8)
    placed = stages.whole("placed", "C.", program, {op.name: "/cpu:0" for op in program.graph.operations})
    assert placed.nodes is not first.nodes and {node.device for node in placed.nodes} == {"/cpu:0"}
    shares = [stages.side_by_side(name, "D.", [("/cpu:0", program)]) for name in ("partition", "join")]
    assert shares[1].nodes is shares[0].nodes and all(a is b for a, b in zip(placed.nodes, shares[0].nodes))


def test_ten_stages_take_little_more_memory_than_one_and_say_how_much():
    program = chain(1000)
    copies = [again(program) for _ in range(9)]
    tracemalloc.start()
    try:
        stages, journal = Stages("s_0", ()), Journal(graph_bytes=1 << 30)
        journal.graph(stages.whole("built", "A.", program))
        one = tracemalloc.get_traced_memory()[0]
        for number, copy in enumerate(copies):
            journal.graph(stages.whole(f"pass_{number}", "B.", copy))
        del stages
        ten = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert ten < 1.5 * one
    said = sum(record.nbytes for record in journal.graphs_since()[2])
    assert ten / 2 < said < ten * 2


def test_the_journal_keeps_graphs_by_their_bytes_and_executables_as_a_whole():
    journal = Journal(graph_bytes=0)
    for number, key in enumerate(("s_0", "s_1")):
        stages, program = Stages(key, ()), chain(10 + number)
        for stage in ("built", "fold"):
            journal.graph(stages.whole(stage, "A.", program))
    after, lost, kept = journal.graphs_since()
    assert (after, lost, [(r.key, r.stage) for r in kept]) == (4, 2, [("s_1", "built"), ("s_1", "fold")])
    journal.graph_bytes = 5 * sum(r.nbytes for r in kept)
    for number in range(2, 6):
        journal.graph(Stages(f"s_{number}", ()).whole("built", "A.", chain(10 + number)))
    assert [r.key for r in journal.graphs_since(4)[2]] == ["s_2", "s_3", "s_4", "s_5"]
    assert journal.graphs_since()[1] == 4, "s_1 went with both its stages"


def test_a_graph_that_is_built_again_costs_its_records_alone():
    """What a notebook cell does that is run again: as many graphs as before are kept, whose nodes are there once."""
    first = Stages("s_0", ()).whole("built", "A.", chain(100))
    journal = Journal(graph_bytes=2 * first.nbytes)
    for number in range(30):
        stages, program = Stages(f"s_{number}", ()), chain(100)
        for stage, made in (("built", program), ("fold", again(program)), ("stable", program)):
            journal.graph(stages.whole(stage, "A.", made))
    _, lost, kept = journal.graphs_since()
    assert lost == 0 and [record.key for record in kept[::3]] == [f"s_{number}" for number in range(30)]
    assert len({id(record.nodes) for record in kept}) == 1 and kept[0].nodes == first.nodes


def test_shared_nodes_are_counted_until_the_last_record_of_them_goes():
    def whole(key: str, length: int) -> GraphRecord:
        return Stages(key, ()).whole("built", "A.", chain(length))
    journal = Journal(graph_bytes=int(2.5 * whole("", 52).nbytes))
    for key, length in (("s_0", 50), ("s_1", 50), ("s_2", 51), ("s_3", 52)):
        journal.graph(whole(key, length))
    assert [record.key for record in journal.graphs_since()[2]] == ["s_2", "s_3"]


def test_records_tell_attributes_and_for_whose_gradient_an_operation_was_made_through_every_stage():
    @Defun("float32")
    def squashed(a):
        return wb.tanh(a, name="inner")

    with wb.Graph().as_default() as graph, wb.Session(graph=graph) as session:
        x = wb.placeholder("float32", [2, 3], name="x")
        with wb.name_scope("model"):
            product = wb.matmul(x, wb.constant(np.ones((4, 3), np.float32)), transpose_b=True, name="product")
        slope = wb.gradients(wb.reduce_sum(squashed(wb.sin(product, name="sin"))), x)[0]
        session.run(slope, {x: np.ones((2, 3), np.float32)})
        stages = stages_of(session)
    for stage in ("built", "stable", "placed"):
        nodes = {node.name: node for node in stages[stage].nodes}
        assert nodes["model/product"].attributes == "transpose_a false, transpose_b true"
        made = {node.name for node in nodes.values() if node.gradient_of == "model/product"}
        assert made and all(name.startswith("gradients/model/product_grad/") for name in made)
        assert not any(nodes[name].gradient_of for name in ("model/product", "sin", "x"))
        assert {node.gradient_of for node in nodes.values() if "_grad/" in node.name} >= {"model/product", "sin"}


def test_what_a_function_differentiates_within_goes_by_the_names_that_its_operations_get_where_it_is_called():
    @Defun("float32")
    def slope(a):
        return wb.gradients(wb.exp(a * a, name="inner"), a)[0]

    with wb.Graph().as_default() as graph, wb.Session(graph=graph) as session:
        x = wb.placeholder("float32", [3], name="x")
        session.run(slope(x, name="call"), {x: np.ones(3, np.float32)})
        nodes = {node.name: node for node in stages_of(session)["built"].nodes}
    of = {node.gradient_of for node in nodes.values() if node.gradient_of}
    assert of and of <= set(nodes) and all(name.startswith("call/") for name in of)


def test_an_attribute_that_a_pass_changed_makes_another_record_and_equal_texts_are_kept_and_counted_once():
    with wb.Graph().as_default():
        x = wb.placeholder("float32", [4, 4], name="x")
        y = [wb.matmul(x, x, transpose_b=True, name=f"product_{i}") for i in range(20)]
        program = prune(x.graph, y, [], {x: x.shape})
    stages, changed = Stages("s_0", ()), again(program)
    first = stages.whole("built", "A.", program)
    texts = [node.attributes for node in first.nodes if node.type == "matmul"]
    assert len(texts) == 20 and all(text is texts[0] for text in texts)
    assert first.nbytes == bytes_of_nodes(first.nodes) + 8 * 22
    changed.graph.operation("product_3").attrs = {"transpose_a": True, "transpose_b": True}
    second = stages.whole("algebra", "B.", changed)
    fresh = {node.name: node.attributes for node in second.nodes if node not in first.nodes}
    assert fresh == {"product_3": "transpose_a true, transpose_b true"}
