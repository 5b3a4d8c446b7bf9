"""Paths through trees of choices, which a search over beams leaves behind."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.opdef import op


@op("step_ids[t,b,k] parent_ids[t,b,k] lengths[b,k] end_token[] -> [t,b,k]", types="T:int T int T -> T", differentiable=False)
def tree_paths(step_ids, parent_ids, lengths, end_token):
    """For each beam of each example the ids on its path: from the last of its `lengths` steps back through the parents;
    `end_token` behind that, and behind the first of them on the path.

    InvalidArgumentError for a parent that is no beam.
    """
    steps, _, beams = step_ids.shape
    lengths = np.minimum(lengths, steps)
    paths, at = np.full_like(step_ids, end_token), np.broadcast_to(np.arange(beams), lengths.shape)
    for step in range(steps - 1, -1, -1):
        inside = step < lengths
        wrong = np.argwhere(inside & ((at < 0) | (at >= beams)))
        if len(wrong):
            batch, beam = wrong[0]
            raise errors.InvalidArgumentError(f"gather_tree: Saw invalid parent id {at[batch, beam]} at (batch, time, beam) == "
                                              f"({batch}, {step}, {beam}); there are {beams} beams: parents are from 0")
        at = np.where(inside, at, 0)
        paths[step] = np.where(inside, np.take_along_axis(step_ids[step], at, 1), end_token)
        at = np.where(inside, np.take_along_axis(parent_ids[step], at, 1), np.arange(beams))
    ends = paths == end_token
    paths[np.cumsum(ends, 0) - ends > 0] = end_token
    return paths
