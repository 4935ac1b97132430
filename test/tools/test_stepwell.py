"""`stepwell`: starts every command, and lists them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from stepwell.tools.stepwell import NAME, TOOLS, main

tomllib = pytest.importorskip("tomllib") if sys.version_info >= (3, 11) else pytest.importorskip("tomli")


def test_every_command_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(project["project"]["scripts"]) == {NAME, *(f"{NAME}-{command}" for command in TOOLS)}
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    printed = capsys.readouterr().out
    assert all(f"{command} " in printed and summary in printed for command, summary in TOOLS.items())


@pytest.mark.parametrize("command", TOOLS)
def test_it_starts_the_command(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        code = main([command, "--help"])
    except SystemExit as ended:
        code = ended.code
    assert code == 0
    assert f"stepwell-{command}" in capfd.readouterr().out


def test_an_unknown_command_is_refused_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["compose"])
    assert "compile" in capsys.readouterr().err
