"""Arguments that old programs pass: which ones need no effect here, and how the others are refused."""
from __future__ import annotations

from typing import Any

from workbench import errors

__all__ = ["HINTS", "refuse"]

HINTS = {
    **{f"{function}({name})": "batches of a generator are made one at a time in the thread that trains"
       for function in ("fit_generator", "evaluate_generator", "predict_generator")
       for name in ("max_queue_size", "use_multiprocessing", "workers")},
    **dict.fromkeys((f"{function}(verbose)" for function in (
        "evaluate", "predict", "predict_generator", "predict_classes", "predict_proba")),
        "how far measuring and predicting has come is not printed"),
    "prefetch_to_device(device)": "elements wait in the host's memory, and are copied by the step that asks for them",
    **{f"ConfigProto({name})": "a session keeps its state, and shares the threads of the process"
       for name in ("use_per_session_threads", "isolate_session_state")},
    **{f"GPUOptions({name})": "memory of a GPU is taken from one pool when it is needed, and freed when nobody reads it"
       for name in ("allow_growth", "allocator_type", "deferred_deletion_bytes", "force_gpu_compatible",
                    "polling_active_delay_usecs", "polling_inactive_delay_msecs")},
    **{f"OptimizerOptions({name})": "what is compiled and how far constants are folded changes no value"
       for name in ("do_function_inlining", "max_folded_constant_in_bytes", "global_jit_level")},
    **{f"RewriterConfig({name})": "layouts, order and memory are seen to by plans, and change no value"
       for name in ("layout_optimizer", "disable_model_pruning", "memory_optimization", "dependency_optimization")},
    **{f"freeze_graph_with_def_protos({name})": "how the nodes of a saver are called does not matter: a checkpoint is read"
       for name in ("input_saver_def", "restore_op_name", "filename_tensor_name")},
    **dict.fromkeys(("compiled", "separate_compiled_gradients"), "functions are compiled with the step that calls them"),
    "ConfigProto(device_filters)": "a step reaches those tasks alone on which it has operations",
    "GraphOptions(enable_recv_scheduling)": "when a value is received changes no value",
    "GraphOptions(infer_shapes)": "shapes are inferred wherever they can be",
    "GraphOptions(place_pruned_graph)": "only what a step needs is placed, always",
    "RunOptions(report_tensor_allocations_upon_oom)": "an error of memory always names the largest buffers of a plan",
    "all_candidate_sampler(seed)": "all classes are given, so that nothing is drawn",
    "argsort(stable)": "equal elements always keep their order",
    "binary_svm_head(thresholds)": "its outputs are not probabilities that a threshold could cut",
    "clear_extraneous_savers": "a graph has the nodes of no saver but its own",
    "debug_model_fn(config)": "there is nothing in this model to cut or to place",
    "decode_jpeg(fancy_upscaling)": "colours between samples differ by little, and are always smoothed",
    "has_inf_or_nan(datum)": "the value of a tensor tells it, wherever it comes from",
    "load_and_remap_matrix_initializer(max_rows_in_memory)": "a matrix of a checkpoint is read at once, which changes no value",
    "log_progress": "how far measuring has come is not printed",
    "_register_session_run(feed_function_for_partial_run)": "a step that is run in parts asks for the tensors it is given",
    "map_fn(infer_shape)": "shapes are inferred wherever they can be",
    "model(labels)": "clusters are found without labels",
    "moments(shift)": "differences from the mean itself are squared",
    "multi_label_head(thresholds)": "a class is there where its probability is one half or more",
    "no_op_train_fn(loss)": "the program itself makes its step of the loss",
    "op_dict": "an operation's type names its definition",
    "part(dtype)": "the parts of a tensor have its dtype",
    "producer_op_list": "attributes that an operation does not have are not read",
    "scan(infer_shape)": "shapes are inferred wherever they can be",
    "strip_default_attrs": "an attribute that has its default means the same when it is left out",
    "partitioner(dtype)": "a number of parts that is given is the same for every dtype",
    "_all_of(doc_string_modules)": "the names of a module are told without its text",
    "_converted(as_ref)": "there are no references to variables among tensors",
    "_converted(ctx)": "what is asked for is built in a graph",
    **dict.fromkeys(("_exported(_names)", "_exported(_options)", "_decorator(_told)", "_decorator(_options)"),
                    "what is public, and what a decorator is called, is told elsewhere"),
    "with_options(options)": "options change how fast elements are read, not which",
    "nothing(_)": "what is asked for is so already", "nothing(__)": "what is asked for is so already",
    "run_test_in_graph_and_eager_modes(_)": "tests run once, in a session, whatever else is named",
    "reset(config)": "what is forgotten does not depend on the options of a session",
    "a_is_sparse": "a product of matrices is the same however many zeros there are",
    "b_is_sparse": "a product of matrices is the same however many zeros there are",
    "batch_axis": "there is one shard, which gets whole batches", "of_tpu": "what is meant for TPUs means nothing without one",
    "clear_after_read": "elements that nobody can read any more are freed by themselves",
    "compile_stateful": "every graph is compiled, its random numbers and variables too",
    "compute_device": "an operation is placed by the scopes around it",
    "compute_shapes": "shapes are inferred wherever they can be",
    "cuda_only": "every kind of accelerator counts as one",
    "fused": "which kernel normalizes a batch changes no value of a layer",
    "min_cuda_compute_capability": "a device is listed when its kernels can run on it",
    "input_types": "there are no references to variables among tensors",
    "op_def": "an operation's type names its definition",
    "priority": "a type has one conversion, the last that was registered",
    "readahead": "how far ahead a file is read is the affair of the system",
    "sparse_lookup": "the rows of a table are looked up in one way",
    "aggregation_method": "gradients of one tensor are summed in a fixed order, whichever method is named",
    "buffer_size": "how far ahead files are read does not change what is read",
    "colocate_gradients_with_ops": "gradients are placed where their forward operations are",
    "filename": "elements stay where they are; a cache gives the same ones",
    "gate_gradients": "all gradients of a variable are computed before it is updated",
    "meta_graph_suffix": "no graph is written beside a checkpoint; its code makes it again",
    "merge_devices": "device requests of inner and outer scopes are always merged",
    "noinline": "a call of a function is always part of its graph",
    "num_parallel_calls": "elements come in the same order at any degree of parallelism",
    "num_parallel_batches": "elements of a dataset are computed one after the other",
    "sloppy": "the order of a dataset's elements never depends on time",
    "buffer_output_elements": "elements are read when they are asked for",
    "prefetch_input_elements": "elements are read when they are asked for",
    "num_parallel_reads": "records come in the same order at any degree of parallelism",
    "num_threads": "elements come in the same order from any number of threads",
    "restore_sequentially": "all variables are assigned in one step",
    "sharded": "every saver writes a file for each device, beside its variables",
    "save_relative_paths": "the state file of this package's own format always names checkpoints relative to its folder",
    "support_reverse": "a vocabulary can always be read backwards",
    "swap_memory": "the memory plan keeps what gradients need",
    "unique": "equal ids give equal rows, looked up once or often",
    "use_cudnn_on_gpu": "kernel libraries are chosen by settings.libraries",
    "use_gpu": "operations run on a GPU where there is one that has their kernels",
    "use_locking": "updates of a variable are always atomic",
    "use_resource": "every variable is a resource: reads see the updates they are ordered after",
    "write_meta_graph": "no graph is written beside a checkpoint; its code makes it again",
    "write_version": "this package's own checkpoints have one format",
    "validate_indices": "indices are checked in every step",
    "fix_global_step_increment_bug": "each step counts once, whichever is asked for",
    "feature_queue_capacity": "features are parsed in the step that asks for them",
    "num_enqueue_threads": "features are parsed in the step that asks for them",
    "num_queue_runners": "features are parsed in the step that asks for them",
    "eval_delay_secs": "an evaluation follows its training, for which it need not wait",
    "continuous_eval_throttle_secs": "an evaluation follows its training, for which it need not wait",
    "kmc2_chain_length": "chains belong to the start kmc2 alone, which is refused by name",
    "unused_y": "part of scikit-learn's protocol, which passes labels to every transformer",
    "values": "the graph is the default graph",
}
"""Argument, or function(argument) or record(option) where others of that name matter -> why no value of it makes a difference,
though unread."""


def refuse(where: str, fix: str, **given: Any) -> None:
    """UnimplementedError naming the first argument that is neither None nor False; `fix` says what to do instead."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise errors.UnimplementedError(f"{where}: {name}={value!r} has no meaning here; {fix}")
