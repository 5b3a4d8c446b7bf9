"""What a model function returns, and how an estimator runs: checked when they are made; the task that TF_CONFIG tells."""
from __future__ import annotations

import json
import re

import pytest

import workbench as wb
from workbench import errors, train
from workbench.train.config import ConfigProto
from workbench.train.estimators.estimator_spec import EstimatorSpec, ModeKeys
from workbench.train.estimators.run_config import RunConfig, TaskType
from workbench.train.estimators.signatures import PredictOutput
from workbench.train.sessions.scaffold import Scaffold


@pytest.fixture(autouse=True)
def fresh():
    with wb.Graph().as_default():
        yield


def one(value=1.0):
    return wb.constant(value)


def elsewhere():
    with wb.Graph().as_default():
        return wb.constant(1.0)


def metric():
    return {"m": (one(), one())}


def test_a_spec_has_every_part_and_a_loss_without_dimensions():
    spec = EstimatorSpec(ModeKeys.TRAIN, loss=one([1.0]), train_op=wb.no_op())
    assert spec.loss.shape.rank == 0 and spec.predictions == {} and spec.eval_metric_ops == {}
    assert isinstance(spec.scaffold, Scaffold) and spec.training_hooks == spec.evaluation_hooks == ()
    only = PredictOutput(one())
    spec = EstimatorSpec(ModeKeys.PREDICT, one(), export_outputs={"first": only})
    assert spec.export_outputs == {"first": only, "serving_default": only}
    kept = EstimatorSpec(ModeKeys.EVAL, loss=one(), eval_metric_ops=metric())._replace(predictions={"a": one()})
    assert list(kept.predictions) == ["a"] and list(kept.eval_metric_ops) == ["m"] and isinstance(kept, EstimatorSpec)


@pytest.mark.parametrize(("make", "kind", "text"), [
    (lambda: EstimatorSpec("train", loss=one()), errors.InvalidArgumentError, "Missing train_op. Mode 'train' needs it"),
    (lambda: EstimatorSpec("train", train_op=wb.no_op()), errors.InvalidArgumentError, "Missing loss."),
    (lambda: EstimatorSpec("eval"), errors.InvalidArgumentError, "Missing loss."),
    (lambda: EstimatorSpec("infer"), errors.InvalidArgumentError, "Missing predictions."),
    (lambda: EstimatorSpec("eval", loss=1.0), TypeError, "loss must be Tensor, given: 1.0"),
    (lambda: EstimatorSpec("eval", loss=one([1.0, 2.0])), errors.InvalidArgumentError, "Loss must be scalar, given: "),
    (lambda: EstimatorSpec("eval", loss=elsewhere()), errors.InvalidArgumentError,
     'loss with "constant:0" must be from the default graph; make it'),
    (lambda: EstimatorSpec("train", loss=one(), train_op="no"), TypeError, "train_op must be Operation or Tensor, given: no"),
    (lambda: EstimatorSpec("infer", {"a": 1.0}), TypeError, "predictions[a] must be Tensor, given: 1.0"),
    (lambda: EstimatorSpec("infer", wb.SparseTensor([[0]], [1.0], [1])), TypeError, "predictions must be Tensor, given: "),
    (lambda: EstimatorSpec("infer", {"a": elsewhere()}), errors.InvalidArgumentError, "predictions[a] with"),
    (lambda: EstimatorSpec("eval", loss=one(), eval_metric_ops=one()), TypeError, "eval_metric_ops must be a dict, given"),
    (lambda: EstimatorSpec("eval", loss=one(), eval_metric_ops={"m": one()}), TypeError, "must be (metric_value, update_op)"),
    (lambda: EstimatorSpec("eval", loss=one(), eval_metric_ops={"m": (1, one())}), TypeError,
     "eval_metric_ops[m] must be Operation or Tensor, given: 1"),
    (lambda: EstimatorSpec("eval", loss=one(), eval_metric_ops={"m": (one(), elsewhere())}), errors.InvalidArgumentError,
     "eval_metric_ops[m] with"),
    (lambda: EstimatorSpec("infer", one(), export_outputs=one()), TypeError, "export_outputs must be dict, given"),
    (lambda: EstimatorSpec("infer", one(), export_outputs={"a": 1}), TypeError, "must be ExportOutput objects. Given"),
    (lambda: EstimatorSpec("infer", one(), export_outputs={k: PredictOutput(one()) for k in "ab"}), ValueError,
     "Multiple export_outputs were provided, but none of them is specified as the default"),
    (lambda: EstimatorSpec("infer", one(), prediction_hooks=["no"]), TypeError, "must be SessionRunHook instances, given: no"),
    (lambda: EstimatorSpec("infer", one(), scaffold="no"), TypeError, "scaffold must be tf.train.Scaffold. Given: no"),
    (lambda: EstimatorSpec("infer", one())._replace(mode="eval"), errors.InvalidArgumentError,
     "mode of EstimatorSpec cannot be changed. It is 'infer', not 'eval'"),
    (lambda: RunConfig(""), errors.InvalidArgumentError, "RunConfig: model_dir should be non-empty It is ''"),
    (lambda: RunConfig(save_summary_steps=-1), errors.InvalidArgumentError, "save_summary_steps should be >= 0 It is -1"),
    (lambda: RunConfig(log_step_count_steps=0), errors.InvalidArgumentError, "log_step_count_steps should be > 0 It is 0"),
    (lambda: RunConfig(session_config={}), errors.InvalidArgumentError, "session_config must be instance of ConfigProto"),
    (lambda: RunConfig(tf_random_seed=1.0), errors.InvalidArgumentError, "tf_random_seed must be integer. It is 1.0"),
    (lambda: RunConfig().replace(save_checkpoints_steps=1, save_checkpoints_secs=2), errors.InvalidArgumentError,
     "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set. They are 1 and 2; give one"),
    (lambda: RunConfig().replace(master="x"), errors.InvalidArgumentError, "Replacing master is not supported. Allowed")])
def test_what_cannot_be(make, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        make()


# a task of a cluster

CLUSTER = {"chief": ["h0:1"], "ps": ["h1:1", "h2:1"], "worker": ["h3:1"]}


def told(monkeypatch, cluster=None, **task):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster or {}, "task": task, "service": {"a": 1}}))
    return RunConfig()


def test_a_program_is_told_which_task_it_is(monkeypatch):
    alone = RunConfig(session_config=ConfigProto())
    assert (alone.task_type, alone.task_id, alone.is_chief, alone.master, alone.service) == ("worker", 0, True, "", None)
    assert alone.save_checkpoints_secs == 600 and alone.replace(save_checkpoints_steps=3).save_checkpoints_secs is None
    assert RunConfig(save_checkpoints_secs=None).save_checkpoints_steps is None
    found = told(monkeypatch, CLUSTER, type="worker", index=0)
    assert (found.master, found.is_chief, found.num_ps_replicas, found.num_worker_replicas) == ("grpc://h3:1", False, 2, 2)
    assert found.service == {"a": 1} and found.cluster_spec == train.ClusterSpec(CLUSTER)
    assert told(monkeypatch, CLUSTER, type=TaskType.CHIEF, index=0).is_chief
    beside = told(monkeypatch, CLUSTER, type=TaskType.EVALUATOR, index=1)
    assert (beside.task_id, beside.master, beside.num_worker_replicas, bool(beside.cluster_spec)) == (1, "", 0, False)
    assert told(monkeypatch, {"master": ["h:1"]}, type="master", index=0).is_chief


@pytest.mark.parametrize(("cluster", "task", "text"), [
    ({}, {"type": "ps"}, 'If "cluster" is not set in TF_CONFIG, task type must be WORKER.'),
    ({}, {"type": "worker", "index": 1}, 'If "cluster" is not set in TF_CONFIG, task index must be 0.'),
    ({"worker": ["a"]}, {}, 'it must have one "chief" node.'),
    ({"chief": ["a", "b"]}, {}, 'must have only one "chief" node.'),
    ({"master": ["a", "b"]}, {}, 'must have only one "master" node.'),
    ({"master": ["a"], "chief": ["b"]}, {}, "job `chief` is not supported."),
    ({"master": ["a"]}, {"type": "evaluator", "index": 0}, "task_type `evaluator` is not supported."),
    (CLUSTER, {"index": 0}, "task type must be set."), (CLUSTER, {"type": "ps"}, "task index must be set."),
    (CLUSTER, {"type": "ps", "index": -1}, "Task index must be non-negative number."),
    (CLUSTER, {"type": "ps", "index": 2}, "2 is not a valid task_id for task_type ps in the cluster_spec"),
    (CLUSTER, {"type": "other", "index": 0}, "other is not a valid task_type in the cluster_spec")])
def test_a_task_that_cannot_be(monkeypatch, cluster, task, text):
    with pytest.raises(errors.InvalidArgumentError, match=re.escape(text)):
        told(monkeypatch, cluster, **task)


def test_a_service_is_a_dictionary(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"service": 3}))
    with pytest.raises(TypeError, match='If "service" is set in TF_CONFIG, it must be a dict'):
        RunConfig()


def test_who_has_no_part_in_a_cluster_is_told_so(monkeypatch):
    from workbench.train.estimators.estimator import Estimator
    from workbench.train.estimators.specs import EvalSpec, TrainSpec
    from workbench.train.estimators.tasks import train_and_evaluate
    for spec, task, text in ((CLUSTER, {"type": "ps", "index": 0}, "this ps 0 of a cluster, whose tasks need a server; pass"),
                             ({**CLUSTER, "cook": ["h:9"]}, {"type": "cook", "index": 0}, "Task type cook is not supported"),
                             (CLUSTER, {"type": "evaluator", "index": 1}, "there can only be one `evaluator` task")):
        estimator = Estimator(lambda features: None, config=told(monkeypatch, spec, **task))
        with pytest.raises(errors.InvalidArgumentError, match=text):
            train_and_evaluate(estimator, TrainSpec(lambda: 1), EvalSpec(lambda: 1))
