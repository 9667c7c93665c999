"""How the documentation becomes a site: `make docs` builds it into out/site and refuses broken links.

The pages are the Markdown files of this folder, which read well without a site; what Sphinx adds is their
order (in index.md), search, and the Python API from its docstrings.
"""
# ruff: noqa: INP001 - settings, not a package

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import lasthop

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "lasthop"
author = "The lasthop developers"
release = lasthop.__version__
html_title = f"lasthop {release}"
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_static_path: list[str] = []

# The page that `make page` builds stands beside the site where it was built, and all of the site leads to it.
PAGE = Path(lasthop.__file__).parent / "page"
STORIES = json.loads((Path(__file__).parent.parent / "web/src/stories/stories.json").read_text())
templates_path = ["_templates"]
html_context = {
    "page_is_there": (PAGE / "index.html").exists(),
    "stories": [(f"{one['steps'][0]['look']}&story={one['id']}&step=1", one["title"]) for one in STORIES],
}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "in-the-browser.html",
        "sidebar/scroll-end.html",
    ]
}

# Links within a page and to headings of others are those that the headings have on a forge.
myst_heading_anchors = 5
myst_enable_extensions = ["dollarmath"]

# In docstrings a name between single backticks is code, as `help()` shows it.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": False}
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False


def setup(app: Sphinx) -> None:
    """Put the page beside the site."""

    def put(app: Sphinx, error: Exception | None) -> None:
        if error is None and app.builder.format == "html" and html_context["page_is_there"]:
            shutil.copytree(PAGE, Path(app.outdir) / "page", dirs_exist_ok=True)

    app.connect("build-finished", put)
