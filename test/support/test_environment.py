"""Environment variables: invalid values are refused, and a table lists all variables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import stepwell
from stepwell.support import environment
from stepwell.tools.cache import main

ROOT = Path(stepwell.__file__).parent
FOLDERS = (
    "bench",
    "compat",
    "dialects",
    "driver",
    "explain",
    "frontend",
    "lowering",
    "machines",
    "passes",
    "runtime",
    "sizes",
    "support",
    "targets",
    "tools",
)
WRONG = {
    "STEPWELL_CACHE": "bogus",
    "STEPWELL_CACHE_MEGABYTES": "many",
    "STEPWELL_CUDA": "yes",
    "STEPWELL_DEBUG": "5",
    "STEPWELL_GUARDED": "on",
    "STEPWELL_MACHINE": "mine",
    "STEPWELL_POISON": "100",
    "STEPWELL_REPRODUCERS": __file__,
}


@pytest.mark.parametrize(("name", "value"), WRONG.items())
def test_wrong_values_are_one_error(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(stepwell.InputError, match=f"{name} is '.*', and must be ") as caught:
        stepwell.compile(b"")
    with pytest.raises(environment.VariableError, match=name):
        stepwell.load("nowhere.stw")
    assert main(["list"]) == 2
    assert capsys.readouterr().err == f"stepwell-cache: error: {caught.value}\n"


def test_empty_is_as_if_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in WRONG:
        if name != "STEPWELL_CACHE_MEGABYTES":
            monkeypatch.setenv(name, "")
    environment.check()
    assert environment.debug_level() == 0 and environment.poison() is None and not environment.is_simulated()


def test_every_variable_is_in_the_table() -> None:
    files = [*ROOT.glob("*.py"), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))]
    read = {name for file in files for name in re.findall(r'"(STEPWELL_[A-Z_]+)"', file.read_text(encoding="utf-8"))}
    table = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    assert read == set(re.findall(r"^\| `(STEPWELL_[A-Z_]+)` \|", table, re.MULTILINE))
