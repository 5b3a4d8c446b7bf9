"""The command line: what it prints, what it writes, how it stops, with which exit code."""
from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import gzip
import io
import itertools
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import textwrap
import time
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner

import workbench
from tests.data_fixture import write_small_mnist
from tests.eventually import eventually
from workbench import errors
from workbench.cli import app
from workbench.commands import lab, trace, train
from workbench.commands import screen as screens
from workbench.commands.screen import duration, picture
from workbench.commands.train import Options, train_mnist
from workbench.core.kernels.cache import Cache
from workbench.core.kernels.measured.question import Time
from workbench.core.kernels.measured.record import keep, packed
from workbench.core.run.gate import gate
from workbench.core.trace import Journal, Span, StatusRecord, TaskRecord
from workbench.io.datasets import load_mnist
from workbench.settings import settings
from workbench.train.progress import Progress
from workbench.train.replicas import MODES
from workbench.viz.books import books_of
from workbench.viz.verdict import UNKNOWN, Row, Summary, Verdict


def summary(kind="worker", subject="/job:worker/task:1"):
    """What a run of two workers is, one slower than the other."""
    rows = [Row(f"/job:worker/task:{i}", work, 1.0, 0.0, 2.0, 0.0, 12.5, 0.0, "worker:1")
            for i, work in enumerate((3.25, 9.5))]
    return Summary(Verdict(kind, subject, 0.5, "worker:1 costs 50 % of each step.", "Let it go."), rows, 12.5)


def scripted(steps=100, every=10, fail=None, **last):
    """A trainer that reports without training; `calls` keeps what it was asked and whether it was closed."""
    calls = {}

    def trainer(data, cluster=None, **options):
        calls.update(options, data=data, cluster=cluster, closed=False)
        try:
            for step in range(0, steps + 1, every):
                if fail and step >= fail[0]:
                    raise fail[1]
                yield Progress(step, steps, loss=2.0 - step / steps, accuracy=step / steps, steps_per_second=50.0,
                               message="worker 1 joined" if step == every else "", **last)
        finally:
            calls["closed"] = True
    return trainer, calls


@contextlib.contextmanager
def no_cluster(options):
    yield f"cluster of {options.ps} and {options.worker}"


def run(options=None, trainer=None, **keywords):
    """(exit code, what was printed) of a run without a terminal."""
    out = io.StringIO()
    keywords = {"load": lambda: "data", "cluster": no_cluster, **keywords}
    code = train_mnist(options or Options(steps=100), Console(file=out, width=200), trainer=trainer or scripted()[0],
                       **keywords)
    return code, out.getvalue()


# -- train

def test_plain_lines_without_a_terminal():
    code, text = run(Options(steps=100, mode="sync"))
    lines = text.splitlines()
    assert code == 0
    assert lines[0] == "Training MNIST · 2 ps · 2 workers · sync · 100 steps of 100"
    assert lines[1].startswith("step 0/100  loss 2.0000  accuracy 0.00 %  50.0 steps/s  works – ms a step  ")
    assert "worker 1 joined" in lines and "\x1b" not in text
    assert lines[-1].startswith("finished step 100/100: accuracy 100.00 %, loss 1.0000, time 0:0")


@pytest.fixture
def judged(monkeypatch):
    """The journal of the terminal's views, which judge whatever comes at once."""
    journal = Journal()
    journal.enabled = True
    monkeypatch.setattr(screens, "journal", journal)
    monkeypatch.setattr(screens, "SUMMARY_SECONDS", 0.0)
    for name in ("books.JUDGED", "accounting.SETTLED"):
        monkeypatch.setattr(f"workbench.viz.{name}", 0.0)
    return journal


def test_a_verdict_on_what_ran_before_is_none_on_this_run(judged):
    """Neither the one that was known when this run began nor one that is made while it goes on."""
    account = screens._Account()

    def shown_after_steps(end):
        version = books_of(judged).version
        for number in range(3):
            at = end + 1e-3 * number
            judged.span(Span("segment", "work", "t", "t", 0, at - 1e-3, at, next(steps), executable="s_0"))
        account.read()
        assert books_of(judged).version > version      # a verdict was made
        return account.summary
    steps, now = itertools.count(), time.perf_counter()
    assert shown_after_steps(now - 20.0) is UNKNOWN
    assert shown_after_steps(now - 10.0) is UNKNOWN
    assert shown_after_steps(now + 10.0).rows


def test_a_plain_line_says_who_works_most_in_a_step_by_the_newest_verdict(judged):
    """Not by the one that was due when the line before was printed, nor by what initialised the variables."""
    console = Console(file=io.StringIO(), width=200)
    plain, steps = screens._Plain(console), itertools.count()

    def said(work, count, record):
        for _ in range(count):
            number = next(steps)
            at = time.perf_counter() + number
            judged.span(Span("segment", "work", "/job:worker/task:1", "t", 0, at - work, at, number, executable="s_0"))
        plain.show(record)
        return console.file.getvalue().splitlines()[-1:]
    assert "works – ms a step" in said(4e-5, 1, Progress(0, 1000, loss=2.0))[0]
    for _ in range(20):      # of the same twentieth: no line, and yet what a step takes is looked at
        said(2e-3, 3, Progress(1, 1000, loss=2.0))
    [line] = said(2e-3, 0, Progress(100, 1000, loss=1.0))
    assert line.startswith("step 100/1000 ") and "worker:1 works 2.00 ms a step" in line


def test_a_file_hears_that_the_first_step_is_being_compiled(monkeypatch):
    monkeypatch.setattr(screens, "SILENT", 0.001)
    monkeypatch.setattr(screens.journal, "current", lambda: StatusRecord("compiling", what="1,234 operations"))
    console = Console(file=io.StringIO(), width=100)
    with screens.screen(console, "title"):
        eventually(lambda: "compiling" in console.file.getvalue())
    assert console.file.getvalue() == "title\ncompiling 1,234 operations ...\n"


def test_the_newest_known_values_stay_on_screen():
    def trainer(data, cluster=None, **options):
        yield Progress(10, 100, loss=1.5, accuracy=0.5)
        yield Progress(50, 100)
        yield Progress(100, 100, loss=0.5)
    code, text = run(trainer=trainer)
    lines = [line for line in text.splitlines() if line.startswith("step")]
    assert code == 0 and ["loss 1.5000" in line for line in lines] == [True, True, False]
    assert all("accuracy 50.00 %" in line for line in lines)


def test_many_records_make_few_lines():
    _, text = run(trainer=scripted(steps=1000, every=1)[0])
    assert len(text.splitlines()) < 30


def test_what_the_trainer_is_given(tmp_path):
    trainer, calls = scripted()
    options = Options(3, 4, "sync", 7, 8, 0.25, 9, checkpoint_dir=tmp_path / "new" / "folder")
    assert run(options, trainer)[0] == 0
    assert calls == {"data": "data", "cluster": "cluster of 3 and 4", "mode": "sync", "steps": 7, "batch_size": 8,
                     "learning_rate": 0.25, "seed": 9, "checkpoint_dir": str(tmp_path / "new" / "folder"),
                     "backups": 0, "staleness": 0, "closed": True}
    assert (tmp_path / "new" / "folder").is_dir()


@pytest.mark.parametrize(("arguments", "given", "headline"), [
    ("", ("cluster of 2 and 2", "async", 0, 0), "2 ps · 2 workers · async"),
    ("--mode sync --ps 3", ("cluster of 3 and 2", "sync", 0, 0), "3 ps · 2 workers · sync"),
    ("--mode backup --backups 1", ("cluster of 2 and 2", "backup", 1, 0), "2 ps · 2 workers · backup 1"),
    ("--mode backup --backups auto", ("cluster of 2 and 2", "backup", "auto", 0), "2 ps · 2 workers · backup auto"),
    ("--mode stale --staleness 3", ("cluster of 2 and 2", "stale", 0, 3), "2 ps · 2 workers · stale 3"),
    ("--mode mirror --worker 3", ("cluster of 0 and 3", "mirror", 0, 0), "3 workers · mirror"),
    ("--mode mirror --local", (None, "mirror", 0, 0), "this process · one replica")])
def test_every_mode_is_offered_with_its_numbers(monkeypatch, arguments, given, headline):
    trainer, calls = scripted()
    monkeypatch.setattr(train, "_trainer", lambda: trainer)
    monkeypatch.setattr(train, "_load", lambda: "data")
    monkeypatch.setattr(train, "_cluster", lambda o: contextlib.nullcontext() if o.local else no_cluster(o))
    done = CliRunner().invoke(app, ["train", "mnist", *arguments.split()])
    assert done.exit_code == 0, done.output
    assert (calls["cluster"], calls["mode"], calls["backups"], calls["staleness"]) == given
    assert done.output.startswith(f"Training MNIST · {headline} · 1000 steps of 100")


@pytest.mark.parametrize(("arguments", "text"), [
    ("--backups 1", "backups is 1 but mode is 'async'; use mode 'backup'"),
    ("--staleness 2 --mode sync", "staleness is 2 but mode is 'sync'; use mode 'stale'"),
    ("--mode backup --backups 2", "2 of 2 workers are backups; one must count"),
    ("--mode backup --backups 1 --local", "1 of 1 workers are backups; one must count"),
    ("--mode mirror --ps 2", "mode 'mirror' has no servers but 2 are passed; leave them out")])
def test_numbers_that_do_not_fit_the_mode_are_told_before_anything_begins(monkeypatch, arguments, text):
    monkeypatch.setattr(train, "_load", None)
    done = CliRunner().invoke(app, ["train", "mnist", *arguments.split()])
    assert done.exit_code == 1 and text in done.output


def test_the_command_line_knows_the_modes_of_replicas():
    done = CliRunner().invoke(app, ["train", "mnist", "--help"], env={"COLUMNS": "200"})
    assert all(f"{mode}: " in done.output for mode in MODES)
    assert {"N|auto", "--staleness"} <= set(re.split(r"[\s│\[\]]+", done.output))


def test_local_needs_no_cluster():
    trainer, calls = scripted()
    code, text = run(Options(local=True), trainer, cluster=None)
    assert (code, calls["cluster"]) == (0, None) and "this process · one replica" in text


def test_report_is_written_with_the_facts(tmp_path):
    written = []
    code, text = run(Options(steps=100, report=tmp_path / "report.html"),
                     write_report=lambda *arguments: written.append(arguments))
    (path, journal, title, facts), = written
    assert (code, path) == (0, tmp_path / "report.html") and journal is workbench.core.trace.journal
    assert title.startswith("Training MNIST") and facts["accuracy"] == "100.00 %" and facts["steps"] == "100 of 100"
    assert all(isinstance(value, str) for value in facts.values())
    assert f"report: {tmp_path / 'report.html'}" in text


def test_trace_of_a_run_can_be_looked_into(tmp_path):
    path = tmp_path / "trace.json"
    code, text = run(Options(steps=100, trace=path))
    assert code == 0 and f"trace: {path}; open it at https://ui.perfetto.dev" in text
    assert CliRunner().invoke(app, ["trace", "inspect", str(path)]).exit_code == 0


def test_unwritable_places_are_said_before_training(tmp_path):
    trainer, calls = scripted()
    (tmp_path / "file").touch()
    code, text = run(Options(report=tmp_path / "no" / "report.html"), trainer)
    assert code == 1 and "no is not a folder that a file can be written to" in text
    code, text = run(Options(checkpoint_dir=tmp_path / "file" / "x"), trainer)
    assert code == 1 and "it cannot be written (Not a directory); choose another path" in text
    assert not calls


def test_our_errors_are_one_line():
    code, text = run(trainer=scripted(fail=(30, errors.AbortedError("step 30: worker 1 died; start again")))[0])
    assert code == 1 and text.splitlines()[-1] == "error: step 30: worker 1 died; start again"


def test_foreign_errors_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        run(trainer=scripted(fail=(30, ZeroDivisionError()))[0])


def test_a_loss_that_is_no_number_fails():
    trainer, _ = scripted()

    def diverging(*arguments, **options):
        for record in trainer(*arguments, **options):
            yield Progress(record.step, record.steps, float("nan"))
    code, text = run(trainer=diverging)
    assert code == 1 and "the loss is nan at step 100 with learning rate 0.1; try a smaller --learning-rate" in text


def test_a_stand_in_is_announced(monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "data", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    trainer, calls = scripted()
    code, text = run(trainer=trainer, load=lambda: load_mnist(download=False))
    assert code == 0 and "note: scikit-learn's 1,797 digits stand in for MNIST" in text and calls["data"].source == "digits"


def test_ctrl_c_stops_after_the_step_with_a_summary():
    def trainer(data, cluster=None, **options):
        for step in range(1, 1000):
            if step == 5:
                signal.raise_signal(signal.SIGINT)
            yield Progress(step, 1000, loss=1.0)
    before = signal.getsignal(signal.SIGINT)
    code, text = run(Options(steps=1000), trainer)
    assert code == 130
    assert "stopping after this step (Ctrl-C again stops at once) ..." in text
    assert "stopped at step 5/1000: accuracy –, loss 1.0000" in text
    assert signal.getsignal(signal.SIGINT) is before and not gate.closed


def test_ctrl_c_cancels_the_step_that_runs():
    """A session in the trainer sees the stopped gate, like a real one."""
    def trainer(data, cluster=None, **options):
        for step in range(1, 1000):
            if step == 5:
                signal.raise_signal(signal.SIGINT)
            gate.enter()
            yield Progress(step, 1000, loss=1.0)
    code, text = run(Options(steps=1000), trainer)
    assert code == 130 and "stopped at step 4/1000" in text and not gate.closed


def test_cancelled_by_somebody_else_is_an_error():
    code, text = run(trainer=scripted(fail=(50, errors.CancelledError("Session.run: closed; open a new one")))[0])
    assert code == 1 and "error: Session.run: closed" in text


def test_second_ctrl_c_stops_at_once():
    closed = []

    @contextlib.contextmanager
    def cluster(options):
        try:
            yield None
        finally:
            closed.append(True)

    def trainer(data, cluster=None, **options):
        yield Progress(1, 1000, loss=1.0)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        yield Progress(2, 1000, loss=1.0)
    code, text = run(Options(steps=1000), trainer, cluster=cluster)
    assert code == 130 and text.splitlines()[-1] == "stopped at once" and closed and not gate.closed


IN_TERMINAL = """
    import contextlib, sys
    from workbench.commands.train import Options, train_mnist
    from workbench.train.progress import Progress

    steps = int(sys.argv[1])

    def trainer(data, cluster=None, **options):
        for step in range(1, 4):
            yield Progress(step, steps, 0.5, 0.9, 12.0, f"note {step}")
        for step in range(4, steps + 1):
            sys.stdin.readline()
            yield Progress(step, steps, 0.25, 0.9, 12.0)

    def cluster(options):
        return contextlib.nullcontext()

    raise SystemExit(train_mnist(Options(), trainer=trainer, load=lambda: None, cluster=cluster))
"""


def in_terminal(argument, heard, key=b"", program=IN_TERMINAL):
    """(exit code, output) of a run in a real terminal that gets `key` once `heard` was printed."""
    main, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program), argument], stdin=child,
                               stdout=child, stderr=child, start_new_session=True, env=environment,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(child)
    output = b""
    with process:
        while True:
            try:
                piece = os.read(main, 4096)
            except OSError:          # the child closed its end
                break
            if not piece:
                break
            output += piece
            if key and heard in output:
                os.write(main, key)
                key = b""
        os.close(main)
    return process.returncode, output.decode()


def test_a_terminal_shows_a_live_picture():
    code, text = in_terminal("3", b"")
    assert code == 0
    for part in ("note 2", "3 of 3 steps", "12.0 steps/s", "loss ", "90.00 %", "left 0:00", "finished step 3/3"):
        assert part in text, part


def test_ctrl_c_in_a_real_terminal():
    code, text = in_terminal("1000", b"note 3", key=b"\x03\n\n")
    assert code == 130 and "stopping after this step" in text
    assert re.search(r"stopped at step [34]/1000: accuracy 90.00 %", text), "the step at hand may end, or be the next"


STARTING = """
    from workbench.commands.train import Options, train_mnist

    if __name__ == "__main__":
        raise SystemExit(train_mnist(Options(), load=lambda: None))
"""


@pytest.mark.cluster
def test_ctrl_c_while_the_cluster_starts_leaves_neither_a_trace_nor_a_process(monkeypatch, tmp_path):
    monkeypatch.setenv("MARK_OF_THIS_TEST", str(tmp_path))      # others on the machine may start processes meanwhile
    code, text = in_terminal("", b"starting 2 ps, 2 workers", key=b"\x03", program=STARTING)
    assert code == 130 and text.rstrip().endswith("stopped at once"), text
    assert "Traceback" not in text and "Error" not in text, text
    # what watches the processes ends by itself when they have
    eventually(lambda: not any(p.pid != os.getpid() and marked(p, str(tmp_path)) for p in psutil.process_iter()))


LOST = """
    import signal
    import sys
    import weakref

    from workbench.commands.train import Options, train_mnist

    class Pressed:
        \"\"\"Ctrl-C in the middle of an import, in a callback that forgets what is raised in it.\"\"\"

        def find_spec(self, name, path=None, target=None):
            if name == "workbench.cluster.chief.places":
                thing = type("Thing", (), {})()
                self.watched = weakref.ref(thing, lambda gone: signal.raise_signal(signal.SIGINT))
                del thing

    sys.meta_path.insert(0, Pressed())
    raise SystemExit(train_mnist(Options(steps=0), load=lambda: None))
"""


def test_ctrl_c_is_heard_in_the_middle_of_an_import():
    code, text = in_terminal("", b"", program=LOST)
    assert code == 130 and text.rstrip().endswith("stopped at once") and "ignored" not in text, text


def marked(process, value):
    try:
        return process.environ().get("MARK_OF_THIS_TEST") == value
    except (psutil.Error, OSError):      # of another user, or gone
        return False


def test_the_picture_shows_the_work_of_each_task_and_marks_whom_the_verdict_names():
    out = io.StringIO()
    record = Progress(50, 100, 0.5, None, 10.0)
    Console(file=out, width=120).print(picture("Title", record, 65.2, summary(), StatusRecord("running")))
    text = out.getvalue()
    named, = [line for line in text.splitlines() if line.startswith("worker:1  ")]
    assert named.startswith("worker:1      9.50 ms") and "waits 2.00 ms" in named and "accuracy –" in text
    assert "worker:1 costs 50 % of each step. Let it go." in text
    assert "elapsed 1:05" in text and "left 0:05" in text
    assert [duration(s) for s in (None, 0.4, 59.6, 3661)] == ["–", "0:00", "1:00", "1:01:01"]


def test_the_picture_says_what_the_run_does_and_who_is_lost():
    out = io.StringIO()
    lost = TaskRecord(0.0, "/job:worker/task:1", "lost", "", "worker:1 was lost", "start again")
    status = StatusRecord("compiling", what="12 operations", lost=(lost,))
    Console(file=out, width=120).print(picture("Title", Progress(0, 100), 1.0, summary("even", ""), status))
    assert "compiling 12 operations" in out.getvalue() and "worker:1 was lost" in out.getvalue()


@pytest.mark.parametrize("arguments", ["--ps 0", "--mode half", "--steps x", "--backups some", "--staleness -1",
                                       "--learning-rate -1"])
def test_options_are_checked(arguments):
    done = CliRunner().invoke(app, ["train", "mnist", *arguments.split()])
    assert done.exit_code == 2 and arguments.split()[0] in done.output


def test_real_exit_code_and_message_of_a_broken_file(tmp_path):
    """The whole way: a real process, a real file, no traceback."""
    folder = write_small_mnist(tmp_path / "mnist")
    broken = folder / "train-images-idx3-ubyte.gz"
    broken.write_bytes(broken.read_bytes()[:100])
    done = subprocess.run([sys.executable, "-m", "workbench.cli", "train", "mnist", "--local"], capture_output=True,
                          text=True, timeout=100, env={**os.environ, "WORKBENCH_DATA": str(tmp_path)}, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    assert f"error: read_idx {broken}: " in done.stdout and "get the file again" in done.stdout


@pytest.mark.cluster
@pytest.mark.parametrize("mode", MODES)
def test_ctrl_c_on_a_real_cluster(tmp_path, mode):
    """A terminal's Ctrl-C reaches every process of the group; the chief alone decides what it means."""
    write_small_mnist(tmp_path / "mnist", train=5500)
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench.cli", "train", "mnist", "--steps", "1000000", "--mode", mode, "--report",
         str(tmp_path / "report.html")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, env={**os.environ, "WORKBENCH_DATA": str(tmp_path)})
    with process:
        for line in process.stdout:
            if line.startswith("step"):
                family = psutil.Process(process.pid).children(recursive=True)
                os.killpg(process.pid, signal.SIGINT)
                break
        rest = process.stdout.read()
    assert process.returncode == 130 and "Traceback" not in rest and "error" not in rest
    assert "stopped at step " in rest and (tmp_path / "report.html").stat().st_size > 10_000
    gone, alive = psutil.wait_procs(family, timeout=60)      # a worker may need long to end on a busy machine
    assert len(gone) >= (2 if mode == "mirror" else 4) and not alive


# -- start-up

HEAVY = {"anywidget", "bokeh", "cupy", "dask", "distributed", "ipywidgets", "jupyterlab", "llvmlite", "pooch",
         "requests", "sklearn"}


def test_starting_imports_nothing_heavy():
    code = "import sys, workbench.cli; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not HEAVY & set(done.stdout.split())


def test_version_and_help():
    runner = CliRunner()
    assert runner.invoke(app, ["version"]).output == f"{workbench.__version__}\n"
    for arguments in ([], ["train"], ["trace"]):
        text = runner.invoke(app, [*arguments, "--help"]).output
        assert all(word in text for word in {(): ("lab", "train", "trace", "tune", "bench", "doctor"), ("train",): ("mnist",),
                                             ("trace",): ("inspect", "export")}[tuple(arguments)])


def test_a_python_runs_its_own_command_line():
    done = subprocess.run([sys.executable, "-m", "workbench", "version"], capture_output=True, text=True, timeout=60,
                          check=True)
    assert done.stdout == f"{workbench.__version__}\n"


# -- lab

@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / lab.TOUR).write_text("{}")
    (tmp_path / "own.ipynb").write_text("{}")
    return tmp_path


def test_lab_opens_the_tour_without_dialogs(checkout):
    command, folder = lab.command_line(["--no-browser", "--port=9999"], checkout / "notebooks")
    assert folder == checkout
    served = [f"--ServerApp.root_dir={checkout}", "--LabApp.default_url=/lab/tree/notebooks/my_tour.ipynb"]
    assert command[1:] == ["-m", "jupyterlab", *served, *lab.QUIET, "--no-browser", "--port=9999"]


def test_the_tour_is_a_copy_that_keeps_what_its_reader_wrote_until_there_is_a_newer_tour(checkout, monkeypatch):
    notebooks, tour = checkout / "notebooks", checkout / lab.TOUR
    mine, before = notebooks / lab.COPY, notebooks / "my_tour_before.ipynb"
    lab.command_line([], checkout)
    mine.write_text("with outputs")
    lab.command_line([], checkout)
    assert (mine.read_text(), tour.read_text(), before.exists()) == ("with outputs", "{}", False)
    os.utime(mine, (1, 1))
    lab.command_line([], checkout)
    assert (mine.read_text(), before.read_text()) == ("{}", "with outputs")
    os.utime(mine, (1, 1))
    monkeypatch.setattr(lab.shutil, "copyfile", lambda *ends: (_ for _ in ()).throw(PermissionError("read-only")))
    assert lab.command_line([], checkout)[0][4] == "--LabApp.default_url=/lab/tree/notebooks/00_tour.ipynb"


def test_git_does_not_see_the_reader_s_tour():
    root = Path(lab.__file__).resolve().parents[2]
    lines = (root / ".gitignore").read_text().splitlines()
    assert any(fnmatch.fnmatch(str(lab.TOUR.with_name(lab.COPY)), line) for line in lines)


def test_lab_opens_a_given_notebook(checkout, tmp_path_factory):
    command, _ = lab.command_line(["--no-browser", "own.ipynb"], checkout)
    assert command[3:] == [f"--ServerApp.root_dir={checkout}", "--LabApp.default_url=/lab/tree/own.ipynb", *lab.QUIET,
                           "--no-browser"]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    command, folder = lab.command_line([str(checkout / "own.ipynb")], elsewhere)
    assert (command[3], folder) == (f"--ServerApp.root_dir={checkout}", checkout)
    (checkout / "a b.ipynb").write_text("{}")
    assert lab.command_line(["a b.ipynb"], checkout)[0][4] == "--LabApp.default_url=/lab/tree/a%20b.ipynb"
    with pytest.raises(errors.NotFoundError, match=r"there is no notebook .*none.ipynb; check the path"):
        lab.command_line(["none.ipynb"], checkout)


def test_lab_leaves_another_root_alone(checkout):
    command, _ = lab.command_line(["--ServerApp.root_dir=/srv"], checkout)
    assert command[3:] == [*lab.QUIET, "--ServerApp.root_dir=/srv"]


def test_lab_becomes_jupyterlab(checkout, monkeypatch):
    called = []
    monkeypatch.chdir(checkout)
    monkeypatch.setattr(os, "execv", lambda *arguments: called.append(arguments))
    assert CliRunner().invoke(app, ["lab", "--no-browser", "own.ipynb", "--ip", "127.0.0.1"]).exit_code == 0
    (program, command), = called
    assert program == sys.executable and "--LabApp.default_url=/lab/tree/own.ipynb" in command
    assert command[-3:] == ["--no-browser", "--ip", "127.0.0.1"]
    refused = CliRunner().invoke(app, ["lab", "none.ipynb"])
    assert refused.exit_code == 1 and "error: workbench lab: there is no notebook" in refused.stderr


def test_quiet_options_exist_in_the_installed_jupyterlab():
    from jupyterlab.handlers.announcements import NeverCheckForUpdate
    from jupyterlab.labapp import LabApp
    assert {"news_url", "check_for_updates_class"} <= set(LabApp.class_trait_names())
    assert NeverCheckForUpdate.__name__ in lab.QUIET[1]


# -- trace

EVENTS = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/job:worker/task:0"}},
          {"ph": "X", "name": "matmul", "pid": 1, "tid": 0, "ts": 100.0, "dur": 1500.0},
          {"ph": "X", "name": "matmul", "pid": 1, "tid": 0, "ts": 2000.0, "dur": 500.0},
          {"ph": "s", "name": "x", "pid": 1, "ts": 5, "id": 1}]


@pytest.mark.parametrize("form", ["html", "json", "list", "gz"])
def test_trace_of_each_kind_of_file(tmp_path, form):
    plain = json.dumps({"traceEvents": EVENTS})
    path = tmp_path / "saved"
    page = f'<!DOCTYPE html><script type="application/json" id="{trace.EMBEDDED}">{plain}</script>'
    path.write_bytes({"html": page.encode(), "json": plain.encode(), "list": json.dumps(EVENTS).encode(),
                      "gz": gzip.compress(plain.encode())}[form])
    done = CliRunner().invoke(app, ["trace", "inspect", str(path)])
    assert done.exit_code == 0 and "4 events, 2 spans over 0.002 s" in done.output
    assert "/job:worker/task:0" in done.output and "2.000" in done.output
    done = CliRunner().invoke(app, ["trace", "export", str(path), str(tmp_path / "out.json")])
    assert done.output == f"{tmp_path / 'out.json'}: 4 events; open it at https://ui.perfetto.dev\n"
    assert json.loads((tmp_path / "out.json").read_text())["traceEvents"] == EVENTS


@pytest.mark.parametrize(("content", "text"), [
    (b"<html>", "the page of 6 bytes has no trace in it"), (b"{", "its 1 bytes are not JSON"),
    (b"\x1f\x8b12", "it cannot be read"), (b"{}", "it is JSON but holds no list of trace events"),
    (b"[1]", "it is JSON but holds no list of trace events"),
    (b"\xff\xfe", "its 2 bytes are not JSON"), (b"", "its 0 bytes are not JSON")])
def test_trace_of_something_else(tmp_path, content, text):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(errors.DataLossError, match=rf"trace {tmp_path}/x: {text}"):
        trace.load(tmp_path / "x")
    done = CliRunner().invoke(app, ["trace", "export", str(tmp_path / "x")])
    assert done.exit_code == 1 and done.stderr.startswith("error: trace ") and len(list(tmp_path.iterdir())) == 1


def test_trace_of_nothing_and_to_nowhere(tmp_path):
    with pytest.raises(errors.NotFoundError, match="there is no such file"):
        trace.load(tmp_path / "x")
    (tmp_path / "x").write_text("[]")
    with pytest.raises(errors.FailedPreconditionError, match="it cannot be written"):
        trace.export(tmp_path / "x", tmp_path / "no" / "y")


# -- bench and doctor

def test_bench(tmp_path, monkeypatch):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "good.py").write_text('"""Adds up.\n\nMore."""\nprint(1 + 1)\n')
    (tmp_path / "benchmarks" / "poor.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "benchmarks" / "_shared.py").write_text("")
    monkeypatch.chdir(tmp_path / "benchmarks")
    runner = CliRunner()
    assert [line.split() for line in runner.invoke(app, ["bench", "--list"]).output.splitlines()] == [
        ["good", "Adds", "up."], ["poor"]]
    assert runner.invoke(app, ["bench", "good"]).exit_code == 0
    assert runner.invoke(app, ["bench"]).exit_code == 3
    unknown = runner.invoke(app, ["bench", "none"])
    assert unknown.exit_code == 1 and "there is no benchmark 'none' but good, poor; ask" in unknown.stderr


def test_doctor_says_what_is_there_and_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "data", write_small_mnist(tmp_path / "mnist").parent)
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    extension = tmp_path / "labextensions" / "workbench-lab"
    extension.mkdir(parents=True)
    (extension / "package.json").write_text('{"version": "1.2.3"}')
    done = CliRunner().invoke(app, ["doctor"])
    rows = {line.split("  ")[0].strip(): line for line in done.output.splitlines()}
    assert done.exit_code == 0
    assert f"{tmp_path}/mnist" in rows["MNIST"] and "1.2.3" in rows["lab extension"] and "numpy" in rows["packages"]
    monkeypatch.setattr(settings, "libraries", ("onednn",))
    monkeypatch.setattr("workbench.commands.doctor.NEEDED", ("numpy", "surely-not-installed"))
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1 and "pip install surely-not-installed" in done.output
    assert "switched off" in done.output and "add llvm to WB_LIBRARIES" in done.output


def test_doctor_shows_the_cache_of_kernels(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setattr(settings, "cache", tmp_path / "kernels")

    def row():
        done = CliRunner().invoke(app, ["doctor"])
        return next(line for line in done.output.splitlines() if line.startswith(" kernel cache"))
    assert f"ok        {tmp_path}/kernels: 0 kernels, 0.0 of 256 MiB" in row()
    for key in ("some", "other"):
        Cache(tmp_path / "kernels", 4 << 20).put(key, bytes(1 << 20))
    assert "2 kernels, 2.0 of 256 MiB" in row()
    (tmp_path / "kernels" / "other.kernel").write_bytes(b"half")
    assert "1 damaged" in row() and "they are compiled anew" in row()
    (tmp_path / "kernels").chmod(0o777)
    assert "optional" in row() and "other users" in row() and "set WB_CACHE to a folder of your own" in row()


def test_doctor_counts_what_was_measured_here_and_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "cache", tmp_path / "kernels")
    monkeypatch.setenv("COLUMNS", "250")

    def rows():
        lines = CliRunner().invoke(app, ["doctor"]).output.splitlines()
        return [next(line for line in lines if line.startswith(f" {name}")) for name in ("kernel cache", "measured ways")]
    assert "optional  0 questions answered on this machine " in rows()[1] and "Session.tune" in rows()[1]
    cache = Cache(tmp_path / "kernels", 4 << 20)
    keep(cache, "first", {"plain": Time(1.0)})
    keep(cache, "second", {"plain": Time(1.0)})
    cache.put("times-theirs", packed("another machine", "first", {"plain": Time(1.0)}))
    assert "0 kernels" in rows()[0]
    assert "ok        2 questions answered on this machine, 1 of other machines or versions" in rows()[1]
    monkeypatch.setattr(settings, "deterministic", True)
    assert "deterministic: rules choose" in rows()[1]


def test_the_package_has_no_heavy_command_module():
    """Each command imports its own needs; the modules themselves stay light."""
    for path in Path(workbench.__file__).parent.glob("commands/*.py"):
        top = [line.split()[1].partition(".")[0] for line in path.read_text().splitlines()
               if line.startswith(("import ", "from "))]
        assert not HEAVY & set(top), path
