"""Loads the peer frameworks with the same number of threads; they are development dependencies only."""
from __future__ import annotations

import os
from typing import Any

__all__ = ["load"]

THREADS = int(os.environ.get("WB_BENCH_THREADS", "2"))


def load() -> tuple[Any, Any, Any, Any]:
    """(tensorflow, torch, jax, workbench), each limited to THREADS compute threads."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
        os.environ[name] = str(THREADS)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={THREADS}"
    import workbench as wb
    from workbench.core.kernels.threads import set_threads
    set_threads(THREADS)
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    import torch
    torch.set_num_threads(THREADS)
    import jax
    return tf, torch, jax, wb
