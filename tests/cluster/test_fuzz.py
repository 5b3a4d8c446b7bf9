"""Whatever comes over a connection: it ends with an error that names the peer; nothing crashes, hangs, leaks or grows."""
from __future__ import annotations

import logging
import os
import random
import resource
import threading
from collections.abc import Iterator

import pytest

from tests.cluster.conftest import open_files
from tests.cluster.fuzz import GOOD, Targets, cuts, damaged
from tests.eventually import eventually

GROWTH = 64 << 10      # kilobytes of memory; a header may claim gigabytes


@pytest.fixture
def targets(monkeypatch, caplog) -> Iterator[Targets]:
    """The targets; what they leave behind afterwards is a failure."""
    crashes: list[object] = []
    monkeypatch.setattr(threading, "excepthook", crashes.append)
    caplog.set_level(logging.CRITICAL, "workbench")
    threads, made = set(threading.enumerate()), Targets()
    for where in GOOD:
        made.attacks[where](b"x")
    files, memory = open_files(os.getpid()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield made
    assert made.still_serve()
    eventually(lambda: open_files(os.getpid()) <= files)      # a task's own thread closes what it waits on last
    made.end()
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)
        assert not thread.is_alive()
    assert crashes == [] and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < GROWTH


@pytest.mark.parametrize("where", GOOD)
def test_frames_cut_at_every_byte(targets, where):
    for data in [*cuts(where)][::4 if where == "control" else 1]:      # a task of its own each; all of them in the soak test
        assert targets.attacks[where](data)


@pytest.mark.parametrize("where, count", [("link", 1500), ("control", 150), ("chief", 800)])
def test_damaged_frames(targets, where, count):
    for number in range(count):
        data = damaged(where, random.Random(number))
        assert targets.attacks[where](data), f"damaged({where!r}, random.Random({number}))"
