"""Server: a program in the style of TensorFlow 1.x on a real cluster, and the roles that have nothing to do here."""
from __future__ import annotations

import pytest

import workbench as wb
import workbench.tf1 as tf
from workbench import errors

SPEC = {"ps": ["localhost:2222"], "worker": ["localhost:2223"]}


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_the_usual_distributed_program(tmp_path):
    cluster = tf.train.ClusterSpec(SPEC)
    server = tf.train.Server(cluster, job_name="worker", task_index=0)
    with wb.Graph().as_default():
        with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:0", cluster=cluster)):
            w = tf.Variable(0.0, name="w")
            global_step = tf.train.get_or_create_global_step()
            train_op = tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(w - 3.0), global_step=global_step)
        assert w.device == "/job:ps/task:0"
        hooks = [tf.train.StopAtStepHook(last_step=30)]
        with tf.train.MonitoredTrainingSession(master=server.target, is_chief=True, checkpoint_dir=str(tmp_path),
                                               hooks=hooks) as session:
            while not session.should_stop():
                value = session.run([train_op, w])[1]
        assert value > 2.9
    assert server.target is server.target
    server.close()
    server.close()


def test_other_roles():
    tf.train.Server(SPEC, job_name="ps", task_index=0).join()
    with pytest.raises(errors.FailedPreconditionError, match="a parameter server runs no session; use worker 0's target"):
        _ = tf.train.Server(SPEC, job_name="ps").target
    spec = {**SPEC, "worker": ["a:1", "b:1"]}
    with pytest.raises(errors.UnimplementedError, match="worker 1 has no process of its own here; start worker 0 alone"):
        tf.train.Server(spec, job_name="worker", task_index=1)
    with pytest.raises(errors.InvalidArgumentError, match="Server: the jobs are 'evaluator'; use ps and worker"):
        tf.train.Server({"evaluator": ["a:1"]}, "evaluator")
    with pytest.raises(errors.InvalidArgumentError, match="job 'ps' has no task 3"):
        tf.train.Server(SPEC, "ps", 3)
