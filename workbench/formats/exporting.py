"""What a served model receives, and estimators written as SavedModels: once, the newest, the last."""
from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.formats.saved_model import Builder
from workbench.nn.lookups import local_initializer
from workbench.nn.sparse import SparseTensor
from workbench.nn.variables import GraphKeys
from workbench.train.estimators.estimator import Estimator, ModeKeys
from workbench.train.estimators.export_versions import garbage_collect_exports, get_temp_export_dir, get_timestamped_export_dir
from workbench.train.estimators.signatures import signatures
from workbench.train.estimators.specs import Exporter
from workbench.train.input.examples import parse_example

__all__ = ["FinalExporter", "LatestExporter", "ServingInputReceiver", "TensorServingInputReceiver",
           "build_parsing_serving_input_receiver_fn", "build_raw_serving_input_receiver_fn", "export_savedmodel", "install"]


class _Received(NamedTuple):
    features: Any
    receiver_tensors: Any
    receiver_tensors_alternatives: Any


def _tensors(what: str, given: Any, single: str) -> dict[str, Any]:
    """Tensors by name; one alone gets the name `single`. ValueError for none and for what is no tensor."""
    if given is None:
        raise ValueError(f"{what} must be defined.")
    named = dict(given) if isinstance(given, Mapping) else {single: given}
    for key, value in named.items():
        if not isinstance(key, str):
            raise ValueError(f"{what} keys must be strings: {key!r}.")
        if not isinstance(value, (Tensor, SparseTensor)):
            raise ValueError(f"{what} {key} must be a Tensor or SparseTensor; it is {value!r}")
    return named


class ServingInputReceiver(_Received):
    """What a served model is fed, `receiver_tensors`, and what it makes of that for the model function: `features`.

    Both are tensors by name; one alone is called "input" and "feature". `receiver_tensors_alternatives` are other ways to
    feed the same features, by name. ValueError for what is no tensor.
    """

    __slots__ = ()

    def __new__(cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None) -> ServingInputReceiver:
        others = {name: _tensors("receiver_tensors_alternatives", given, "input")
                  for name, given in (receiver_tensors_alternatives or {}).items()}
        return super().__new__(cls, _tensors("features", features, "feature"),
                               _tensors("receiver_tensors", receiver_tensors, "input"), others or None)


class TensorServingInputReceiver(_Received):
    """A ServingInputReceiver for a model function whose features are one tensor."""

    __slots__ = ()

    def __new__(cls, features: Any, receiver_tensors: Any,
                receiver_tensors_alternatives: Any = None) -> TensorServingInputReceiver:
        if not isinstance(features, (Tensor, SparseTensor)):
            raise ValueError(f"feature must be a Tensor or SparseTensor; it is {features!r}")
        known = ServingInputReceiver(features, receiver_tensors, receiver_tensors_alternatives)
        return super().__new__(cls, features, known.receiver_tensors, known.receiver_tensors_alternatives)


def build_parsing_serving_input_receiver_fn(feature_spec: Mapping[str, Any],
                                            default_batch_size: int | None = None) -> Callable[[], ServingInputReceiver]:
    """A function whose receiver is fed serialized examples (string [batch], "examples") and parses them by `feature_spec`."""
    def receive() -> ServingInputReceiver:
        serialized = ops.placeholder("string", [default_batch_size], name="input_example_tensor")
        return ServingInputReceiver(parse_example(serialized, feature_spec), {"examples": serialized})
    return receive


def build_raw_serving_input_receiver_fn(features: Mapping[str, Any],
                                        default_batch_size: int | None = None) -> Callable[[], ServingInputReceiver]:
    """A function whose receiver is fed the features themselves: like the given tensors, but of any number of rows, or of
    `default_batch_size`."""
    known = {name: convert(value) for name, value in features.items()}
    wanted = {name: (value.dtype, [default_batch_size, *value.shape.as_list()[1:]], value.op.name.rpartition("/")[2])
              for name, value in known.items()}

    def receive() -> ServingInputReceiver:
        made = {name: ops.placeholder(dtype, shape, name=label) for name, (dtype, shape, label) in wanted.items()}
        return ServingInputReceiver(made, made)
    return receive


# writing

def export_savedmodel(self: Estimator, export_dir_base: Any, serving_input_receiver_fn: Callable[[], Any],
                      assets_extra: Mapping[str, Any] | None = None, as_text: bool = False, checkpoint_path: Any = None,
                      strip_default_attrs: bool = False) -> bytes:
    """Write the model of a checkpoint (default: the newest) as a SavedModel below `export_dir_base`; gives its folder.

    `serving_input_receiver_fn()` makes what the model is fed; the model function's `export_outputs` become its signatures.
    `assets_extra` are files copied to "assets.extra", by the path that they get there. ValueError where the model function
    gives no `export_outputs`, NotFoundError without a checkpoint.
    """
    with get_default_graph().fresh().as_default() as graph:
        self._begin()
        received = serving_input_receiver_fn()
        spec = self._spec(received.features, None, ModeKeys.PREDICT)
        if not spec.export_outputs:
            raise ValueError("export_savedmodel: export_outputs must be defined in order to export a model; return them in the "
                             "EstimatorSpec")
        served = signatures(received.receiver_tensors, spec.export_outputs, received.receiver_tensors_alternatives)
        local = (spec.scaffold and spec.scaffold.local_init_op) or local_initializer()
    final = get_timestamped_export_dir(export_dir_base)
    writing = Path(os.fsdecode(get_temp_export_dir(final)))
    with self._restored(checkpoint_path, graph) as session:
        builder = Builder(writing)
        builder.add_meta_graph_and_variables(session, ["serve"], served, graph.get_collection(GraphKeys.ASSET_FILEPATHS), local,
                                             strip_default_attrs=strip_default_attrs)
        builder.save(as_text)
    for place, source in (assets_extra or {}).items():
        target = writing / "assets.extra" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    writing.rename(os.fsdecode(final))
    return final


def install() -> None:
    """Give estimators `export_savedmodel`: training itself knows no files of TensorFlow."""
    Estimator.export_savedmodel = export_savedmodel      # type: ignore[attr-defined]


class _Writer(Exporter):
    def __init__(self, name: str, serving_input_receiver_fn: Callable[[], Any],
                 assets_extra: Mapping[str, Any] | None = None, as_text: bool = False) -> None:
        self._name, self._receive, self._extra, self._text = name, serving_input_receiver_fn, assets_extra, as_text

    @property
    def name(self) -> str:
        """The folder of its models."""
        return self._name

    def _write(self, estimator: Any, export_path: Any, checkpoint_path: Any) -> bytes:
        made: bytes = estimator.export_savedmodel(export_path, self._receive, assets_extra=self._extra, as_text=self._text,
                                                  checkpoint_path=checkpoint_path)
        return made


class FinalExporter(_Writer):
    """Exports once, when training has ended."""

    def export(self, estimator: Estimator, export_path: Any, checkpoint_path: Any, eval_result: Any,
               is_the_final_export: bool) -> Any:
        """The folder of the model, None while training goes on."""
        return self._write(estimator, export_path, checkpoint_path) if is_the_final_export else None


class LatestExporter(_Writer):
    """Exports after each evaluation, and keeps the newest `exports_to_keep` (None: all). ValueError for less than one."""

    def __init__(self, name: str, serving_input_receiver_fn: Callable[[], Any],
                 assets_extra: Mapping[str, Any] | None = None, as_text: bool = False, exports_to_keep: int | None = 5) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ValueError("`exports_to_keep`, if provided, must be positive number")
        self._keep = exports_to_keep

    def export(self, estimator: Estimator, export_path: Any, checkpoint_path: Any, eval_result: Any,
               is_the_final_export: bool) -> Any:
        """The folder of the model."""
        made = self._write(estimator, export_path, checkpoint_path)
        garbage_collect_exports(export_path, self._keep)
        return made
