"""Who may connect: a peer proves that it knows its cluster's key, and both ends have the same operations."""
from __future__ import annotations

import functools
import hashlib
import hmac
import secrets

from workbench.core import ops as _all_of_them  # noqa: F401
from workbench.core.graph.opdef import registry

__all__ = ["KEY_BYTES", "derived", "nonce", "operations", "proof", "proves"]

KEY_BYTES = 32


@functools.cache
def operations() -> str:
    """A digest of the operations of this workbench (not of users' own): what a partition may ask of a task."""
    house = sorted(f"{name} {_text(d.signature)} {_text(d.types)} {sorted(d.attrs)}" for name, d in registry.copy().items()
                   if d.reference.__module__.startswith("workbench.core.ops."))
    return hashlib.sha256("\n".join(house).encode()).hexdigest()[:12]


def _text(rule: object) -> str:
    return rule if isinstance(rule, str) else "computed"


def derived(secret: str, what: str) -> bytes:
    """A key for one purpose from a secret that its holders share; b"" without a secret."""
    return hmac.new(secret.encode(), what.encode(), hashlib.sha256).digest() if secret else b""


def nonce() -> str:
    """What a caller must answer to: never the same again, so that an answer overheard is worth nothing."""
    return secrets.token_hex(16)


def proof(key: bytes, challenge: str, source: str, task: str) -> str:
    """The answer of `source`, which calls `task`, to a challenge; only who knows `key` can make it."""
    return hmac.new(key, f"{challenge}|{source}|{task}".encode(), hashlib.sha256).hexdigest()


def proves(shown: object, key: bytes, challenge: str, source: str, task: str) -> bool:
    """Is `shown` that answer?"""
    return isinstance(shown, str) and hmac.compare_digest(shown.encode(), proof(key, challenge, source, task).encode())
