"""Programs import TensorFlow's modules by its own names, and get each of ours once."""
from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import workbench.tf1 as tf
from workbench.tf1 import imports

PROGRAM = """\
import sys
import tensorflow as tf
import tensorflow.contrib.slim as slim
from tensorflow.contrib import layers, rnn
from tensorflow.contrib.framework.python.ops import add_arg_scope, variables
from tensorflow.contrib.layers.python.layers.layers import batch_norm
from tensorflow.contrib.keras.api.keras.layers import Dense as KerasDense
from tensorflow.contrib.keras.python.keras.utils import np_utils
from tensorflow.contrib.learn.python.learn.datasets.mnist import read_data_sets
from tensorflow.contrib.rnn.python.ops import core_rnn_cell
from tensorflow.contrib.tensorboard.plugins import projector
from tensorflow.core.framework import summary_pb2, types_pb2
from tensorflow.core.protobuf import config_pb2
from tensorflow.examples.tutorials.mnist import input_data
from tensorflow.python.client import session, timeline
from tensorflow.python.framework import constant_op, dtypes, test_util
from tensorflow.python.keras import backend as K, models
from tensorflow.python.keras._impl.keras.engine.topology import Layer
from tensorflow.python.keras.layers.recurrent import LSTM
from tensorflow.python.layers.core import Dense
from tensorflow.python.lib.io import file_io, python_io, tf_record
from tensorflow.python.ops import array_ops, gradient_checker, rnn_cell_impl, variables as variables_lib
import tensorflow.python.ops.nn_grad
from tensorflow.python.platform import gfile, test
from tensorflow.python.saved_model import builder, tag_constants
from tensorflow.python.training import moving_averages, saver
from tensorflow.python.util import compat, nest

assert slim is tf.contrib.slim is sys.modules["workbench.tf1"].contrib.slim
assert batch_norm is layers.batch_norm and add_arg_scope is slim.add_arg_scope and array_ops.reshape is tf.reshape
assert core_rnn_cell.LSTMCell is rnn.LSTMCell is rnn_cell_impl.LSTMCell and Dense is tf.layers.Dense
assert summary_pb2.Summary is tf.Summary and types_pb2.DT_FLOAT == 1 and config_pb2.ConfigProto is tf.ConfigProto
assert variables.get_variables is slim.get_variables and read_data_sets is input_data.read_data_sets
assert test.TestCase is tf.test.TestCase is test_util.TensorFlowTestCase and session.Session is tf.Session
assert gfile.Open is tf.gfile.Open and tf_record.TFRecordWriter is tf.python_io.TFRecordWriter
assert KerasDense is tf.keras.layers.Dense and LSTM is tf.contrib.keras.layers.LSTM and Layer is tf.keras.layers.Layer
assert models.Model is tf.keras.Model and K.sum is tf.keras.backend.sum
assert np_utils.to_categorical is tf.keras.utils.to_categorical
flags = tf.app.flags
flags.DEFINE_integer("steps", 3, "How many.")
with file_io.FileIO(sys.argv[-1], "w") as file:
    config = projector.ProjectorConfig()
    config.embeddings.add().tensor_name = "embedding"
    file.write(str(config))
if __name__ == "__main__":
    tf.app.run(lambda argv: print("steps", flags.FLAGS.steps, argv[1:2]))
"""


def test_a_program_imports_what_it_did(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "workbench.tf1", "run", str(path), "--steps=5", str(tmp_path / "written")],
                          capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (f"steps 5 ['{tmp_path / 'written'}']\n", "", 0)
    assert 'tensor_name: "embedding"' in (tmp_path / "written").read_text()


def test_a_program_that_is_not_there(tmp_path):
    done = subprocess.run([sys.executable, "-m", "workbench.tf1", "run", str(tmp_path / "no.py")], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 2 and "no.py: there is no such file" in done.stderr


def test_namespaces_are_modules_below_the_package():
    slim = importlib.import_module("workbench.tf1.contrib.slim")
    assert slim is tf.contrib.slim and slim.__name__ == "workbench.tf1.contrib.slim"
    assert importlib.import_module("workbench.tf1.python.ops.nn").relu is tf.nn.relu


@pytest.mark.parametrize("name", ["workbench.tf1.contrib.nothing", "workbench.tf1.nothing", "workbench.tf1.nn.relu"])
def test_what_is_no_module_is_an_import_error(name):
    with pytest.raises(ImportError, match=name if name.endswith("relu") else "tf.*nothing is not offered; "):
        importlib.import_module(name)


def test_names_that_are_missing_from_a_module_are_told_with_the_nearest():
    with pytest.raises(ImportError, match=r"tf.contrib.rnn.LSTMCel is not offered; the nearest names are LSTMCell"):
        from workbench.tf1.contrib.rnn import LSTMCel  # noqa: F401


@pytest.mark.parametrize(("file", "name"), [
    ("contrib.opt.python.training.variable_clipping_optimizer", "VariableClippingOptimizer"),
    ("contrib.opt.python.training.nadam_optimizer", "NadamOptimizer"),
    ("contrib.distributions.python.ops.mvn_tril", "MultivariateNormalTriL"),
    ("contrib.distributions.python.ops.mvn_full_covariance", "MultivariateNormalFullCovariance"),
    ("contrib.distributions.python.ops.relaxed_onehot_categorical", "RelaxedOneHotCategorical")])
def test_parts_of_contrib_are_found_in_the_files_where_they_stood(file, name):
    assert hasattr(importlib.import_module(f"workbench.tf1.{file}"), name)


def test_while_the_package_is_not_loaded_nothing_is_taken_for_a_part_of_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "workbench.tf1")
    assert imports._inside("neither.this.nor.that") is None
