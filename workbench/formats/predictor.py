"""Predictors: a saved model, or an estimator as it was trained, as a function from arrays to arrays."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workbench.core.graph.graph import Graph, get_default_graph
from workbench.core.run.session import Session
from workbench.formats.saved_model import load
from workbench.train.estimators.estimator import Estimator
from workbench.train.estimators.estimator_spec import ModeKeys
from workbench.train.estimators.signatures import (
    DEFAULT_KEY,
    get_signature_def_by_key,
    get_tensor_from_tensor_info,
    with_default,
)

__all__ = ["Predictor", "from_estimator", "from_saved_model"]


class Predictor:
    """Called with arrays by the names of `feed_tensors`, gives arrays by those of `fetch_tensors`; `session` stays open."""

    def __init__(self, session: Session, feed_tensors: Mapping[str, Any], fetch_tensors: Mapping[str, Any]) -> None:
        self.session, self.feed_tensors, self.fetch_tensors = session, dict(feed_tensors), dict(fetch_tensors)

    @property
    def graph(self) -> Graph:
        """The graph of the model."""
        return self.session.graph

    def __call__(self, input_dict: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs for these inputs; those that are left out keep their defaults. ValueError for other names."""
        unknown = set(input_dict) - set(self.feed_tensors)
        if unknown:
            raise ValueError(f"Got unexpected keys in input_dict: {unknown}\nexpected: {set(self.feed_tensors)}")
        feeds = {self.feed_tensors[key]: value for key, value in input_dict.items() if value is not None}
        found: dict[str, Any] = self.session.run(self.fetch_tensors, feeds)
        return found

    def __repr__(self) -> str:
        return f"Predictor with feed tensors {self.feed_tensors} and fetch_tensors {self.fetch_tensors}"


def _of(session: Session, signature: Any) -> Predictor:
    inputs, outputs = ({key: get_tensor_from_tensor_info(info, session.graph) for key, info in part.items()}
                       for part in (signature.inputs, signature.outputs))
    return Predictor(session, inputs, outputs)


def from_saved_model(export_dir: Any, signature_def_key: str | None = None, signature_def: Any = None, tags: str | None = None,
                     graph: Graph | None = None) -> Predictor:
    """The predictor of a SavedModel: of its signature `signature_def_key` (the default one), or of another SignatureDef.

    `tags` are separated by commas, "serve" if not given. ValueError where both signatures are given and for one that the
    model has not, the errors of saved_model.loader.load otherwise.
    """
    if signature_def_key is not None and signature_def is not None:
        raise ValueError("You must specify at most one of signature_def_key OR signature_def")
    session = Session(graph=graph or get_default_graph().fresh())
    proto = load(session, [tag.strip() for tag in (tags or "serve").split(",")], export_dir)
    if signature_def is None and signature_def_key is not None and signature_def_key not in proto.signature_def:
        raise ValueError(f"Got signature_def_key \"{signature_def_key}\". Available signatures are "
                         f"{sorted(proto.signature_def)}.")
    return _of(session, signature_def or get_signature_def_by_key(proto, signature_def_key or DEFAULT_KEY))


def from_estimator(estimator: Estimator, serving_input_receiver_fn: Callable[[], Any], output_key: str | None = None,
                   graph: Graph | None = None) -> Predictor:
    """The predictor of an estimator's newest checkpoint: what `serving_input_receiver_fn` receives goes in, what the model
    exports as `output_key` (the default) comes out. KeyError for an output that it does not export."""
    with (graph or get_default_graph().fresh()).as_default() as inside:
        estimator._begin()
        received = serving_input_receiver_fn()
        spec = estimator._spec(received.features, None, ModeKeys.PREDICT)
        outputs, key = with_default(spec.export_outputs or {}), output_key or DEFAULT_KEY
        if key not in outputs:
            raise KeyError(f"output_key must be one of {sorted(outputs)}; got {key}")
        signature = outputs[key].as_signature_def(received.receiver_tensors)
    return _of(estimator._restored(None, inside), signature)
