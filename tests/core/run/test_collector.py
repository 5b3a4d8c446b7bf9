"""The cycle collector stands still while plans are made, and only then."""
from __future__ import annotations

import gc
import threading

import pytest

import workbench as wb
from workbench.core.run import prepare
from workbench.core.run.collector import uncollected


def collections() -> int:
    """How many there are while many records are made."""
    before = sum(generation["collections"] for generation in gc.get_stats())
    assert len([[] for _ in range(10_000)]) == 10_000
    return sum(generation["collections"] for generation in gc.get_stats()) - before


def test_nothing_is_collected_inside_and_again_after_also_after_an_error():
    with pytest.raises(ValueError), uncollected():
        assert collections() == 0
        raise ValueError
    assert collections() > 0


def test_a_library_that_is_loaded_inside_finds_the_collector_enabled():
    """Dask's modules ask when they are loaded, and keep to the answer."""
    with uncollected():
        assert gc.isenabled()


def test_who_had_it_off_keeps_it_off():
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_last_thread_sets_it_back():
    inside, leave, before = threading.Event(), threading.Event(), gc.get_threshold()

    def other():
        with uncollected():
            inside.set()
            leave.wait(60)
    thread = threading.Thread(target=other)
    with uncollected():
        thread.start()
        inside.wait(60)
    assert collections() == 0
    leave.set()
    thread.join(60)
    assert collections() > 0 and gc.get_threshold() == before


def test_preparing_a_step_collects_nothing(monkeypatch):
    seen = []
    monkeypatch.setattr(prepare, "run_passes", lambda *a, f=prepare.run_passes: seen.append(collections()) or f(*a))
    with wb.Graph().as_default(), wb.Session() as session:
        assert session.run(wb.constant(1.0) + 1.0) == 2.0
    assert seen and not any(seen) and collections() > 0
