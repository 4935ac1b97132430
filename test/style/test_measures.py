"""Measures of the architecture stay within their bounds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "measures.py"


def test_measures_are_within_their_bounds() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=True)
    rows = [line.rpartition("  ") for line in done.stdout.splitlines()]
    found = {name.strip(): value for name, _, value in rows}
    assert found.pop("modules in import cycles: at the top / in functions / for types") == "0 / 0 / 0"
    assert int(found.pop("product files that mention CumulativeOp")) <= 4
    assert int(found.pop("groups of entry points with an example package")) == 5
    assert int(found.pop("lines of Python in the product")) > 50_000
    assert found and set(found.values()) == {"0"}
