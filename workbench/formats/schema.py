"""The protocol buffers of graphs, checkpoints, events and examples as a table: message, fields, numbers and types."""
from __future__ import annotations

__all__ = ["ENUMS", "MESSAGES"]

# Message = field number type, …; `*` repeats, `{key value}` is a map, `|name` makes the field one of a choice. A type that is
# none of the plain ones is a message or an enumeration of this table. Names and numbers are those of TensorFlow 1.15, and of
# later ones where their graphs say more as text.
MESSAGES = """
JobDef = name 1 string, tasks 2 {int32 string}
ClusterDef = job 1 JobDef*
ServerDef = cluster 1 ClusterDef, job_name 2 string, task_index 3 int32, protocol 5 string
ProjectorConfig = model_checkpoint_path 1 string, embeddings 2 EmbeddingInfo*, model_checkpoint_dir 3 string
EmbeddingInfo = tensor_name 1 string, metadata_path 2 string, bookmarks_path 3 string, tensor_shape 4 uint32*,
    sprite 5 SpriteMetadata, tensor_path 6 string
SpriteMetadata = image_path 1 string, single_image_dim 2 uint32*
VersionDef = producer 1 int32, min_consumer 2 int32, bad_consumers 3 int32*
TensorShapeProto = dim 2 TensorShapeProto.Dim*, unknown_rank 3 bool
TensorShapeProto.Dim = size 1 int64, name 2 string
TensorProto = dtype 1 DataType, tensor_shape 2 TensorShapeProto, version_number 3 int32, tensor_content 4 bytes,
    half_val 13 int32*, float_val 5 float*, double_val 6 double*, int_val 7 int32*, string_val 8 bytes*, scomplex_val 9 float*,
    int64_val 10 int64*, bool_val 11 bool*, dcomplex_val 12 double*, uint32_val 16 uint32*, uint64_val 17 uint64*
AttrValue = list 1 AttrValue.ListValue |value, s 2 bytes |value, i 3 int64 |value, f 4 float |value, b 5 bool |value,
    type 6 DataType |value, shape 7 TensorShapeProto |value, tensor 8 TensorProto |value, placeholder 9 string |value,
    func 10 NameAttrList |value
AttrValue.ListValue = s 2 bytes*, i 3 int64*, f 4 float*, b 5 bool*, type 6 DataType*, shape 7 TensorShapeProto*,
    tensor 8 TensorProto*, func 9 NameAttrList*
NameAttrList = name 1 string, attr 2 {string AttrValue}
NodeDef = name 1 string, op 2 string, input 3 string*, device 4 string, attr 5 {string AttrValue},
    experimental_debug_info 6 NodeDef.ExperimentalDebugInfo, experimental_type 7 FullTypeDef
NodeDef.ExperimentalDebugInfo = original_node_names 1 string*, original_func_names 2 string*
FullTypeDef = type_id 1 FullTypeId, args 2 FullTypeDef*, s 3 string |attr, i 4 int64 |attr
OpDef = name 1 string, input_arg 2 OpDef.ArgDef*, output_arg 3 OpDef.ArgDef*, attr 4 OpDef.AttrDef*, summary 5 string,
    description 6 string, is_aggregate 16 bool, is_stateful 17 bool, is_commutative 18 bool,
    allows_uninitialized_input 19 bool, control_output 20 string*, deprecation 8 OpDeprecation,
    is_distributed_communication 21 bool
OpDeprecation = version 1 int32, explanation 2 string
OpDef.ArgDef = name 1 string, description 2 string, type 3 DataType, type_attr 4 string, number_attr 5 string,
    type_list_attr 6 string, is_ref 16 bool, handle_data 7 ResourceHandleProto.DtypeAndShape*,
    experimental_full_type 17 FullTypeDef
ResourceHandleProto = device 1 string, container 2 string, name 3 string, hash_code 4 uint64, maybe_type_name 5 string,
    dtypes_and_shapes 6 ResourceHandleProto.DtypeAndShape*
ResourceHandleProto.DtypeAndShape = dtype 1 DataType, shape 2 TensorShapeProto
OpDef.AttrDef = name 1 string, type 2 string, default_value 3 AttrValue, description 4 string, has_minimum 5 bool,
    minimum 6 int64, allowed_values 7 AttrValue
OpList = op 1 OpDef*
FunctionDef = signature 1 OpDef, node_def 3 NodeDef*, ret 4 {string string}, attr 5 {string AttrValue},
    control_ret 6 {string string}, arg_attr 7 {uint32 FunctionDef.ArgAttrs}, resource_arg_unique_id 8 {uint32 uint32}
FunctionDef.ArgAttrs = attr 1 {string AttrValue}
GradientDef = function_name 1 string, gradient_func 2 string
FunctionDefLibrary = function 1 FunctionDef*, gradient 2 GradientDef*
GraphDef = node 1 NodeDef*, library 2 FunctionDefLibrary, version 3 int32, versions 4 VersionDef

SaverDef = filename_tensor_name 1 string, save_tensor_name 2 string, restore_op_name 3 string, max_to_keep 4 int32,
    sharded 5 bool, keep_checkpoint_every_n_hours 6 float, version 7 SaverDef.CheckpointFormatVersion
NodeList = value 1 string*
BytesList = value 1 bytes*
Int64List = value 1 int64*
FloatList = value 1 float*
AnyList = value 1 Any*
HParamDef = hparam 1 {string HParamDef.HParamType}
HParamDef.HParamType = int64_value 1 int64 |kind, float_value 2 float |kind, bytes_value 3 bytes |kind,
    int64_list 4 HParamDef.Int64List |kind, float_list 5 HParamDef.FloatList |kind, bytes_list 6 HParamDef.BytesList |kind,
    bool_value 7 bool |kind, bool_list 8 HParamDef.BoolList |kind
HParamDef.BytesList = value 1 bytes*
HParamDef.FloatList = value 1 float*
HParamDef.Int64List = value 1 int64*
HParamDef.BoolList = value 1 bool*
CollectionDef = node_list 1 NodeList |kind, bytes_list 2 BytesList |kind, int64_list 3 Int64List |kind,
    float_list 4 FloatList |kind, any_list 5 AnyList |kind
TensorInfo = name 1 string |encoding, coo_sparse 4 TensorInfo.CooSparse |encoding, dtype 2 DataType,
    tensor_shape 3 TensorShapeProto
TensorInfo.CooSparse = values_tensor_name 1 string, indices_tensor_name 2 string, dense_shape_tensor_name 3 string
SignatureDef = inputs 1 {string TensorInfo}, outputs 2 {string TensorInfo}, method_name 3 string,
    defaults 4 {string TensorProto}
AssetFileDef = tensor_info 1 TensorInfo, filename 2 string
MetaGraphDef = meta_info_def 1 MetaGraphDef.MetaInfoDef, graph_def 2 GraphDef, saver_def 3 SaverDef,
    collection_def 4 {string CollectionDef}, signature_def 5 {string SignatureDef}, asset_file_def 6 AssetFileDef*
MetaGraphDef.MetaInfoDef = meta_graph_version 1 string, stripped_op_list 2 OpList, any_info 3 Any, tags 4 string*,
    tensorflow_version 5 string, tensorflow_git_version 6 string, stripped_default_attrs 7 bool,
    function_aliases 8 {string string}
SavedModel = saved_model_schema_version 1 int64, meta_graphs 2 MetaGraphDef*
SaveSliceInfoDef = full_name 1 string, full_shape 2 int64*, var_offset 3 int64*, var_shape 4 int64*
VariableDef = variable_name 1 string, initial_value_name 6 string, initializer_name 2 string, snapshot_name 3 string,
    save_slice_info_def 4 SaveSliceInfoDef, is_resource 5 bool, trainable 7 bool
ValuesDef = values 1 string*, external_values 2 {string string}
ControlFlowContextDef = cond_ctxt 1 CondContextDef |ctxt, while_ctxt 2 WhileContextDef |ctxt
CondContextDef = context_name 1 string, pred_name 2 string, pivot_name 3 string, branch 4 int32, values_def 5 ValuesDef,
    nested_contexts 6 ControlFlowContextDef*
WhileContextDef = context_name 1 string, parallel_iterations 2 int32, back_prop 3 bool, swap_memory 4 bool,
    pivot_name 5 string, pivot_for_pred_name 6 string, pivot_for_body_name 7 string, loop_exit_names 8 string*,
    loop_enter_names 10 string*, values_def 9 ValuesDef, maximum_iterations_name 11 string,
    nested_contexts 12 ControlFlowContextDef*
QueueRunnerDef = queue_name 1 string, enqueue_op_name 2 string*, close_op_name 3 string, cancel_op_name 4 string,
    queue_closed_exception_types 5 int32*

CheckpointState = model_checkpoint_path 1 string, all_model_checkpoint_paths 2 string*,
    all_model_checkpoint_timestamps 3 double*, last_preserved_timestamp 4 double
BundleHeaderProto = num_shards 1 int32, endianness 2 BundleHeaderProto.Endianness, version 3 VersionDef
BundleEntryProto = dtype 1 DataType, shape 2 TensorShapeProto, shard_id 3 int32, offset 4 int64, size 5 int64,
    crc32c 6 fixed32, slices 7 TensorSliceProto*
TensorSliceProto = extent 1 TensorSliceProto.Extent*
TensorSliceProto.Extent = start 1 int64, length 2 int64 |has_length
SavedSliceMeta = name 1 string, shape 2 TensorShapeProto, type 3 DataType, slice 4 TensorSliceProto*
SavedTensorSliceMeta = tensor 1 SavedSliceMeta*, versions 2 VersionDef
SavedSlice = name 1 string, slice 2 TensorSliceProto, data 3 TensorProto
SavedTensorSlices = meta 1 SavedTensorSliceMeta, data 2 SavedSlice

Summary = value 1 Summary.Value*
Summary.Value = node_name 7 string, tag 1 string, metadata 9 SummaryMetadata, simple_value 2 float |value,
    obsolete_old_style_histogram 3 bytes |value, image 4 Summary.Image |value, histo 5 HistogramProto |value,
    audio 6 Summary.Audio |value, tensor 8 TensorProto |value
Summary.Image = height 1 int32, width 2 int32, colorspace 3 int32, encoded_image_string 4 bytes
Summary.Audio = sample_rate 1 float, num_channels 2 int64, length_frames 3 int64, encoded_audio_string 4 bytes,
    content_type 5 string
HistogramProto = min 1 double, max 2 double, num 3 double, sum 4 double, sum_squares 5 double, bucket_limit 6 double*,
    bucket 7 double*
SummaryMetadata = plugin_data 1 SummaryMetadata.PluginData, display_name 2 string, summary_description 3 string
SummaryMetadata.PluginData = plugin_name 1 string, content 2 bytes
SummaryDescription = type_hint 1 string
Event = wall_time 1 double, step 2 int64, file_version 3 string |what, graph_def 4 bytes |what, summary 5 Summary |what,
    log_message 6 LogMessage |what, session_log 7 SessionLog |what, tagged_run_metadata 8 TaggedRunMetadata |what,
    meta_graph_def 9 bytes |what
LogMessage = level 1 LogMessage.Level, message 2 string
SessionLog = status 1 SessionLog.SessionStatus, checkpoint_path 2 string, msg 3 string
ConfigProto = device_count 1 {string int32}, intra_op_parallelism_threads 2 int32, placement_period 3 int32,
    device_filters 4 string*, inter_op_parallelism_threads 5 int32, gpu_options 6 GPUOptions, allow_soft_placement 7 bool,
    log_device_placement 8 bool, use_per_session_threads 9 bool, graph_options 10 GraphOptions,
    operation_timeout_in_ms 11 int64, isolate_session_state 15 bool
GPUOptions = per_process_gpu_memory_fraction 1 double, allocator_type 2 string, deferred_deletion_bytes 3 int64,
    allow_growth 4 bool, visible_device_list 5 string, polling_active_delay_usecs 6 int32,
    polling_inactive_delay_msecs 7 int32, force_gpu_compatible 8 bool
GraphOptions = enable_recv_scheduling 2 bool, optimizer_options 3 OptimizerOptions, build_cost_model 4 int64,
    infer_shapes 5 bool, place_pruned_graph 6 bool, enable_bfloat16_sendrecv 7 bool, timeline_step 8 int32,
    build_cost_model_after 9 int64, rewrite_options 10 RewriterConfig
OptimizerOptions = do_common_subexpression_elimination 1 bool, do_constant_folding 2 bool,
    opt_level 3 OptimizerOptions.Level, do_function_inlining 4 bool, global_jit_level 5 OptimizerOptions.GlobalJitLevel,
    max_folded_constant_in_bytes 6 int64
RewriterConfig = layout_optimizer 1 RewriterConfig.Toggle, disable_model_pruning 2 bool,
    constant_folding 3 RewriterConfig.Toggle, memory_optimization 4 RewriterConfig.MemOptType,
    arithmetic_optimization 7 RewriterConfig.Toggle, dependency_optimization 8 RewriterConfig.Toggle, optimizers 100 string*
RunOptions = trace_level 1 RunOptions.TraceLevel, timeout_in_ms 2 int64, inter_op_thread_pool 3 int32,
    output_partition_graphs 5 bool, report_tensor_allocations_upon_oom 7 bool
TaggedRunMetadata = tag 1 string, run_metadata 2 bytes
RunMetadata = step_stats 1 StepStats, partition_graphs 3 GraphDef*
StepStats = dev_stats 1 DeviceStepStats*
DeviceStepStats = device 1 string, node_stats 2 NodeExecStats*
NodeExecStats = node_name 1 string, all_start_micros 2 int64, op_start_rel_micros 3 int64, op_end_rel_micros 4 int64,
    all_end_rel_micros 5 int64, memory 6 AllocatorMemoryUsed*, output 7 NodeOutput*, timeline_label 8 string,
    scheduled_micros 9 int64, thread_id 10 uint32
AllocatorMemoryUsed = allocator_name 1 string, total_bytes 2 int64, peak_bytes 3 int64, live_bytes 4 int64
NodeOutput = slot 1 int32, tensor_description 3 TensorDescription
TensorDescription = dtype 1 DataType, shape 2 TensorShapeProto, allocation_description 4 AllocationDescription
AllocationDescription = requested_bytes 1 int64, allocated_bytes 2 int64, allocator_name 3 string, allocation_id 4 int64,
    has_single_reference 5 bool, ptr 6 uint64

Feature = bytes_list 1 BytesList |kind, float_list 2 FloatList |kind, int64_list 3 Int64List |kind
Features = feature 1 {string Feature}
FeatureList = feature 1 Feature*
FeatureLists = feature_list 1 {string FeatureList}
Example = features 1 Features
SequenceExample = context 1 Features, feature_lists 2 FeatureLists

GraphNodeProto = name 1 string, exec_micros 2 int64, requested_bytes 3 int64, parameters 4 int64, total_exec_micros 6 int64,
    total_requested_bytes 7 int64, total_parameters 8 int64, devices 10 string*, shapes 11 TensorShapeProto*,
    children 12 GraphNodeProto*, float_ops 13 int64, total_float_ops 14 int64, cpu_exec_micros 18 int64,
    total_cpu_exec_micros 20 int64, run_count 21 int64, total_run_count 22 int64, total_definition_count 23 int64
MultiGraphNodeProto = name 1 string, exec_micros 2 int64, requested_bytes 3 int64, parameters 4 int64, float_ops 5 int64,
    total_exec_micros 6 int64, total_requested_bytes 7 int64, total_parameters 8 int64, total_float_ops 9 int64,
    graph_nodes 10 GraphNodeProto*, children 11 MultiGraphNodeProto*, cpu_exec_micros 13 int64,
    total_cpu_exec_micros 15 int64
AdviceProto = checkers 1 {string AdviceProto.Checker}
AdviceProto.Checker = reports 2 string*
OpLogProto = log_entries 1 OpLogEntry*
OpLogEntry = name 1 string, float_ops 2 int64, types 3 string*, code_def 4 CodeDef
CodeDef = traces 1 CodeDef.Trace*
CodeDef.Trace = file 1 string, lineno 2 int32
"""

_TYPES = ("INVALID", "FLOAT", "DOUBLE", "INT32", "UINT8", "INT16", "INT8", "STRING", "COMPLEX64", "INT64", "BOOL",
          "QINT8", "QUINT8", "QINT32", "BFLOAT16", "QINT16", "QUINT16", "UINT16", "COMPLEX128", "HALF", "RESOURCE",
          "VARIANT", "UINT32", "UINT64")
_REFERENCE = 100      # what a type's number grows by where a tensor refers to the memory of a variable

# What the types of values are made of in graphs of later versions.
_FULL = {
    0: "UNSET VAR ANY PRODUCT NAMED", 20: "FOR_EACH", 100: "CALLABLE",
    200: "BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 HALF FLOAT DOUBLE COMPLEX64 COMPLEX128 STRING BFLOAT16",
    1000: "TENSOR ARRAY OPTIONAL LITERAL ENCODED SHAPE_TENSOR", 10102: "DATASET RAGGED ITERATOR",
    10202: "MUTEX_LOCK LEGACY_VARIANT"}

ENUMS = {
    "DataType": {f"DT_{name}": number for number, name in enumerate(_TYPES)} | {
        f"DT_{name}_REF": number + _REFERENCE for number, name in enumerate(_TYPES) if number},
    "FullTypeId": {f"TFT_{name}": number for start, names in _FULL.items() for number, name in enumerate(names.split(), start)},
    "SaverDef.CheckpointFormatVersion": {"LEGACY": 0, "V1": 1, "V2": 2},
    "BundleHeaderProto.Endianness": {"LITTLE": 0, "BIG": 1},
    "OptimizerOptions.Level": {"L1": 0, "L0": -1},
    "OptimizerOptions.GlobalJitLevel": {"DEFAULT": 0, "OFF": -1, "ON_1": 1, "ON_2": 2},
    "RewriterConfig.Toggle": {"DEFAULT": 0, "ON": 1, "OFF": 2, "AGGRESSIVE": 3},
    "RewriterConfig.MemOptType": {"DEFAULT_MEM_OPT": 0, "NO_MEM_OPT": 1, "MANUAL": 2},
    "RunOptions.TraceLevel": {"NO_TRACE": 0, "SOFTWARE_TRACE": 1, "HARDWARE_TRACE": 2, "FULL_TRACE": 3},
    "LogMessage.Level": {"UNKNOWN": 0, "DEBUGGING": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50},
    "SessionLog.SessionStatus": {"STATUS_UNSPECIFIED": 0, "START": 1, "STOP": 2, "CHECKPOINT": 3},
}
