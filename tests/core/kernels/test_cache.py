"""The disk cache of kernels: what is kept comes back whole or not at all, whoever writes, and whatever the folder is."""
from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import workbench as wb
from tests.interrupts import every_interrupt
from workbench.core.kernels import cache as module
from workbench.core.kernels.cache import ABANDONED, Cache, default_folder, packed, unpacked
from workbench.settings import settings

pytestmark = pytest.mark.once


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "a" / "kernels", 1 << 20)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == module.__name__]


def test_what_is_put_comes_back(cache):
    assert cache.get("x") is None and list(cache.entries()) == []
    cache.put("x", b"code")
    cache.put("y", b"")
    assert cache.get("x") == b"code" and cache.get("y") == b"" and cache.get("z") is None
    assert sorted(entry.path.stem for entry in cache.entries()) == ["x", "y"] and cache.damaged() == []
    assert oct(cache.folder.stat().st_mode & 0o777) == "0o700"


@pytest.mark.parametrize("cut", [0, 1, 10, 19, 40, 51, 54])
def test_a_truncated_entry_is_dropped_and_said_once(cache, cut, caplog):
    cache.put("x", b"code")
    cache.put("y", b"code")
    for key in "xy":
        path = cache._path(key)
        path.write_bytes(path.read_bytes()[:cut])
    assert [path.stem for path in sorted(cache.damaged())] == ["x", "y"]
    assert cache.get("x") is None and cache.get("y") is None and list(cache.entries()) == []
    [line] = said(caplog)
    assert line == (f"kernel cache: {cache.folder} holds a damaged entry, x.kernel, which is made anew; kernels that it "
                    "cannot give are compiled in each process. Set WB_CACHE to a folder of your own, or WB_CACHE_BYTES=0")
    cache.put("x", b"again")
    assert cache.get("x") == b"again"


def test_any_changed_byte_is_noticed():
    whole = packed(b"some machine code")
    assert unpacked(whole) == b"some machine code"
    for at in range(len(whole)):
        assert unpacked(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:]) is None


def test_the_entries_not_used_for_longest_leave_first(cache):
    cache.limit = 10 * len(packed(bytes(1000)))
    now = time.time()
    for number in range(10):
        cache.put(f"k{number}", bytes(1000))
        os.utime(cache._path(f"k{number}"), (now - 1000 + number, now - 1000 + number))
    assert cache.get("k0") == bytes(1000)      # used just now
    cache.put("one more", bytes(2000))
    left = {entry.path.stem for entry in cache.entries()}
    assert "k0" in left and "one more" in left and not {"k1", "k2"} & left and {"k4", "k9"} <= left
    assert sum(entry.nbytes for entry in cache.entries()) <= cache.limit


def test_half_written_files_of_killed_processes_are_swept_away(cache):
    cache.put("x", b"1")
    old, new = cache.folder / "old.part", cache.folder / "new.part"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * ABANDONED,) * 2)
    cache.put("y", b"2")
    assert not old.exists() and new.exists() and len(list(cache.entries())) == 2


def test_no_bytes_means_no_cache(tmp_path):
    cache = Cache(tmp_path / "none", 0)
    cache.put("x", b"1")
    assert cache.get("x") is None and not cache.folder.exists()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_full_or_read_only_disk_is_said_once(cache, code, monkeypatch, caplog):
    cache.put("x", b"kept")

    def refuse(*arguments, **options):
        raise OSError(code, os.strerror(code))
    monkeypatch.setattr(module.os, "replace", refuse)
    cache.put("y", b"1")
    cache.put("z", b"2")
    [line] = said(caplog)
    assert f"cannot be written ([Errno {code}] {os.strerror(code)})" in line
    assert cache.get("x") == b"kept" and cache.get("y") is None and len(list(cache.folder.iterdir())) == 1


def test_a_file_where_the_folder_should_be(tmp_path, caplog):
    (tmp_path / "kernels").write_text("")
    cache = Cache(tmp_path / "kernels", 1 << 20)
    cache.put("x", b"1")
    assert cache.get("x") is None and cache.trouble() == "is not a folder" and said(caplog)


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o702])
def test_a_folder_that_others_can_write_is_not_trusted(cache, mode, caplog):
    cache.put("x", b"machine code")
    cache.folder.chmod(mode)
    assert cache.get("x") is None
    cache.put("y", b"1")
    assert len(list(cache.entries())) == 1
    [line] = said(caplog)
    assert "belongs to, or can be written by, other users" in line


def test_ctrl_c_at_any_moment_of_a_write_leaves_all_or_nothing(cache):
    for number in every_interrupt(lambda: cache.put("x", b"new" * 100), "kernels/cache.py"):
        assert cache.damaged() == [], number
        assert cache.get("x") in (None, b"new" * 100), number
        parts = list(cache.folder.glob("*.part")) if cache.folder.exists() else []
        assert len(parts) <= 1, number      # swept away when it is an hour old
        for part in parts:
            part.unlink()
    assert cache.get("x") == b"new" * 100


WRITER = """
import sys
from pathlib import Path
from workbench.core.kernels.cache import Cache
cache = Cache(Path(sys.argv[1]), 40_000)
for turn in range(60):
    for key in "abcdefgh":
        found = cache.get(key)
        assert found is None or found == key.encode() * 4000, (key, len(found))
        if found is None or turn % 5 == 0:
            cache.put(key, key.encode() * 4000)
"""


def test_many_processes_may_write_the_same_entries(tmp_path):
    """Eight entries, room for nine: readers, writers and evictions meet all the time."""
    folder = tmp_path / "kernels"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stderr=subprocess.PIPE, text=True)
               for _ in range(4)]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0 and not errors, errors
    cache = Cache(folder, 40_000)
    assert cache.damaged() == [] and not list(folder.glob("*.part")) and len(list(cache.entries())) == 8


@pytest.mark.parametrize("platform,variable,folder", [
    ("linux", "XDG_CACHE_HOME", "workbench/kernels"), ("win32", "LOCALAPPDATA", "workbench/kernels"),
    ("linux", "", ".cache/workbench/kernels"), ("darwin", "", "Library/Caches/workbench/kernels"),
    ("win32", "", "AppData/Local/workbench/kernels")])
def test_the_system_s_own_place(platform, variable, folder, monkeypatch, tmp_path):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable or "HOME", str(tmp_path))
    monkeypatch.setattr(module.sys, "platform", platform)
    assert default_folder() == tmp_path / folder


HOMELESS = """
import logging, os, pwd, sys
for name in ("HOME", "XDG_CACHE_HOME", "WB_CACHE"):
    os.environ.pop(name, None)
def unknown(user):
    raise KeyError(user)
pwd.getpwuid = unknown
logging.basicConfig(format="%(message)s", stream=sys.stdout)
import numpy as np
import workbench as wb
from workbench.core.kernels import llvm
from workbench.core.kernels.cache import shared
from workbench.settings import settings
x = wb.placeholder("float32", [100, 784])
y = wb.nn.softmax(wb.tanh(wb.matmul(x, wb.ones([784, 10]))) * 2.0 + 1.0)
with wb.Session() as session:
    session.run(y, {x: np.ones((100, 784), np.float32)})
print(llvm.compiled > 0, shared(None, settings.cache_bytes).trouble(), *os.listdir("."))
"""


@pytest.mark.skipif("llvm" not in settings.libraries or sys.platform == "win32", reason="LLVM is off, or users have no numbers")
def test_a_user_without_a_home_folder_has_compiled_kernels_and_no_cache(tmp_path):
    """A container run with any number: no HOME, and no entry of the user."""
    there = {**os.environ, "PYTHONPATH": str(Path(wb.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", HOMELESS], cwd=tmp_path, env=there, capture_output=True, text=True, timeout=120)
    assert not run.returncode, run.stderr
    first, second = run.stdout.splitlines()
    assert first == ("kernel cache: ~ is not known: this user has no home folder; kernels that it cannot give are compiled in "
                     "each process. Set WB_CACHE to a folder of your own, or WB_CACHE_BYTES=0")
    assert second == "True is not known: this user has no home folder"
