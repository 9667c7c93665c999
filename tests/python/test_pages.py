"""The site has every public name and no broken link; test_documentation runs what its pages show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lasthop as lh
from lasthop import columns

DOCS = Path(__file__).resolve().parents[2] / "docs"
#: Pages of the site, and how each leads to a story in the page.
STORY = 'page/index.html#scenario=bufferbloat&amp;story=bufferbloat&amp;step=1"'
LINKS = {"index.html": f'href="{STORY}', "how-to/which-help.html": f'href="../{STORY}'}


def test_the_site_has_no_broken_link_and_every_public_name(tmp_path: Path) -> None:
    words = ["--quiet", "--fail-on-warning", "--keep-going", "--builder", "html", str(DOCS), str(tmp_path)]
    made = subprocess.run(
        [sys.executable, "-m", "sphinx", *words], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    described = "".join((tmp_path / "reference" / f"python{of}.html").read_text() for of in ("", "-studies"))
    described += (tmp_path / "reference" / "python-senders.html").read_text()
    public = [getattr(lh, name) for name in lh.__all__ if name not in ("EXAMPLE", "__version__", "studies")]
    public += [getattr(lh.studies, name) for name in lh.studies.__all__]
    missing = [one.__name__ for one in public if f'id="{one.__module__}.{one.__qualname__}"' not in described]
    assert missing == []
    # The page that runs in a browser stands beside the site where it was built.
    page = Path(lh.__file__).parent / "page/index.html"
    links = [href in (tmp_path / name).read_text() for name, href in LINKS.items()]
    assert all(links) if page.exists() else not any(links), links
    assert (tmp_path / "page/index.html").exists() == page.exists()


def test_every_column_stands_on_a_page() -> None:
    """Tables of `results.md`, and of pages of helpers for what they count, have all that is declared."""
    text = "".join(page.read_text() for page in (DOCS / "reference").rglob("*.md"))
    tables = ("runs", "totals", "flows", "links", "history", "flow_series", "link_series", "helper_series")
    for table in (*tables, "hops", "windows", "frames"):
        declared = columns.declared(table).values()
        names = {column.pattern or column.name for column in declared}
        assert sorted(name for name in names if f"| `{name}` |" not in text) == [], table
