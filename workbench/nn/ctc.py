"""Sequences without alignment: the CTC loss and its decoders (Graves et al. 2006)."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.sparse import SparseTensor

__all__ = ["ctc_beam_search_decoder", "ctc_greedy_decoder", "ctc_loss"]


def ctc_loss(labels: SparseTensor, inputs: Any, sequence_length: Any, preprocess_collapse_repeated: bool = False,
             ctc_merge_repeated: bool = True, ignore_longer_outputs_than_inputs: bool = False,
             time_major: bool = True) -> Tensor:
    """-log p(labels | inputs) of each sequence: [batch], with a first gradient by `inputs`.

    `labels` is a sparse int32 matrix [batch, longest], `inputs` logits [steps, batch, classes] ([batch, steps, classes] without
    `time_major`) whose last class is the blank, `sequence_length` int32 [batch]. InvalidArgumentError for labels outside, or
    longer than their sequence unless `ignore_longer_outputs_than_inputs`: more labels than steps then have no loss and no
    gradient, and labels that fit but for the blanks between equal ones an infinite loss and softmax(inputs), as in TensorFlow.
    """
    if not isinstance(labels, SparseTensor):
        raise TypeError(f"ctc_loss: labels is {labels!r}; pass a SparseTensor of int32")
    x = convert(inputs)
    x = x if time_major else ops.transpose(x, [1, 0, 2])
    with get_default_graph().name_scope("CTCLoss"):
        loss, _ = ops.ctc(x, labels.indices, ops.cast(labels.values, "int32"), ops.cast(convert(sequence_length), "int32"),
                          collapse=bool(preprocess_collapse_repeated), repeated=bool(ctc_merge_repeated),
                          longer=bool(ignore_longer_outputs_than_inputs))
        return loss


def ctc_greedy_decoder(inputs: Any, sequence_length: Any, merge_repeated: bool = True) -> tuple[list[SparseTensor], Tensor]:
    """([the best class of each step, repeats merged, without blanks], minus the sums of their logits [batch, 1])."""
    *parts, score = ops.ctc_greedy(inputs, ops.cast(convert(sequence_length), "int32"), merge=bool(merge_repeated))
    return [SparseTensor(*parts)], score


def ctc_beam_search_decoder(inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1,
                            merge_repeated: bool = True) -> tuple[list[SparseTensor], Tensor]:
    """(the `top_paths` best label sequences, each a sparse int64 matrix, their log probabilities [batch, top_paths])."""
    if not 1 <= top_paths <= beam_width:
        raise errors.InvalidArgumentError(f"ctc_beam_search_decoder: top_paths is {top_paths} but beam_width {beam_width}; "
                                          "use 1 to beam_width")
    found = ops.ctc_beams(inputs, ops.cast(convert(sequence_length), "int32"), width=int(beam_width), top=int(top_paths),
                          merge=bool(merge_repeated))
    parts = zip(found[:top_paths], found[top_paths:2 * top_paths], found[2 * top_paths:3 * top_paths])
    return [SparseTensor(*part) for part in parts], found[-1]
