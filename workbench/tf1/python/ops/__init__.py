"""`tensorflow.python.ops`: each module offers the names of `tf`, and those of `tf.nn` where it is about networks."""
from __future__ import annotations

import workbench.tf1 as tf
from workbench.tf1.missing import Namespace
from workbench.train import staging as _staging

_ALL = {name: value for name, value in vars(tf).items() if not name.startswith("_")}
_NETWORKS = {**_ALL, **vars(tf.nn)}

array_ops = check_ops = clip_ops = control_flow_ops = functional_ops = gradients = gradients_impl = init_ops = io_ops = \
    linalg_ops = logging_ops = math_ops = parsing_ops = random_ops = script_ops = sparse_ops = state_ops = string_ops = \
    template = tensor_array_ops = variable_scope = variables = Namespace(**_ALL)
candidate_sampling_ops = ctc_ops = embedding_ops = nn = nn_impl = nn_ops = rnn = Namespace(**_NETWORKS)
data_flow_ops = Namespace(**_ALL, StagingArea=_staging.StagingArea)
image_ops, metrics, rnn_cell, seq2seq = tf.image, tf.metrics, tf.nn.rnn_cell, tf.contrib.legacy_seq2seq
