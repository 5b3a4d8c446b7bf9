"""Processes that run a module as `python -m` does, forked by one that has loaded what they need: they start in milliseconds."""
from __future__ import annotations

import atexit
import os
import runpy
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.connection import Connection

from distributed.utils import get_mp_context

__all__ = ["Program"]


class Program:
    """`python -m module arguments`, with more variables in its environment, in a process that may start others.

    `stdout` is what it prints, as it comes.
    """

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        reading, writing = os.pipe()
        self.stdout = os.fdopen(reading)
        self._complaints = tempfile.TemporaryFile("w+")      # noqa: SIM115  closed by `communicate` or `close`
        out, err = (Connection(fd, readable=False) for fd in (writing, os.dup(self._complaints.fileno())))
        self._process = get_mp_context().Process(target=_run, args=(out, err, module, arguments, dict(environment or {})))
        self._process.start()
        out.close()
        err.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> None:
        """Until it has ended; AssertionError after `timeout` seconds."""
        self._process.join(timeout)
        assert self._process.exitcode is not None, f"{self.pid} still runs after {timeout} s"

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end: what it printed since that was last read, and what it complained of; nothing the second time."""
        self.wait(timeout)
        if self.stdout.closed:
            return "", ""
        with self.stdout, self._complaints:
            self._complaints.seek(0)
            return self.stdout.read(), self._complaints.read()

    def close(self) -> None:
        """Kill it, if it still runs, and forget what it said."""
        self.kill()
        self.wait()
        self.stdout.close()
        self._complaints.close()


def _run(out: Connection, err: Connection, module: str, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    for number, connection in enumerate((out, err), 1):
        os.dup2(connection.fileno(), number)
        connection.close()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    atexit._run_exitfuncs()      # which multiprocessing leaves out
