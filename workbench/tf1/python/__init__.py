"""`tensorflow.python`: the inner modules that programs of the time imported from."""
from __future__ import annotations

from workbench.tf1.python import client, framework, ops, platform, training, util

__all__ = ["client", "framework", "ops", "platform", "training", "util"]
