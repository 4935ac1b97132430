"""Standard streams that are closed, as some services start programs."""

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
