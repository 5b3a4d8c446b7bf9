"""The tour runs from top to bottom in a real kernel, learns, finds the slow worker, and is stored without outputs."""
from __future__ import annotations

import ast
import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workbench.viz.verdict import NOTICEABLE

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
TOUR = NOTEBOOKS / "00_tour.ipynb"
LEFT = """
import json, multiprocessing, threading
from workbench.widgets.bridge import bridge
hubs = [thread for thread in threading.enumerate() if thread.name == "workbench-hub"]
connected = bridge.running
bridge.stop()
for thread in hubs:
    thread.join(30)
spans = wb.journal.spans_since(0)[2]
print(json.dumps({
    "softmax": float(softmax_accuracy), "async": run.progress.accuracy, "blocking": progress.accuracy,
    "sync": synchronous.accuracy, "steps": [run.progress.step, progress.step, synchronous.step],
    "slow": [row.task for row in slow[1]], "slow_ms": [row.work for row in slow[1]],
    "slow_share": slow[1][0].cost,
    "tasks": sorted({span.task for span in spans}), "kinds": sorted({span.kind for span in spans}),
    "drawn": picture(drawing).count("<g "), "stages": {stage: len(record.nodes) for stage, record in stages.items()},
    "brakes": list(brakes.record.taken),
    "rewritten": [len(small.operations), len(program.graph.operations)],
    "children": len(multiprocessing.active_children()), "viewing": live.running,
    "connected": connected, "hubs": len(hubs), "left": [thread.name for thread in hubs if thread.is_alive()]}))
"""


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_nothing_a_run_made_is_stored(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert code and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert notebook["metadata"].keys() == {"kernelspec", "language_info"}


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_name_that_a_cell_imports_exists(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    imported = [node for cell in cells for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.ImportFrom)]
    assert [f"{node.module}.{alias.name}" for node in imported for alias in node.names
            if not hasattr(importlib.import_module(str(node.module)), alias.name)] == []


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, dict[str, Any], Path]]:
    """(the executed notebook, what it left in the kernel, the folder it ran in)."""
    import nbformat  # seconds, which all that only look for tests would pay
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("tour")
    notebook = nbformat.read(TOUR, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(LEFT))
    paths = [str(TOUR.parents[1]), os.environ.get("PYTHONPATH", "")]
    client = NotebookClient(notebook, timeout=100, resources={"metadata": {"path": str(folder)}})
    client.execute(env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "WB_CHECK": "0"})
    yield notebook, json.loads(notebook.cells[-1].outputs[-1].text), folder


@pytest.mark.cluster
def test_the_tour_learns_and_shows(tour: tuple[Any, dict[str, Any], Path]) -> None:
    notebook, left, folder = tour
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert [output for output in outputs if output.output_type == "error"] == []
    assert left["softmax"] > 0.85 and min(left["async"], left["blocking"], left["sync"]) > 0.9
    assert left["steps"] == [2000, 500, 500]
    assert left["tasks"] == ["/job:localhost/task:0", *(f"/job:{job}/task:{i}" for job in ("ps", "worker") for i in (0, 1))]
    assert {"step", "segment", "op", "send", "recv", "compile"} <= set(left["kinds"])
    assert left["stages"]["built"] > 50 and left["stages"]["placed"] > 50 and left["drawn"] > 10
    assert left["rewritten"][1] < left["rewritten"][0]
    drawn = [output.data["text/html"] for cell in notebook.cells if "rewrite_picture(before" in cell.source
             for output in cell.outputs if "data" in output]
    assert len(drawn) >= 3 and all(html.count("<svg") == 2 for html in drawn), "each rewrite that changed something"
    assert left["brakes"] == [0, 0]
    report = (folder / "tour_report.html").read_text(encoding="utf-8")
    assert "The tour" in report and "<svg" in report and "worker:1" in report
    assert not left["viewing"] and left["children"] == 0
    assert left["connected"] and left["hubs"] == 1, "one hub serves the panel and the live view"
    assert left["left"] == [], "and ends when nobody is left to serve"


@pytest.mark.cluster
def test_the_slow_worker_is_named(tour: tuple[Any, dict[str, Any], Path]) -> None:
    _, left, _ = tour
    assert left["slow"][0] == "/job:worker/task:1"
    assert left["slow_ms"][0] > 2 * left["slow_ms"][1] and left["slow_share"] > NOTICEABLE
