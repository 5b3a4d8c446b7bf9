"""Training over several hosts with delay and loss between them, and with one of them cut off: real TCP, real silence."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.soak.hosts import Hosts, permitted

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "tests.soak.hosts_program"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
pytestmark = [pytest.mark.cluster, pytest.mark.soak, pytest.mark.timeout(240)]


def dask(hosts: Hosts, *words: str, host: int) -> subprocess.Popen[str]:
    return hosts.start(host, sys.executable, "-m", "distributed.cli." + words[0], *words[1:], env=ENVIRONMENT)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """The client's and scheduler's host, and four with a worker each."""
    if not permitted():
        pytest.skip("may make no network namespaces here")
    with Hosts(5, delay=0.001, loss=0.01) as made:
        scheduler = f"{made.addresses[0]}:8786"
        dask(made, "dask_scheduler", "--host", made.addresses[0], "--no-dashboard", host=0)
        for i in range(1, 5):
            dask(made, "dask_worker", scheduler, "--host", made.addresses[i], "--nthreads", "1", "--memory-limit", "0",
                 "--no-dashboard", "--name", f"host-{i}", host=i)
        yield made


def trained(lines: list[str]) -> list[str]:
    assert lines and lines[-1].startswith("weights "), "".join(lines[-30:])
    return json.loads(lines[-1].removeprefix("weights "))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the same program comes to in one process."""
    done = subprocess.run([*PROGRAM, str(tmp_path_factory.mktemp("alone"))], env=ENVIRONMENT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
    return trained(done.stdout.splitlines())


def program(hosts: Hosts, folder: Path) -> subprocess.Popen[str]:
    return hosts.start(0, *PROGRAM, str(folder), f"tcp://{hosts.addresses[0]}:8786", env=ENVIRONMENT)


def test_training_over_slow_and_lossy_links_is_bit_equal_to_one_process(hosts: Hosts, alone: list[str], tmp_path: Path) -> None:
    lines = program(hosts, tmp_path).communicate(timeout=200)[0].splitlines()
    assert trained(lines) == alone
    placed = json.loads(next(line for line in lines if line.startswith("placed ")).removeprefix("placed "))
    assert len(set(placed.values())) == 3      # one host each
    assert hosts.lost > 0


@pytest.mark.parametrize("victim", ["/job:ps/task:0", "/job:worker/task:1"])
def test_a_host_that_is_cut_off_is_replaced_and_changes_nothing_when_it_comes_back(
        victim: str, hosts: Hosts, alone: list[str], tmp_path: Path) -> None:
    running, lines, cut = program(hosts, tmp_path), [], ""
    assert running.stdout is not None
    for line in running.stdout:
        lines.append(line)
        if line.startswith("placed "):
            placed = json.loads(line.removeprefix("placed "))
            if cut:
                assert cut not in placed.values()
                hosts.cut.clear()      # back from the dead
        if line == "step 10\n" and not cut:
            cut = placed[victim]
            hosts.cut.add(cut)
    assert running.wait(100) == 0, "".join(lines[-30:])
    assert cut and not hosts.cut
    assert trained([line.rstrip("\n") for line in lines]) == alone
