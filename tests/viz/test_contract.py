"""The contract's TypeScript is what the records say."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.viz.contract import digest, text, typescript

pytestmark = pytest.mark.tiny
ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_file_is_current():
    written = (ROOT / "labextension" / "src" / "generated.ts").read_text(encoding="utf-8")
    assert written == text(), "run: python _build/contract.py"


def test_every_record_has_its_fields_and_the_hash_travels():
    for words in ("export interface Update {", "export interface Judgement {", "  lost: TaskRecord[];",
                  "  state: State;", "  topics: Partial<Topics>;", "  graph: GraphParameters;", "  opened?: string[];",
                  f"CONTRACT = '{digest()}'"):
        assert words in text()


def test_a_type_without_a_twin_is_refused():
    with pytest.raises(TypeError, match="contract: <class 'complex'> has no TypeScript type; give it one"):
        typescript(complex)
