"""Summaries that the step itself writes."""
from __future__ import annotations

import pytest

import workbench as wb
from workbench import train
from workbench.core.graph.build import ops
from workbench.train.saving import step_summary as written

pytestmark = pytest.mark.usefixtures("graph")


def events(folder):
    """(step, tag, value) of all points in a folder."""
    return [(event.step, value.tag, value.simple_value) for file in sorted(folder.iterdir())
            for event in train.summary_iterator(str(file)) for value in event.summary.value]


def test_points_are_written_by_the_step(tmp_path):
    step = train.get_or_create_global_step()
    writer = written.create_file_writer(str(tmp_path), flush_millis=1000, max_queue=3)
    with writer.as_default(), written.always_record_summaries(), wb.name_scope("model"):
        made = written.scalar("loss", ops.cast(step, "float32") * 2.0, family="f")
    assert written.all_summary_ops() == [made] and written.should_record_summaries() is False
    with wb.Session() as session:
        session.run(step.initializer)
        written.initialize(session=session)
        for _ in range(2):
            assert session.run(made) is None
            session.run(step.assign_add(1))
        session.run(writer.close())
    assert events(tmp_path) == [(0, "f/model/f/loss", 0.0), (1, "f/model/f/loss", 2.0)]


def test_every_nth_step_is_written_and_none_without_a_writer(tmp_path):
    step = ops.placeholder("int64", [])
    assert written.scalar("nowhere", 1.0).kind == "no_op" and written.flush().kind == "no_op"
    writer = written.create_file_writer(str(tmp_path))
    writer.set_as_default()
    assert written.scalar("unasked", 1.0).kind == "no_op"
    with written.record_summaries_every_n_global_steps(2, step):
        made = [written.scalar("a", 1.5, step=step), written.histogram("h", [1.0, 2.0], step=step),
                written.image("i", ops.zeros([1, 2, 2, 1]), step=step)]
        with written.never_record_summaries():
            assert written.scalar("b", 1.0, step=step).kind == "no_op"
    with wb.Session() as session:
        for number in range(5):
            session.run(written.all_summary_ops(), {step: number})
        session.run(written.flush())
        session.run(writer.close())
    found = events(tmp_path)
    assert [(at, tag) for at, tag, _ in found if tag == "a"] == [(0, "a"), (2, "a"), (4, "a")]
    assert {tag for _, tag, _ in found} == {"a", "h", "i/image/0"} and len(made) == 3


def test_no_folder_no_writer_and_one_that_is_not_known_is_refused():
    assert written.create_file_writer(None) is None
    with pytest.raises(ValueError, match="known in the step only"):
        written.create_file_writer(ops.placeholder("string", []))
