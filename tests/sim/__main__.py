"""python -m tests.sim MODE SEED [FAULTS]: one simulated training with its history."""
from __future__ import annotations

import sys

from tests.sim import training
from tests.sim.scene import Scene

if __name__ == "__main__":
    mode, seed, *faults = sys.argv[1:]
    made: list[Scene] = []
    checked = training.check

    def check(scene: Scene) -> None:
        made.append(scene)
        checked(scene)
    training.check = check
    begin = Scene.__init__

    def keeping(self: Scene, *arguments: object) -> None:
        made.append(self)
        begin(self, *arguments)      # type: ignore[arg-type]
    Scene.__init__ = keeping      # type: ignore[method-assign]
    try:
        training.train(mode, seed, *map(int, faults))
    finally:
        for line in made[-1].history:
            print(*line)
