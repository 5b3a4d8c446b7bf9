"""The topic "knobs": the numbers that a person may turn while the program runs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.viz.palette import color_of, short_task
from workbench.viz.views.base import View, view

__all__ = ["KnobPart", "KnobView", "Knobs", "KnobsView"]


@dataclass(slots=True)
class KnobPart:
    """One slider."""

    part: str  # argument of the command "turn"
    label: str  # for people
    color: str  # of a task, "" of anything else
    value: float
    taken: bool  # the program has this value


@dataclass(slots=True)
class KnobView:
    name: str
    most: float  # values lie between 0 and this
    step: float
    parts: list[KnobPart]
    fault: str = ""  # why the program did not take the newest values, "" when it did


@dataclass(slots=True)
class KnobsView:
    """The topic "knobs"."""

    knobs: list[KnobView]


@view("knobs", KnobsView)
class Knobs(View):
    """Whole at every change; nothing while there never was a knob."""

    def _records(self) -> tuple[Any, ...]:
        return tuple(knob.record for knob in list(self.journal.knobs.values()))

    def version(self, params: Any) -> Hashable:
        return self._records()

    def whole(self, params: Any) -> KnobsView:
        return KnobsView([KnobView(one.name, one.most, one.step, _parts(one.parts, one.values, one.taken), one.fault)
                          for one in self._records()])

    def delta(self, sent: Any, params: Any) -> tuple[KnobsView | None, Any]:
        version = self.version(params)
        return (None, version) if version == (sent or ()) else (self.whole(params), version)


def _parts(parts: Sequence[str], values: Sequence[float], taken: Sequence[float]) -> list[KnobPart]:
    taken = taken or (0.0,) * len(values)
    return [KnobPart(part, short_task(part), color_of(part) if part.startswith("/job:") else "", value, value == had)
            for part, value, had in zip(parts, values, taken)]
