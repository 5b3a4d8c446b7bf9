"""The page about the comparison with TensorFlow: counts of its last run by family, and what differs on purpose."""
from __future__ import annotations

import datetime
import importlib
import importlib.metadata
import inspect
import math
import platform
import subprocess
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

__all__ = ["DIFFERENCES", "excused", "family", "page", "sizes"]

FOLDER = Path(__file__).parent
KINDS = ("tests", "values", "gradients", "dtypes", "shapes", "errors", "differ")

DIFFERENCES = {
    "gradients of `nn.elu`, `nn.selu` and `nn.leaky_relu` at NaN": "a NaN stays one here; TensorFlow gives a number",
    "`erf` at ±∞": "±1 here; this release of TensorFlow gives NaN",
    "`argmax` and `argmin` at NaN": "the first NaN here, as NumPy says and as `reduce_max` is NaN then; TensorFlow passes NaN "
    "over",
    "an element of a `TensorArray` read twice with `clear_after_read`": "is there, as arrays are values here; TensorFlow's is "
    "gone",
    "a `TensorArray` used after its `close()`": "is there, as arrays are values here; TensorFlow raises where the close "
    "ran first",
    "an element of a `TensorArray` that was never written": "is zeros where its shape is known, as in this TensorFlow; 1.4 "
    "raises",
    "`TensorArray.grad` called twice": "gives two arrays of zeros, and what was written is in the flow, which `grad` takes; in "
    "TensorFlow both are one array. `gradients` passes what was written there; TensorFlow refuses it",
    "gradients of `cumprod` where an element is 0": "its limits here, compared with JAX; TensorFlow divides by 0, "
    "also in graphs that we write for it",
    "`nn.ctc_loss` of repeated labels that need more steps than there are": "refused with the number of steps unless "
    "`ignore_longer_outputs_than_inputs=True`; TensorFlow warns and gives an infinite loss in both cases",
    "gradients of second order through `while_loop`": "compared with finite differences in `tests/core`; TensorFlow's are "
    "partly wrong",
    "gradients through loops of imported graphs": "go through those that become `while_loop`; a loop stays as frames, without "
    "gradients, where `return_elements` names what is inside, where it holds a stack or an array of a step or another loop "
    "that stays, and where it was put together by hand in another way (two `LoopCond`, a `Merge` whose place is read)",
    "TensorFlow's gradients through loops of ours that carry arrays": "stop at its frames, which have none for the lists that "
    "arrays are written as (`carried_by_a_loop` and `mapped_in_a_map` of `tests/formats/array_programs.py`)",
    "second gradients": "a path of zeros gives zeros in one library and None in the other",
    "gradients in TensorFlow after its own rewrites": "some lose dimensions of 1; random programs run there without rewrites",
    "oneDNN inside TensorFlow": "is off: it ends the process for a convolution of unknown rank, and a convolution of no images "
    "gets the filter's input channels",
    "`read_up_to` of readers": "goes on with the next file until it has enough; TensorFlow gives what one file had",
    "`keras`: `hard_sigmoid`, `cosine_proximity`, what GRU resets, where epsilon stands, and defaults": "are those of "
    "TensorFlow 1.4 here; the Keras inside TensorFlow 2 has changed them",
    "kinds of numbers that TensorFlow took later": "are refused as in 1.4; `tests/oracle/test_random_calls.py` names each "
    "operation that takes, gives or knows less or other than the TensorFlow it is compared with",
    "random numbers": "moments and reproducibility are compared; the streams differ",
}
"""What -> how it differs, beside the tables in the test files."""

HEAD = """# Compared with TensorFlow

`make oracle` builds programs twice, with `workbench.tf1` and with `tf.compat.v1`, runs both, and compares values, gradients,
dtypes, shapes and error classes. TensorFlow, PyTorch and JAX are needed for that alone (extra `oracle`); the first run installs
them into `.venv-oracle`, `make oracle ORACLE_PYTHON=/path/to/python` uses an environment that has them. One random program:
`python -m tests.oracle.programs.run SEED` prints where it differs and a smaller program that still does.

A run that reaches its end writes this page; the numbers are of arrays (values, gradients, dtypes, shapes) and of errors that
both libraries raise.
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
    laws = {f"`{law}.{question}`": why for law, table in of("test_distributions", "KNOWN").items()
            for question, why in dict(table).items()}      # type: ignore[call-overload]
    names = {f"`{n}`": why for why, text in of("test_names", "ELSEWHERE").items() for n in text.split()}
    graphs = {f"`{case}`": why for case, why in of("test_graphs", "KNOWN").items()}
    shapes = {f"`{case}`": why for case, why in of("harness", "NEEDS_SHAPES").items()}
    return {"Values and gradients": {**DIFFERENCES, **laws}, "Shapes that must be known here": shapes,
            "Graphs that TensorFlow cannot run": graphs,
            "Errors of another class": {str(k): v for k, v in errors.items()},
            "Names without a row of their own": names}


def sizes() -> dict[str, int]:
    """How many tests each file holds, counted from what its functions are parametrized with; nothing is run for it."""
    def count(module: object) -> int:
        return sum(math.prod(len(mark.args[1]) for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize")
                   for name, function in inspect.getmembers(module, inspect.isfunction) if name.startswith("test_"))
    return {path.name: count(importlib.import_module(f"tests.oracle.{path.stem}")) for path in sorted(FOLDER.glob("test_*.py"))}


def tree() -> str:
    """What ran, by its content: commits are put together and written anew, and this page is written afterwards."""
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=FOLDER, capture_output=True, text=True, check=True).stdout.strip()
    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/workbench")
        return git("rev-parse", "--short=10", "HEAD:workbench") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def row(title: str, found: Mapping[str, int]) -> str:
    return f"| {title} | " + " | ".join(f"{found.get(kind, 0):,}" for kind in KINDS) + " |"


def unreached(kinds: Collection[str]) -> list[str]:
    """The kinds of operations there are besides."""
    importlib.import_module("workbench.tf1")
    return sorted(set(importlib.import_module("workbench.core.graph.opdef").registry) - set(kinds))


def page(counts: Mapping[str, Counter[str]], kinds: Collection[str] = ()) -> str | None:
    """Markdown, or None where the counts are not those of the whole suite."""
    if {name: found["tests"] for name, found in counts.items()} != sizes():
        return None
    peers = ", ".join(f"{name} {version(package)}" for name, package in (
        ("TensorFlow", "tensorflow-cpu"), ("PyTorch", "torch"), ("JAX", "jax"), ("NumPy", "numpy")))
    lines = [HEAD, f"Last run: {datetime.datetime.now(datetime.UTC):%Y-%m-%d}, package {tree()} (`git rev-parse "
             f"HEAD:workbench`), Python {platform.python_version()}, {peers}.", ""]
    lines += ["| family | " + " | ".join(KINDS) + " |", "|---|" + "---|" * len(KINDS)]
    lines += [row(f"{family(FOLDER / name)} (`{name}`)", found) for name, found in sorted(counts.items())]
    lines.append(row("all", sum(counts.values(), Counter())))
    left = unreached(kinds)
    lines += ["", f"These programs, their gradients and what is inside their loops made {len(kinds)} kinds of operations. "
              f"None made {len(left)} others, which `make test` compares with their references: "
              f"{', '.join(f'`{kind}`' for kind in left)}."]
    for title, table in excused().items():
        lines += ["", f"## {title}", ""]
        if title.startswith("Names"):
            lines += [f"- {why}: " + ", ".join(k for k, v in table.items() if v == why)
                      for why in dict.fromkeys(table.values())]
        else:
            lines += [f"- {what}: {why}" for what, why in table.items()]
    return "\n".join(lines) + "\n"
