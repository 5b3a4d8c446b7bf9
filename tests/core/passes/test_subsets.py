"""All passes without one, and each alone: rows of operations are as the reference says, whatever the others did."""
from __future__ import annotations

import pytest

from tests.core.choices import EVERY, without_passes
from tests.opcases import CASES

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:densify")]
PART = 30      # of the rows; `tests/soak/test_choices.py` takes all of them
SEVERAL = ("qr", "self_adjoint_eigvals")      # operations at which several passes have something to do


def test_all_passes_without_one_and_each_alone() -> None:
    rows = {id(row): row for row in (*CASES[::PART], *(row for row in CASES if row.op in SEVERAL))}
    compared = [off for row in rows.values() for off in without_passes(row, row.inputs)]
    alone = {name for off in compared for name in set(EVERY) - set(off) if len(off) > 1}
    assert {"fold", "algebra", "cse", "fuse"} <= {off[0] for off in compared if len(off) == 1} and {"fold", "stable"} <= alone
