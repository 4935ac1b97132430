"""Closed standard streams, with which some services start programs, and encodings other than UTF-8."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODEL = """func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "stepwell.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""
TOOLS = {"compile": ["model.mlir"], "run": ["model.mlir"], "opt": ["model.mlir"], "cache": ["list"]}


@pytest.mark.few(3)
@pytest.mark.parametrize("closed", [[0], [1], [2], [1, 2], [0, 1, 2]])
@pytest.mark.parametrize("tool", list(TOOLS))
def test_tools_do_their_work_with_streams_closed(tool, closed, tmp_path):
    Path(tmp_path, "model.mlir").write_text(MODEL)
    code = f"import sys; from stepwell.tools.{tool} import main; sys.exit(main())"
    shell = f'exec "$@" {" ".join(f"{number}>&-" for number in closed)}'
    command = ["sh", "-c", shell, "sh", sys.executable, "-c", code, *TOOLS[tool]]
    environment = {**os.environ, "STEPWELL_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert 1 in closed or done.stdout
    assert tool != "compile" or Path(tmp_path, "model.stw").stat().st_size > 1000


@pytest.mark.few(2)
@pytest.mark.parametrize("name", [b"\xff\xfe.mlir", "\u00e9.mlir".encode()])
@pytest.mark.parametrize("tool", ["compile", "explore"])
def test_names_and_contents_beyond_ascii_in_an_ascii_locale(tool, name, tmp_path):
    model = os.fsdecode(name)
    Path(tmp_path, model).write_text(MODEL.replace("}\n", '} loc("\u00e9")\n'), encoding="utf-8")
    code = f"import sys; from stepwell.tools.{tool} import main; sys.exit(main())"
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    options = ["--compile-to=graph", "--dump-phases=phases"] if tool == "compile" else ["--no-assembly"]
    command = [sys.executable, "-c", code, model, "-o", "made", *options]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | plain, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Path(tmp_path, "made").stat().st_size > 300


@pytest.mark.few(1)
@pytest.mark.parametrize("encoding", ["ascii", "utf-8:strict", "latin-1"])
def test_stdout_shows_every_name(encoding, tmp_path):
    model = os.fsdecode(b"\xff\xce\xb1.mlir")
    Path(tmp_path, model).write_text(MODEL)
    code = "import sys; from stepwell.tools.compile import main; sys.exit(main())"
    command = [sys.executable, "-c", code, model]
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\udcff" in done.stdout
