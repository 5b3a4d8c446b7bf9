"""Options of sessions and runs as the messages that programs of TensorFlow take them for."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors


def test_options_print_as_text_of_their_protocol_buffers():
    config = tf.ConfigProto(allow_soft_placement=True, gpu_options={"allow_growth": True}, device_count={"CPU": 2})
    config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    assert str(config) == ('device_count {\n  key: "CPU"\n  value: 2\n}\ngpu_options {\n  allow_growth: true\n}\n'
                           "allow_soft_placement: true\ngraph_options {\n  optimizer_options {\n"
                           "    global_jit_level: ON_1\n  }\n}\n")
    assert str(tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)) == "trace_level: FULL_TRACE\n"
    assert str(tf.ConfigProto()) == "" and repr(tf.GPUOptions(allow_growth=True)) == "GPUOptions(allow_growth=True)"


def test_only_what_differs_from_its_default_is_there_and_written():
    config = tf.ConfigProto(gpu_options=None)
    assert not config.HasField("gpu_options") and config.SerializeToString() == b""
    config.gpu_options.allow_growth = True
    assert config.HasField("gpu_options") and tf.GPUOptions().per_process_gpu_memory_fraction == 0
    config.ClearField("gpu_options")
    assert config == tf.ConfigProto() and not tf.ConfigProto().gpu_options.allow_growth
    for ask in (config.HasField, config.ClearField):
        with pytest.raises(ValueError, match="'nonsense' is not an option"):
            ask("nonsense")


def test_lists_and_dictionaries_of_options_grow():
    config = tf.ConfigProto(device_filters=("/job:ps",))
    config.device_filters.append("/job:worker/task:1")
    other = tf.ConfigProto(device_filters=["/job:a"], device_count={"CPU": 2}, device_memory_limit={"CPU": 100})
    config.MergeFrom(other)
    assert config.device_filters == ["/job:ps", "/job:worker/task:1", "/job:a"] and config.device_count == {"CPU": 2}
    assert config.device_memory_limit == {"CPU": 100} and other.device_filters == ["/job:a"]
    again = tf.ConfigProto.FromString(config.SerializeToString())
    assert again.device_filters == config.device_filters and tf.ConfigProto().device_filters == []


def test_options_have_types():
    made = tf.ConfigProto(allow_soft_placement=1, intra_op_parallelism_threads=np.int64(2))
    made.gpu_options.per_process_gpu_memory_fraction = np.float32(0.5)
    made.gpu_options.visible_device_list = b"0"
    assert made.allow_soft_placement is True and type(made.intra_op_parallelism_threads) is int
    assert made.gpu_options == tf.GPUOptions(per_process_gpu_memory_fraction=0.5, visible_device_list="0")
    for wrong in ({"allow_soft_placement": "yes"}, {"intra_op_parallelism_threads": 1.5}, {"gpu_options": 3},
                  {"device_count": ["GPU"]}, {"device_filters": "/job:ps"}, {"graph_options": tf.GPUOptions()}):
        with pytest.raises(TypeError, match="but expected one of"):
            tf.ConfigProto(**wrong)
    for take in (made.CopyFrom, made.MergeFrom):
        with pytest.raises(errors.DtypeError, match="must be instance of same class: expected ConfigProto got GPUOptions"):
            take(tf.GPUOptions())


def test_rewrites_are_chosen_as_in_later_programs():
    from workbench.tf1.core.protobuf import config_pb2, rewriter_config_pb2
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.constant_folding = rewriter_config_pb2.RewriterConfig.OFF
    assert str(config) == "graph_options {\n  rewrite_options {\n    constant_folding: OFF\n  }\n}\n"
