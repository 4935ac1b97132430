"""Type-checks the Python code of the documentation as users do: against the package in an environment's folder.

The chapters in `examples/` are a part of it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

pytest.importorskip("pyright")

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RULES = {
    "typeCheckingMode": "standard",
    # Guides import files that they show elsewhere, and continue blocks of error handling.
    "reportMissingImports": False,
    "reportPossiblyUnboundVariable": False,
    "reportOptionalMemberAccess": False,
    # The declared result of `torch.compile` lacks `aot_compile`.
    "reportFunctionMemberAccess": False,
}


@pytest.mark.sweep
@pytest.mark.slow
def test_code_in_the_documentation_has_the_right_types(tmp_path: Path) -> None:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for number, text in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
            (tmp_path / f"{page.stem.replace('-', '_')}_{number}.py").write_text(text, encoding="utf-8")
    for chapter in (ROOT / "examples").glob("ch*.py"):
        (tmp_path / chapter.name).write_text(chapter.read_text(encoding="utf-8"), encoding="utf-8")
    assert (tmp_path / "README_0.py").exists() and (tmp_path / "ch0_load_and_run.py").exists()
    # A call that must be refused proves that the package's types are found.
    wrong = 'import stepwell\n\nstepwell.compile("model.onnx", thread=2)\n'
    (tmp_path / "wrong.py").write_text(wrong, encoding="utf-8")
    found = _check(tmp_path)
    assert {Path(item["file"]).name for item in found if item["severity"] == "error"} == {"wrong.py"}, found


def test_names_of_the_package_can_be_listed() -> None:
    import stepwell

    listed = dir(stepwell)
    rooms = {"lm", "training"}
    assert {*stepwell.__all__, *rooms} == {name for name in listed if not name.startswith("__")} | {"__version__"}
    assert all(hasattr(stepwell, name) for name in stepwell.__all__)
    assert listed == sorted(listed)


def _check(folder: Path) -> list[dict]:
    """Returns the errors that pyright finds in a folder; the package lies beside its dependencies, not editable."""
    environment = folder / ".environment"
    venv.create(environment, with_pip=False, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = environment / "lib" / version / "site-packages"
    (packages / "stepwell").symlink_to(ROOT, target_is_directory=True)
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
    (folder / "pyrightconfig.json").write_text(json.dumps({**RULES, "exclude": [".environment"]}))
    command = [sys.executable, "-m", "pyright", "--pythonpath", str(environment / "bin" / "python"), "--outputjson"]
    done = subprocess.run([*command, "-p", str(folder)], cwd=folder, capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["generalDiagnostics"]
