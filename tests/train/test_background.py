"""Training in a thread of its own: what its trainer raises at the end reaches whoever joins."""
from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from workbench import errors
from workbench.train.progress import Progress
from workbench.train.sessions.background import Training


def test_an_error_of_the_clean_up_is_raised_by_stop():
    """A trainer that closes its cluster or saves when it is told to stop."""
    at_work = threading.Event()

    def records() -> Iterator[Progress]:
        try:
            while True:
                yield Progress(3, 10)
                at_work.set()
        finally:
            raise errors.UnavailableError("Saver: the disk is gone; restore from elsewhere")

    training = Training(records())
    assert at_work.wait(60)
    with pytest.raises(errors.UnavailableError, match="the disk is gone"):
        training.stop()
    assert training.stopped and training.progress.step == 3 and "failed" in repr(training)
