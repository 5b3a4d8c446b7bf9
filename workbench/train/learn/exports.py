"""What models of tf.contrib.learn are fed when they are served, and how an experiment exports them."""
from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from workbench.core.graph.build import ops
from workbench.train.estimators.contrib_columns import create_feature_spec_for_parsing
from workbench.train.estimators.export_versions import garbage_collect_exports
from workbench.train.input.examples import parse_example
from workbench.train.learn.estimator import BaseEstimator

__all__ = ["ExportStrategy", "InputFnOps", "build_default_serving_input_fn", "build_parsing_serving_input_fn",
           "extend_export_strategy", "make_best_model_export_strategy", "make_export_strategy", "make_parsing_export_strategy"]


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
    export_savedmodel. ValueError when it exports an estimator of tf.estimator, which has no alternatives, by the key of one."""
    def export_fn(estimator: Any, export_dir_base: Any, checkpoint_path: Any = None) -> Any:
        alternatives = {"default_output_alternative_key": default_output_alternative_key}
        if not isinstance(estimator, BaseEstimator):
            _no_alternative(default_output_alternative_key)
            alternatives = {}
        made = estimator.export_savedmodel(export_dir_base, serving_input_fn, assets_extra=assets_extra, as_text=as_text,
                                           checkpoint_path=checkpoint_path, **alternatives)
        garbage_collect_exports(export_dir_base, exports_to_keep)
        return made
    return ExportStrategy("Servo", export_fn)


def _no_alternative(key: Any) -> None:
    if key is not None:
        raise ValueError("make_export_strategy: default_output_alternative_key is not supported in core Estimator. It is "
                         f"{key!r}; leave it out")


def make_parsing_export_strategy(feature_columns: Any, default_output_alternative_key: Any = None, assets_extra: Any = None,
                                 as_text: bool = False, exports_to_keep: int | None = 5,
                                 target_core: bool = False) -> ExportStrategy:
    """make_export_strategy for models that are fed serialized examples, which the columns say how to parse; with `target_core`
    for estimators of tf.estimator. ValueError for one of those and the key of an alternative."""
    if target_core:
        _no_alternative(default_output_alternative_key)
    return make_export_strategy(build_parsing_serving_input_fn(create_feature_spec_for_parsing(feature_columns)),
                                default_output_alternative_key, assets_extra, as_text, exports_to_keep)


def make_best_model_export_strategy(serving_input_fn: Callable[[], Any], exports_to_keep: int | None = 1,
                                    compare_fn: Callable[[Any, Any], bool] | None = None,
                                    default_output_alternative_key: Any = None) -> ExportStrategy:
    """make_export_strategy for checkpoints that are better than all before: `compare_fn(best, found)` of two evaluations, by
    default whether the loss is less. Each goes to a folder named like the checkpoint; "" for one that is not exported."""
    every, better = make_export_strategy(serving_input_fn, default_output_alternative_key,
                                         exports_to_keep=exports_to_keep), compare_fn or _less_loss
    best: list[Any] = []

    def export_fn(estimator: Any, export_dir_base: Any, checkpoint_path: Any, eval_result: Any = None) -> Any:
        path = checkpoint_path or estimator.latest_checkpoint()
        if not path or eval_result is None:
            raise ValueError("make_best_model_export_strategy: Checkpoint path is empty, or it has empty evaluation results. "
                             f"They are {path!r} and {eval_result}; train and evaluate before")
        if best and not better(best[0], eval_result):
            return ""
        best[:] = [eval_result]
        return every.export(estimator, os.path.join(os.fsdecode(export_dir_base), os.path.basename(os.fsdecode(path))), path)
    return ExportStrategy("best_model", export_fn)


def _less_loss(best: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    for what, given in (("curr_best_eval_result", best), ("cand_eval_result", found)):
        if not given or "loss" not in given:
            raise ValueError(f"make_best_model_export_strategy: {what} cannot be empty or no loss is found in it. It is "
                             f"{given}; pass a compare_fn for other metrics")
    return bool(best["loss"] > found["loss"])


def extend_export_strategy(base_export_strategy: ExportStrategy, post_export_fn: Callable[[Any], Any] | None,
                           post_export_name: str) -> ExportStrategy:
    """A strategy of another name, after which `post_export_fn(folder)` gives the folder of what it made of the model."""
    def export_fn(estimator: Any, export_dir_base: Any, checkpoint_path: Any = None) -> Any:
        made = base_export_strategy.export(estimator, export_dir_base, checkpoint_path)
        return post_export_fn(made) if post_export_fn else made
    return ExportStrategy(post_export_name, export_fn)
