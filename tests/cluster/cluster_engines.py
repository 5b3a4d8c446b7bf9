"""Engines that the cluster tests run inside tasks, and how they get there."""
from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

import workbench as wb
from tests.openmp import openmp_threads
from workbench import errors
from workbench.core.graph.opdef import registry
from workbench.core.kernels.threads import get_threads
from workbench.core.names import join_edge


class EchoEngine:
    """The program says what a step does; see `run`."""

    def __init__(self, context: Any) -> None:
        self.context, self.programs = context, {}
        self.release = threading.Event()
        self.threads: list[threading.Thread] = []

    def register(self, handle: str, program: memoryview) -> None:
        if program == b"bad":
            raise errors.InvalidArgumentError("dense/MatMul: a axis 1 is 3 but b axis 0 is 2; fix the program")
        self.programs[handle] = str(program, "utf-8")

    def run(self, handle: str, step: int, feeds: dict[str, Any], send: Any, rendezvous: Any, done: Any,
            trace: int, of: Any = None) -> None:
        task, tasks, what = self.context.task, self.context.tasks, self.programs[handle]
        if what == "echo":                       # fetch what was fed
            done([feeds[name] for name in sorted(feeds)])
        elif what == "fail":
            raise errors.OutOfRangeError("queue: it is empty and closed; stop here")
        elif what == "crash":
            raise ZeroDivisionError("one over zero")
        elif what == "object":
            done([object()])
        elif what == "hang":                     # wait for a tensor that never comes
            rendezvous.receive(join_edge("never", tasks[0], task), lambda value, dead: done(_result(value)))
        elif what == "stuck":                    # a thread that ends with the step or the engine
            thread = threading.Thread(target=lambda: done([self.release.wait()]))
            self.threads.append(thread)
            thread.start()
        else:
            self._exchange(step, feeds, send, rendezvous, done)

    def _exchange(self, step: int, feeds: dict[str, Any], send: Any, rendezvous: Any, done: Any) -> None:
        """Send the feed to every other task; fetch the sum of what they send."""
        task = self.context.task
        others = [other for other in self.context.tasks if other != task]
        mine, lock, got = feeds.get("x", np.float32([1])), threading.Lock(), []

        def arrived(value: Any, dead: bool) -> None:
            with lock:
                got.append(value)
                last = len(got) == len(others)
            if last:
                bad = [value for value in got if isinstance(value, Exception)]
                done(bad[0] if bad else [sum(got[1:], got[0])])

        for other in others:
            rendezvous.receive(join_edge("x", other, task), arrived)
        for other in others:
            send(join_edge("x", task, other), mine, False)

    def abort(self, step: int, error: Any) -> None:
        self.release.set()

    def facts(self) -> dict[str, Any]:
        return {}

    def unregister(self, handle: str) -> None:
        self.programs.pop(handle, None)

    def close(self) -> None:
        self.release.set()
        for thread in self.threads:
            thread.join(60)


def _result(value: Any) -> Any:
    return value if isinstance(value, Exception) else [value]


def define() -> None:
    """Sent to every worker by the tests' own Dask client."""
    from workbench.cluster.task.engines import define_engine

    define_engine("echo", EchoEngine)


def count_threads(begin: bool) -> int:
    """Give this process, or take from it, an operation that says with how many threads kernels run where it does; the number of
    the process."""
    if not begin:
        registry.pop("threads_there")
        return os.getpid()

    @wb.op("x[...] -> [3]", types="T:float -> int64", name="threads_there")
    def threads_there(x: Any) -> Any:
        return np.array([os.getpid(), get_threads(), openmp_threads()])
    return os.getpid()
