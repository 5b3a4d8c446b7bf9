"""What is shipped: the prebuilt extension is current, inside the wheel, and JupyterLab accepts it."""
from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
HOSTS = re.compile(r"https?://(?!localhost|127\.0\.0\.1)[^\s\"']*(npm|yarn|pypi|pythonhosted)[^\s\"']*")


@pytest.fixture(scope="module")
def frontend() -> object:
    sys.path.insert(0, str(ROOT / "_build"))
    try:
        import frontend

        return frontend
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without network: everything the build needs is installed for the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder)]
    command = [sys.executable, "-m", "pip", "wheel", *options, str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (found,) = folder.glob("*.whl")
    return found


def test_the_built_extension_is_current(frontend) -> None:
    assert frontend.built_from() == frontend.digest(), "labextension/ changed since the last build; run `make front`"


def test_a_changed_source_is_noticed(frontend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = frontend.digest()
    for path in frontend.sources():
        target = tmp_path / path.relative_to(frontend.SOURCE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    monkeypatch.setattr(frontend, "SOURCE", tmp_path)
    assert frontend.digest() == before
    with open(tmp_path / "src" / "index.ts", "a") as index:
        index.write("\n")
    assert frontend.digest() != before


def test_the_wheel_carries_the_extension_once(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    place = "workbench-0.1.0.data/data/share/jupyter/labextensions/workbench-lab/"
    shipped = {name.removeprefix(place) for name in names if name.startswith(place)}
    assert {"package.json", "install.json", "built-from.json"} <= shipped
    assert any(re.fullmatch(r"static/remoteEntry\.\w+\.js", name) for name in shipped)
    assert not [name for name in names if name.startswith("workbench/labextension/")]
    assert not [name for name in names if "node_modules" in name or name.endswith(".ts")]


def test_jupyterlab_shows_the_extension_enabled_and_ok(wheel: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "labextensions" / "workbench-lab"
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            _, found, inside = name.partition("share/jupyter/labextensions/workbench-lab/")
            if found:
                (folder / inside).parent.mkdir(parents=True, exist_ok=True)
                (folder / inside).write_bytes(archive.read(name))
    environment = {**os.environ, "HOME": str(tmp_path), "JUPYTER_DATA_DIR": str(tmp_path / "data")}
    answer = subprocess.run([sys.executable, "-m", "jupyter", "labextension", "list"], text=True, capture_output=True,
                            check=True, env=environment)
    listed = re.sub(r"\x1b\[[0-9;]*m", "", answer.stdout + answer.stderr)
    assert re.search(r"workbench-lab v0\.1\.0 enabled OK \(python, workbench\)", listed), listed


def test_versions_agree() -> None:
    import workbench

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    package = json.loads((ROOT / "labextension" / "package.json").read_text())
    assert project["version"] == package["version"] == workbench.__version__


def pins() -> list[str]:
    """The lines of the constraints file."""
    text = (ROOT / "constraints.txt").read_text()
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_constraints_are_names_and_versions_and_cover_what_is_asked_for() -> None:
    assert [line for line in pins() if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.+!]*", line)] == []
    pinned = {line.partition("==")[0] for line in pins()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.sub(r"[_.]+", "-", re.match(r"[\w.-]+", line).group().lower()) for line in asked}
    assert names - pinned == set()


def test_every_pin_installs_on_the_oldest_python_we_promise() -> None:
    promised = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    oldest = promised.removeprefix(">=") + ".0"
    pinned = {line.partition("==")[0] for line in pins()}
    refused = [f"{one.name} {one.version} wants Python {wanted}" for one in importlib.metadata.distributions()
               if canonicalize_name(one.name) in pinned and (wanted := one.metadata.get("Requires-Python"))
               and not SpecifierSet(wanted).contains(oldest)]
    assert refused == []


def test_no_lock_file_names_a_host() -> None:
    front = [ROOT / "labextension" / name for name in ("yarn.lock", "package.json", ".yarnrc.yml")]
    for path in (ROOT / "constraints.txt", *front):
        assert not HOSTS.search(path.read_text()), path.name


def test_installing_says_what_it_does_and_all_when_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    sys.path.insert(0, str(ROOT / "_build"))
    try:
        from install import install, shown
    finally:
        sys.path.pop(0)
    assert shown("  Downloading numpy-2.3.1-cp311-manylinux_2_28_x86_64.whl (16.6 MB)\n") == "fetching numpy 2.3.1 (16.6 MB)"
    assert shown("Installing collected packages: a, b, c\n") == "installing 3 packages" and shown("Collecting a\n") == ""
    script = "print('Collecting a'); print('  Using cached a-1.0-py3-none-any.whl (3 kB)'); raise SystemExit({})"
    assert install(["x"], [sys.executable, "-c", script.format(0)]) == 0
    assert capsys.readouterr() == ("  fetching a 1.0 (3 kB)\n", "")
    assert install([], [sys.executable, "-c", script.format(2)]) == 2
    assert "Collecting a\n" in capsys.readouterr().err
