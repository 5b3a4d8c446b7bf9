"""Every workload in one table: ours ÷ the best peer on this processor and kept to AVX2, with two threads and with one.

    python -m benchmarks.table [ROW ...] [--columns own2,own1,avx2,avx1] [--rounds N] [--seconds S] [--processor] [--print]
                               [--of NAME]

Each cell is measured in processes of its own, whose environment says what they may use: every library's own setting for
AVX2 (oneDNN of all frameworks, MKL, torch's kernels, OpenBLAS), and the cores that they may run on. JAX, whose products take
the processor's own instructions whatever it is told, and torch.compile, which computes something else then, are not compared
there. `--processor` compares processor time, which others on the machine disturb less; take it for the columns of one thread
alone, since threads that wait cost processor time, too. The newest cells are kept in results/table.json, those of another
processor, with which they are not to be mixed, in results/table_NAME.json; `--print` only prints them, as Markdown.
"""
from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import language_model, neighbour, optimizer_updates, patterns, zoo_networks
from benchmarks.harness import Result, results_file

Made = Callable[[str], Any]
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2", "OPENBLAS_CORETYPE": "Haswell"}
COLUMNS: dict[str, tuple[str, Mapping[str, str], int]] = {
    "own2": ("own, 2 threads", {}, 2), "own1": ("own, 1 thread", {}, 1),
    "avx2": ("AVX2, 2 threads", AVX2, 2), "avx1": ("AVX2, 1 thread", AVX2, 1)}
UNRESTRAINED = ("JAX jit", "torch.compile")
COMPILED = {"torch.compile": "torch"}


@dataclass(frozen=True)
class Row:
    """A workload, its bar, and who is compared."""

    title: str
    bar: float
    work: Made
    peers: Mapping[str, str]


def _alexnet(name: str) -> Any:
    from benchmarks.convnets import ALEXNET
    return neighbour.net(name, ALEXNET)


def _rows() -> dict[str, Row]:
    peers = neighbour.PEERS
    rows = {"softmax": Row("softmax regression 784x10, batch 100", 0.5, neighbour.softmax, peers),
            "mlp": Row("MLP 784-512-512-10, batch 128", 0.7, neighbour.mlp, peers),
            "lenet": Row("LeNet, batch 64", 0.5, neighbour.lenet, peers),
            "alexnet": Row("AlexNet, batch 16", 0.5, _alexnet, peers)}
    bars = {"overfeat_step": 0.45, "vgg_step": 0.45}
    for name, (title, work) in zoo_networks.WORK.items():
        rows[name] = Row(title, bars.get(name, 0.7), work, {**peers, **(COMPILED if name.endswith("_one") else {})})
    for name, work in language_model.WORK.items():
        kind, _, looped = name.partition("_")
        rows[f"lm_{name}"] = Row(f"LSTM-512 language model, {kind} softmax{', in a loop' if looped else ''}", 0.7, work, peers)
    for name, (title, work) in optimizer_updates.WORK.items():
        rows[name] = Row(title, 0.7, work, peers)
    for name, pattern in patterns.WORK.items():
        work = functools.partial(patterns.made, pattern)
        rows[f"pattern_{name}"] = Row(f"{name.replace('_', ' ')}, 1 M elements", 0.8, work, patterns.PEERS)
    return rows


ROWS = _rows()


def measured(name: str, column: str, options: argparse.Namespace) -> dict[str, Any]:
    """One cell: {peer, ratio, low, high, date, clock}, from a process of its own."""
    _, more, threads = COLUMNS[column]
    with tempfile.NamedTemporaryFile(suffix=".json") as told:
        command = [sys.executable, "-m", "benchmarks.table", "--cell", name, told.name, "--rounds", str(options.rounds),
                   "--seconds", str(options.seconds), *(["--processor"] if options.processor else []),
                   *(["--without", *UNRESTRAINED] if more else [])]
        cores = sorted(os.sched_getaffinity(0))[:threads]
        subprocess.run(command, check=True, env={**os.environ, **more, "WB_THREADS": str(threads)},
                       preexec_fn=functools.partial(os.sched_setaffinity, 0, cores))
        return dict(json.loads(Path(told.name).read_text()))


def cell(name: str, file: str, options: argparse.Namespace) -> None:
    """Measure a row with what this process may use."""
    row = ROWS[name]
    peers = {peer: module for peer, module in row.peers.items() if peer not in options.without}
    [result] = neighbour.compare(row.title, row.work, [0], False, options.rounds, options.seconds, row.bar,
                                 options.processor, peers, save=False)
    Path(file).write_text(json.dumps(entry(result, options.processor)))


def entry(result: Result, processor: bool) -> dict[str, Any]:
    peer = result.best_peer()
    median, low, high = (round(ratio, 2) for ratio in result.ratio(peer))
    return {"peer": peer, "ratio": median, "low": low, "high": high, "date": date.today().isoformat(),
            "clock": "processor" if processor else "wall"}


def known(file: Path) -> dict[str, dict[str, Any]]:
    return dict(json.loads(file.read_text())) if file.exists() else {}


def markdown(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """The table; cells of processor time carry a mark, cells that were not measured are empty."""
    lines = ["| workload | bar | " + " | ".join(title for title, _, _ in COLUMNS.values()) + " |",
             "|---|---|" + "---|" * len(COLUMNS)]
    for name, row in ROWS.items():
        texts = [_text(cells.get(name, {}).get(column)) for column in COLUMNS]
        if any(texts):
            lines.append(f"| {row.title} | {row.bar} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _text(one: Mapping[str, Any] | None) -> str:
    if one is None:
        return ""
    mark = " p" if one["clock"] == "processor" else ""
    return f"{one['ratio']:.2f} ({one['low']:.2f} to {one['high']:.2f}), {one['peer']}{mark}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], default=[])
    parser.add_argument("--columns", default=",".join(COLUMNS), type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--print", action="store_true", dest="only_print")
    parser.add_argument("--without", nargs="*", default=[], metavar="PEER")
    parser.add_argument("--of", default="", metavar="NAME")
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        cell(*options.cell, options)
        return
    file = results_file(f"table_{options.of}" if options.of else "table")
    for name in [] if options.only_print else options.rows or ROWS:
        for column in options.columns:
            if COLUMNS[column][1] and set(ROWS[name].peers) <= set(UNRESTRAINED):
                continue
            try:
                found = measured(name, column, options)
            except subprocess.CalledProcessError as failed:
                print(f"{name}, {column}: not measured, the process ended with {failed.returncode}", flush=True)
                continue
            cells = known(file)
            cells.setdefault(name, {})[column] = found
            file.write_text(json.dumps(cells, indent=1) + "\n")
            print(f"{name}, {column}: {_text(found)}", flush=True)
    print(markdown(known(file)))


if __name__ == "__main__":
    main()
