"""Programs of other packages run unchanged on the drop-in for ONNX Runtime, and print what they do on ONNX Runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODELS = Path(os.environ.get("STEPWELL_TEST_MODELS", "no such folder"))
INSTALL = "import stepwell.compat.onnxruntime as drop_in; drop_in.install()"

FILE_TYPES = r"""
from magika import Magika
contents = [
    b"import os\nprint(os.getcwd())\nfor number in range(3):\n    print(number)\n",
    b"# Title\n\nSome *text* and a [link](http://nowhere.org).\n\n- one\n- two\n",
    b"#include <stdio.h>\nint main(void) { return printf(\"hello\") < 0; }\n",
    b'{"a": [1, 2, 3], "b": {"c": null}}',
]
found = [magika.identify_bytes(content).output for magika in [Magika()] for content in contents]
print(*(item.label for item in found))
"""

CAPTCHA = r"""
import io
from captcha_whisperer import CaptchaRecognizer
from PIL import Image, ImageDraw
image = Image.new("RGB", (160, 60), "white")
for index, letter in enumerate("AB3D"):
    ImageDraw.Draw(image).text((15 + 35 * index, 20), letter, fill="black", font_size=28)
buffer = io.BytesIO()
image.save(buffer, "PNG")
print(CaptchaRecognizer().recognize_bytes(buffer.getvalue())["text"])
"""


def said(program: str, setup: str = "") -> str:
    """Returns the output of a program in a separate process."""
    paths = os.pathsep.join([str(MODELS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", f"{setup}\n{program}"],
        env={**os.environ, "PYTHONPATH": paths, "STEPWELL_CACHE": "0"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("package", "program", "expected"),
    [
        ("magika", FILE_TYPES, "python markdown c json"),
        ("captcha_whisperer", CAPTCHA, "AB3D"),
    ],
)
def test_program_runs_unchanged(package: str, program: str, expected: str) -> None:
    if not (MODELS / package).is_dir():
        pytest.skip("test/requirements-models.txt is not installed")
    assert said(program) == expected, "what it says on ONNX Runtime"
    assert said(program, INSTALL) == expected
