"""In the kernel language: primitives of a C library in a row, pointed at the arrays that the caller gave."""
from __future__ import annotations

from workbench.core.kernels.words import called, int64, ints64

__all__ = ["ADDRESSES", "primitives"]

# where in the table what lies
STATUS = 1
POINT = 3          # the function that points a memory object at an address
EXECUTE = 4        # that which runs a primitive
STREAM = 5         # what it needs
SHARE = 6          # the function that takes a number of threads
MEMORIES = 7       # how many
STEPS = 8
ADDRESSES = 9      # the first of them


def primitives(table: ints64) -> None:
    """Behind the addresses lie, for each memory object, itself, the number of its array and how far behind its start; then, for
    each primitive, for how many threads (0 as many as before), itself, its arguments' number and where they are.

    The status of the first that fails is left, which ends the row; 0 if none did.
    """
    place = ADDRESSES + table[0]
    status = 0
    for _ in range(table[MEMORIES]):
        address = table[ADDRESSES + table[place + 1]] + table[place + 2]
        status = status | int64(called(table[POINT], table[place], address))
        place = place + 3
    for _ in range(table[STEPS]):
        if status == 0:
            if table[place] > 0:
                called(table[SHARE], table[place])
            status = int64(called(table[EXECUTE], table[place + 1], table[STREAM], table[place + 2], table[place + 3]))
        place = place + 4
    table[STATUS] = status
