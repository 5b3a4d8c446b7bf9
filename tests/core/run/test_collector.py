"""The cycle collector stands still while plans are made, and only then."""
from __future__ import annotations

import gc
import threading

import pytest

import workbench as wb
from workbench.core.run import prepare
from workbench.core.run.collector import uncollected


def test_it_is_off_inside_and_on_again_also_after_an_error():
    with pytest.raises(ValueError), uncollected():
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()


def test_who_had_it_off_keeps_it_off():
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_last_thread_turns_it_on():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with uncollected():
            inside.set()
            leave.wait(60)
    thread = threading.Thread(target=other)
    with uncollected():
        thread.start()
        inside.wait(60)
    assert not gc.isenabled()
    leave.set()
    thread.join(60)
    assert gc.isenabled()


def test_preparing_a_step_collects_nothing(monkeypatch):
    seen = []
    monkeypatch.setattr(prepare, "run_passes", lambda *a, f=prepare.run_passes: seen.append(gc.isenabled()) or f(*a))
    with wb.Graph().as_default(), wb.Session() as session:
        assert session.run(wb.constant(1.0) + 1.0) == 2.0
    assert seen and not any(seen) and gc.isenabled()
