"""Interleaved timing of contestants that do the same work; prints ratios with their spread, never bare times."""
from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Result", "agree", "choices", "compare", "report", "results_file"]

Step = Callable[[], Any]


def choices(document: str | None, work: Iterable[str], seconds: float = 1.0) -> argparse.ArgumentParser:
    """Asks which of `work` to measure, and how."""
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="*", choices=[*work, []], default=[])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=seconds, help="of each contestant in a round")
    parser.add_argument("--processor", action="store_true", help="compare processor time instead of what went by")
    parser.add_argument("--suffix", default="", help="stands behind the title, such as the instruction set")
    return parser


@dataclass
class Result:
    """Median step time of every contestant in every round, seconds."""

    title: str
    ours: str
    rounds: dict[str, list[float]] = field(default_factory=dict)

    def best_peer(self) -> str:
        peers = {name: statistics.median(times) for name, times in self.rounds.items() if not name.startswith("ours")}
        return min(peers, key=lambda name: peers[name])

    def ratio(self, peer: str, of: str = "") -> tuple[float, float, float]:
        """(median, lowest, highest) of ours, or another contestant, ÷ peer over the rounds."""
        each = sorted(a / b for a, b in zip(self.rounds[of or self.ours], self.rounds[peer]))
        return statistics.median(each), each[0], each[-1]


def compare(title: str, contestants: Mapping[str, Step], ours: str = "ours", rounds: int = 9, seconds: float = 0.4,
            warm_up: int = 20) -> Result:
    """Time every contestant once per round, in rotating order, for about `seconds` each."""
    result = Result(title, ours, {name: [] for name in contestants})
    counts = {}
    for name, step in contestants.items():
        for _ in range(warm_up if warm_up else 1):
            step()
        start = time.perf_counter()
        step()
        counts[name] = max(3, int(seconds / max(1e-7, time.perf_counter() - start)))
    names = list(contestants)
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            for name in names[turn % len(names):] + names[:turn % len(names)]:
                result.rounds[name].append(_median_step(contestants[name], counts[name]))
    finally:
        gc.enable()
    return result


def _median_step(step: Step, count: int) -> float:
    for _ in range(max(1, count // 10)):      # caches and threads of the one before leave
        step()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def agree(name: str, ours: Any, theirs: Any, tolerance: float = 1e-3) -> None:
    """Stop the benchmark when a contestant computes something else."""
    error = float(np.max(np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)))
                  / max(1e-12, float(np.max(np.abs(np.asarray(theirs, np.float64))))))
    if not error <= tolerance:
        raise SystemExit(f"{name}: results differ by {error:.2e} of the largest value (allowed {tolerance:g})")
    print(f"  {name}: results agree within {error:.1e}")


def report(result: Result, bar: float | None = None, save: bool = True) -> float:
    """Print ours ÷ each peer with spread, what else is ours ÷ the best one and ÷ ours, the verdict on all of that against
    `bar`, and keep the ratios under benchmarks/results."""
    best = result.best_peer()
    print(f"\n{result.title}: ours ÷ peer, median [lowest, highest] of {len(result.rounds[result.ours])} rounds")
    rows: dict[str, Any] = {}
    for name in result.rounds:
        if name == result.ours:
            continue
        pairs = [(best, name), (result.ours, name)] if name.startswith("ours") else [(name, "")]
        for peer, of in pairs:
            median, low, high = result.ratio(peer, of)
            title = f"{of} ÷ {peer}" if of else peer
            rows[title] = [round(v, 3) for v in (median, low, high)]
            print(f"  {title:28s} {median:6.2f}  [{low:.2f}, {high:.2f}]{'   <- best peer' if title == best else ''}")
    ratio = max(result.ratio(best, name)[0] for name in result.rounds if name.startswith("ours"))
    if bar is not None:
        print(f"  bar {bar}: {'met' if ratio <= bar else 'MISSED'} with {ratio:.2f}")
    if save:
        record = {"title": result.title, "date": date.today().isoformat(), "best_peer": best, "bar": bar, "ratios": rows}
        file = results_file(result.title)
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(record, indent=1) + "\n")
    return ratio


def results_file(title: str) -> Path:
    """Where the ratios of a comparison are kept: called as its title is, until the colon."""
    name = title.split(":")[0].lower().replace(" ", "_").replace(",", "")
    return Path(__file__).parent / "results" / f"{name}.json"
