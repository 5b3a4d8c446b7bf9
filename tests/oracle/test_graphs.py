"""Graphs that travel: TensorFlow computes the same from what we wrote, and we from what it wrote, values and gradients."""
from __future__ import annotations

import warnings

import numpy as np
import pytest

from tests.formats.test_twins import NARROW, refused_by_name, written
from tests.opcases import CASES, Case
from tests.oracle.harness import quiet, tensorflow
from workbench import errors

pytestmark = pytest.mark.oracle

CPU = "TensorFlow's CPU has no kernel for dilations above 1 in gradients, or for NCHW"
KNOWN = {
    "gather_nd-whole": "TensorFlow scatters nothing into an empty shape", "scatter_nd-whole": "as gather_nd-whole",
    **dict.fromkeys(("conv2d-dilated", "conv2d_backprop_input-dilated", "conv2d_backprop_filter-dilated", "atrous_conv2d",
                     "conv2d-nchw", "max_pool-nchw"), CPU),
}
"""Case -> why TensorFlow does not compute it."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_we_write_tensorflow_computes(case: Case) -> None:
    if str(case) in KNOWN:
        return
    tf = tensorflow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            proto, names, feeds, values = written(case, min(case.order, 1))
        except errors.UnimplementedError as error:
            assert refused_by_name(error), f"{case}: {error}"
            return
    with quiet(), tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(tf.GraphDef.FromString(proto.SerializeToString()), name="")
        found = session.run(names, feeds)
    for got, exact in zip(found, values):
        got = np.asarray(got)
        assert got.shape == exact.shape and (exact.dtype == object or got.dtype == exact.dtype)
        if exact.dtype == object:
            assert np.asarray(got, object).tolist() == exact.tolist()
        else:
            np.testing.assert_allclose(got, exact, *([1e-4] * 2 if str(case) in NARROW else [1e-6] * 2))
