"""Dask's own SSHCluster over real SSH: servers in this process, three addresses of this machine as hosts, a key to get in."""
from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import numpy as np
import psutil
import pytest
from distributed import SSHCluster

import workbench as wb
from tests.eventually import eventually

ROOT = Path(__file__).resolve().parents[3]
HOSTS = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]      # the scheduler's, and two of workers
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


class Server:
    """Runs what is asked for in a shell each, which ends with its connection."""

    def __init__(self) -> None:
        self.shells: list[subprocess.Popen[bytes]] = []
        self.key = asyncssh.generate_private_key("ssh-ed25519")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ssh server")

    def __enter__(self) -> Server:
        self._thread.start()
        self._listeners = [self._wait(self._listen(host)) for host in HOSTS]
        return self

    def __exit__(self, *exception: object) -> None:
        for listener in self._listeners:
            self._loop.call_soon_threadsafe(listener.close)
            self._wait(listener.wait_closed())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(30)

    async def _listen(self, host: str) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            host, 0, process_factory=self._serve, server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            authorized_client_keys=asyncssh.import_authorized_keys(self.key.export_public_key().decode()))

    @property
    def ways_in(self) -> list[dict[str, Any]]:
        """What a client says to reach each host."""
        return [{"port": listener.get_port(), "username": "me", "client_keys": [self.key], "known_hosts": None, "config": None}
                for listener in self._listeners]

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        shell = subprocess.Popen(process.command or "true", shell=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.shells.append(shell)
        await process.redirect(stdin=shell.stdin, stdout=shell.stdout, stderr=shell.stderr)
        ended = asyncio.ensure_future(asyncio.to_thread(shell.wait))
        left = asyncio.ensure_future(process.wait_closed())
        await asyncio.wait({ended, left}, return_when=asyncio.FIRST_COMPLETED)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        process.exit(await ended)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


def test_a_model_trains_on_workers_that_dask_started_over_ssh(server: Server) -> None:
    with SSHCluster(HOSTS, connect_options=server.ways_in, scheduler_options={"port": 0, "dashboard_address": "127.0.0.1:0"},
                    worker_options={"nthreads": 1, "memory_limit": 0}) as dask, \
            wb.Cluster(dask, ps=1, worker=1, connect_timeout=60.0) as cluster:
        with wb.device("/job:ps/task:0"):
            weight = wb.Variable([1.0, 2.0])
        with wb.device("/job:worker/task:0"):
            loss = wb.reduce_sum((weight - 3.0) ** 2.0)
            step = wb.train.GradientDescentOptimizer(0.25).minimize(loss)
        with wb.Session(cluster) as session:
            session.run(wb.global_variables_initializer())
            for _ in range(3):
                session.run(step)
            np.testing.assert_allclose(session.run(weight), [2.75, 2.875], rtol=1e-6)
        pids = set(cluster.pids.values())
        groups = {os.getpgid(pid) for pid in pids}
        assert len(groups) == 2 and groups <= {shell.pid for shell in server.shells}
    eventually(lambda: all(shell.poll() is not None for shell in server.shells))
    eventually(lambda: all(process.info["status"] == psutil.STATUS_ZOMBIE
                           for process in psutil.process_iter(["status"]) if process.pid in pids))
