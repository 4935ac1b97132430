"""Sets up stepwell-runtime with the packages of Stepwell, whose folder is the root of the checkout."""

import sys
from pathlib import Path

from setuptools import setup

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
SETTINGS = PROJECT["tool"]["setuptools"]

setup(
    version=PROJECT["project"]["version"],
    packages=SETTINGS["packages"],
    package_dir={"stepwell": "../.."},
    package_data=SETTINGS["package-data"],
    include_package_data=False,
)
