"""What of the memory that processes of one host lend each other is here."""
from __future__ import annotations

import os


def borrowed() -> int:
    """Memory of other processes that this one has mapped: of its own it has the file open besides."""
    found = descriptors()
    mapped = sum("-" in one.split()[0] for one in found)
    return mapped - (len(found) - mapped - mapped)      # a map has a descriptor of its own


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
