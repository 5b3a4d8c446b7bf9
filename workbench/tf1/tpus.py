"""tf.contrib.tpu, tf.contrib.cluster_resolver and tf.contrib.eager: what programs of then import of them, for graphs here."""
from __future__ import annotations

import functools
from typing import Any

import workbench as wb
from workbench import errors
from workbench.nn.arguments import refuse
from workbench.tf1.missing import Namespace
from workbench.tf1.spelling import names_of
from workbench.train.estimators import tpu as estimators

__all__ = ["cluster_resolver", "eager", "tpu"]


class TPUClusterResolver:
    """Finds a TPU elsewhere: UnimplementedError, there is none here."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise errors.UnimplementedError("TPUClusterResolver: there is no TPU to find; leave it out and pass use_tpu=False")


def run_test_in_graph_and_eager_modes(func: Any = None, config: Any = None, use_gpu: bool = True, **_: Any) -> Any:
    """A test method run in a session of its case, once: programs build graphs here."""
    def decorated(method: Any) -> Any:
        @functools.wraps(method)
        def run(self: Any, *args: Any, **options: Any) -> Any:
            with self.test_session(config=config, use_gpu=use_gpu):
                return method(self, *args, **options)
        return run
    return decorated(func) if callable(func) else decorated


def run_all_tests_in_graph_and_eager_modes(cls: type) -> type:
    """The class, with each of its tests run in a session of its own case."""
    for name, method in list(vars(cls).items()):
        if callable(method) and name.startswith("test") and name != "test_session":
            setattr(cls, name, run_test_in_graph_and_eager_modes(method))
    return cls


class TpuContext:
    """Where a model is built: on no TPU, so in no number of shards."""

    number_of_shards: int | None = None


def cross_replica_sum(x: Any, group_assignment: Any = None, name: str | None = None) -> Any:
    """The sum of `x` over the replicas of a TPU: of the one there is, so `x` itself."""
    refuse("cross_replica_sum", "there is one replica, so leave it out", group_assignment=group_assignment)
    return wb.identity(x, name=name)


tpu = Namespace(**names_of(estimators), cross_replica_sum=cross_replica_sum)
vars(tpu)["python"] = Namespace(
    ops=Namespace(tpu_ops=Namespace(cross_replica_sum=cross_replica_sum)),
    tpu=Namespace(tpu_function=Namespace(get_tpu_context=TpuContext, TpuContext=TpuContext), tpu_config=tpu, tpu_estimator=tpu,
                  tpu_optimizer=tpu))
cluster_resolver = Namespace(TPUClusterResolver=TPUClusterResolver)
eager = Namespace(
    run_test_in_graph_and_eager_modes=run_test_in_graph_and_eager_modes, Variable=wb.Variable,
    run_all_tests_in_graph_and_eager_modes=run_all_tests_in_graph_and_eager_modes, in_eager_mode=lambda: False,
    in_graph_mode=lambda: True, executing_eagerly=lambda: False, num_gpus=lambda: 0)
vars(eager)["python"] = Namespace(tfe=eager)
