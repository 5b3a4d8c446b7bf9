"""A worker whose update has come to one of two servers and not to the other, while a checkpoint is pinned."""
from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import workbench as wb
from tests.eventually import eventually
from workbench.core.state import checkpoint
from workbench.train.saving.checkpoints import Checkpointer


class HalfPushed:
    """`push` makes of what applies the gradients the update; it adds 1 on both of `servers`, where `open` gives a session."""

    def __init__(self, folder: Path, servers: Sequence[str], push: Callable[[Callable[[], wb.Operation]], wb.Operation],
                 open: Callable[[], wb.Session]) -> None:
        with wb.device(servers[0]):
            self.left = wb.Variable(0.0, name="left")
        with wb.device(servers[1]):
            self.right = wb.Variable(0.0, name="right")
            self.queue = wb.FIFOQueue(1, ["float32"], [[]])
        self.gradient = wb.placeholder("float32", [])
        optimizer = wb.train.GradientDescentOptimizer(-1.0)
        self.push = push(lambda: optimizer.apply_gradients([(self.gradient, self.left), (self.queue.dequeue(), self.right)]))
        self.saver = Checkpointer(folder / "m")
        self.session = open()
        self.session.run(wb.global_variables_initializer())
        self.settles = threading.Event()
        self.pushing = threading.Thread(target=self.session.run, args=(self.push, {self.gradient: 1.0}))
        self.pushing.start()
        eventually(lambda: self.session.run(self.left) == 1)

    def run(self, fetches: Any, *rest: Any, **options: Any) -> Any:
        """A step of the checkpoint."""
        if fetches is self.saver._settle:
            self.settles.set()
        return self.session.run(fetches, *rest, **options)

    def save(self) -> None:
        try:
            self.saver.save(self, 1)
        finally:
            self.settles.set()

    def saved(self, number: int = 1) -> dict[str, Any]:
        self.saver.wait()
        return checkpoint.read(f"{self.saver.prefix}-{number}").tensors

    def check(self) -> None:
        """A checkpoint that is pinned now has both halves, and pushes go on."""
        with self.session:
            saving = threading.Thread(target=self.save)
            saving.start()
            assert self.settles.wait(60)
            self.session.run(self.queue.enqueue(1.0))      # now the gradient comes
            self.pushing.join(60)
            saving.join(60)
            found = self.saved()
            assert found["left"] == found["right"] == 1
            self.session.run(self.queue.enqueue(1.0))
            self.session.run(self.push, {self.gradient: 1.0})
