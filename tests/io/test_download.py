"""Downloads against real servers in this process: order of mirrors, checksums, and quick failure."""
from __future__ import annotations

import hashlib
import socket

import pytest

from tests.io.serving import serving
from workbench import errors
from workbench.io import download


@pytest.fixture
def origin(tmp_path):
    folder = tmp_path / "origin"
    folder.mkdir()
    contents = {"a.gz": b"first" * 1000, "b.gz": b"second"}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder, {name: hashlib.md5(content).hexdigest() for name, content in contents.items()}


@pytest.fixture
def patient(monkeypatch):
    """Every mirror that answers at all counts, however late a busy machine lets it."""
    monkeypatch.setattr(download, "GRACE_SECONDS", 60.0)


def fetch(folder, files, mirrors, seconds=60.0):
    download.fetch(folder, files, mirrors, seconds, progress=False)


def test_downloads_once(origin, tmp_path):
    source, files = origin
    target = tmp_path / "deep" / "cache"
    assert download.damaged(target, files) == ["a.gz", "b.gz"]
    with serving(source) as (url, asked):
        fetch(target, files, [url])
        assert not download.damaged(target, files)
        assert sorted(line for line in asked if "GET" in line) == ["GET /a.gz", "GET /b.gz"]
        fetch(target, files, [url])
        assert len([line for line in asked if "GET" in line]) == 2
    assert (target / "a.gz").read_bytes() == (source / "a.gz").read_bytes()


def test_progress_is_shown(origin, tmp_path, capsys):
    source, files = origin
    with serving(source) as (url, _):
        download.fetch(tmp_path / "cache", files, [url])
    assert "100%" in capsys.readouterr().err


def test_damaged_cache_is_replaced(origin, tmp_path):
    source, files = origin
    target = tmp_path / "cache"
    target.mkdir()
    (target / "a.gz").write_bytes(b"half")
    with serving(source) as (url, _):
        fetch(target, files, [url])
    assert (target / "a.gz").read_bytes() == (source / "a.gz").read_bytes()


def test_next_mirror_serves_when_the_first_lies(origin, tmp_path, patient):
    source, files = origin
    liar = tmp_path / "liar"
    liar.mkdir()
    (liar / "a.gz").write_bytes(b"something else")
    with serving(liar) as (bad, asked), serving(source) as (good, _):
        fetch(tmp_path / "cache", files, [bad, good])
        assert [line for line in asked if "GET" in line] == ["GET /a.gz"], "one attempt per mirror"
    assert not download.damaged(tmp_path / "cache", files)


def test_every_mirror_is_named_with_what_it_did(origin, tmp_path, patient):
    source, files = origin
    (source / "a.gz").write_bytes(b"changed")
    empty = tmp_path / "empty"
    empty.mkdir()
    with socket.socket() as bound, serving(source) as (liar, _), serving(empty) as (lacking, _):
        bound.bind(("127.0.0.1", 0))       # bound but not listening: connections are refused
        closed = f"http://127.0.0.1:{bound.getsockname()[1]}/"
        with pytest.raises(errors.UnavailableError) as caught:
            fetch(tmp_path / "cache", files, [closed, lacking, liar])
    message = str(caught.value)
    assert message.startswith(f"download of a.gz to {tmp_path / 'cache'}: ")
    assert f"{closed} refused the connection" in message
    assert f"{lacking} answered 404 File not found" in message
    assert f"{liar} sent a file with a wrong checksum" in message
    assert message.endswith("check the network connection, or put the files there by hand")
    assert not list((tmp_path / "cache").glob("*")), "nothing half-written stays"


def test_silent_mirrors_do_not_hold_us_up(origin, tmp_path):
    _, files = origin
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(errors.UnavailableError, match=r"did not answer within 0\.3 s|timed out"):
            fetch(tmp_path / "cache", files, [url], seconds=0.3)


def test_a_silent_mirror_does_not_delay_the_one_that_answers(origin, tmp_path):
    source, files = origin
    with socket.socket() as silent, serving(source) as (good, _):
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        mirrors = [f"http://127.0.0.1:{silent.getsockname()[1]}/", good]
        fetch(tmp_path / "cache", files, mirrors, seconds=1e6)      # whoever waits for the silent one never ends


def test_unwritable_cache_is_a_failure_with_a_reason(origin, tmp_path):
    source, files = origin
    (tmp_path / "cache").write_text("a file where the folder should be")
    with serving(source) as (url, _), pytest.raises(errors.UnavailableError, match=r"Not a directory|File exists"):
        fetch(tmp_path / "cache", files, [url])
