"""Fetching a data set once: from the first public mirror that answers, with progress and checksums."""
from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from workbench import errors

__all__ = ["MNIST_FILES", "MNIST_MIRRORS", "cache_folder", "damaged", "fetch"]

MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
MNIST_FILES = {      # file -> canonical md5 sum
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
CONNECT_SECONDS = 3.0
READ_SECONDS = 10.0
GRACE_SECONDS = 0.2      # for the other mirrors once one has answered, besides as long again as that took
ANSWER_SECONDS = 5.0     # for the first mirror to answer at all; covers name lookup, which has no timeout of its own


def cache_folder(name: str) -> Path | None:
    """Where the data set `name` is kept between runs, in the user's cache; None for a user without a home folder."""
    import pooch

    try:
        folder = Path(pooch.os_cache("workbench")) / name
    except RuntimeError:      # of platformdirs, whose older versions give a path below "~"
        return None
    return folder if folder.is_absolute() else None


def damaged(folder: Path, files: Mapping[str, str | None] = MNIST_FILES) -> list[str]:
    """Which of `files` (name -> md5, "sha256:…", or None where nothing is known) are absent or differ from their checksum."""
    return [name for name, checksum in files.items() if not _is(folder / name, checksum)]


def _is(path: Path, checksum: str | None) -> bool:
    import pooch

    kind, _, value = (_known(checksum) or "").partition(":")
    return path.is_file() and (not kind or pooch.file_hash(str(path), alg=kind) == value)


def _known(checksum: str | None) -> str | None:
    """A checksum as pooch takes it, with its algorithm."""
    return checksum if checksum is None or ":" in checksum else f"md5:{checksum}"


def fetch(folder: Path, files: Mapping[str, str | None] = MNIST_FILES, mirrors: Sequence[str] = MNIST_MIRRORS,
          answer_seconds: float = ANSWER_SECONDS, progress: bool = True) -> None:
    """Make `folder` hold all `files` (name -> checksum, as in `damaged`), downloading what is missing or damaged.

    One attempt per mirror; nothing half-written is ever left under a file's name. Raises UnavailableError, within
    `answer_seconds` when no mirror answers, saying what each one did.
    """
    failures: dict[str, str] = {}
    alive = _answering(mirrors, next(iter(files)), answer_seconds, failures)
    for name, checksum in files.items():
        while not _fetch_one(folder, name, checksum, alive, failures, progress):
            if not alive:
                tried = "; ".join(f"{mirror} {why}" for mirror, why in failures.items())
                raise errors.UnavailableError(f"download of {name} to {folder}: {tried}; check the network "
                                              "connection, or put the files there by hand")


def _fetch_one(folder: Path, name: str, checksum: str | None, alive: list[str], failures: dict[str, str],
               progress: bool) -> bool:
    """Try the first mirror alive; on failure take it off the list."""
    import pooch

    if not alive:
        return False
    downloader = pooch.HTTPDownloader(progressbar=progress, chunk_size=1 << 16,
                                      timeout=(CONNECT_SECONDS, READ_SECONDS))
    try:
        pooch.retrieve(alive[0] + name, _known(checksum), name, folder, downloader=downloader)
    except (OSError, ValueError) as problem:      # requests' errors are OSErrors, a wrong checksum is a ValueError
        failures[alive.pop(0)] = _reason(problem)
        return False
    return True


def _answering(mirrors: Sequence[str], name: str, seconds: float, failures: dict[str, str]) -> list[str]:
    """The mirrors that have `name`, in the given order; the others go to `failures`.

    All are asked at once. Once one has answered the others get as long again as it took and a little, at most `seconds` in all.
    """
    answers: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    for mirror in mirrors:
        # NOTE: a thread of its own per question, because a dead name server blocks for as long as it likes
        threading.Thread(target=_ask, args=(mirror, name, seconds, answers), daemon=True).start()
    begin = time.monotonic()
    deadline = begin + seconds
    replies: dict[str, str] = {}
    while len(replies) < len(mirrors):
        try:
            mirror, why = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        replies[mirror] = why
        if not why:
            deadline = min(deadline, begin + 2 * (time.monotonic() - begin) + GRACE_SECONDS)
    silent = f"did not answer within {seconds:g} s"
    failures.update({mirror: why for mirror in mirrors if (why := replies.get(mirror, silent))})
    return [mirror for mirror in mirrors if mirror not in failures]


def _ask(mirror: str, name: str, seconds: float, answers: queue.SimpleQueue[tuple[str, str]]) -> None:
    import requests

    try:
        reply = requests.head(mirror + name, timeout=(min(CONNECT_SECONDS, seconds), seconds), allow_redirects=True)
        answers.put((mirror, "" if reply.ok else f"answered {reply.status_code} {reply.reason}"))
    except OSError as problem:
        answers.put((mirror, _reason(problem)))


def _reason(problem: Exception) -> str:
    """One short line out of the nested texts of network libraries."""
    text = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
    for sign, plain in (("NameResolution", "its name cannot be resolved"), ("timed out", "timed out"),
                        ("refused", "refused the connection"), ("unreachable", "cannot be reached"),
                        ("does not match the known hash", "sent a file with a wrong checksum")):
        if sign in text:
            return plain
    return f"failed ({text[:120]})"
