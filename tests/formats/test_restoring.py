"""Variables that begin with values of checkpoints of either kind, by names and scopes."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.formats import restoring
from workbench.formats.saver import Saver

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
