"""`tensorflow.python.platform`: app, flags, gfile, logging, tests."""
from __future__ import annotations

import workbench.tf1 as tf
from workbench.tf1.missing import Namespace

__all__ = ["app", "build_info", "control_imports", "flags", "gfile", "googletest", "resource_loader", "sysconfig", "test",
           "tf_logging"]

app, flags, gfile, resource_loader, test, tf_logging = tf.app, tf.flags, tf.gfile, tf.resource_loader, tf.test, tf.logging
googletest = Namespace(main=tf.test.main, TestCase=tf.test.TestCase, GetTempDir=tf.test.get_temp_dir)
sysconfig, control_imports = tf.sysconfig, Namespace(USE_OSS=True)
build_info = Namespace(is_cuda_build=tf.test.is_built_with_cuda())
