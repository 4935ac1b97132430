"""Reads a picture with unmodified RapidOCR on Stepwell in place of ONNX Runtime; then repeats it on ONNX Runtime.

RapidOCR runs three PP-OCRv4 models: one finds lines of text, one detects upside-down lines, one reads them. It imports
the module `onnxruntime`, which `stepwell.compat.onnxruntime.install()` replaces by Stepwell. Each system runs in a
process of its own, Stepwell in two: one with an empty cache, one that reuses the code that the first compiled.

    python examples/ocr_demo.py [--threads N] [--output FILE.png]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

# The spaces are wide enough for RapidOCR to separate the words.
TEXT = (
    ("Down the steps of a well", 44, 0.0),
    ("A  model  goes  down  eight  levels", 36, 0.0),
    ("import   graph   kernels   vector   memref", 28, 0.0),
    ("Chapter 7 of 12, page 2026", 36, 0.0),
    ("The quick brown fox jumps over the lazy dog", 30, 1.5),
    ("Read  at  an  angle", 40, -2.0),
)
MODELS = {"det": "find lines", "cls": "upside down?", "rec": "read lines"}
PASSES = 7


@dataclass
class Reading:
    """The result and times of one system.

    Attributes:
        lines: the corners, text and confidence of every line.
        first: per model, seconds until the first picture was read: opening, compiling and running.
        run: per model, median seconds of each further picture.
    """

    lines: list[tuple[list[list[float]], str, float]]
    first: dict[str, float]
    run: dict[str, float]


def main() -> int:
    """Runs the demonstration. Exit code 1: the two systems read different texts; 2: a package is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="threads of each system (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("build/ocr_demo.png"), help="default: %(default)s")
    parser.add_argument("--read", choices=("stepwell", "onnxruntime"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read is not None:
        json.dump(vars(read(draw(), options.read, options.threads)), sys.stdout)
        return 0
    missing = missing_packages()
    if missing:
        print(missing, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="stepwell-demo-") as cache, Console(stderr=True).status("") as status:
        status.update("compiling the models and reading the picture")
        (cold,) = read_apart(["stepwell"], options.threads, cache, passes=0)
        status.update("reading the picture again, on Stepwell and ONNX Runtime alternately")
        cached, peer = read_apart(["stepwell", "onnxruntime"], options.threads, cache, PASSES)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    draw_boxes(draw(), cached, options.output)
    report(cold, cached, peer, options)
    return 0 if [line[1] for line in cached.lines] == [line[1] for line in peer.lines] else 1


def missing_packages() -> str:
    """Returns how to install missing packages of the demonstration; empty if none are missing."""
    try:
        for name in ("PIL", "onnxruntime", "cv2", "rapidocr_onnxruntime"):
            importlib.import_module(name)
    except ModuleNotFoundError as error:
        lines = [f"ocr_demo: the package {error.name} is missing. In the checkout, run", "    pip install '.[demo]'"]
        if sys.version_info >= (3, 13):
            # Its metadata requires an older Python, but it runs.
            lines += ["    pip install --no-deps --ignore-requires-python rapidocr-onnxruntime==1.4.4"]
        return "\n".join(lines)
    except ImportError as error:
        return (
            f"ocr_demo: OpenCV cannot be loaded: {error}. Try the variant of OpenCV that needs no display:\n"
            "    pip install --force-reinstall --no-deps opencv-python-headless"
        )
    return ""


def draw() -> np.ndarray:
    """Draws the picture, in RGB: the same on every machine, because the font comes with Pillow."""
    from PIL import Image, ImageDraw, ImageFont

    page = Image.new("RGB", (700, 560), (250, 248, 240))
    y = 20
    for text, size, angle in TEXT:
        line = Image.new("RGBA", (640, size * 2), (0, 0, 0, 0))
        ImageDraw.Draw(line).text((4, size // 3), text, (25, 30, 60), ImageFont.load_default(size))
        rotated = line.rotate(angle, Image.Resampling.BICUBIC, expand=True)
        page.paste(rotated, (30, y), rotated)
        y += rotated.height
    return np.asarray(page)


def draw_boxes(picture: np.ndarray, reading: Reading, path: Path) -> None:
    """Writes the picture with a box around every line and the recognised text above it."""
    from PIL import Image, ImageDraw, ImageFont

    page = Image.fromarray(picture)
    pen = ImageDraw.Draw(page)
    for corners, text, confidence in reading.lines:
        outline = [tuple(corner) for corner in corners]
        pen.polygon(outline, outline=(200, 40, 40), width=2)
        pen.text(
            (outline[0][0], outline[0][1] - 13), f"{text} ({confidence:.2f})", (20, 110, 60), ImageFont.load_default(11)
        )
    page.save(path)


def read_apart(systems: list[str], threads: int, cache: str, passes: int) -> list[Reading]:
    """Reads the picture on each system in a process of its own; after the first reading they take turns.

    Raises:
        SystemExit: a process failed.
    """
    environment = {**os.environ, "STEPWELL_CACHE_DIR": cache}
    command = [sys.executable, __file__, "--threads", str(threads), "--read"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    processes = [subprocess.Popen([*command, system], env=environment, **pipes) for system in systems]
    for number in range(passes + 1):
        for process in processes:
            # One at a time: another process would disturb the timing.
            print(number, file=process.stdin, flush=True)
            assert process.stdout is not None
            process.stdout.readline()
    readings = []
    for system, process in zip(systems, processes, strict=True):
        output, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"ocr_demo: reading the picture on {system} failed")
        readings.append(Reading(**json.loads(output)))
    return readings


def read(picture: np.ndarray, system: str, threads: int) -> Reading:
    """Reads the picture with RapidOCR on one system, in this process, once for every line on stdin."""
    sys.stdin.readline()
    if system == "stepwell":
        import stepwell.compat.onnxruntime as drop_in

        drop_in.install()
    first, runs = time_sessions()
    from rapidocr_onnxruntime import RapidOCR

    reader = RapidOCR(intra_op_num_threads=threads)
    while True:
        for times in runs.values():
            times.append(0.0)
        lines, _ = reader(picture[:, :, ::-1])  # RapidOCR expects OpenCV's order of colours: BGR
        print("done", flush=True)
        if not sys.stdin.readline():
            break
    return Reading(
        lines=[(corners, text, float(confidence)) for corners, text, confidence in lines or []],
        first={model: first[model] + runs[model][0] for model in MODELS},
        run={model: statistics.median(runs[model][1:] or runs[model]) for model in MODELS},
    )


def time_sessions() -> tuple[dict[str, float], dict[str, list[float]]]:
    """Replaces `onnxruntime.InferenceSession`, of either system, by a class that measures its time.

    Returns:
        The seconds each model took to open, and the seconds of its runs; each run adds to the last entry.
    """
    import onnxruntime

    opened: dict[str, float] = defaultdict(float)
    ran: dict[str, list[float]] = {model: [] for model in MODELS}

    class TimedSession(onnxruntime.InferenceSession):
        def __init__(self, path, *args, **kwargs):
            start = time.perf_counter()
            super().__init__(path, *args, **kwargs)
            self.model = next(model for model in MODELS if f"_{model}_" in Path(path).name)
            opened[self.model] += time.perf_counter() - start

        def run(self, *args, **kwargs):
            start = time.perf_counter()
            outputs = super().run(*args, **kwargs)
            ran[self.model][-1] += time.perf_counter() - start
            return outputs

    onnxruntime.InferenceSession = TimedSession
    return opened, ran


def report(cold: Reading, cached: Reading, peer: Reading, options: argparse.Namespace) -> None:
    """Prints the recognised text and the times."""
    console = Console(width=None if sys.stdout.isatty() else 80, highlight=False)
    drawn = {" ".join(text.split()) for text, _, _ in TEXT}
    there = {text for _, text, _ in peer.lines}
    lines = Table(title="What was read", title_justify="left", box=None, pad_edge=False)
    lines.add_column("text")
    for title in ("as drawn", "as by ORT", "confidence"):
        lines.add_column(title, justify="right")
    for _, text, confidence in cached.lines:
        lines.add_row(text, mark(text in drawn), mark(text in there), f"{confidence:.4f}")
    console.print(lines, "")
    times = Table(title="Milliseconds, Stepwell / ORT", title_justify="left", box=None, pad_edge=False)
    times.add_column("model")
    for title in ("first, compiled", "first, cached", "then", "ratio"):
        times.add_column(title, justify="right", no_wrap=True)
    for model, purpose in MODELS.items():
        times.add_row(
            purpose,
            f"{cold.first[model] * 1e3:.0f}",
            f"{cached.first[model] * 1e3:.0f} / {peer.first[model] * 1e3:.0f}",
            f"{cached.run[model] * 1e3:.1f} / {peer.run[model] * 1e3:.1f}",
            f"{cached.run[model] / peer.run[model]:.2f}",
        )
    console.print(times, "")
    console.print(
        "first: until the first picture was read; then: each picture. ORT: ONNX Runtime.\n"
        f"Threads: {options.threads}. The boxes are drawn in {options.output}."
    )


def mark(is_right: bool) -> str:
    """Returns a table cell for whether a result is correct."""
    return "yes" if is_right else "[red]no[/red]"


if __name__ == "__main__":
    sys.exit(main())
