"""Runs `stepwell-apply-tuning` on a file with a table of tuned kernels; only compiles of whole models read a table.

The table is in the form of `stepwell-tune`. Its version of the compiler may be "this".
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.lowering.linalg_to_vector.apply_tuning import ApplyTuningPass
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.passes.infra.state import CompileState
from stepwell.passes.infra.tuning import read_tuning
from stepwell.support.version import VERSION

source, table = map(Path, sys.argv[1:])
record = json.loads(table.read_text())
if record["compiler"] == "this":
    table.write_text(json.dumps({**record, "compiler": VERSION}))
with ir.Context() as context:
    load_dialects(context)
    module = ir.Module.parse(source.read_text())
    state = CompileState(tuning=read_tuning(table))
    Pipeline((ApplyTuningPass(),)).run(module, state=state)
    print(module)
    for remark in state.remarks:
        print(remark, dict(remark.arguments))
