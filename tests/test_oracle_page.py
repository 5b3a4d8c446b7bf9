"""The page about the comparison with TensorFlow is that of a run that reached its end and found nothing unexplained."""
from __future__ import annotations

import importlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "oracle.md").read_text(encoding="utf-8")
ROWS = {cells[0]: [int(cell.replace(",", "")) for cell in cells[1:]]
        for line in PAGE.splitlines() if line.startswith("|") and not line.startswith(("| family", "|---"))
        for cells in [[cell.strip() for cell in line.strip("|").split("|")]]}
FAMILIES = {name: numbers for name, numbers in ROWS.items() if name != "all"}


def test_every_family_of_comparisons_has_its_row():
    files = sorted(path.name for path in (ROOT / "tests" / "oracle").glob("test_*.py"))
    assert sorted(name.rpartition("(`")[2].rstrip("`)") for name in FAMILIES) == files


def test_the_sums_are_those_of_the_rows():
    assert ROWS["all"] == [sum(column) for column in zip(*FAMILIES.values())]


def test_thousands_were_compared_and_none_differs():
    tests, *_, differ = ROWS["all"]
    assert tests > 9000 and differ == 0


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "tests" / "oracle").glob("test_*.py")))
def test_a_comparison_can_be_loaded_where_its_peers_are_missing(name):
    """Without them pytest does not look at these files, and a name that is gone would be found too late."""
    marks = importlib.import_module(f"tests.oracle.{name}").pytestmark
    assert pytest.mark.oracle in (marks if isinstance(marks, list) else [marks])
