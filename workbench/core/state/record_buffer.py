"""Records of many TFRecord files in random order, pass after pass: drawn from a buffer that files are read into by turns."""
from __future__ import annotations

import glob
import itertools
import threading
from collections import deque
from collections.abc import Iterator

import numpy as np

from workbench import errors
from workbench.core.state import tfrecord

__all__ = ["RecordBuffer"]


class RecordBuffer:
    """Every record of the files that match `pattern` once in each pass; safe for several threads.

    A pass reads its files in a random order, `together` of them by turns, and begins `shift` (a part of all files) further
    on than the pass before; a record is drawn from up to `capacity` that were read. The next pass begins when all are drawn.
    """

    def __init__(self, name: str, pattern: str, capacity: int, together: int, shift: float, seed: int) -> None:
        self.name, self.pattern, self.capacity, self.together, self.shift = name, pattern, capacity, together, shift
        self.passes = 0
        self._random = np.random.Generator(np.random.Philox(seed))
        self._lock = threading.Lock()
        self._ahead: list[bytes] = []
        self._records: Iterator[bytes] = iter(())

    def take(self, count: int) -> list[bytes]:
        """The next `count` records. NotFoundError when no file matches, OutOfRangeError when the files hold none."""
        with self._lock:
            return [self._draw() for _ in range(count)]

    def _draw(self) -> bytes:
        self._fill()
        if not self._ahead:
            self._records = self._pass()
            self._fill()
        if not self._ahead:
            raise errors.OutOfRangeError(f"record_input {self.name!r}: the files that match {self.pattern!r} hold no record; "
                                         "write some, or name other files")
        chosen = int(self._random.integers(len(self._ahead)))
        self._ahead[chosen], self._ahead[-1] = self._ahead[-1], self._ahead[chosen]
        return self._ahead.pop()

    def _fill(self) -> None:
        self._ahead.extend(itertools.islice(self._records, self.capacity - len(self._ahead)))

    def _pass(self) -> Iterator[bytes]:
        names = sorted(glob.glob(self.pattern))
        if not names:
            raise errors.NotFoundError(f"record_input {self.name!r}: no file matches {self.pattern!r}; check the pattern")
        order = [names[number] for number in self._random.permutation(len(names))]
        begin = int(self.shift * len(names) * self.passes) % len(names)
        self.passes += 1
        waiting = deque(order[begin:] + order[:begin])
        turns = deque(_records(waiting.popleft()) for _ in range(min(self.together, len(waiting))))
        while turns:
            record = next(turns[0], None)
            if record is not None:
                yield record
                turns.rotate(-1)
            elif waiting:
                turns[0] = _records(waiting.popleft())
            else:
                turns.popleft()

    def close(self, cancel_pending: bool = True) -> None:
        """Let go of the files; called when the session's state is cleared."""
        with self._lock:
            self._records = iter(())
            self._ahead.clear()


def _records(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        for _, record in tfrecord.frames(file, path):
            yield record
