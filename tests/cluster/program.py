"""The distributed program of TensorFlow 1.x's tutorial, once per task: python -m tests.cluster.program SPEC JOB INDEX …"""
from __future__ import annotations

import argparse
import json
import threading
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import workbench.tf1 as tf


def model(cluster, name: str, replicas: int):
    """Softmax regression on digits; variables on the parameter servers, the rest on this worker."""
    with tf.device(tf.train.replica_device_setter(worker_device=name, cluster=cluster)):
        x, labels = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int64, [None])
        w = tf.get_variable("w", [64, 10], initializer=tf.zeros_initializer())
        b = tf.get_variable("b", [10], initializer=tf.zeros_initializer())
        logits = tf.matmul(x, w) + b
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.GradientDescentOptimizer(0.5)
        if replicas:
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=replicas, total_num_replicas=replicas)
        return x, labels, optimizer, optimizer.minimize(loss, global_step=step)


def counted(cluster, name: str):
    """Each step adds 1 to what every server holds."""
    with tf.device(tf.train.replica_device_setter(worker_device=name, cluster=cluster)):
        step = tf.train.get_or_create_global_step()
        w, b = (tf.get_variable(name, [64], initializer=tf.zeros_initializer()) for name in "wb")
        return tf.train.GradientDescentOptimizer(1.0).minimize(-tf.reduce_sum(w) - tf.reduce_sum(b), global_step=step)


def batch(worker: int, number: int, size: int = 50) -> np.ndarray:
    """Which examples a worker takes in a step: its own, so that two workers together see one process's batch."""
    return (np.arange(size) * 2 + worker + 100 * number) % 1500


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("spec")
    parser.add_argument("job_name")
    parser.add_argument("task_index", type=int)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--counts", action="store_true", help="count the steps on all servers, and learn nothing")
    parser.add_argument("--folder")
    parser.add_argument("--tells", action="store_true", help="say so while it waits for the chief")
    parser.add_argument("--hold", type=int, help="after so many steps, wait for a file `go` beside the folder")
    flags = parser.parse_args()
    cluster = tf.train.ClusterSpec(json.loads(flags.spec))
    server = tf.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
    if flags.job_name == "ps":
        server.join()
        print("the job is over", flush=True)
        return
    chief = flags.task_index == 0
    workers = cluster.num_tasks("worker")
    if flags.counts:
        train_op = counted(cluster, server.name)
    else:
        x, labels, optimizer, train_op = model(cluster, server.name, workers if flags.sync else 0)
    images, targets = load_digits(return_X_y=True)
    images = np.float32(images / 16)

    def examples(number):
        rows = batch(flags.task_index, number)
        return {} if flags.counts else {x: images[rows], labels: targets[rows]}
    hooks = [tf.train.StopAtStepHook(last_step=flags.steps)]
    scaffold = None
    if flags.tells and not chief:
        missing = tf.report_uninitialized_variables(tf.global_variables())
        with tf.device(server.name), tf.control_dependencies([tf.py_func(lambda: print("waits", flush=True), [], [])]):
            scaffold = tf.train.Scaffold(ready_op=tf.identity(missing))
    if flags.sync:
        hooks.append(optimizer.make_session_run_hook(chief))
    taken = 0
    with tf.train.MonitoredTrainingSession(master=server.target, is_chief=chief, checkpoint_dir=flags.folder, hooks=hooks,
                                           save_checkpoint_steps=20, scaffold=scaffold) as session:
        while not session.should_stop():
            # where all workers count the same steps, a step that is done again has the same examples again
            session.run(train_op, examples if flags.sync else examples(taken))
            taken += 1
            if taken == 1:
                print("trains", flush=True)
            while taken == flags.hold and not Path(flags.folder).with_name("go").exists():
                threading.Event().wait(0.01)
    print(json.dumps({"taken": taken}), flush=True)


if __name__ == "__main__":
    main()
