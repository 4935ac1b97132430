"""The fingerprint of the compiler covers everything that takes part in a compile."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from stepwell.driver.caching import fingerprint

ROOT = Path(fingerprint.__file__).parents[2]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is new in Python 3.11")
def test_all_rooms_below_the_driver_are_in_it() -> None:
    import tomllib

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    below = layers[layers.index("stepwell.driver") :]
    assert sorted(name for layer in below for name in re.findall(r"stepwell\.(\w+)", layer)) == list(
        fingerprint.rooms()
    )
