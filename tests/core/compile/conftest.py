"""What tests of plans share."""
from __future__ import annotations

import pytest

from workbench.settings import settings


@pytest.fixture
def numpy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel library serves, so that the text of a plan is the same on every machine."""
    monkeypatch.setattr(settings, "libraries", ())
