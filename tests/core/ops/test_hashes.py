"""Hashes of many strings, computed together where they have one length, are those of each string alone."""
from __future__ import annotations

import numpy as np
import pytest

from tests.evaluate import evaluate
from workbench.core.graph.build import ops

pytestmark = pytest.mark.usefixtures("graph")


@pytest.mark.parametrize("kind", ["string_to_hash_bucket_fast", "string_to_hash_bucket", "string_to_hash_bucket_strong"])
@pytest.mark.parametrize("buckets", [7, 2**62])
def test_strings_together_are_as_alone(kind: str, buckets: int) -> None:
    key = {"key": [3, 2**63 + 5]} if kind.endswith("strong") else {}
    rng = np.random.default_rng(6)
    lengths = [0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 32, 33, 64, 65, 100, 128, 129, 200]
    texts = [rng.bytes(length) for _ in range(20) for length in lengths]      # 20 of each length, mixed
    together, = evaluate([getattr(ops, kind)(np.array(texts, object).reshape(20, -1), buckets, **key)])
    assert together.shape == (20, len(lengths)) and together.dtype == np.int64
    alone = evaluate([getattr(ops, kind)(np.array(texts[row:row + len(lengths)], object), buckets, **key)
                      for row in range(0, len(texts), len(lengths))])      # one of each length
    assert np.array_equal(together, alone)
    assert len(np.unique(together[:, 1:])) > min(buckets, 300) / 2


def test_no_strings_have_no_hashes() -> None:
    found, = evaluate([ops.string_to_hash_bucket_fast(np.zeros([0, 3], object), 5)])
    assert found.shape == (0, 3) and found.dtype == np.int64
