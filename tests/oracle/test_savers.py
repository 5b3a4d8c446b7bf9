"""Savers in collections of meta graphs travel both ways, with what they call variables in checkpoints."""
from __future__ import annotations

from pathlib import Path

import pytest

import workbench.tf1 as ours
from tests.formats.test_savers import two_savers
from tests.oracle.harness import compared, quiet, tensorflow

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("forth", [True, False], ids=["ours to TensorFlow", "TensorFlow to ours"])
def test_savers_of_collections_restore_in_the_other_library(forth: bool, tmp_path: Path) -> None:
    with quiet():
        writer, reader = (ours, tensorflow()) if forth else (tensorflow(), ours)
        with writer.Graph().as_default(), writer.Session() as session:
            _, w, whole, part = two_savers(writer)
            session.run(writer.global_variables_initializer())
            path = whole.save(session, str(tmp_path / "whole"))
            session.run(w.assign(5.0))
            other = part.save(session, str(tmp_path / "part"))
        with reader.Graph().as_default(), reader.Session() as session:
            reader.train.import_meta_graph(path + ".meta")
            whole, part = reader.get_collection(reader.GraphKeys.SAVERS)
            whole = whole if hasattr(whole, "restore") else reader.train.Saver.from_proto(whole)
            part = part if hasattr(part, "restore") else reader.train.Saver.from_proto(part)
            whole.restore(session, path)
            assert session.run(reader.global_variables()) == [1.0, 2.0]
            part.restore(session, other)
            compared("values", 2)
            assert session.run(reader.global_variables()) == [1.0, 5.0]
            assert (whole.saver_def.max_to_keep, part.saver_def.max_to_keep) == (2, 7)
