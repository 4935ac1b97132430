"""Makes the drop-in importable under ONNX Runtime's name, including the inner modules that programs import."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_INNER = "onnxruntime.capi"
_BORROWED = ("backend", "datasets", "quantization", "tools", "transformers")
"""ONNX Runtime's pure Python parts, which run on whatever is installed in its place."""


def inner_modules(public: Mapping[str, Any]) -> types.ModuleType:
    """Returns `onnxruntime.capi`, in which programs look up exceptions and classes by their inner names."""
    package = _module(_INNER, is_package=True)
    for name in ("onnxruntime_pybind11_state", "_pybind_state", "onnxruntime_inference_collection"):
        module = _module(f"{_INNER}.{name}")
        vars(module).update(public)
        setattr(package, name, module)
    build = _module(f"{_INNER}.build_and_package_info")
    vars(build).update(package_name="onnxruntime", __version__=public["get_version_string"]())
    validation = _module(f"{_INNER}.onnxruntime_validation")
    vars(validation).update(has_ortmodule=False, package_name="onnxruntime", version=build.__version__, cuda_version="")
    vars(package).update(build_and_package_info=build, onnxruntime_validation=validation)
    return package


def install(here: types.ModuleType, capi: types.ModuleType) -> None:
    """Makes `import onnxruntime` return a module, in this process, and likewise its inner modules.

    Raises:
        RuntimeError: the original onnxruntime has been imported already.
    """
    if sys.modules.get("onnxruntime", here) is not here:
        raise RuntimeError("onnxruntime is imported already: call install() before the first import of it")
    sys.modules["onnxruntime"] = here
    sys.modules[_INNER] = capi
    for name, module in vars(capi).items():
        if isinstance(module, types.ModuleType):
            sys.modules[f"{_INNER}.{name}"] = module
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder(here.__version__))


def borrowed(here: types.ModuleType, name: str) -> types.ModuleType:
    """Imports a pure Python part of ONNX Runtime, for `from onnxruntime import quantization`.

    Raises:
        AttributeError: there is no such part, or the drop-in is not installed as onnxruntime.
    """
    if name in _BORROWED and sys.modules.get("onnxruntime") is here:
        try:
            return importlib.import_module(f"onnxruntime.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"onnxruntime.{name}":
                raise
    raise AttributeError(f"module '{here.__name__}' has no attribute '{name}'", name=name, obj=here)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds ONNX Runtime's pure Python parts if it is installed; supplies its version in any case."""

    def __init__(self, version: str) -> None:
        self._version = version

    def find_spec(
        self, fullname: str, path: Any = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if package != "onnxruntime" or name not in _BORROWED:
            return None
        true = importlib.machinery.PathFinder.find_spec("onnxruntime")
        places = [] if true is None else list(true.submodule_search_locations or [])
        return importlib.machinery.PathFinder.find_spec(fullname, places)

    def find_distributions(self, context: importlib.metadata.DistributionFinder.Context) -> Iterator[_Distribution]:
        """Yields the drop-in's version, after the finders before this one."""
        if context.name in (None, "onnxruntime"):
            yield _Distribution(self._version)


class _Distribution(importlib.metadata.Distribution):
    """The distribution `onnxruntime`, with its version only."""

    def __init__(self, version: str) -> None:
        self._metadata = f"Metadata-Version: 2.1\nName: onnxruntime\nVersion: {version}\n"

    def read_text(self, filename: str) -> str | None:
        return self._metadata if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Path:
        return Path(__file__).parent / path


def _module(name: str, is_package: bool = False) -> types.ModuleType:
    module = types.ModuleType(name, "Inner names of ONNX Runtime that programs import.")
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=is_package)
    if is_package:
        module.__path__ = []
    return module
