"""Mixed precision in a meta graph: a collection of one text, which says the type of products and how losses are scaled."""
from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from workbench import errors
from workbench.core.graph.graph import Graph
from workbench.nn.variables import Variable
from workbench.train.optimizers.loss_scale import LossScale, loss_scale_of, scale_losses

__all__ = ["MIXED", "add_mixed", "take_mixed"]

MIXED = "workbench_mixed_precision"      # the collection; TensorFlow reads it as one of texts
_log = logging.getLogger("workbench")


def add_mixed(proto: Any, graph: Graph) -> None:
    """Tell a MetaGraphDef what `graph` has of it."""
    scaling = loss_scale_of(graph)
    if graph.precision is None and scaling is None:
        return
    told = {"precision": graph.precision, "loss_scale": None if scaling is None else scaling.told()}
    proto.collection_def[MIXED].bytes_list.value[:] = [json.dumps(told).encode()]


def take_mixed(proto: Any, graph: Graph, variables: Mapping[str, Variable]) -> None:
    """Give `graph` what a MetaGraphDef tells, where it has none; a scale whose variables, by their names there, are not among
    `variables` stays in the steps that were made with it alone. DataLossError for anything else than `add_mixed` writes."""
    if MIXED not in proto.collection_def:
        return
    text = b"".join(proto.collection_def[MIXED].bytes_list.value)
    try:
        told = json.loads(text)
        precision, scale = told["precision"], told["loss_scale"]
        made = None if scale is None else LossScale.of(scale, variables)
        if graph.precision is None:
            graph.precision = precision
    except (errors.InvalidArgumentError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise errors.DataLossError(f"import_meta_graph: the collection {MIXED!r} says {text[:200]!r}, which is no mixed "
                                   f"precision ({error}); write the meta graph anew") from None
    if graph.precision != precision:
        _log.warning("import_meta_graph: products of the graph are computed in %s; those of what is imported were in %s",
                     graph.precision, precision)
    if made is not None and loss_scale_of(graph) is None:
        scale_losses(graph, made)
