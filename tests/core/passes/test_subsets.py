"""All passes without one, and each alone: rows of operations are as the reference says, whatever the others did."""
from __future__ import annotations

import pytest

from tests.core.choices import EVERY, without_passes
from tests.opcases import CASES

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:densify")]
PART = 30      # of the rows; `tests/soak/test_choices.py` takes all of them


def test_all_passes_without_one_and_each_alone() -> None:
    compared = [off for row in CASES[::PART] for off in without_passes(row, row.inputs)]
    alone = {name for off in compared for name in set(EVERY) - set(off) if len(off) > 1}
    assert {"fold", "cse", "fuse"} <= {off[0] for off in compared if len(off) == 1} & alone
