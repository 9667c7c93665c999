"""Writes docs/papers/README.md from the reports that lie beside it: `make paper-report` calls it."""

from __future__ import annotations

from pathlib import Path

from lasthop.papers import library, overview

ROOT = Path(__file__).resolve().parents[1] / "docs" / "papers"


def main() -> None:
    """Write the page."""
    papers = [library.load_paper(folder) for folder in library.paper_folders()]
    print(overview.write(papers, {paper.number: ROOT / paper.number for paper in papers}, ROOT))


if __name__ == "__main__":
    main()
