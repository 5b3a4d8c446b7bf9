"""Every tracked text file: nothing of one particular machine in it, no loose ends, and a layout page that is true."""
from __future__ import annotations

import importlib.util
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ("workbench/labextension/", "workbench/viz/static/kit/", "labextension/yarn.lock", "constraints.txt",
             "tests/golden/")
BINARY = {".png", ".gz", ".ico", ".woff", ".woff2", ".jpg", ".pdf", ".zip"}

# What belongs to one machine or one installation and to no file of ours; the parts are joined here so that this file
# does not contain what it looks for.
SLASH = "/"
PRIVATE = {
    "a home folder": rf"{SLASH}(root|home|Users){SLASH}(?!web_user\b)[\w.]",      # web_user: of WebAssembly programs
    "a scratch folder": rf"{SLASH}(tmp|work|opt|mnt|srv){SLASH}(wb|main|shared|pypi|scratch)\b",
    "a package registry": rf"\b(registry\.(npmjs|yarnpkg)\.|files\.pythonhosted\.|pypi\.org{SLASH}simple)",
    "an address of a private network": r"\b(10|192\.168)\.\d+\.\d+(\.\d+)?:\d+",
}


@cache
def tracked() -> tuple[Path, ...]:
    """Text files under version control, or, in an unpacked archive, all of them."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    names = done.stdout.decode().split("\0")[:-1] if done.returncode == 0 else [
        path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.*") if ".venv" not in path.parts]
    return tuple(ROOT / name for name in names
                 if Path(name).suffix not in BINARY and (ROOT / name).is_file() and not (ROOT / name).is_symlink())


def hits(pattern: str, paths: list[Path]) -> list[str]:
    """"path:line: text" for every line that matches."""
    found = re.compile(pattern)
    return [f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}" for path in paths
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if found.search(line)]


def ours(*suffixes: str) -> list[Path]:
    return [path for path in tracked() if (not suffixes or path.suffix in suffixes)
            and not path.relative_to(ROOT).as_posix().startswith(GENERATED)]


@pytest.mark.parametrize("what", PRIVATE)
def test_files_name_no_particular_machine(what):
    assert hits(PRIVATE[what], list(tracked())) == []


def test_the_patterns_find_what_they_are_for():
    for what, text in [("a home folder", "/ho" "me/anna"), ("a scratch folder", "/tm" "p/wb/x"),
                       ("a package registry", "https://registry.npm" "js.org/x"),
                       ("an address of a private network", "192.168" ".0.7:8786")]:
        assert re.search(PRIVATE[what], text), what
    assert not re.search(PRIVATE["a home folder"], "~/data and $HOME/x")


def test_loose_ends_have_an_issue_number():
    files = [path for path in ours(".py", ".ts", ".md") if path.name != "test_style.py"]
    assert hits(r"\b(TODO|FIXME|XXX|HACK)\b(?!.*#\d)", files) == []


def test_tests_wait_for_events_and_never_sleep():
    tests = [path for path in ours(".py") if path.is_relative_to(ROOT / "tests") and path.name != "test_style.py"]
    assert hits(r"\b(time|asyncio)\.sleep\([^0)]", tests) == []


def test_what_other_threads_change_is_copied_before_it_is_looked_through():
    """`list(shared.items())` makes pairs one by one, and Python may let another thread on between two; `copy` is one step."""
    product = [path for path in ours(".py") if path.is_relative_to(ROOT / "workbench")]
    assert hits(r"\b(list|tuple)\((self|form|registry)\b[\w.]*\.items\(\)\)", product) == []


def test_lines_end_clean():
    assert hits(r"[ \t]+$", ours(".py", ".ts", ".toml", ".md")) == []
    assert [path.name for path in ours(".py", ".ts", ".md", ".toml") if path.stat().st_size
            and not path.read_bytes().endswith(b"\n")] == []


def test_the_layout_page_is_up_to_date():
    specification = importlib.util.spec_from_file_location("make_layout", ROOT / "docs" / "make_layout.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    assert module.TARGET.read_text(encoding="utf-8") == module.layout(), "run: python docs/make_layout.py"


def test_tests_that_pages_name_exist():
    defined: dict[str, list[str]] = {}
    for path in (path for path in ours(".py") if path.name.startswith("test_")):
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            defined.setdefault(name, []).append(f"/{path.relative_to(ROOT).as_posix()}")
    named = [(page.name, end, name) for page in ours(".md")
             for end, name in re.findall(r"`([\w/]+\.py)::(test_\w+)`", page.read_text(encoding="utf-8"))]
    assert named
    assert [entry for entry in named if not any(path.endswith(f"/{entry[1]}") for path in defined.get(entry[2], []))] == []


ELSEWHERE = {"docs/tf1.md", "docs/public_tests.md", "docs/oracle.md"}      # pages that list names of TensorFlow
CODE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(\(\))?")
FILE = re.compile(r"(?:[\w.-]+/)*[\w.-]+\.(?:py|ts|css|md|ipynb|toml|json)|(?:[\w.-]+/)+")


def pages() -> dict[str, set[str]]:
    """Page -> what stands between single backticks on it, of a test its file."""
    return {page.relative_to(ROOT).as_posix(): {text.partition("::")[0] for text in re.findall(
        r"`([^`\n]+)`", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL))} for page in ours(".md")}


def test_files_that_pages_name_exist():
    files = [f"/{path.relative_to(ROOT).as_posix()}" for path in tracked()]
    files += {f"{folder.as_posix()}/" for file in files for folder in Path(file).parents}
    named = [(page, text) for page, texts in pages().items() for text in texts if FILE.fullmatch(text)]
    assert len({page for page, _ in named}) > 5
    assert [entry for entry in named if not any(file.endswith(f"/{entry[1]}") for file in files)] == []


def test_names_of_code_on_pages_exist():
    """A name stands in our sources, or in an example on its page; `Class.member` in a file of a class of that name."""
    known: set[str] = set()
    members: dict[str, set[str]] = {}
    for path in (path for path in ours(".py", ".ts", ".css", ".toml") if path != Path(__file__)):
        source = path.read_text(encoding="utf-8")
        words = set(re.findall(r"\w+", source))
        known |= words
        for name in re.findall(r"^class (\w+)", source, re.MULTILINE):
            members.setdefault(name, set()).update(words)
    named = [(page, text) for page, texts in pages().items() if page not in ELSEWHERE for text in texts
             if CODE.fullmatch(text) and not FILE.fullmatch(text)]
    assert len({page for page, _ in named}) > 5
    lost = []
    for page, text in named:
        parts = re.findall(r"\w+", text)
        examples = re.findall(r"```.*?```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
        here = (members.get(parts[0], known) if len(parts) > 1 else known) | set(re.findall(r"\w+", "".join(examples)))
        lost += [] if here.issuperset(parts) else [(page, text)]
    assert lost == []
