"""What a task keeps, by name: looked through while other threads add to it."""
from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from workbench.core.state.container import Container

MANY = 5_000      # more pairs than Python has at hand, so that it looks for garbage while it makes them


@pytest.fixture
def no_garbage() -> Iterator[None]:
    """Garbage that the test makes waits until the test allows it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_it_can_be_looked_through_while_something_is_added(no_garbage: None) -> None:
    """A finaliser does here what another thread does elsewhere, and at the moment that matters."""
    container, added = Container(), []

    class Garbage:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            added.append(container.get(f"late {len(added)}", int, lambda: 1))
    for number in range(MANY):
        container.get(str(number), int, lambda: 0)
    for _ in range(10):
        Garbage()
    gc.enable()
    found = container.of(int)
    assert len(found) >= MANY and gc.collect() >= 0 and len(added) == 10
    assert len(container.of(int)) == MANY + 10
