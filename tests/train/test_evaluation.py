"""Checkpoints are evaluated once or as they come; sessions are told of by hooks, listeners and scaffolds."""
from __future__ import annotations

import json

import numpy as np
import pytest

import workbench as wb
from workbench import errors, train
from workbench.train.input import prefetch
from workbench.train.saving import inspection
from workbench.train.sessions import evaluation
from workbench.train.sessions.hooks_more import ProfilerHook
from workbench.train.sessions.managers import ChiefSessionCreator, SessionManager, SingularMonitoredSession

pytestmark = pytest.mark.usefixtures("graph")


def saved(folder, value, step):
    with wb.Graph().as_default(), wb.Session() as session:
        w = wb.Variable(value, name="w")
        session.run(wb.variables_initializer([w]))
        return train.Saver().save(session, folder / "model", global_step=step)


def test_a_checkpoint_is_evaluated_once(tmp_path):
    path = saved(tmp_path, 3.0, 1)
    w, seen = wb.Variable(0.0, name="w"), wb.Variable(0, name="seen", collections=["local_variables"])
    wb.summary.scalar("w", w)
    found = evaluation.slim_evaluate_once("", path, tmp_path / "logs", num_evals=4, eval_op=seen.assign_add(1),
                                          final_op=[w, seen])
    assert found == [3.0, 4] and any((tmp_path / "logs").iterdir())
    wanted = evaluation.evaluate_once(path, eval_ops=seen.assign_add(1), final_ops=w,
                                      hooks=[evaluation.StopAfterNEvalsHook(2)])
    assert wanted == 3.0


def test_new_checkpoints_are_evaluated_as_they_come(tmp_path):
    saved(tmp_path, 3.0, 1)
    w = wb.Variable(0.0, name="w")
    seen = []

    def over():
        if len(seen) == 1:
            seen.append(saved(tmp_path, 4.0, 2))
            return False
        return True

    class Log(train.SessionRunHook):
        def end(self, session):
            seen.append(float(session.run(w)))

    last = evaluation.evaluate_repeatedly(tmp_path, final_ops=w, hooks=[Log()], eval_interval_secs=0, timeout=0,
                                          timeout_fn=over)
    assert last == 4.0 and [x for x in seen if isinstance(x, float)] == [3.0, 4.0]
    assert evaluation.slim_evaluation_loop("", tmp_path, tmp_path / "logs", final_op=w, max_number_of_evaluations=1,
                                           eval_interval_secs=0, variables_to_restore=[w]) == 4.0
    assert evaluation.wait_for_new_checkpoint(tmp_path, train.latest_checkpoint(tmp_path), timeout=0) is None


def test_a_session_restores_one_checkpoint(tmp_path):
    path = saved(tmp_path, 5.0, 1)
    w = wb.Variable(0.0, name="w")
    with SingularMonitoredSession(checkpoint_filename_with_path=path) as session:
        assert session.raw_session().run(w) == 5.0
    with pytest.raises(errors.InvalidArgumentError, match="Can not provide both checkpoint_dir and checkpoint_filename"):
        ChiefSessionCreator(checkpoint_dir=tmp_path, checkpoint_filename_with_path=path)


def test_scaffolds_initialise_and_copy(graph):
    w = wb.Variable(1.0, name="w")
    seen = []
    scaffold = train.Scaffold(init_fn=lambda own, session: seen.append((own, float(session.run(w)))))
    with train.MonitoredTrainingSession(scaffold=scaffold):
        pass
    assert seen == [(scaffold, 1.0)]
    copied = train.Scaffold(local_init_op="mine", copy_from_scaffold=scaffold)
    assert copied.init_fn is scaffold.init_fn and copied.local_init_op == "mine"
    made = train.Scaffold().finalize()
    assert made.init_op is not None and made.saver is not None and train.Scaffold.get_or_default("x", "k", lambda: 3) == 3
    wb.add_to_collection("k", 4)
    with pytest.raises(RuntimeError, match='More than one item in the collection "k"'):
        train.Scaffold.get_or_default("x", "k", lambda: 3)


def test_listeners_hear_of_each_checkpoint_and_profiles_are_written(tmp_path):
    step = train.get_or_create_global_step()
    heard = []

    class Listener(train.CheckpointSaverListener):
        def begin(self):
            heard.append("begin")

        def before_save(self, session, global_step_value):
            heard.append(("before", global_step_value, train.latest_checkpoint(tmp_path)))

        def after_save(self, session, global_step_value):
            heard.append(("after", global_step_value, train.latest_checkpoint(tmp_path) is not None))

        def end(self, session, global_step_value):
            heard.append(("end", global_step_value))

    hooks = [train.CheckpointSaverHook(tmp_path, save_steps=100, listeners=[Listener()], scaffold=train.Scaffold()),
             ProfilerHook(save_steps=2, output_dir=tmp_path)]
    with train.MonitoredTrainingSession(hooks=hooks) as session:
        for _ in range(3):
            session.run(step.assign_add(1))
    assert heard == ["begin", ("before", 0, None), ("after", 0, True), ("before", 3, str(tmp_path / "model.ckpt-0")),
                     ("after", 3, True), ("end", 3)]
    traces = sorted(tmp_path.glob("timeline-*.json"))
    assert len(traces) == 2 and json.loads(traces[0].read_text())["traceEvents"]
    with pytest.raises(errors.InvalidArgumentError, match="You cannot provide both saver and scaffold"):
        train.CheckpointSaverHook(tmp_path, save_steps=1, saver=object(), scaffold=train.Scaffold())


def test_batches_wait_in_a_queue_of_their_own():
    queue = prefetch.prefetch_queue({"x": wb.constant([1.0, 2.0]), "y": wb.constant(3)}, capacity=2, num_threads=2)
    batch = queue.dequeue()
    coordinator = train.Coordinator()
    with wb.Session() as session:
        threads = train.start_queue_runners(session, coordinator)
        found = session.run([batch, queue.dequeue()["y"]])
        assert found[0]["x"].tolist() == [1, 2] and (found[0]["y"], found[1]) == (3, 3)
        coordinator.request_stop()
        coordinator.join(threads)


def test_what_a_model_consists_of(graph, capsys):
    w = wb.Variable(np.zeros((3, 4), np.float32), name="w")
    y = wb.nn.relu(wb.matmul(wb.placeholder("float32", [2, 3]), w), name="y")
    assert inspection.analyze_vars([w], print_info=True) == (12, 48)
    assert capsys.readouterr().out.splitlines()[3:] == [
        "w:0 (float32 3x4) [12, bytes: 48]", "Total size of variables: 12", "Total bytes of variables: 48"]
    assert inspection.analyze_ops(graph, print_info=True) >= 8 and "y \t-> (float32 2x4) [8]" in capsys.readouterr().out
    wb.add_to_collection("activations", y)
    assert [t.op.name for t in inspection.summarize_activations()] == ["y/activation"]
    assert [t.op.name for t in wb.get_collection("summaries")] == ["y/zeros", "y/activation"]
    assert inspection.summarize_tensor(wb.constant("text")) is None
    assert [t.op.name for t in inspection.summarize_tensors([wb.constant(1.0, name="one"), w])] == ["one_summary", "w_summary"]
    assert inspection.summarize_collection("activations", "no") == []


def test_a_session_takes_from_collections_what_the_scaffold_lacks(graph, tmp_path):
    v = wb.Variable(1.0, name="v")
    local = wb.Variable(2.0, name="local", collections=[wb.GraphKeys.LOCAL_VARIABLES])
    table = wb.Variable(0.0, name="table", collections=["tables"])
    wb.add_to_collection(wb.GraphKeys.TABLE_INITIALIZERS, table.initializer)
    step = train.get_or_create_global_step()
    wb.add_to_collection(wb.GraphKeys.INIT_OP, wb.group(v.assign(5.0), step.initializer))
    saver = train.Saver([v, step], max_to_keep=1)
    wb.add_to_collection(wb.GraphKeys.SAVERS, saver)
    with train.MonitoredTrainingSession(checkpoint_dir=tmp_path) as session:
        assert session.run([v, local, table]) == [5.0, 2.0, 0.0]
    assert len(saver.last_checkpoints) == 1
    first, second = (train.Scaffold().finalize() for _ in range(2))
    assert first.init_op is second.init_op and first.saver is saver and first.ready_op is second.ready_op and graph.finalized
    with pytest.raises(TypeError, match="copy_from_scaffold is not a Scaffold instance but 1"):
        train.Scaffold(copy_from_scaffold=1)


def test_sessions_say_at_which_stage_the_model_is_not_ready(graph):
    v = wb.Variable(1.0, name="v")
    missing = wb.report_uninitialized_variables([v])
    with pytest.raises(ValueError, match="If you pass a ready_for_local_init_op you must also pass a local_init_op"):
        SessionManager(ready_for_local_init_op=missing)
    manager = SessionManager(wb.no_op(), missing, missing)
    with pytest.raises(RuntimeError, match=r"did not make model ready for local_init\.  .* not initialized: v"):
        manager.prepare_session("", init_op=wb.no_op())
