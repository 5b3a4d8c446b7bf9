"""What several tests of training share."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench.train.keras import backend


@pytest.fixture
def keras_session(graph):
    """A session that ends with the test."""
    wb.set_random_seed(7)
    np.random.seed(3)
    with wb.Session(graph=graph) as session:
        backend.set_session(session)
        yield session
    backend.set_session(None)
