"""What tf.contrib.slim keeps in modules of its own: nets, data sets and their decoders, queues and summaries."""
from __future__ import annotations

from workbench.nn.nets import chains, inception, residual
from workbench.tf1.missing import Namespace
from workbench.tf1.spelling import names_of
from workbench.train.input import prefetch
from workbench.train.slim import decoders, providers, summaries

__all__ = ["files_of_nets", "nets", "parts"]

_inception = Namespace(**names_of(inception))


def _resnet(version: int) -> Namespace:
    kind = f"resnet_v{version}"
    return Namespace(resnet_arg_scope=residual.resnet_arg_scope, bottleneck=getattr(residual, f"bottleneck_v{version}"),
                     **{name: getattr(residual, name) for name in residual.__all__ if name.startswith(kind)})


nets = Namespace(
    inception=_inception, resnet_v1=_resnet(1), resnet_v2=_resnet(2),
    **{kind: Namespace(**{name: getattr(chains, name) for name in chains.__all__ if name.startswith(kind)})
       for kind in ("alexnet", "overfeat", "vgg")},
    resnet_utils=Namespace(**{name: getattr(residual, name) for name in (
        "Block", "conv2d_same", "resnet_arg_scope", "stack_blocks_dense", "subsample")}))

files_of_nets = {f"inception_v{version}": _inception for version in (1, 2, 3)}
"""Modules that stand beside the nets where programs import them from."""

parts = {
    "data_decoder": Namespace(DataDecoder=decoders.DataDecoder),
    "data_provider": Namespace(DataProvider=providers.DataProvider),
    "dataset": Namespace(Dataset=providers.Dataset),
    "dataset_data_provider": Namespace(DatasetDataProvider=providers.DatasetDataProvider),
    "parallel_reader": Namespace(**{name: getattr(providers, name) for name in (
        "ParallelReader", "get_data_files", "parallel_read", "single_pass_read")}),
    "prefetch_queue": Namespace(prefetch_queue=prefetch.prefetch_queue),
    "queues": Namespace(QueueRunners=providers.QueueRunners),
    "summaries": Namespace(**names_of(summaries)),
    "tfexample_decoder": Namespace(**{name: value for name, value in names_of(decoders).items() if name != "DataDecoder"})}
"""Module of slim -> its names."""
