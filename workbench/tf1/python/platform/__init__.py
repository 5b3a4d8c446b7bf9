"""`tensorflow.python.platform`: app, flags, gfile, logging, tests."""
from __future__ import annotations

import workbench.tf1 as tf
from workbench.tf1.missing import Namespace

__all__ = ["app", "build_info", "control_imports", "flags", "gfile", "googletest", "resource_loader", "sysconfig", "test",
           "tf_logging"]

_TRUTHS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


class BooleanParser:
    """Reads a truth, as flags do."""

    def parse(self, argument: object) -> bool:
        """True for "true", "t" and "1", False for "false", "f" and "0". ValueError for anything else."""
        found = _TRUTHS.get(str(argument).lower())
        if found is None:
            raise ValueError(f"Non-boolean argument to boolean flag: {argument!r}")
        return found

    Parse = convert = Convert = parse


app, gfile, resource_loader, test, tf_logging = tf.app, tf.gfile, tf.resource_loader, tf.test, tf.logging
flags = Namespace(**vars(tf.flags), BooleanParser=BooleanParser)
googletest = Namespace(main=tf.test.main, TestCase=tf.test.TestCase, GetTempDir=tf.test.get_temp_dir)
sysconfig, control_imports = tf.sysconfig, Namespace(USE_OSS=True)
build_info = Namespace(is_cuda_build=tf.test.is_built_with_cuda())
