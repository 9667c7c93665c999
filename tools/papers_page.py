"""Writes what is said of the five papers together; `make paper-report` calls it.

From the reports in docs/papers it makes docs/papers/README.md, and docs/explanation/what-the-papers-teach.md
with its figures.
"""

from __future__ import annotations

from pathlib import Path

import papers_figures

from lasthop.files import write_text
from lasthop.papers import library, overview, teaching

ROOT = Path(__file__).resolve().parents[1] / "docs" / "papers"
EXPLANATION = ROOT.parent / "explanation"


def main() -> None:
    """Write the pages."""
    papers = [library.load_paper(folder) for folder in library.paper_folders()]
    folders = {paper.number: ROOT / paper.number for paper in papers}
    evidence = teaching.Evidence(papers, folders)
    page = EXPLANATION / teaching.PAGE
    write_text(page, teaching.page(evidence))
    for written in (page, *papers_figures.write(evidence, EXPLANATION / "papers")):
        print(written)
    print(overview.write(papers, folders, ROOT))


if __name__ == "__main__":
    main()
