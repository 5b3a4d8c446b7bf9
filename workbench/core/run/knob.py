"""Numbers that a person turns on a page while a program runs, and the call that hands them to the program."""
from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from workbench import errors
from workbench.core.trace import Journal, KnobRecord
from workbench.core.trace import journal as process_journal

__all__ = ["Knob"]


class Knob:
    """A number for each of `parts`, 0 at first, which every page that watches this process shows as a slider.

    `turn(values)` hands all of them to the program, for instance by a `Session.run` that assigns them to a variable:

        brake = wb.Knob("brake", workers, lambda rounds: session.run(set_brake, {knob: rounds}))

    It is called by `set`, on the caller's thread, and after a move on a page on a thread of the knob's own, one call at a
    time; of several moves meanwhile the newest counts. What it raises after a move is shown beside the sliders.
    Until `close` the page shows it; another knob of the same name takes its place.

    name: what it is called on the page.
    parts: one text per number, for instance the tasks.
    turn: takes a list of as many float or, where `step` is whole, int.
    most, step: the sliders reach from 0 to `most` in steps of `step`, both above 0.
    Raises InvalidArgumentError for no parts, a part twice, or bounds that are none.
    """

    def __init__(self, name: str, parts: Sequence[str], turn: Callable[[list[float]], object], most: float = 100,
                 step: float = 1, journal: Journal = process_journal) -> None:
        if not parts or len(set(parts)) != len(parts):
            raise errors.InvalidArgumentError(f"Knob {name!r}: its parts are {list(parts)}; give one or more, each once")
        if not (math.isfinite(most) and math.isfinite(step) and 0 < step <= most):
            raise errors.InvalidArgumentError(f"Knob {name!r}: it goes to {most} in steps of {step}; both must be above 0 and "
                                              "the step no more than the most")
        self._turn, self._journal = turn, journal
        self._lock, self._turning = threading.Lock(), threading.Lock()
        self._mover: threading.Thread | None = None
        self.record = KnobRecord(name, tuple(parts), (0.0,) * len(parts), float(most), float(step))
        journal.knobs[name] = self

    def __repr__(self) -> str:
        return f"<Knob {self.record.name}: {', '.join(f'{p} {v:g}' for p, v in zip(self.record.parts, self.record.values))}>"

    def set(self, values: Sequence[float]) -> None:
        """Turn it to `values`, one per part; the program has them when this returns. Raises what `turn` raises, and
        InvalidArgumentError for another number of values or one that is out of its bounds."""
        if len(values) != len(self.record.parts):
            raise errors.InvalidArgumentError(f"Knob {self.record.name!r}: {len(values)} values for "
                                              f"{len(self.record.parts)} parts; give one each: {', '.join(self.record.parts)}")
        checked = tuple(map(self._checked, values))
        with self._turning:
            with self._lock:
                self.record = replace(self.record, values=checked, fault="")
            self._turn(self._given(checked))
            with self._lock:
                self.record = replace(self.record, taken=checked)

    def move(self, part: str, value: float) -> None:
        """As a page does: turn one part, and do not wait for the program. Raises InvalidArgumentError for a part that there
        is not, or a value out of its bounds."""
        if part not in self.record.parts:
            raise errors.InvalidArgumentError(f"Knob {self.record.name!r}: it has no part {part!r}; it has "
                                              f"{', '.join(self.record.parts)}")
        value = self._checked(value)
        with self._lock:
            values = tuple(value if one == part else old for one, old in zip(self.record.parts, self.record.values))
            self.record = replace(self.record, values=values, fault="")
            if self._mover is None:
                self._mover = threading.Thread(target=self._follow, name="workbench-knob", daemon=True)
                self._mover.start()

    def close(self) -> None:
        """No page shows it any more. Closing twice is fine."""
        if self._journal.knobs.get(self.record.name) is self:
            del self._journal.knobs[self.record.name]

    def _checked(self, value: float) -> float:
        record = self.record
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= record.most
        if not number or (record.step.is_integer() and value != int(value)):
            raise errors.InvalidArgumentError(f"Knob {record.name!r}: it is turned to {value!r}; it goes from 0 to "
                                              f"{record.most:g} in steps of {record.step:g}")
        return float(value)

    def _given(self, values: tuple[float, ...]) -> list[float]:
        return [int(value) for value in values] if self.record.step.is_integer() else list(values)

    def _follow(self) -> None:
        """Hand on what was moved until nothing new was."""
        while True:
            with self._turning:
                wanted, fault = self.record.values, ""
                try:
                    self._turn(self._given(wanted))
                except Exception as failed:
                    fault = str(failed).partition("\n")[0] or type(failed).__name__
                with self._lock:
                    self.record = replace(self.record, taken=self.record.taken if fault else wanted)
                    if self.record.values == wanted:
                        self.record = replace(self.record, fault=fault)
                        self._mover = None
                        return
