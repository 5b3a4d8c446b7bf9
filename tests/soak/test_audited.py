"""All rows of operations in deterministic sessions: the same bits with other numbers of threads and other kernels of OpenBLAS,
with each of the kernel libraries and without."""
from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.core.ops.test_seams import growths
from tests.core.run.test_deterministic import audited
from tests.opcases import CASES

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
PARTS = 6


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("libraries", ["llvm,onednn", "llvm", "onednn", ""])
def test_rows_have_the_same_bits_on_all_models_of_processor(libraries: str, part: int, tmp_path: Path) -> None:
    found = {str(place): growths(row) for place, row in list(enumerate(CASES))[part::PARTS]}
    file = tmp_path / "growths.json"
    file.write_text(json.dumps(found))
    kinds = ["float32", "float64", "float16", "bfloat16"]
    alone = audited(*kinds, growths=str(file), WB_LIBRARIES=libraries, WB_THREADS="1")
    assert audited(*kinds, growths=str(file), WB_LIBRARIES=libraries, WB_THREADS="3", OPENBLAS_CORETYPE="Haswell") == alone
