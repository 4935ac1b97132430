"""Configuration of the documentation's site: `make docs` builds it from the pages as they are, into build/docs.

The repository's root is the source folder, because pages link to each other and to files of the code by relative paths
that also work in viewers of repositories. `docs/extensions/` has the parts that Sphinx and MyST lack.
"""

import importlib.metadata
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs" / "extensions"))
# The commands whose help the reference shows are beside the interpreter; their help is wrapped at this width.
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
os.environ["COLUMNS"] = "100"

project = "Stepwell"
author = "The Stepwell authors"
release = version = importlib.metadata.version("stepwell")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinxcontrib.programoutput",
    "chapters",
    "docstrings",
    "mlir_lexer",
    "navigation",
    "source_pages",
]
root_doc = "docs/README"
source_suffix = {".md": "markdown", ".py": "markdown"}
include_patterns = ["*.md", "docs/*.md", "docs/reference/*.md", "examples/README.md", "examples/ch*.py"]
# Only these folders have pages; the others need not be searched.
exclude_patterns = [item.name for item in ROOT.iterdir() if item.is_dir() and item.name not in ("docs", "examples")]

nitpicky = True
# Types of other packages, and internal types in annotations, have no page.
nitpick_ignore_regex = [("py:.*", ".*")]

myst_heading_anchors = 4  # as in viewers of repositories
highlight_language = "text"
default_role = "code"

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
napoleon_use_ivar = True
toc_object_entries_show_parents = "hide"
python_display_short_literal_types = True
python_maximum_signature_line_length = 100
add_module_names = False

html_theme = "furo"
html_title = f"Stepwell {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
