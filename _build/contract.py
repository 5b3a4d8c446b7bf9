"""Write labextension/src/generated.ts from workbench/viz/schema.py."""
from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from workbench.viz.contract import text      # noqa: E402

if __name__ == "__main__":
    (ROOT / "labextension" / "src" / "generated.ts").write_text(text(), encoding="utf-8")
