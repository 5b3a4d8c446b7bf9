"""When hooks act: every so many steps or seconds."""
from __future__ import annotations

import time

from workbench import errors

__all__ = ["SecondOrStepTimer"]


class SecondOrStepTimer:
    """Triggers every `every_secs` seconds or every `every_steps` steps; the first step always. InvalidArgumentErrors unless
    exactly one is given."""

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if (every_secs is None) == (every_steps is None):
            raise errors.InvalidArgumentError(f"SecondOrStepTimer: every_secs is {every_secs} and every_steps {every_steps}; "
                                              "either every_secs or every_steps should be provided, and not both")
        self._secs, self._steps = every_secs, every_steps
        self.reset()

    def reset(self) -> None:
        """As if it had never triggered."""
        self._last: int | None = None
        self._when: float | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Is it time, at this step? The same step triggers once."""
        if self._last is None or self._when is None:
            return True
        if self._last == step:
            return False
        if self._secs is not None:
            return time.monotonic() >= self._when + self._secs
        return step >= self._last + (self._steps or 1)

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """It triggered now: (seconds, steps) since the time before, None the first time."""
        now = time.monotonic()
        passed = (None, None) if self._last is None or self._when is None else (now - self._when, step - self._last)
        self._last, self._when = step, now
        return passed

    def last_triggered_step(self) -> int | None:
        """The step at which it triggered last."""
        return self._last
