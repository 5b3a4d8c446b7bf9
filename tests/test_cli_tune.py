"""`workbench tune`: which plans it hears of, what it shows and keeps, how it ends; with planted times, once with real ones."""
from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import workbench as wb
from workbench import errors
from workbench.cli import app
from workbench.commands.tune import Options, tune
from workbench.core.kernels.cache import Cache
from workbench.core.kernels.measured.question import Time
from workbench.core.kernels.measured.record import kept
from workbench.core.run.prepare import listeners
from workbench.core.run.tuning import measured
from workbench.settings import settings

SCRIPT = """
    import sys, threading
    import numpy as np
    import workbench as wb
    from workbench.core.kernels.options import KernelOptions
    with wb.Graph().as_default():
        x = wb.placeholder("float32", [64, 300])
        y = wb.matmul(x, wb.constant(np.ones([300, 200], np.float32)), name="product")
        z = wb.matmul(x, wb.constant(np.ones([300, 200], np.float32)) * 2.0, name="other")
        with wb.Session({session}) as session:
            for i in range({steps}):
                session.run([y, z], {{x: np.ones([64, 300])}})
                print("step", i, sys.argv[1:], __name__)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of its own, and choices to make with whatever library is at hand."""
    monkeypatch.setattr(settings, "cache", tmp_path / "kernels")
    monkeypatch.setattr(settings, "deterministic", False)


def written(tmp_path, steps=3, session="", text=SCRIPT):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text).format(steps=steps, session=session))
    return path


def planted(fastest):
    """All ways take a second, the one that `fastest` picks half of it."""

    def times(question, deadline):
        chosen = fastest(question)
        return {name: Time(0.5 if name == chosen else 1.0) for name in question.ways}

    def walk(questions, seconds, keeping):
        return measured(questions, seconds, keeping, times, lambda: 0.0)

    return walk


def last(question):
    """A way that the rule does not take first."""
    return [name for name in question.ways if name != question.rule[0]][-1]


def shown(options, walk):
    """(exit code, printed text, {first operation: (way, state)})"""
    out = io.StringIO()
    code = tune(options, Console(file=out, width=200), walk)
    found = {}
    for line in out.getvalue().splitlines():
        if cells := re.match(r" ?(product|other)\S*(?: and \d+ more)?  +(\S+(?: -> \S+)?)  +(\w+)", line):
            found[cells[1]] = cells[2], cells[3]
    return code, out.getvalue(), found


def entries(tmp_path):
    return list(kept(Cache(tmp_path / "kernels", 1 << 20)))


def several_ways():
    """Is there anything to choose with the libraries at hand?"""
    with wb.Graph().as_default(), wb.Session() as session:
        x = wb.placeholder("float32", [64, 300])
        rows = session.explain(wb.matmul(x, wb.constant(np.ones([300, 200], np.float32))), {x: np.ones([64, 300])}).rows
    return any(row.decision for row in rows)


def needs_ways():
    if not several_ways():
        pytest.skip("one way alone with these libraries")


def test_what_is_measured_is_kept_and_the_table_says_what_changes(tmp_path, capsys):
    needs_ways()
    options = Options(written(tmp_path), ("--fast", "1"))
    code, text, found = shown(options, planted(last))
    assert code == 0 and capsys.readouterr().out.splitlines() == [f"step {i} ['--fast', '1'] __main__" for i in range(3)]
    ways, state = found["product"]
    assert " -> " in ways and state == "changed" and re.search(rf"{ways.split(' -> ')[1]} 0\.50, ", text)
    count = len(entries(tmp_path))
    assert count >= 1 and f"{count} measured now, 0 known before, 0 left" in text
    _, text, again = shown(options, planted(last))
    assert again["product"] == (ways.split(" -> ")[1], "same") and f"0 measured now, {count} known before" in text
    assert not listeners and sys.argv[1:] != ["--fast", "1"]


def test_a_dry_run_keeps_nothing(tmp_path):
    needs_ways()
    _, text, found = shown(Options(written(tmp_path), dry_run=True), planted(last))
    assert found["product"][1] == "changed" and entries(tmp_path) == [] and "nothing was kept (--dry-run)" in text


@pytest.mark.parametrize("flag", [True, False], ids=["flag", "session"])
def test_what_is_deterministic_is_frozen(tmp_path, flag):
    needs_ways()
    script = written(tmp_path, session="" if flag else "kernels=KernelOptions(deterministic=True)")
    _, text, found = shown(Options(script, deterministic=flag), planted(last))
    assert found["product"][1] == "frozen" and entries(tmp_path) == [] and "0 measured now, 0 known before, 0 left" in text
    assert settings.deterministic is False


def test_a_long_script_is_ended_after_some_steps(tmp_path, capsys):
    code, _, _ = shown(Options(written(tmp_path, steps=1000), steps=5), planted(last))
    assert code == 0 and capsys.readouterr().out.count("step") == 5


def test_ctrl_c_keeps_what_was_measured(tmp_path):
    needs_ways()

    def walk(questions, seconds, keeping):
        yield from [next(iter(planted(last)(questions, seconds, keeping)))]
        raise KeyboardInterrupt

    code, text, found = shown(Options(written(tmp_path)), walk)
    assert code == 130 and "stopped by Ctrl-C; what was measured until then is kept" in text
    assert len(entries(tmp_path)) == 1 and "changed" in {state for _, state in found.values()}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import workbench", "no session of .* ran a step; name a script"),
        ("raise SystemExit(3)", "ended with exit code 3"),
        ("1 / 0", "failed with ZeroDivisionError: division by zero; run it with Python"),
        ("this is no Python", "failed with SyntaxError"),
    ],
)
def test_a_script_of_no_use_is_refused(tmp_path, text, says):
    with pytest.raises(errors.FailedPreconditionError, match=says):
        shown(Options(written(tmp_path, text=text)), planted(last))
    assert not listeners


def test_a_step_without_choices_says_so(tmp_path):
    script = written(tmp_path, text="import workbench as wb\nwith wb.Session() as s:\n    s.run(wb.constant(1.0) * 2.0)")
    code, text, _ = shown(Options(script), planted(last))
    assert code == 0 and "no operation of its steps has several ways here" in text


def test_the_command_measures_for_real(tmp_path):
    """With real times on a machine that may be busy, so that they need not be believed."""
    done = CliRunner().invoke(app, ["tune", "--seconds", "1", "--dry-run", str(written(tmp_path)), "--mine"])
    assert done.exit_code == 0 and "step 2 ['--mine'] __main__" in done.output and "nothing was kept (--dry-run)" in done.output
    absent = CliRunner().invoke(app, ["tune", str(tmp_path / "absent.py")])
    assert absent.exit_code == 1 and "there is no file" in absent.stderr


def test_ctrl_c_during_the_script_ends_it(tmp_path):
    text = """
    import signal
    import workbench as wb
    with wb.Session() as session:
        session.run(wb.constant(1.0))
        print("ready", flush=True)
        signal.pause()
    """
    script = written(tmp_path, text=text)
    with subprocess.Popen(
        [sys.executable, "-m", "workbench.cli", "tune", str(script)],
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.STDOUT,
        env={**os.environ, "WB_CACHE": str(tmp_path)},
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 130 and "stopped by Ctrl-C" in rest and "Traceback" not in rest
