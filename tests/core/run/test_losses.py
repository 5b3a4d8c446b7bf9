"""Losses that are fetched record themselves, by their names or because they are minimized."""
from __future__ import annotations

import workbench as wb
from workbench.core.trace import journal


def recorded(*names: str, counted: bool = False) -> list[tuple[str, float]]:
    """(series, value) of what one step recorded that fetched scalars of these names."""
    cursor = journal.points_since()[0]
    with wb.Graph().as_default(), wb.Session() as session:
        values = [wb.identity(0.5 * number, name=name) for number, name in enumerate(names)]
        if counted:
            journal.count(3, 10)
        session.run([values, wb.constant(1.0, name="other")])
    return [(point.series, point.value) for point in journal.points_since(cursor)[2]]


def test_a_fetched_loss_records_itself_by_its_name():
    assert recorded("accuracy", "loss", "model/loss/mean", "loss_rate") == [("loss", 0.5), ("model/loss/mean", 1.0)]


def minimized(*names: str) -> list[tuple[str, float]]:
    """What a step records that minimizes scalars of these names, and fetches them."""
    cursor = journal.points_since()[0]
    with wb.Graph().as_default(), wb.Session() as session:
        weight = wb.Variable(2.0)
        values = [wb.multiply(weight, 1.0 + number, name=name) for number, name in enumerate(names)]
        steps = [wb.train.GradientDescentOptimizer(0.0).minimize(value) for value in values]
        session.run(weight.initializer)
        session.run(steps)      # what is not fetched is not computed for the views alone
        session.run([steps, values, wb.multiply(weight, 1.0, name="other")])
    return [(point.series, point.value) for point in journal.points_since(cursor)[2]]


def test_a_fetched_loss_that_is_minimized_records_itself_whatever_its_name():
    assert minimized("mean") == [("loss", 2.0)] and minimized("loss") == [("loss", 2.0)]
    assert minimized("first", "second") == [("loss first", 2.0), ("loss second", 4.0)]
    assert minimized("loss", "second") == [("loss", 2.0), ("loss second", 4.0)]


def test_a_training_loop_that_counts_records_its_own():
    assert recorded("loss", counted=True) == []


def test_losses_of_a_batch_and_whole_numbers_are_no_curve():
    cursor = journal.points_since()[0]
    with wb.Graph().as_default(), wb.Session() as session:
        session.run([wb.zeros([2], name="loss"), wb.identity(wb.constant(1), name="total_loss")])
    assert journal.points_since(cursor)[2] == []
