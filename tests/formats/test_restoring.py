"""Variables that begin with values of checkpoints of either kind, by names and scopes."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.formats import restoring
from workbench.formats.saver import Saver
from workbench.nn.partitions import fixed_size_partitioner

pytestmark = pytest.mark.usefixtures("graph")


@pytest.fixture(params=[None, 2])
def path(request, tmp_path):
    with wb.Graph().as_default(), wb.Session() as session:
        for name, value in (("old/w", [1.0, 2.0]), ("old/b", [3.0])):
            wb.Variable(np.float32(value), name=name)
        session.run(wb.global_variables_initializer())
        return Saver(write_version=request.param).save(session, tmp_path / "model")


def variable(name, shape):
    return wb.get_variable(name, shape, initializer=wb.zeros_initializer())


def test_initializers_read_the_checkpoint(path):
    w, b, other = variable("new/w", [2]), variable("new/b", [1]), variable("other", [2])
    restoring.init_from_checkpoint(path, {"old/": "new/"})
    restoring.init_from_checkpoint(path, {"old/w": "other"})
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        assert [v.tolist() for v in session.run([w, b, other])] == [[1, 2], [3], [1, 2]]
        restoring.init_from_checkpoint(path, {"old/w": w})


@pytest.mark.parametrize(("mapping", "text"), [
    ({"old/w": "nothing"}, "Variable nothing is not found among the graph's; make it first"),
    ({"old/x": "new/b"}, "Tensor old/x is not found in .* checkpoint; it lists its tensors by list_variables"),
    ({"older/": "new/"}, "Tensor older/b is not found in .* checkpoint"),
    ({"old/w": "new/b"}, r"Shape of variable new/b \(\[1\]\) doesn't match with shape of tensor old/w \(\[2\]\)")])
def test_what_does_not_fit_is_named(path, mapping, text):
    variable("new/b", [1])
    with pytest.raises(ValueError, match=text):
        restoring.init_from_checkpoint(path, mapping)


def test_assignments_of_a_checkpoint(path):
    w, missing = variable("old/w", [1, 2]), variable("missing", [1])
    step, feeds = restoring.assign_from_checkpoint(path, [w, missing], ignore_missing_vars=True)
    fill = restoring.assign_from_checkpoint_fn(path, {"old/w": w, "no": missing}, ignore_missing_vars=True,
                                               reshape_variables=True)
    with wb.Session() as session:
        session.run(step, feeds)
        assert session.run(w).tolist() == [[1, 2]]
        session.run(wb.global_variables_initializer())
        fill(session)
        assert session.run(w).tolist() == [[1, 2]]
    assert restoring.assign_from_checkpoint_fn(path, [missing], ignore_missing_vars=True) is None
    with pytest.raises(errors.InvalidArgumentError, match=r"Checkpoint is missing variable \[missing\]; leave it out"):
        restoring.assign_from_checkpoint(path, [missing])
    with pytest.raises(errors.InvalidArgumentError, match="Total size of new array must be unchanged for old/b"):
        restoring.assign_from_checkpoint(path, {"old/b": w})


@pytest.fixture
def table(tmp_path):
    """A checkpoint of one variable [6, 4]."""
    with wb.Graph().as_default(), wb.Session() as session:
        wb.Variable(np.arange(24, dtype="float32").reshape(6, 4), name="here/table")
        session.run(wb.global_variables_initializer())
        return Saver().save(session, tmp_path / "model")


@pytest.mark.parametrize(("name", "target"), [("here/table", "there/table"), ("here/", "there/"), ("here/table", None)])
@pytest.mark.parametrize("axis", [0, 1])
def test_parts_of_a_variable_begin_with_their_parts_of_a_tensor(table, name, target, axis):
    with wb.variable_scope("there"):
        whole = wb.get_variable("table", [6, 4], initializer=wb.zeros_initializer(),
                                partitioner=fixed_size_partitioner(4, axis=axis))
    restoring.init_from_checkpoint(table, {name: target or whole})
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        parts = session.run(list(whole))
        assert len(parts) == 4
        np.testing.assert_array_equal(np.concatenate(parts, axis), np.arange(24).reshape(6, 4))


def test_parts_of_another_shape_are_refused(table):
    wb.get_variable("table", [6, 5], initializer=wb.zeros_initializer(), partitioner=fixed_size_partitioner(2))
    with pytest.raises(ValueError, match=r"Shape of variable table/part_0 \(\[6,5\]\) doesn't match"):
        restoring.init_from_checkpoint(table, {"here/table": "table"})


def test_parts_are_assigned_their_parts_of_a_tensor(table):
    whole = wb.get_variable("table", [6, 4], initializer=wb.zeros_initializer(), partitioner=fixed_size_partitioner(4))
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        step, feeds = restoring.assign_from_checkpoint(table, {"here/table": whole})
        session.run(step, feeds)
        np.testing.assert_array_equal(np.concatenate(session.run(list(whole))), np.arange(24).reshape(6, 4))
        session.run(wb.global_variables_initializer())
        restoring.assign_from_checkpoint_fn(table, {"here/table": list(whole)})(session)
        np.testing.assert_array_equal(np.concatenate(session.run(list(whole))), np.arange(24).reshape(6, 4))
