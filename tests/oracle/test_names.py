"""No name that we share with TensorFlow goes uncompared: it stands in one of these files, or below with its reason."""
from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import workbench.tf1 as ours
from tests.oracle.harness import tensorflow

pytestmark = pytest.mark.oracle

ELSEWHERE = {
    "programs and files around the graph": """app compat flags gfile logging summary VERSION ConfigProto GPUOptions RunMetadata
        RunOptions InteractiveSession train.Coordinator train.QueueRunner train.add_queue_runner train.start_queue_runners
        train.MonitoredTrainingSession train.CheckpointSaverHook train.LoggingTensorHook train.SessionRunHook
        train.StopAtStepHook train.Saver train.checkpoint_exists train.get_checkpoint_state train.latest_checkpoint
        train.SyncReplicasOptimizer train.replica_device_setter""",
    "types, classes and modules that other rows use": """AUTO_REUSE DType Dimension IndexedSlices Operation Tensor QueueBase
        VariableScope bfloat16 bool complex64 complex128 float16 float32 float64 int8 int16 int32 int64 string uint8 uint16
        uint32 uint64 as_dtype dtypes initializers layers losses metrics nn train train.Optimizer nn.rnn_cell
        losses.Reduction""",
    "places and names, which TensorFlow keeps otherwise": """assert_variables_initialized colocate_with
        get_default_graph get_default_session get_collection_ref get_local_variable op_scope train.assert_global_step
        variable_op_scope reset_default_graph model_variables
        losses.add_loss losses.get_losses
        losses.get_regularization_loss losses.get_regularization_losses train.create_global_step train.get_global_step
        train.global_step""",
    "sessions, hooks and servers around a step, whose files and order of calls `tests/train` and `tests/tf1` hold": """
        train.CheckpointSaverListener train.ProfilerHook train.basic_train_loop train.ChiefSessionCreator train.ClusterSpec
        train.FeedFnHook train.FinalOpsHook train.GlobalStepWaiterHook
        train.LooperThread train.MonitoredSession train.NanLossDuringTrainingError train.NanTensorHook train.Scaffold
        train.SecondOrStepTimer train.Server train.SessionCreator train.SessionManager train.SessionRunArgs
        train.SessionRunContext train.SessionRunValues train.SingularMonitoredSession train.StepCounterHook
        train.SummarySaverHook train.Supervisor train.WorkerSessionCreator""",
    "graphs and checkpoints as files, which travel both ways in `test_graphs.py`": """train.init_from_checkpoint
        train.export_meta_graph train.generate_checkpoint_state_proto train.get_checkpoint_mtimes
        train.list_variables train.load_checkpoint train.load_variable train.update_checkpoint_state train.write_graph""",
    "modules, versions and registries without a value of their own": """COMPILER_VERSION GIT_VERSION GRAPH_DEF_VERSION
        GRAPH_DEF_VERSION_MIN_CONSUMER GRAPH_DEF_VERSION_MIN_PRODUCER NoGradient
        NotDifferentiable Summary data feature_column register_tensor_conversion_function resource_loader sysconfig test
        train.queue_runner""",
    "cells of Keras 2, which TensorFlow no longer brings": """nn.static_bidirectional_rnn
        nn.static_state_saving_rnn nn.raw_rnn""",
    "options of sessions, batches that may be left out, and what TensorFlow has no value for": """GraphOptions OptimizerOptions
        resource variant train.maybe_batch train.maybe_batch_join train.maybe_shuffle_batch train.maybe_shuffle_batch_join
        distributions.Distribution distributions.FULLY_REPARAMETERIZED distributions.NOT_REPARAMETERIZED
        distributions.RegisterKL distributions.ReparameterizationType""",
    "what `tests/tf1/test_names_1_4.py` and `test_profiler.py` hold": """ConditionalAccumulatorBase IdentityReader
        create_partitioned_variables decode_json_example profiler""",
    "what TensorFlow has no kernel for; its rows stand in `tests/opcases_quantized.py`": """nn.quantized_relu_x""",
    "types of integers that rows of `test_quantize.py` ask for by name": """QUANTIZED_DTYPES qint8 qint16
        qint32 quint8 quint16""",
    "later names of compared ones": """image.extract_patches image.resize_with_crop_or_pad metrics.average_precision_at_k
        metrics.precision_at_k nn.avg_pool2d nn.conv3d_backprop_filter nn.depthwise_conv2d_backprop_filter
        nn.depthwise_conv2d_backprop_input nn.max_pool2d nn.safe_embedding_lookup_sparse no_gradient quantize""",
    "what `tests/tf1/test_later_names.py` holds: modules, switches of later versions, and what has no value to compare": """
        control_flow_v2_enabled debugging dimension_at_index dimension_value disable_control_flow_v2 disable_eager_execution
        disable_resource_variables disable_tensor_equality disable_v2_behavior disable_v2_tensorshape enable_eager_execution
        enable_resource_variables executing_eagerly executing_eagerly_outside_functions get_logger init_scope is_tensor nest
        print py_function quantization resource_variables_enabled timestamp train.noisy_linear_cosine_decay""",
    "what `tests/nn/test_critical_section.py` and `tests/tf1/test_borrowed_names.py` hold": "CriticalSection get_static_value",
    "older names of compared ones": """all_variables initialize_all_variables initialize_local_variables
        initialize_variables variables_initializer arg_max""",
}

PARTS = ("nn", "train", "losses", "metrics", "image", "linalg", "sets", "strings", "spectral", "math", "manip", "bitwise",
         "distributions", "initializers")
"""Modules of operations; TensorFlow 2 has no `contrib`, and `layers` and `nn.rnn_cell` went with Keras 2: cells and layers
are compared with PyTorch in `test_cells.py`, optimizers of `contrib.opt` with their published rules in `test_optimizers.py`."""


def shared(mine: Any, theirs: Any, prefix: str = "") -> set[str]:
    return {prefix + n for n in dir(mine) if not n.startswith("_") and hasattr(theirs, n)
            and not hasattr(getattr(mine, n), "compiler_flag")}      # `from __future__ import annotations`


def words(path: Path) -> set[str]:
    """The words of a file's code: names, attributes, and those in texts of tables; no comments, no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            found |= set(re.findall(r"\w+", node.value))
    return found


def test_words_are_those_of_code(tmp_path: Path) -> None:
    file = tmp_path / "some.py"
    file.write_text('"""said"""\nTABLE = "in_a_table nn.dotted"  # commented\ntf.used(name)\n\ndef f():\n    """told"""\n')
    assert words(file) == {"TABLE", "in_a_table", "nn", "dotted", "tf", "used", "name"}


def test_every_shared_name_is_compared() -> None:
    tf = tensorflow()
    names = shared(ours, tf)
    for part in PARTS:
        names |= shared(getattr(ours, part), getattr(tf, part), part + ".")
    written = {word for path in Path(__file__).parent.glob("test_*.py") if path.name != "test_names.py" for word in words(path)}
    excused = {name for text in ELSEWHERE.values() for name in text.split()}
    missing = {n for n in names - excused if n.rpartition(".")[2] not in written}
    assert sorted(missing) == []
    late = {n for n in excused - names if all(hasattr(library, n) for library in (ours, tf))}      # loaded when asked for
    assert sorted(excused - names - late) == [], "these are no shared names"
