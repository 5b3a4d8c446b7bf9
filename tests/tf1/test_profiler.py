"""tf.profiler: what a model holds and computes, by scopes, types and lines, with the times of a run."""
from __future__ import annotations

import pytest

import workbench.tf1 as tf


@pytest.fixture
def model():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 3], name="x")
        with tf.variable_scope("net"):
            tf.layers.dense(x, 5, name="first")
        tf.Variable(0, trainable=False, name="step")
        yield graph


def quiet(options):
    return tf.profiler.ProfileOptionBuilder(options).with_empty_output().build()


def test_parameters_are_counted_by_scopes(model, capsys):
    found = tf.profiler.profile(model, cmd="scope")
    assert found.total_parameters == 20 and found.name == "_TFProfRoot"
    assert [child.name for child in found.children] == ["net"]
    assert {n.name: n.parameters for n in found.children[0].children[0].children} == {
        "net/first/bias": 5, "net/first/kernel": 15}
    assert "net/first/kernel (params 15/15)" in capsys.readouterr().out


def test_arithmetic_is_counted_where_a_product_is_and_the_most_comes_first(model, capsys):
    builder = tf.profiler.ProfileOptionBuilder
    found = tf.profiler.profile(model, cmd="op", options=quiet(builder.float_operation()))
    assert found.children[0].name == "MatMul" and found.children[0].float_ops == 2 * 4 * 3 * 5
    lines = tf.profiler.profile(model, cmd="code", options=quiet(builder.float_operation()))
    assert lines.total_float_ops == found.total_float_ops and __file__ in lines.children[0].name
    assert capsys.readouterr().out == ""
    with pytest.raises(tf.errors.InvalidArgumentError, match="cmd is 'graph'; use scope, op, code"):
        tf.profiler.profile(model, cmd="graph")


def test_options_choose_what_is_shown_and_counted(model, tmp_path):
    options = (tf.profiler.ProfileOptionBuilder().with_accounted_types(["variable"]).with_node_names(hide_name_regexes=["step"])
               .with_min_parameters(10).account_displayed_op_only(True).select(["params"]).order_by("params")
               .with_max_depth(5).with_file_output(str(tmp_path / "profile.txt")).build())
    assert tf.profiler.profile(model, options=options).total_parameters == 15
    assert "net/first/kernel (params 15/15)" in (tmp_path / "profile.txt").read_text()


def test_the_times_of_a_run_and_what_takes_most_of_them(model):
    metadata = tf.RunMetadata()
    with tf.Session(graph=model) as session:
        session.run(tf.global_variables_initializer())
        session.run("net/first/BiasAdd:0", {"x:0": [[1.0, 2.0, 3.0]] * 4},
                    options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    profiler = tf.profiler.Profiler(model)
    profiler.add_step(1, metadata)
    builder = tf.profiler.ProfileOptionBuilder
    assert profiler.profile_operations(quiet(builder().build())).total_exec_micros > 0
    assert profiler.profile_name_scope(builder().with_step(7).with_empty_output().build()).total_exec_micros == 0
    assert list(tf.profiler.advise(model, metadata).checkers) == ["ExpensiveOperationChecker"]


def test_what_is_known_of_the_operations_is_written_and_read_back(model, tmp_path):
    tf.profiler.write_op_log(model, str(tmp_path))
    log = tf.profiler.OpLogProto.FromString((tmp_path / "tfprof_log").read_bytes())
    told = {entry.name: entry for entry in log.log_entries}
    assert told["net/first/kernel"].types == ["_trainable_variables"] and told["net/first/MatMul"].float_ops == 120
    told["net/first/MatMul"].float_ops = 7
    options = quiet(tf.profiler.ProfileOptionBuilder.float_operation())
    assert tf.profiler.profile(model, op_log=log, cmd="op", options=options).children[-1].float_ops == 7
