"""Shell commands side by side: the first one's lines as they come, then what each other printed, whole; all must succeed."""
from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile


def main(first: str, *others: str) -> int:
    """The exit status of the first command that failed, 0 when none did."""
    with contextlib.ExitStack() as files:
        printed = [files.enter_context(tempfile.TemporaryFile()) for _ in others]
        beside = [subprocess.Popen(command, shell=True, stdout=file, stderr=file) for command, file in zip(others, printed)]
        try:
            status = subprocess.call(first, shell=True)
        finally:         # after Ctrl-C too, which the others have heard as well
            for process, file in zip(beside, printed):
                process.wait()
                file.seek(0)
                shutil.copyfileobj(file, sys.stdout.buffer)
                sys.stdout.buffer.flush()
    return next(filter(None, [status, *(process.returncode for process in beside)]), 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
