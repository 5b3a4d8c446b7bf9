"""Numbers the way people read them: three digits, with the unit that fits."""

from __future__ import annotations

import math

__all__ = ["amount", "ms", "number", "percent", "span"]


def number(value: float, digits: int = 3) -> str:
    """'1,234', '12.3', '0.0123': `digits` significant digits, no exponent between 1e-4 and 1e15."""
    if not math.isfinite(value):
        return str(value)
    if isinstance(value, int) or abs(value) >= 10**digits:
        return f"{value:,.0f}"
    if value and abs(value) < 1e-4:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{digits}g}"


def ms(value: float) -> str:
    """Milliseconds in the unit that reads best: '870 µs', '9.8 ms', '1.25 s'."""
    size = abs(value)
    if 1 <= size < 1000:
        return f"{value:.3g} ms"  # as most are, without asking `number` for it
    if size >= 1000:
        return f"{number(value / 1000)} s"
    return f"{number(1000 * value)} µs" if size > 0 else f"{number(value)} ms"


def span(seconds: float) -> str:
    """How long something goes on, as exactly as one wants to know: '8 s', '12 min', '1 h 20 min'."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def percent(share: float) -> str:
    return f"{number(100 * share, 2)} %"


def amount(nbytes: float) -> str:
    """'31.4 kB': decimal units, as link speeds are given."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(nbytes) < 1000:
            return f"{number(float(nbytes))} {unit}"
        nbytes /= 1000
    return f"{number(nbytes)} TB"
