"""What of the memory that processes of one host lend each other is here."""
from __future__ import annotations

import os


def descriptors() -> list[str]:
    """The memory that this process has open or mapped, as the system lists it."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:      # the listing itself
            continue
    with open("/proc/self/maps") as maps:
        return [one for one in [*found, *maps] if "memfd:workbench" in one]
