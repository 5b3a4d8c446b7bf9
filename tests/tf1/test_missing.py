"""What is not offered says so at the program's line and names the nearest; a script can be checked before it runs."""
from __future__ import annotations

import subprocess
import sys

import pytest

import workbench.tf1 as tf
from workbench.tf1 import missing
from workbench.tf1.missing import Namespace, needs

PROGRAM = """\
import tensorflow as tf
from tensorflow.contrib import rnn
from tensorflow.examples.tutorials.mnist import input_data
import tensorflow.compat.v1 as tf1

x = tf.placeholder(tf.float32, [None, 3])
y = tf.nn.reluu(x)
graph = tf.load_op_library(tf1.ProfilerDef())
cell = rnn.BasicLSTMCell(3)
z = tf.Variable(0).assign(1)
"""


@pytest.mark.parametrize(("use", "text"), [
    (lambda: tf.reduce_summ, "workbench.tf1: tf.reduce_summ is not offered; the nearest names are reduce_sum"),
    (lambda: tf.nn.softmaxx, "workbench.tf1: tf.nn.softmaxx is not offered; the nearest names are softmax"),
    (lambda: tf.contrib.layers.fully_conected, "tf.contrib.layers.fully_conected is not offered; the nearest names are fully_"),
    (lambda: tf.load_op_library, "tf.load_op_library is not offered; use instead: the decorator wb.op"),
    (lambda: tf.keras.utils.plot_model, "tf.keras.utils.plot_model is not offered; use instead: the model's summary()"),
    (lambda: tf.train.sdca_shrink_l1, "is not offered; use instead: train.ProximalGradientDescentOptimizer"),
    (lambda: tf.zzzzqqq, "tf.zzzzqqq is not offered; nothing here comes near")])
def test_a_missing_name_raises_one_line(use, text):
    with pytest.raises(AttributeError) as error:
        use()
    assert text in str(error.value) and "\n" not in str(error.value)


def test_a_namespace_stands_among_modules_as_one_of_them():
    names = Namespace(**vars(missing))
    assert names.nearest is missing.nearest and not hasattr(names, "__file__") and names.__name__ == "workbench.tf1"
    assert names != Namespace(**vars(missing)) and names in {names}


def test_hasattr_still_answers():
    assert not hasattr(tf, "load_op_library") and hasattr(tf, "matmul") and not hasattr(tf.nn, "nothing")


def test_what_a_program_needs_is_listed_with_its_lines(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    found = needs(path, tf)
    assert [(n.line, n.name) for n in found if n.why] == [(7, "tf.nn.reluu"), (8, "tf.ProfilerDef"), (8, "tf.load_op_library")]
    offered = {need.name for need in found if not need.why}
    assert offered == {"tf.placeholder", "tf.float32", "tf.contrib.rnn", "tf.contrib.rnn.BasicLSTMCell", "tf.Variable",
                       "tf.examples.tutorials.mnist.input_data"}


def test_the_command_lists_and_counts(tmp_path):
    path, good = tmp_path / "program.py", tmp_path / "good.py"
    path.write_text(PROGRAM)
    good.write_text("import tensorflow as tf\nprint(tf.constant(1))\n")
    done = subprocess.run([sys.executable, "-m", "workbench.tf1", "check", str(path), str(good)], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 1 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == f"{path}:7: tf.nn.reluu is not offered; the nearest names are relu, relu6, crelu"
    assert f"{path}: 9 names of TensorFlow, 3 not offered" in lines and f"{good}: 1 names of TensorFlow, 0 not offered" in lines


@pytest.mark.parametrize(("arguments", "text"), [
    ([], "use: python -m workbench.tf1 check SCRIPT…"), (["check"], "use: "),
    (["check", "nowhere.py"], "cannot be read as Python")])
def test_wrong_uses_of_the_command_are_named(arguments, text):
    done = subprocess.run([sys.executable, "-m", "workbench.tf1", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and text in done.stderr
