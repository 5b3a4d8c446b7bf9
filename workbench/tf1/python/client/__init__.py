"""`tensorflow.python.client`: timeline.Timeline, session, device_lib."""
from __future__ import annotations

from typing import Any

import workbench.tf1 as tf
from workbench.tf1.missing import Namespace
from workbench.tf1.python import small as _small
from workbench.train.saving import timeline

__all__ = ["device_lib", "session", "timeline"]


def list_local_devices(session_config: Any = None) -> list[Any]:
    """The devices of a session of this process: `name`, `device_type`, `memory_limit` (0: not limited)."""
    with tf.Session(graph=tf.Graph(), config=session_config) as opened:
        names = opened.list_devices()
    return [Namespace(name=name.replace("/job:localhost/task:0", ""), device_type=name.split(":")[-2], memory_limit=0)
            for name in names]


session = Namespace(Session=tf.Session, InteractiveSession=tf.InteractiveSession, **_small.SESSIONS)
device_lib = Namespace(list_local_devices=list_local_devices)
