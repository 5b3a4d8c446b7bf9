"""What is inside a queue, and in which order it comes out."""
from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Array", "Element", "Fifo", "Priority", "Shuffle", "Store"]

Array = np.ndarray[Any, Any]
Element = tuple[Array, ...]


class Store:
    """The elements of a queue. `available(closed)` says how many may be taken now.

    `together`: several elements are taken at one moment, when all are there, so that their order is that of all.
    """

    together = False

    def __len__(self) -> int:
        raise NotImplementedError

    def put(self, element: Element) -> None:
        raise NotImplementedError

    def take(self) -> Element:
        raise NotImplementedError

    def restore(self, elements: Sequence[Element]) -> None:
        """Put back what was taken, in front, so that the next take gives the same elements."""
        raise NotImplementedError

    def state(self) -> tuple[list[Element], list[int]]:
        """The elements in their order, and what else says how they come out, for set_state."""
        raise NotImplementedError

    def set_state(self, elements: Sequence[Element], order: Sequence[int]) -> None:
        """Hold these elements instead; they come out as they would have where `state` was asked."""
        raise NotImplementedError

    def available(self, closed: bool) -> int:
        return len(self)


class _Row(Store):
    """Elements side by side; a new one is the last."""

    _items: deque[Element] | list[Element]

    def __len__(self) -> int:
        return len(self._items)

    def put(self, element: Element) -> None:
        self._items.append(element)


class Fifo(_Row):
    """First in, first out."""

    def __init__(self) -> None:
        self._items: deque[Element] = deque()

    def take(self) -> Element:
        return self._items.popleft()

    def restore(self, elements: Sequence[Element]) -> None:
        self._items.extendleft(reversed(elements))

    def state(self) -> tuple[list[Element], list[int]]:
        return list(self._items), []

    def set_state(self, elements: Sequence[Element], order: Sequence[int]) -> None:
        self._items = deque(elements)


class Shuffle(_Row):
    """Any element with equal probability; at least `reserve` stay behind until the queue is closed."""

    def __init__(self, reserve: int = 0, seed: int | None = None) -> None:
        self._items: list[Element] = []
        self._reserve, self._random = reserve, random.Random(seed)

    def take(self) -> Element:
        chosen = self._random.randrange(len(self._items))
        self._items[chosen], self._items[-1] = self._items[-1], self._items[chosen]
        return self._items.pop()

    def restore(self, elements: Sequence[Element]) -> None:
        self._items.extend(elements)

    def state(self) -> tuple[list[Element], list[int]]:
        return list(self._items), list(self._random.getstate()[1])

    def set_state(self, elements: Sequence[Element], order: Sequence[int]) -> None:
        version, _, gauss = self._random.getstate()
        self._items = list(elements)
        self._random.setstate((version, tuple(order), gauss))

    def available(self, closed: bool) -> int:
        return len(self._items) if closed else max(0, len(self._items) - self._reserve)


class Priority(Store):
    """The smallest first component (int64 scalar) first; equal ones in order of arrival."""

    together = True

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Element]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, element: Element) -> None:
        heapq.heappush(self._heap, (int(element[0]), next(self._order), element))

    def take(self) -> Element:
        return heapq.heappop(self._heap)[2]

    def restore(self, elements: Sequence[Element]) -> None:
        for place, element in enumerate(elements):
            heapq.heappush(self._heap, (int(element[0]), place - len(elements), element))

    def state(self) -> tuple[list[Element], list[int]]:
        return [element for _, _, element in sorted(self._heap, key=lambda item: item[:2])], []

    def set_state(self, elements: Sequence[Element], order: Sequence[int]) -> None:
        self._heap, self._order = [], itertools.count()
        for element in elements:
            self.put(element)
