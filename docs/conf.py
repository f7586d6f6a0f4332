"""How Sphinx makes a site of the pages here and of those at the root: `make docs`.

The pages are plain Markdown and can be read as they are; only `index.md` has directives. The source
of the site is the root of the repository, so that a link from one page to another means here what
it means there.
"""

from __future__ import annotations

import shutil
from importlib.metadata import version as installed
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent
FIRST = """<!doctype html>
<meta charset="utf-8">
<title>recorder</title>
<meta http-equiv="refresh" content="0; url=docs/index.html">
<a href="docs/index.html">recorder</a>
"""

project = "recorder"
author = "the authors of recorder"
version = release = installed("sse-recorder")

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["docs/**", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
# Folders that may have a hundred thousand files, and none of these pages: Sphinx walks through all
# others.
exclude_patterns = [
    ".*",
    "build",
    "dist",
    "recorder",
    "tests",
    "benchmarks",
    "migrations",
    "**/__pycache__",
]
# so that page.md#a-heading leads where it leads on the site of a repository
myst_heading_anchors = 5
smartquotes = False  # an option keeps its two hyphens
nitpicky = True
# dialects of SQL that Pygments does not know are shown as they are
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = "recorder"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False


def _finish(app: Sphinx, failed: Exception | None) -> None:
    """Add what only HTML in a page names, pictures and a session, and the page that leads to the
    first one.
    """
    if failed is not None or app.builder.format != "html":
        return
    (app.outdir / "index.html").write_text(FIRST)
    for file in (
        path for kind in ("svg", "webp", "html") for path in (ROOT / "docs").rglob(f"*.{kind}")
    ):
        target = app.outdir / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def setup(app: Sphinx) -> None:
    """Register what is done at the end."""
    app.connect("build-finished", _finish)
