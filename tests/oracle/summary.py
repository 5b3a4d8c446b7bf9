"""The page about the comparison with TensorFlow: counts of its last run by family, and what differs on purpose."""
from __future__ import annotations

import importlib
import importlib.metadata
import platform
from collections import Counter
from pathlib import Path

__all__ = ["DIFFERENCES", "page"]

DIFFERENCES = {
    "gradients of `nn.elu`, `nn.selu` and `nn.leaky_relu` at NaN": "a NaN stays one here; TensorFlow gives a number",
    "`erf` at ±∞": "±1 here; this release of TensorFlow gives NaN",
    "`nn.ctc_loss` of repeated labels that need more steps than there are": "refused with the number of steps unless "
    "`ignore_longer_outputs_than_inputs=True`; TensorFlow warns and gives an infinite loss in both cases",
    "gradients of second order through `while_loop`": "compared with finite differences in `tests/core`; TensorFlow's are "
    "partly wrong",
    "second gradients": "a path of zeros gives zeros in one library and None in the other",
    "gradients in TensorFlow after its own rewrites": "some lose dimensions of 1; random programs run there without rewrites",
    "oneDNN inside TensorFlow": "is off: it ends the process for a convolution of unknown rank, and a convolution of no images "
    "gets the filter's input channels",
    "`get_variable(partitioner=...)` with a tensor to start from": "is one variable here; TensorFlow cuts it in parts",
    "`read_up_to` of readers": "goes on with the next file until it has enough; TensorFlow gives what one file had",
    "random numbers": "moments and reproducibility are compared; the streams differ",
}
"""What -> how it differs, beside the tables in the test files."""

HEAD = """# Compared with TensorFlow

`make oracle` builds programs twice, with `workbench.tf1` and with `tf.compat.v1`, runs both, and compares values, gradients,
dtypes, shapes and error classes. TensorFlow, PyTorch and JAX are needed for that alone (extra `oracle`); the first run installs
them into `.venv-oracle`, `make oracle ORACLE_PYTHON=/path/to/python` uses an environment that has them. One random program:
`python -m tests.oracle.programs.run SEED` prints where it differs and a smaller program that still does.

The run writes this page.
"""


def family(path: Path) -> str:
    """What a file of tests is about: its first line."""
    return path.read_text(encoding="utf-8").partition('"""')[2].partition('"""')[0].split("\n")[0].rstrip(".")


def version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def excused() -> dict[str, dict[str, str]]:
    """The tables of known differences that the tests themselves read, by title."""
    def of(name: str, table: str) -> dict[object, str]:
        return dict(getattr(importlib.import_module(f"tests.oracle.{name}"), table))
    errors = {what: f"raises {kind} here" for what, kind in of("test_errors", "OTHERWISE").items()}
    names = {f"`{n}`": why for why, text in of("test_names", "ELSEWHERE").items() for n in text.split()}
    graphs = {f"`{case}`": why for case, why in of("test_graphs", "KNOWN").items()}
    seeds = {f"seed {seed}": why for seed, why in of("test_random_programs", "KNOWN").items()}
    return {"Values and gradients": DIFFERENCES, "Graphs that TensorFlow cannot run": graphs,
            "Random programs": seeds or {"none": "all agree"},
            "Errors of another class": {str(k): v for k, v in errors.items()},
            "Names without a row of their own": names}


def page(passed: Counter[str], failed: Counter[str]) -> str:
    """Markdown; counts are by file of tests."""
    folder = Path(__file__).parent
    peers = ", ".join(f"{name} {version(package)}" for name, package in (
        ("TensorFlow", "tensorflow-cpu"), ("PyTorch", "torch"), ("JAX", "jax"), ("NumPy", "numpy")))
    lines = [HEAD, f"Last run: Python {platform.python_version()}, {peers}.", ""]
    lines += ["| family | agree | differ |", "|---|---|---|"]
    for name in sorted(passed.keys() | failed.keys()):
        lines.append(f"| {family(folder / name)} (`{name}`) | {passed[name]} | {failed[name]} |")
    lines.append(f"| **all** | **{passed.total()}** | **{failed.total()}** |")
    for title, table in excused().items():
        lines += ["", f"## {title}", ""]
        if title.startswith("Names"):
            lines += [f"- {why}: " + ", ".join(k for k, v in table.items() if v == why)
                      for why in dict.fromkeys(table.values())]
        else:
            lines += [f"- {what}: {why}" for what, why in table.items()]
    return "\n".join(lines) + "\n"
