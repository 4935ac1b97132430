"""The build backend: setuptools, plus a start hook that wheels and editable installs place beside the package.

setuptools can install files only inside packages, but Python looks for start hooks (`.pth` files) beside them.
"""

from __future__ import annotations

import base64
import hashlib
import os
import warnings
import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

HOOK = Path(__file__).parent / "stepwell-drop-in.pth"


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Builds a wheel that includes the start hook; returns its file name."""
    name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    add_file(Path(wheel_directory, name), HOOK.name, HOOK.read_bytes())
    return name


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Builds a wheel that refers to the checkout and includes the start hook; returns its file name."""
    with warnings.catch_warnings():
        # setuptools warns that a folder called stepwell in the working directory would be imported instead.
        warnings.filterwarnings("ignore", message="Editable installation")
        name = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    add_file(Path(wheel_directory, name), HOOK.name, HOOK.read_bytes())
    return name


def add_file(wheel: Path, name: str, contents: bytes) -> None:
    """Adds a file to a wheel, and to the wheel's RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
    changed = wheel.with_suffix(".tmp")
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as target:
        for info in source.infolist():
            data = source.read(info)
            if info.filename.endswith(".dist-info/RECORD"):
                target.writestr(name, contents)
                data = f"{name},sha256={digest},{len(contents)}\n".encode() + data
            target.writestr(info, data)
    os.replace(changed, wheel)
