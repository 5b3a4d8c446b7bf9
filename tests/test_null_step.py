"""The null step: results of each cell have a file; simulated, what is dealt with in turn, and costs that are found again."""
from __future__ import annotations

import pytest

from benchmarks.harness import results_file
from benchmarks.null_step import KINDS, SIZES, title
from benchmarks.null_step_scale import Cost, Costs, fit, simulate

NOTHING = Cost(0.0, 0.0)


def test_no_cell_overwrites_the_results_of_another():
    cells = [(kind, workers, servers) for kind in KINDS for workers in SIZES for servers in SIZES]
    assert len({results_file(title(*cell)) for cell in cells}) == len(cells)


def test_only_messages_take_time_where_nobody_works():
    """Told, value, gradient, answered: four one after another, however many tasks there are."""
    assert simulate(7, 3, Costs(NOTHING, NOTHING, NOTHING, hop=2.0)) == 8.0


@pytest.mark.parametrize("costs, seconds", [
    (Costs(Cost(1.0, 0.0), NOTHING, NOTHING), 1.0),
    (Costs(Cost(0.0, 2.0), NOTHING, NOTHING), 4.0),      # two servers are told and answer for all
    (Costs(NOTHING, Cost(1.0, 2.0), NOTHING), 1.0 + 3 + 3),      # to three workers and from them
    (Costs(NOTHING, NOTHING, Cost(1.0, 2.0)), 1.0 + 2 + 2)])      # from two servers and to them
def test_each_deals_with_its_peers_in_turn(costs, seconds):
    assert simulate(3, 2, costs) == pytest.approx(seconds)


def test_costs_are_found_again():
    truth = Costs(Cost(5.0, 1.0), Cost(3.0, 2.0), Cost(4.0, 0.5), hop=6.0)
    cells = {(w, p): (simulate(w, p, truth), 5.0 + p, 3.0 + 2 * w, 4.0 + 0.5 * p)
             for w, p in [(1, 1), (2, 1), (1, 2), (4, 4)]}
    found = fit(cells)
    assert found.hop == pytest.approx(6.0)
    assert simulate(64, 16, found) == pytest.approx(simulate(64, 16, truth))
