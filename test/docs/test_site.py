"""The site of the documentation: it builds without warnings, has no dead links, and its reference is complete."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import urllib.parse
from pathlib import Path
from types import ModuleType

import pytest
import stepwell

ROOT = Path(__file__).parent.parent.parent
REFERENCE = ROOT / "docs" / "reference"
LINK = re.compile(r'(?:href|src)="([^"#:]+)(?:#([^"]*))?"')


def extension(name: str) -> ModuleType:
    """Loads an extension of the site."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / "extensions" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.sweep
@pytest.mark.slow
def test_the_site_has_no_dead_links_and_needs_no_network(tmp_path: Path) -> None:
    """One test, because each worker would build the site anew."""
    site = _built(tmp_path)
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    assert site / "index.html" in pages and len(pages) > 50
    missing = []
    for page, text in pages.items():
        for link, anchor in LINK.findall(text):
            target = (page.parent / urllib.parse.unquote(link.partition("?")[0])).resolve()
            if not target.exists() or (anchor and target in pages and f'id="{anchor}"' not in pages[target]):
                missing.append((page.name, link, anchor))
    assert missing == []
    loads = re.compile(r'<(?:script|img|link)[^>]*(?:src|href)="(?:https?:)?//')
    assert [path.name for path, text in pages.items() if loads.search(text)] == []
    assert "bisect" in (site / "searchindex.js").read_text(encoding="utf-8")


def _built(folder: Path) -> Path:
    """Builds the site."""
    for package in ("sphinx", "myst_parser", "furo", "sphinxcontrib.programoutput"):
        pytest.importorskip(package, reason="the extra `docs` is not installed")
    options = ["--builder=html", "--fail-on-warning", "--keep-going", "--quiet", "--conf-dir=docs"]
    command = [sys.executable, "-m", "sphinx", *options, ".", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_public_names_are_in_the_reference() -> None:
    page = (REFERENCE / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\.\. auto\w+:: (\w+)(?:\(\))?$", page, re.MULTILINE)
    assert sorted(listed) == sorted(set(stepwell.__all__) - {"__version__"})


def test_commands_are_in_the_reference() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    commands = re.findall(r'^([\w-]+) = "stepwell\.[\w.]+:main"$', project, re.MULTILINE)
    page = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    assert len(commands) > 5
    assert [name for name in commands if f"```{{command-output}} {name} --help\n" not in page] == []


def test_chapter_as_a_page() -> None:
    chapters = extension("chapters")
    script = "# %% [markdown]\n# # Title\n#\n# Prose.\n# %%\nprint(1)\n# > 1\n\nprint(2)\n# > 2\n"
    page = chapters.page(script)
    assert page.startswith("# Title\n\nProse.\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n")
    assert chapters.output(script) == "1\n2\n"


def test_index_as_navigation() -> None:
    first = "## First\n\n| [a](a.md) | x |\n| [b](../b.md#c) | y |\n\n"
    index = f"# Title\n\n{first}## Empty\n\ntext\n\n## Last\n\n| [c](../c.py) |\n"
    trees = extension("navigation").toctrees(index, "docs")
    assert re.findall(r":caption: (.*)|^(/.*)$", trees, re.MULTILINE) == [
        ("First", ""),
        ("", "/docs/a"),
        ("Last", ""),
        ("", "/c"),
    ]


def test_docstrings_as_restructured_text() -> None:
    text = extension("docstrings").restructured("See docs/opt.md.\n\n```mlir\n%0 = x\n```\n")
    assert text == "See :doc:`/docs/opt`.\n\n.. code-block:: mlir\n\n   %0 = x\n\n"


def test_lexer_knows_all_characters_of_mlir() -> None:
    lexer = extension("mlir_lexer").MLIRLexer()
    text = '%0 = "a.b"(%x) {c = 1.5e-3 : f32, d = @f} : (tensor<2x?xf32>) -> !a.b<#map> loc("n") // end\n'
    tokens = list(lexer.get_tokens(text))
    assert "".join(value for _, value in tokens) == text
    kinds = {value: str(kind) for kind, value in tokens}
    assert kinds["f32"] == "Token.Keyword.Type" and kinds["%x"] == "Token.Name.Variable"
    assert not [value for kind, value in tokens if "Error" in str(kind)]
