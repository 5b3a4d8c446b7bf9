"""Queues that Python functions fill."""
from __future__ import annotations

import pytest

import workbench.tf1 as tf


def test_each_thread_feeds_what_its_function_gives():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.int32, [])
        queue = tf.FIFOQueue(20, tf.int32, shapes=[[]])
        parts = [iter([1, 2, 3]), iter([10, 20])]

        def feeder(values):
            def feed():
                for value in values:
                    return {x: value}
                raise tf.errors.OutOfRangeError(None, None, "the end")
            return feed
        steps = [queue.enqueue(x), queue.enqueue(x + 100)]
        runner = tf.contrib.training.FeedingQueueRunner(queue, steps, feed_fns=[feeder(part) for part in parts])
        tf.train.add_queue_runner(runner)
        taken, coordinator = queue.dequeue(), tf.train.Coordinator()
        with tf.Session() as session:
            threads = tf.train.start_queue_runners(session, coordinator)
            assert sorted(session.run(taken) for _ in range(5)) == [1, 2, 3, 110, 120]
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(taken)
            coordinator.request_stop()
            coordinator.join(threads)
        with pytest.raises(ValueError, match="give one for each"):
            tf.contrib.training.FeedingQueueRunner(queue, steps, feed_fns=[])
