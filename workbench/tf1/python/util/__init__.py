"""`tensorflow.python.util`: nest, compat."""
from __future__ import annotations

import inspect as tf_inspect

import workbench.tf1 as tf

__all__ = ["compat", "deprecation", "nest", "tf_inspect"]

compat, nest = tf.compat, tf.contrib.framework.nest
deprecation = tf.contrib.framework
