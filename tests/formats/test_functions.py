"""Functions in the library of a GraphDef: calls become copies, whatever a function reads, returns or does besides."""
from __future__ import annotations

import pytest

import workbench.tf1 as tf
from tests.formats.test_graphs import ran
from workbench import errors
from workbench.formats.messages import message, parse_text
from workbench.nn.functions import Defun

FLOATS = "attr { key: 'T' value { type: DT_FLOAT } }"
ARGUMENT = "input_arg { name: '%s' type: DT_FLOAT }"
RESULT = "output_arg { name: '%s' type: DT_FLOAT }"
SQUARE = f"""library {{ function {{
    signature {{ name: 'square' {ARGUMENT % 'x'} {RESULT % 'y'} }}
    node_def {{ name: 'mul' op: 'Mul' input: 'x' input: 'x' {FLOATS} }}
    ret {{ key: 'y' value: 'mul:z:0' }} }} }}"""
SCALAR = "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'shape' value { shape { } } }"
X = f"node {{ name: 'x' op: 'Placeholder' {SCALAR} }}"


def graph(*texts: str):
    whole = message("GraphDef")()
    for text in texts:
        whole.MergeFrom(parse_text("GraphDef", text, "test"))
    return whole


def node(name: str, op: str, *inputs: str, attrs: str = FLOATS) -> str:
    return f"node {{ name: '{name}' op: '{op}' {' '.join(f'''input: '{one}' ''' for one in inputs)} {attrs} }}"


def function(name: str, arguments: str, results: dict[str, str], *nodes: str, more: str = "") -> str:
    taken = " ".join(ARGUMENT % one for one in arguments.split())
    given = " ".join(RESULT % one for one in results)
    body = " ".join(one.replace("node {", "node_def {", 1) for one in nodes)
    ret = " ".join(f"ret {{ key: '{key}' value: '{value}' }}" for key, value in results.items())
    return f"library {{ function {{ signature {{ name: '{name}' {taken} {given} {more} }} {body} {ret} }} }}"


def test_a_call_computes_what_the_function_says_with_gradients_and_under_its_name():
    proto = graph(SQUARE + X + node("call", "square", "x") + node("y", "Add", "call", "x"))
    assert ran(proto, ["call:0", "y:0"], {"x:0": 3}) == [9, 12]
    with tf.Graph().as_default() as made, tf.Session(graph=made) as session:
        tf.import_graph_def(proto, name="")
        x, y = made.get_tensor_by_name("x:0"), made.get_tensor_by_name("y:0")
        assert session.run(tf.gradients(y, x), {x: 3}) == [7]
        assert "call/mul" in {op.name for op in made.get_operations()}


@pytest.mark.parametrize("op", ["PartitionedCall", "StatefulPartitionedCall"])
def test_a_call_may_name_its_function_in_an_attribute_and_functions_call_functions(op):
    named = "attr { key: 'f' value { func { name: '%s' } } }"
    fourth = function("fourth", "x", {"y": "outer:output:0"}, node("inner", "square", "x"),
                      node("outer", op, "inner:y:0", attrs=named % "square"))
    assert ran(graph(SQUARE, fourth + X + node("call", op, "x", attrs=named % "fourth")), "call:0", {"x:0": 2}) == 16


def test_outputs_are_known_by_their_names():
    body = function("best", "x", {"worst": "top:values:0", "where": "cast:y:0"},
                    node("one", "Const", attrs="attr { key: 'dtype' value { type: DT_INT32 } } attr { key: 'value' value { "
                         "tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 } } }"),
                    node("top", "TopKV2", "x", "one:output:0"),
                    node("cast", "Cast", "top:indices:0", attrs="attr { key: 'SrcT' value { type: DT_INT32 } } "
                         "attr { key: 'DstT' value { type: DT_FLOAT } }"))
    row = X.replace("shape { }", "shape { dim { size: 3 } }")
    values, where = ran(graph(body + row + node("call", "best", "x")), ["call:0", "call:1"], {"x:0": [1, 5, 2]})
    assert values.tolist() == [5] and where.tolist() == [1]


def test_what_a_function_does_besides_happens_before_who_reads_it():
    handle = "attr { key: 'dtype' value { type: DT_FLOAT } }"
    count = ("library { function { signature { name: 'count' input_arg { name: 'v' type: DT_RESOURCE } "
             "input_arg { name: 'x' type: DT_FLOAT } output_arg { name: 'y' type: DT_FLOAT } is_stateful: true } "
             + node("add", "AssignAddVariableOp", "v", "x", attrs=handle).replace("node {", "node_def {")
             + "ret { key: 'y' value: 'x' } } }")
    proto = graph(count + X + node("v", "VarHandleOp", attrs=SCALAR) + node("start", "AssignVariableOp", "v", "x", attrs=handle)
                  + node("call", "count", "v", "x") + node("read", "ReadVariableOp", "v", "^call", attrs=handle))
    with tf.Graph().as_default() as made, tf.Session(graph=made) as session:
        tf.import_graph_def(proto, name="")
        session.run("start", {"x:0": 2})
        assert session.run("read:0", {"x:0": 3}) == 5 and session.run("call:0", {"x:0": 1}) == 1
        assert session.run("read:0", {"x:0": 0}) == 6


def test_a_gradient_is_the_function_that_the_library_names():
    slope = function("slope", "x dy", {"dx": "mul:z:0"}, node("mul", "Mul", "x", "dy"))
    named = "library { gradient { function_name: 'square' gradient_func: 'slope' } }"
    call = node("dx", "SymbolicGradient", "x", "x", attrs="attr { key: 'f' value { func { name: 'square' } } }")
    assert ran(graph(SQUARE, slope, named + X + call), "dx:0", {"x:0": 3}) == 9
    assert ran(graph(SQUARE + X + call.replace("attr {", "attr { key: 'Tout' value { list { type: DT_FLOAT } } } attr {", 1)),
               "dx:0", {"x:0": 3}) == 18      # none is named: 2 x dy


@pytest.mark.parametrize(("text", "message"), [
    (function("f", "x", {"y": "again:y:0"}, node("again", "f", "x")) + X + node("call", "f", "x"), "'f' calls itself"),
    (SQUARE + X + node("call", "square"), "with 0 arguments, but it takes 1"),
    (X + node("call", "PartitionedCall", "x", attrs="attr { key: 'f' value { func { name: 'gone' } } }"), "not in the library"),
    (function("f", "x", {"y": "gone:z:0"}) + X + node("call", "f", "x"), "there is no node 'gone'"),
    (function("f", "x", {"y": "mul:z:0"}, node("mul", "Mul", "x", "x", attrs="attr { key: 'T' value { placeholder: 'U' } }"))
     + X + node("call", "f", "x"), "leaves 'T' open as 'U'"),
])
def test_a_library_that_does_not_fit_is_one_error(text, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        ran(graph(text), "call:0", {"x:0": 3})


def test_outputs_without_a_known_place_and_lists_of_arguments_are_refused():
    body = function("f", "x", {"y": "two:far:0"}, node("two", "Unique", "x"))
    with pytest.raises(errors.UnimplementedError, match="output 'far' of 'two'"):
        ran(graph(body + X + node("call", "f", "x")), "call:0", {"x:0": 3})
    listed = SQUARE.replace("name: 'x' type: DT_FLOAT", "name: 'x' type: DT_FLOAT number_attr: 'N'")
    with pytest.raises(errors.UnimplementedError, match="arguments are lists"):
        ran(graph(listed + X + node("call", "square", "x")), "call:0", {"x:0": 3})


# functions of ours in a library

def test_functions_are_written_with_their_calls_and_read_again():
    """With a capture, an inner call, a branch, a gradient of its own, and one that follows from it."""
    with tf.Graph().as_default() as whole:
        scale = tf.get_variable("scale", initializer=3.0)

        @Defun(tf.float32, tf.float32, func_name="slope")
        def slope(x, dy):
            return dy * 100.0

        @Defun(tf.float32, func_name="twice", grad_func=slope, noinline=True)
        def twice(x):
            """Two of them."""
            return x + x

        @Defun(tf.float32, func_name="both", out_names=["large", "small"])
        def both(x):
            return twice(x) * scale, tf.cond(x > 0.0, lambda: x - 1.0, lambda: x * scale)

        x = tf.placeholder(tf.float32, [], name="x")
        large, small = both(x)
        names = [t.name for t in (large, small, *tf.gradients([large, small], [x, scale]))]
        start, proto = tf.global_variables_initializer().name, whole.as_graph_def()
        again = whole.as_graph_def()
        assert (large.op.type, large.op.name, large.op.node_def.op) == ("both", "both", "both")
        with tf.Session() as session:
            session.run(start)
            wanted = [session.run(names, {x: value}) for value in (2.0, -2.0)]
    assert wanted[0] == [12, 1, 301, 4]
    library = {function.signature.name: function for function in proto.library.function}
    assert [arg.name for arg in library["both"].signature.output_arg] == ["large", "small"]
    assert library["twice"].signature.description == "Two of them." and library["twice"].attr["_noinline"].b
    assert library["twice"].node_def[0].input == ["x", "x"] and library["twice"].ret == {"add": "add:z:0"}
    assert [(one.function_name, one.gradient_func) for one in proto.library.gradient] == [("twice", "slope")]
    assert again.SerializeToString() == proto.SerializeToString()
    assert [ran(proto, names, {"x:0": value}, [start]) for value in (2.0, -2.0)] == wanted


def test_what_a_library_cannot_hold_is_written_as_what_it_does():
    with tf.Graph().as_default() as whole:
        @Defun(tf.float32, func_name="odd")
        def odd(x):
            return tf.spectral.dct(x)
        odd(tf.placeholder(tf.float32, [4], name="x"), name="y")
        proto = whole.as_graph_def()
        assert whole._is_function("odd") and whole._get_function("odd") is odd and not whole._is_function("even")
        assert [*whole._functions] == ["odd"]
    assert not proto.library.function and {node.name for node in proto.node} > {"x", "y"}


def test_a_function_says_what_it_is():
    @Defun(tf.float32, tf.int32, func_name="power")
    def power(x, n):
        return x ** tf.cast(n, tf.float32)
    with tf.Graph().as_default():
        signature = power.definition.signature
        assert [(arg.name, arg.type) for arg in signature.input_arg] == [("x", 1), ("n", 3)]
        assert power.declared_input_types == (tf.float32, tf.int32) and power.grad_func_name is None
        assert not signature.is_stateful and power.stateful_ops == [] and power.captured_inputs == []


def test_what_a_function_starts_by_itself_runs_in_the_frame_of_its_call():
    """Numbers drawn, and a variable read, in a function that a loop calls: anew in each iteration."""
    with tf.Graph().as_default() as whole:
        kept = tf.get_variable("kept", initializer=2.0)

        @Defun(tf.float32, func_name="drawn")
        def drawn(x):
            return tf.cond(x > 5.0, lambda: x + kept, lambda: x + tf.reduce_sum(tf.random_uniform([2], 1.0, 2.0)))
        x = tf.placeholder(tf.float32, [], name="x")
        ends = tf.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, drawn(v)), [0, x])
        tf.identity(ends[1], name="y")
        start, proto = tf.global_variables_initializer().name, whole.as_graph_def()
    assert [function.signature.name for function in proto.library.function] == ["drawn"]
    assert ran(proto, "y:0", {"x:0": 6.0}, [start]) == 14
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(proto, name="")
        session.run(start)
        found = [float(session.run("y:0", {"x:0": -20.0})) for _ in range(2)]
    assert all(-12 < value < -4 for value in found) and found[0] != found[1]
