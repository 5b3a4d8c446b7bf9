"""What views are told of a program's way: a record per stage, whole until it is split, then all shares side by side."""
from __future__ import annotations

import numpy as np

import workbench as wb
from workbench.core.passes.pipeline import DEVICE_PASSES, PASSES
from workbench.core.trace import GraphRecord, journal


def stages_of(session: wb.Session) -> dict[str, GraphRecord]:
    """The stages of the session's first executable, by name."""
    return {record.stage: record for record in journal.graphs_since()[2] if record.key == f"{session.name}_0"}


def test_every_stage_of_a_program_on_two_devices_is_recorded():
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [100, 100], name="x")
        with wb.device("/cpu:1"):
            y = wb.tanh(x * 2.0 + 1.0, name="y")
        with wb.device("/cpu:0"):
            z = wb.sqrt(wb.exp(y) + 2.0, name="z")
        with wb.Session(graph=graph, devices=2) as session:
            session.run(z, {x: np.ones((100, 100), np.float32)})
            stages = stages_of(session)
    assert list(stages) == ["built", *(name for name, _, _ in PASSES), "placed", "partition",
                            *(name for name, _, _ in DEVICE_PASSES)]
    assert [stage for stage, record in stages.items() if record.split] == ["partition", "epilogue", "fuse"]
    assert all(record.note.endswith(".") for record in stages.values())
    shares = stages["partition"].nodes
    assert {node.device for node in shares} == {f"/job:localhost/task:0/device:CPU:{i}" for i in (0, 1)}
    assert sorted(node.type for node in shares if node.type in ("send", "receive")) == ["receive", "send"]
    assert [node.type for node in stages["fuse"].nodes].count("fused") == 2


def test_a_name_that_two_devices_have_names_its_device_and_inputs_follow():
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [], name="x")
        with wb.device("/cpu:1"):
            y = wb.sin(x, name="y")
        with wb.device("/cpu:0"):
            z = wb.cos(x, name="z")
        with wb.Session(graph=graph, devices=2) as session:
            session.run([y, z], {x: 1.0})
            nodes = {node.name: node for node in stages_of(session)["partition"].nodes}
    fed = [name for name in nodes if name.startswith("x")]
    assert sorted(fed) == [f"x on /job:localhost/task:0/device:CPU:{i}" for i in (0, 1)]
    assert nodes["y"].inputs == ("x on /job:localhost/task:0/device:CPU:1:0",)
    assert nodes["z"].inputs == ("x on /job:localhost/task:0/device:CPU:0:0",)
