"""Fixtures of the data set tests: nothing outside the test's own folder is looked at."""
from __future__ import annotations

from pathlib import Path

import pytest

from tests.data_fixture import mnist_folder, write_small_mnist
from workbench.settings import settings

__all__ = ["mnist_folder"]


@pytest.fixture
def small_mnist(tmp_path: Path) -> Path:
    """60 + 20 random digits in MNIST's four files."""
    return write_small_mnist(tmp_path / "mnist")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty user cache, no WORKBENCH_DATA, and no proxy between a test and its own server."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(settings, "data", None)
    return tmp_path / "cache" / "workbench" / "mnist"
