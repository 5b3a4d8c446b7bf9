"""The command line: `workbench lab | train | trace | tune | bench | doctor | version`, started in a moment."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from workbench import errors

__all__ = ["app"]


class _InOrder(TyperGroup):
    """Lists the commands in the order in which a newcomer needs them."""

    def list_commands(self, ctx: Any) -> list[str]:
        order = ("lab", "train", "trace", "tune", "bench", "doctor", "version")
        return sorted(super().list_commands(ctx), key=order.index)


app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, cls=_InOrder,
                  help="Build a dataflow graph, train it on a Dask cluster, and see it live.")
train = typer.Typer(no_args_is_help=True, help="Train a model in the terminal.")
trace = typer.Typer(no_args_is_help=True, help="Look into saved traces.")
app.add_typer(train, name="train")
app.add_typer(trace, name="trace")

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


@contextmanager
def _plainly() -> Iterator[None]:
    """Our own errors are one line on stderr and exit code 1, never a traceback."""
    try:
        yield
    except errors.Error as problem:
        typer.secho(f"error: {problem}", fg="red", err=True)
        raise typer.Exit(1) from problem


@app.command(context_settings=PASS_ON)
def lab(context: typer.Context) -> None:
    """Start JupyterLab on the tour, or on the NOTEBOOK.ipynb you name. All other options go to JupyterLab."""
    from workbench.commands.lab import start

    with _plainly():
        start(context.args)


def _backups(text: str) -> int | str:
    if text != "auto" and not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is neither a whole number nor auto")
    return text if text == "auto" else int(text)


@train.command("mnist")
def train_mnist(
    ps: Annotated[int | None, typer.Option(
        min=1, metavar="N", show_default="2, for mirror none", help="Parameter servers; each is a process.")] = None,
    worker: Annotated[int, typer.Option(min=1, metavar="N", help="Workers, which compute gradients.")] = 2,
    mode: Annotated[Literal["async", "sync", "backup", "stale", "mirror"], typer.Option(
        metavar="MODE", help="async: every worker updates when it is ready; sync: all together; backup: all together but the "
        "last (--backups); stale: when it is ready, but not far ahead of the slowest (--staleness); mirror: all together, with "
        "the variables copied to each worker and no server.")] = "async",
    backups: Annotated[Any, typer.Option(
        metavar="N|auto", parser=_backups, help="In mode backup: workers that no step waits for, or auto.")] = "0",
    staleness: Annotated[int, typer.Option(
        min=0, metavar="N", help="In mode stale: steps that a worker may be ahead of the slowest.")] = 0,
    steps: Annotated[int, typer.Option(min=1, metavar="N", help="Updates of the variables, all workers together.")] = 1000,
    batch_size: Annotated[int, typer.Option(min=1, metavar="N", help="Examples in each worker's batch.")] = 100,
    learning_rate: Annotated[float, typer.Option(min=0.0, metavar="X", help="Step length of gradient descent.")] = 0.1,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report, one HTML page, to FILE.")] = None,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a trace for ui.perfetto.dev to FILE.")] = None,
    checkpoint_dir: Annotated[Path | None, typer.Option(
        metavar="FOLDER", help="Save the variables there at the end.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of initial values and shuffling.")] = 0,
    local: Annotated[bool, typer.Option("--local", help="Train in this process, without a cluster.")] = False,
) -> None:
    """Train a small network on MNIST with parameter servers and workers, and watch it in the terminal."""
    from workbench.commands.train import Options
    from workbench.commands.train import train_mnist as run

    ps = ps or (0 if mode == "mirror" else 2)
    options = Options(ps, worker, mode, steps, batch_size, learning_rate, seed, local, report, trace, checkpoint_dir, backups,
                      staleness)
    raise typer.Exit(run(options))


@trace.command("inspect")
def trace_inspect(
    file: Annotated[Path, typer.Argument(help="A trace .json[.gz], as `workbench train --trace` writes it.")],
) -> None:
    """Print the tasks in a trace and where their time went."""
    from rich.console import Console

    from workbench.commands.trace import inspect

    with _plainly():
        inspect(file, Console())


@trace.command("export")
def trace_export(
    file: Annotated[Path, typer.Argument(help="A trace .json[.gz], as `workbench train --trace` writes it.")],
    target: Annotated[Path | None, typer.Argument(help="Default: beside FILE, ending in .perfetto.json.")] = None,
) -> None:
    """Write a trace (unpacked, when it is .gz) as JSON for ui.perfetto.dev or chrome://tracing."""
    from workbench.commands.trace import export

    with _plainly():
        path = target or file.with_suffix(".perfetto.json")
        typer.echo(f"{path}: {export(file, path)} events; open it at https://ui.perfetto.dev")


@app.command(context_settings={"allow_interspersed_args": False})
def tune(
    script: Annotated[Path, typer.Argument(help="A Python program that runs steps; it is run as `python SCRIPT` does.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENTS]...", help="What it is given.")] = None,
    steps: Annotated[int, typer.Option(min=1, metavar="N", help="It is ended after so many steps of its main thread.")] = 20,
    seconds: Annotated[float, typer.Option(min=0.0, metavar="X", help="Time for measuring, about.")] = 60.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure and show, and keep nothing.")] = False,
    deterministic: Annotated[bool, typer.Option(
        "--deterministic", help="Show what deterministic sessions use; it is frozen, so nothing is measured.")] = False,
) -> None:
    """Measure which kernels are fastest on this machine for the steps of SCRIPT, and keep it for later runs of any program."""
    from rich.console import Console

    from workbench.commands.tune import Options
    from workbench.commands.tune import tune as run

    with _plainly():
        raise typer.Exit(run(Options(script, tuple(arguments or ()), steps, seconds, dry_run, deterministic), Console()))


@app.command()
def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Which ones; default: all.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Only list them.")] = False,
) -> None:
    """Run benchmarks of a checkout, ours and the peers side by side."""
    from workbench.commands import bench as benchmarks

    with _plainly():
        if listed:
            for name, script in benchmarks.find_scripts(Path.cwd()).items():
                typer.echo(f"{name:24} {benchmarks.summary(script)}")
            return
        raise typer.Exit(benchmarks.run(names or [], Path.cwd()))


@app.command()
def doctor() -> None:
    """Say what libraries, devices and data are at hand, and what to do about the rest."""
    from rich.console import Console

    from workbench.commands.doctor import report

    raise typer.Exit(report(Console()))


@app.command()
def version() -> None:
    """Print the version."""
    from workbench import __version__

    typer.echo(__version__)


if __name__ == "__main__":
    app()
