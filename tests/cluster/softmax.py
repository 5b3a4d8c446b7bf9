"""The training script of the cluster tests: softmax regression on synthetic digits, asynchronous or synchronous."""
from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

import workbench as wb
from workbench import errors
from workbench.train.replicas import Replicas, Tower, replicate

FEATURES, CLASSES, BATCH = 20, 4, 32


def batches(count: int, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Points around one centre per class, and their one-hot classes."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((CLASSES, FEATURES)) * 2
    made = []
    for _ in range(count):
        classes = rng.integers(0, CLASSES, BATCH)
        points = centres[classes] + rng.standard_normal((BATCH, FEATURES))
        made.append((points.astype(np.float32), np.eye(CLASSES, dtype=np.float32)[classes]))
    return made


@dataclass
class Script:
    """The graph of one training run; the same operations whatever the tasks are called."""

    graph: wb.Graph
    replicas: Replicas
    init: wb.Operation
    step: wb.Variable
    reads: list[wb.Tensor]

    def feed(self, tower: Tower, batch: tuple[np.ndarray, np.ndarray]) -> dict[Any, Any]:
        return dict(zip(tower.feeds, batch))

    def parameters(self, session: wb.Session) -> list[np.ndarray]:
        return session.run(self.reads)

    def train_sync(self, session: wb.Session, steps: int) -> list[np.ndarray]:
        """The parameters after `steps` synchronous steps; each replica has its own stream of batches."""
        streams = [batches(steps, seed) for seed in range(len(self.replicas.towers))]
        session.run(self.init)
        for each in zip(*streams):
            feed: dict[Any, Any] = {}
            for tower, batch in zip(self.replicas.towers, each):
                feed.update(self.feed(tower, batch))
            session.run(self.replicas.steps[0], feed)
        return self.parameters(session)

    def start_async(self, session: wb.Session, steps: int) -> list[Replica]:
        return [Replica(self, session, number, steps) for number in range(len(self.replicas.towers))]


class Replica(threading.Thread):
    """One asynchronous replica at its own pace; `error` is what ended it early."""

    def __init__(self, script: Script, session: wb.Session, number: int, steps: int) -> None:
        super().__init__(name=f"replica-{number}")
        self.error: errors.Error | None = None
        self.losses: list[float] = []
        self.moving = threading.Event()      # three steps are done
        self._script, self._session, self._number, self._steps = script, session, number, steps
        self.start()

    def run(self) -> None:
        tower = self._script.replicas.towers[self._number]
        fetches = [tower.loss, self._script.replicas.steps[self._number]]
        stream = batches(20, self._number)
        try:
            for i in range(self._steps):
                loss, _ = self._session.run(fetches, self._script.feed(tower, stream[i % len(stream)]))
                self.losses.append(float(loss))
                if i == 2:
                    self.moving.set()
        except errors.Error as error:
            self.error = error


def model() -> Tower:
    x, y = wb.placeholder("float32", [None, FEATURES]), wb.placeholder("float32", [None, CLASSES])
    weights = wb.get_variable("softmax/weights", [FEATURES, CLASSES], initializer=wb.glorot_uniform_initializer())
    bias = wb.get_variable("softmax/bias", [CLASSES], initializer=wb.zeros_initializer())
    logits = wb.nn.bias_add(wb.matmul(x, weights), bias)
    return Tower(wb.reduce_mean(wb.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits)), (x, y))


def build(workers: list[str], servers: list[str], mode: str) -> Script:
    graph = wb.Graph()
    graph.seed = 7
    with graph.as_default():
        with graph.device(servers[0] if servers else workers[0]):
            step = wb.Variable(np.int64(0), trainable=False, name="softmax/step")
        replicas = replicate(model, wb.train.GradientDescentOptimizer(0.2), workers, servers, mode, step)
        reads = [variable.read_value() for variable in replicas.variables]
        return Script(graph, replicas, wb.global_variables_initializer(), step, reads)
