"""What models of tf.contrib.learn are fed when they are served, and how an experiment exports them."""
from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from workbench.core.graph.build import ops
from workbench.train.input.examples import parse_example

__all__ = ["ExportStrategy", "InputFnOps", "build_default_serving_input_fn", "build_parsing_serving_input_fn",
           "make_export_strategy"]


class InputFnOps(NamedTuple):
    """What a serving input function gives: features for the model, labels (None), and what is fed, by name."""

    features: Any
    labels: Any
    default_inputs: Mapping[str, Any]

    @property
    def receiver_tensors(self) -> Mapping[str, Any]:
        """What is fed."""
        return self.default_inputs

    @property
    def receiver_tensors_alternatives(self) -> None:
        """Other things that could be fed: none."""


def build_parsing_serving_input_fn(feature_spec: Mapping[str, Any],
                                   default_batch_size: int | None = None) -> Callable[[], InputFnOps]:
    """A function whose InputFnOps parse serialised examples (string [default_batch_size]) as `feature_spec` says."""
    def serving_input_fn() -> InputFnOps:
        serialized = ops.placeholder("string", [default_batch_size], name="input_example_tensor")
        return InputFnOps(parse_example(serialized, feature_spec), None, {"examples": serialized})
    return serving_input_fn


def build_default_serving_input_fn(features: Mapping[str, Any],
                                   default_batch_size: int | None = None) -> Callable[[], InputFnOps]:
    """A function whose InputFnOps are fed tensors like `features`, with batches of another size."""
    def serving_input_fn() -> InputFnOps:
        made = {key: ops.placeholder(value.dtype, [default_batch_size, *value.shape.as_list()[1:]], name=value.op.name.replace(
            "/", "_")) for key, value in features.items()}
        return InputFnOps(made, None, made)
    return serving_input_fn


class ExportStrategy(NamedTuple):
    """How a model is exported: the name of its folder, and export_fn(estimator, export_path[, checkpoint_path[,
    eval_result]]), which gives what it wrote."""

    name: str
    export_fn: Callable[..., Any]

    def export(self, estimator: Any, export_path: Any, checkpoint_path: Any = None, eval_result: Any = None) -> Any:
        """What export_fn gives of those arguments that it takes. ValueError where it takes an evaluation without its
        checkpoint."""
        known = inspect.signature(self.export_fn).parameters
        if "eval_result" in known and "checkpoint_path" not in known:
            raise ValueError("ExportStrategy: An export_fn accepting eval_result must also accept checkpoint_path.")
        given = {"checkpoint_path": checkpoint_path, "eval_result": eval_result}
        return self.export_fn(estimator, export_path, **{key: value for key, value in given.items() if key in known})


def make_export_strategy(serving_input_fn: Callable[[], Any], default_output_alternative_key: Any = None,
                         assets_extra: Any = None, as_text: bool = False, exports_to_keep: int | None = 5) -> ExportStrategy:
    """Exports as SavedModels, of which the newest `exports_to_keep` (None: all) stay: arguments as the estimator's
    export_savedmodel."""
    def export_fn(estimator: Any, export_dir_base: Any, checkpoint_path: Any = None) -> Any:
        made = estimator.export_savedmodel(
            export_dir_base, serving_input_fn, default_output_alternative_key=default_output_alternative_key,
            assets_extra=assets_extra, as_text=as_text, checkpoint_path=checkpoint_path)
        numbered = sorted((path for path in Path(str(export_dir_base)).iterdir() if path.name.isdigit()),
                          key=lambda path: int(path.name))
        for old in numbered[:-exports_to_keep] if exports_to_keep else ():
            shutil.rmtree(old)
        return made
    return ExportStrategy("Servo", export_fn)
