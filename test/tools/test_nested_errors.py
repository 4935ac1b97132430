"""Errors in nested modules, which MLIR would report from several threads at once."""

from __future__ import annotations

import subprocess
import sys

NESTED = """
module {
  module @first {
    func.func @f() -> i32 { %0 = arith.constant 1 : i64 return %0 : i64 }
    func.func @g() -> i32 { return }
  }
  module @second {
    func.func @f() -> i32 { return }
    func.func @g() -> i32 { return }
  }
}
"""


def test_errors_in_several_modules_are_all_reported(tmp_path):
    """Without the fix, the reporting threads waited for each other without end."""
    path = tmp_path / "nested.mlir"
    path.write_text(NESTED)
    command = [sys.executable, "-m", "stepwell.tools.opt", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr.count("error: ") == 4
