"""A message as a page reads it, but for its columns."""
from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def read(data: dict[str, Any], buffers: Sequence[Any] | None) -> dict[str, Any]:
    """The message with what was written into a buffer back in its place."""
    at = data.get("topics", {}).get("#j")
    return data if at is None or not buffers else {**data, "topics": json.loads(bytes(buffers[at]))}
