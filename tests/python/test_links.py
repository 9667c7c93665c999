"""Relative links of the pages lead to files that there are, and to headings that these have.

A reader of the repository meets the pages as they stand, without what the site includes.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "_build" not in page.parts]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2", re.MULTILINE | re.DOTALL)
ELSEWHERE = re.compile(r"[a-z]+:")


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them, and those that it sets itself."""
    text = prose(page)
    found: dict[str, int] = {}
    for heading in re.findall(r"^#{1,6} +(.*?)\s*$", text, re.MULTILINE):
        shown = LINK.sub("]", heading).replace("[", "").replace("]", "").lower()
        slug = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    numbered = {f"{slug}-{again}" for slug, count in found.items() for again in range(1, count + 1)}
    labels = re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE)
    ids = re.findall(r'(?:id|name)="([^"]+)"', text)
    return {*found, *numbered, *labels, *ids}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    dead = []
    for link in LINK.findall(re.sub(r"`[^`]*`", "", prose(page))):
        if ELSEWHERE.match(link) or link.startswith("/"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            dead.append(link)
    assert dead == []
