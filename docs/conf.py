"""How the documentation becomes a site: `make docs` builds it into out/site and refuses broken links.

The pages are the Markdown files of this folder, which read well without a site; what Sphinx adds is their
order (in index.md), search, and the Python API from its docstrings.
"""
# ruff: noqa: INP001 - settings, not a package

from __future__ import annotations

import lasthop

project = "lasthop"
author = "The lasthop developers"
release = lasthop.__version__
html_title = f"lasthop {release}"
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_static_path: list[str] = []

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
