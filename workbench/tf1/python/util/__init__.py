"""`tensorflow.python.util`: nest, compat."""
from __future__ import annotations

import workbench.tf1 as tf

__all__ = ["compat", "nest"]

compat, nest = tf.compat, tf.contrib.framework.nest
