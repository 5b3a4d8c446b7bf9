"""Connectionist temporal classification (Graves et al. 2006): the loss with its gradient, and two decoders."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import int64
from workbench.core.graph.opdef import op, selective
from workbench.core.graph.shape import Shape


def _log_softmax(x):
    x = x.astype(np.float64)
    moved = x - x.max(-1, keepdims=True)
    return moved - np.log(np.exp(moved).sum(-1, keepdims=True))


def _labels(indices, values, batch, classes, lengths, repeated, collapse, longer):
    """The labels of each sequence; None for one that has more of them than steps and is left out."""
    found: list[Any] = []
    for row in range(batch):
        given = values[indices[:, 0] == row]
        if given.size and (given.min() < 0 or given.max() >= classes - 1):
            raise errors.InvalidArgumentError(f"ctc_loss: label {int(given[(given < 0) | (given >= classes - 1)][0])} of "
                                              f"sequence {row} is outside 0 … {classes - 2}; the last class is the blank")
        if collapse and given.size:
            given = given[np.concatenate([[True], given[1:] != given[:-1]])]
        needed = len(given) + int((given[1:] == given[:-1]).sum() if repeated else 0)
        if needed > lengths[row] and not longer:
            raise errors.InvalidArgumentError(f"ctc_loss: sequence {row} has {int(lengths[row])} steps but its labels need "
                                              f"{needed}; shorten them, or pass ignore_longer_outputs_than_inputs=True")
        found.append(given if len(given) <= lengths[row] else None)
    return found


def _padded(found, blank):
    """The labels of the sequences in rows of one length, filled up with blanks, and how many each has."""
    counts = np.array([0 if labels is None else len(labels) for labels in found], np.int64)
    rows = np.full((len(found), counts.max(initial=0)), blank)
    for row, labels in zip(rows, found):
        row[:0 if labels is None else len(labels)] = () if labels is None else labels
    return rows, counts


def _sums(emitted, lengths, last, stays, skip):
    """Log sums over the beginnings and over the ends of all paths through each step and place: alpha, beta [t,b,places].

    The ends are the beginnings of the path that is read backwards, which is a sequence more.
    """
    steps, batch, places = emitted.shape
    rows, times = np.arange(batch), np.maximum(lengths - 1 - np.arange(steps)[:, None], 0)      # read backwards, as are
    turned = last[:, None] - np.arange(places)
    there = np.maximum(turned, 0)
    backwards = emitted[times[:, :, None], rows[:, None], there]
    jumps = np.concatenate([skip, np.zeros((batch, 2), bool)], 1)[rows[:, None], there + 2]      # seen from their other ends
    sums = _beginnings(np.concatenate([emitted, backwards], 1), np.concatenate([stays, stays[rows[:, None], there]]),
                       np.concatenate([skip, jumps]))
    beta = sums[:, batch:][times[:, :, None], rows[:, None], there]
    return sums[:, :batch], np.where(turned < 0, -np.inf, beta)


def _beginnings(emitted, stays, skip):
    """Log sums over all paths that begin in one of the first two places and are in each place after each step."""
    emitted = np.ascontiguousarray(emitted.swapaxes(1, 2))      # [step, place, sequence]: neighbouring places are blocks
    steps, places, batch = emitted.shape
    sums = np.full((steps, places + 2, batch), -np.inf)         # two places more, where no path is
    waits, jumps = (None if may.all() else np.where(may.T, 0, -np.inf) for may in (stays, skip))
    least = np.full((places, batch), np.finfo(np.float64).min)      # of a place where no path is, too
    sums[0, 2:4] = emitted[0, :2]
    for before, here, now in zip(sums, sums[1:], emitted[1:]):
        ways = [before[2:] if waits is None else before[2:] + waits, before[1:-1],
                before[:-2] if jumps is None else before[:-2] + jumps]
        most = np.maximum(np.maximum(ways[0], ways[1]), np.maximum(ways[2], least))
        total = np.exp(ways[0] - most)
        total += np.exp(ways[1] - most)
        total += np.exp(ways[2] - most)
        np.log(total, out=total)
        total += most
        np.add(total, now, out=here[2:])
    return sums[:, 2:].swapaxes(1, 2)


def _losses(log_y, labels, counts, lengths, repeated):
    """(-log p(labels) of each sequence, its gradient by the logits) for log probabilities [steps, batch, classes].

    A path goes through places: the labels, and a blank before, between and behind them.
    """
    _, batch, classes = log_y.shape
    path = np.full((batch, 2 * labels.shape[1] + 1), classes - 1)
    path[:, 1::2] = labels
    skip = np.zeros(path.shape, bool)
    skip[:, 3::2] = path[:, 3::2] != path[:, 1:-2:2] if repeated else True
    stays = np.full(path.shape, repeated) | (np.arange(path.shape[1]) % 2 == 0)      # each label then stands for one step
    emitted = np.take_along_axis(log_y, path[None], 2)
    alpha, beta = _sums(emitted, lengths, 2 * counts, stays, skip)
    rows = np.arange(batch)
    ends = alpha[np.maximum(lengths, 1) - 1, rows]
    total = np.logaddexp(ends[rows, 2 * counts], np.where(counts > 0, ends[rows, 2 * counts - 1], -np.inf))
    found = np.isfinite(total)      # else, as in TensorFlow, there is no path whose share could be taken off
    share = np.exp(alpha + beta - emitted - np.where(found, total, 0)[:, None])
    share = np.where(found[:, None], share, 0)
    slope = np.exp(log_y)
    slope[:, :, -1] -= share[:, :, ::2].sum(2)
    for place in range(labels.shape[1]):
        slope[:, rows, labels[:, place]] -= share[:, :, 2 * place + 1]
    return np.where(found, -total, np.inf), slope


@op("inputs[t,b,c] indices[n,2] values[n] lengths[b] -> [b] [t,b,c]", types="T:float int64 int32 int32 -> T T")
def ctc(inputs, indices, values, lengths, *, collapse, repeated, longer):
    """(loss, its gradient) of each sequence of logits [steps, batch, classes]; the last class is the blank."""
    steps, batch, classes = inputs.shape
    if lengths.size and lengths.max() > steps:
        raise errors.InvalidArgumentError(f"ctc_loss: sequence_length is {int(lengths.max())} but inputs have {steps} steps; "
                                          "keep it within them")
    found = _labels(indices, values, batch, classes, lengths, repeated, collapse, longer)
    counted = np.array([labels is not None for labels in found], bool) & (lengths > 0)
    if not counted.any():
        return np.zeros(batch, inputs.dtype), np.zeros_like(inputs)
    inside = (np.arange(steps)[:, None] < lengths) & counted
    log_y = _log_softmax(np.where(inside[:, :, None], inputs, 0))
    rows, counts = _padded(found, classes - 1)
    loss, slope = _losses(log_y, rows, counts, lengths, repeated)
    return (np.where(counted, loss, 0).astype(inputs.dtype),
            np.where(inside[:, :, None], slope, 0).astype(inputs.dtype))


@ctc.gradient
@selective
def _(node, dloss, dslope, *, needed):
    if dslope is not None:
        raise errors.UnimplementedError("ctc_loss: it has no second gradient; differentiate it once")
    return ops.multiply(ops.expand_dims(ops.expand_dims(dloss, 0), -1), node.outputs[1]), None, None, None


# decoders

def _sparse(rows):
    """Rows of numbers as the parts of a sparse matrix."""
    places = [(row, column) for row, found in enumerate(rows) for column in range(len(found))]
    return (np.array(places, np.int64).reshape(-1, 2), np.array([v for found in rows for v in found], np.int64),
            np.array([len(rows), max((len(found) for found in rows), default=0)], np.int64))


@op("inputs[t,b,c] lengths[b] -> [_,2] [_] [2] [b,1]", types="T:float int32 -> int64 int64 int64 T", differentiable=False)
def ctc_greedy(inputs, lengths, *, merge):
    """The best class of each step without blanks, as a sparse matrix; and minus the sum of their logits."""
    rows, scores = [], np.zeros((inputs.shape[1], 1), inputs.dtype)
    for row, length in enumerate(lengths):
        best = inputs[:length, row].argmax(-1)
        scores[row] = -inputs[:length, row].max(-1).sum() if length else 0
        keep = best != inputs.shape[2] - 1
        if merge and len(best):
            keep &= np.concatenate([[True], best[1:] != best[:-1]])
        rows.append(best[keep].tolist())
    return *_sparse(rows), scores


def _beams(log_y, width, top):
    """The `top` best label sequences and their log probabilities, by search over prefixes."""
    blank = log_y.shape[1] - 1
    beams: dict[Any, Any] = {(): (0.0, -np.inf)}      # (ends in blank, ends in its label)
    for line in log_y:
        found: dict[Any, Any] = {}

        def add(prefix, part, value, found=found):
            parts = found.setdefault(prefix, [-np.inf, -np.inf])
            parts[part] = np.logaddexp(parts[part], value)
        for prefix, (with_blank, with_label) in beams.items():
            both = np.logaddexp(with_blank, with_label)
            add(prefix, 0, both + line[blank])
            if prefix:
                add(prefix, 1, with_label + line[prefix[-1]])
            for label in range(blank):
                add((*prefix, label), 1, (with_blank if prefix and label == prefix[-1] else both) + line[label])
        best = sorted(found.items(), key=lambda item: -np.logaddexp(*item[1]))[:width]
        beams = {prefix: tuple(parts) for prefix, parts in best}
    ranked = sorted(((np.logaddexp(*parts), prefix) for prefix, parts in beams.items()), key=lambda item: -item[0])
    return ranked[:top]


def _decoded(inputs, attrs):
    top = attrs["top"]
    return [Shape([None, 2])] * top + [Shape([None])] * top + [Shape([2])] * top + [inputs[0].shape[1:2] + Shape([top])]


@op("inputs[t,b,c] lengths[b] -> ?", types="T:float int32 ->", shape=_decoded, differentiable=False,
    dtypes=lambda dtypes, attrs: [int64] * (3 * attrs["top"]) + [dtypes[0]])
def ctc_beams(inputs, lengths, *, width, top, merge):
    """The parts of `top` sparse matrices of label sequences, best first, and the log probability of each."""
    rows: list[list[Any]] = [[] for _ in range(top)]
    scores = np.zeros((inputs.shape[1], top), inputs.dtype)
    for row, length in enumerate(lengths):
        found = _beams(_log_softmax(inputs[:length, row]), width, top)
        if len(found) < top:
            raise errors.InvalidArgumentError(f"ctc_beam_search_decoder: top_paths is {top} but only {len(found)} paths were "
                                              "found; ask for fewer")
        for place, (score, prefix) in enumerate(found):
            labels = [k for i, k in enumerate(prefix) if not merge or i == 0 or k != prefix[i - 1]]
            rows[place].append(labels)
            scores[row, place] = score
    parts = [_sparse(found) for found in rows]
    return *[p[0] for p in parts], *[p[1] for p in parts], *[p[2] for p in parts], scores



