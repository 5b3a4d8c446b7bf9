"""Times the ways to execute an operation, over values of its shapes that lie as they would in a step."""
from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from workbench.core.compile.values import aligned, pack
from workbench.core.kernels.choice import Choice, Layout, Question, Spec, reorders
from workbench.core.kernels.crowd import crowd
from workbench.core.kernels.measured.question import Time

__all__ = ["time_ways"]

Clock = Callable[[], float]
ROUNDS, MOST_ROUNDS = 7, 28
"""Samples of each way, taken in turn, of which the shortest counts: what else the machine does only makes them longer. More are
taken while they are not steady."""
STEADY: Final = 1.4
"""Times the shortest sample, below which the median of a way has to stay to be believed."""
SAMPLE: Final = 300e-6
"""Seconds of one sample, at least: shorter kernels are called several times."""
HOPELESS: Final = 3.0
"""Times slower than the fastest one, from which on a way is not called again."""


class _Running:
    """One way with its kernel and arguments."""

    def __init__(self, choice: Choice, question: Question, clock: Clock) -> None:
        self.clock, self.samples = clock, list[float]()
        values, self.reorders = zip(*(self._given(spec, layout, number) for number, (spec, layout) in enumerate(
            zip(question.inputs, choice.inputs))))
        outputs = [values[choice.inplace[number]] if number in choice.inplace else _room(spec, layout)
                   for number, (spec, layout) in enumerate(zip(question.outputs, choice.outputs))]
        scratch = [aligned(choice.scratch)] if choice.scratch else []
        self.arrays = [*values, *outputs, *scratch]
        self.kernel = choice.make((True,) * len(self.arrays))
        self.kernel(*self.arrays)      # what the first call prepares is not the way's fault
        once = self._seconds(1)
        self.calls = max(1, math.ceil(SAMPLE / max(once, 1e-7)))
        if self.calls == 1:
            self.samples.append(once)

    def _seconds(self, calls: int) -> float:
        start = self.clock()
        for _ in range(calls):
            self.kernel(*self.arrays)
        return (self.clock() - start) / calls

    def sample(self) -> None:
        self.samples.append(self._seconds(self.calls))

    @property
    def seconds(self) -> float:
        return min(self.samples)

    @property
    def steady(self) -> bool:
        return statistics.median(self.samples) <= STEADY * self.seconds

    def _given(self, spec: Spec, layout: Layout | None, number: int) -> tuple[Any, float]:
        """A value of `spec` in `layout`, and how long it takes to bring it there from the layout that it has."""
        array = _moved(_numbers(spec, number), Spec(spec.shape, spec.dtype), spec)
        if layout == spec.layout:
            return array, 0.0
        target = Spec(spec.shape, spec.dtype, layout)
        times = []
        for _ in range(3):
            start = self.clock()
            found = _moved(array, spec, target)
            times.append(self.clock() - start)
        return found, min(times)


def _numbers(spec: Spec, seed: int) -> Any:
    """A plain array of small numbers."""
    array = _room(spec, None)
    array[...] = np.random.default_rng(seed).standard_normal(spec.shape) * 1e-2
    return array


def _room(spec: Spec, layout: Layout | None) -> Any:
    """Memory for a value, as kernels take it."""
    if layout is not None:
        return aligned(layout.nbytes)
    return aligned(math.prod(spec.shape) * spec.dtype.itemsize).view(spec.dtype).reshape(spec.shape)


def _moved(array: Any, source: Spec, target: Spec) -> Any:
    maker = target.layout or source.layout
    if maker is None or source.layout == target.layout:
        return array
    return pack(reorders[maker.library](source, target), target, array)


def time_ways(question: Question, deadline: float, clock: Clock = time.perf_counter) -> dict[str, Time]:
    """The times of all ways that can be made; ends soon after `deadline`. A way that is refused, or fails, has none.

    {} if not all had a turn, or if the machine was so busy with other things that the times say little.
    """
    running: dict[str, _Running] = {}
    for name, make in question.ways.items():
        if clock() > deadline:
            return {}
        try:
            choice = make()
            if choice is not None:
                running[name] = _Running(choice, question, clock)
                running[name].sample()
        except Exception:      # a library may fail in any way; then it is not the fastest
            continue
    ways = list(running.values())
    for number in range(1, MOST_ROUNDS):
        if number < ROUNDS or not _believed(ways):
            _turn(ways, deadline, clock)
    if crowd.taken or not _believed(ways):
        return {}
    return {name: Time(one.seconds, tuple(one.reorders)) for name, one in running.items()}


def _believed(running: Sequence[_Running]) -> bool:
    """Do the two ways that count tell their times?"""
    return all(one.steady for one in sorted(running, key=lambda one: one.seconds)[:2])


def _turn(running: Sequence[_Running], deadline: float, clock: Clock) -> None:
    """One more sample of each way that may still win."""
    fastest = min((one.seconds for one in running), default=0.0)
    for one in running:
        if one.seconds <= HOPELESS * fastest and clock() <= deadline:
            one.sample()
