"""What a folder holds after a trial of `driver.py`: a text that is the same for the same results.

What cannot be read is an exception, and fails the test.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path

import lasthop as lh
from lasthop import history, saved, seals
from lasthop.studies import folder as folders
from lasthop.studies.store import Store

#: Of a run: how long it took differs.
TIMES = ("wall_s", "set_up_s")


def _told(name: str, content: object) -> str:
    return f"{name} {hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]}"


def run() -> str:
    if not Path("out/result.json").exists():
        return "none"
    runs = lh.load_runs("out")
    rows = [one.table(name).height for one in runs for name in ("flow_series", "hops")]
    saved.check_saved("out")
    return _told(
        f"seeds {runs.seeds}", [rows, [one.record["fingerprint"] for one in runs], sorted(_files("out"))]
    )


def comparison() -> str:
    if not Path("out/comparison.json").exists():
        return "none"
    saved.check_saved("out")
    return f"seeds {saved.load_comparison('out').seeds}"


def study() -> str:
    place = Path("out/s")
    runs = Store(place).runs(["run", "fingerprint"]) if place.exists() else None
    count = 0 if runs is None else len(set(runs["run"]))
    if (place / "results.parquet").exists():
        result = folders.load(place)
        assert result.done == result.rows.height
        assert set(result.rows["run"]) <= set(runs["run"])
    return "whole" if count == 4 and (place / "results.parquet").exists() else "part"


def text() -> str:
    path = Path("out.file")
    if not path.exists():
        return "none"
    content = path.read_bytes()
    whole = content[:9] == b"old text\n" or content.rstrip().endswith((b"</html>", b"IEND\xaeB`\x82"))
    return ("old" if content == b"old text\n" else "new") if whole else "half"


def picture() -> str:
    path = Path("out.png")
    if not path.exists():
        return "none"
    return "new" if path.read_bytes().endswith(b"IEND\xaeB`\x82") else "half"


def reproduction() -> str:
    """Return what was judged; of a folder with verdicts.json every file is there and says the same."""
    from lasthop.papers import library, summary

    place = Path("out")
    if not (place / "verdicts.json").exists():
        return "part"
    told = {
        one["claim"]: one["verdict"]
        for one in json.loads((place / "verdicts.json").read_text(encoding="utf-8"))["claims"]
    }
    assert told == summary.read_verdicts(place / "verdicts.csv")
    paper = library.load_paper(library.find_paper("004"))
    again = summary.judged_again(paper, place / summary.SERIES)
    assert told == {one.claim.id: one.verdict.value for one in again if one.claim.id in told}
    assert json.loads((place / "charts.json").read_text(encoding="utf-8"))
    pictures = [one.read_bytes().endswith(b"IEND\xaeB`\x82") for one in (place / "figures").glob("*.png")]
    assert pictures
    assert all(pictures)
    assert (place / "report.md").read_text(encoding="utf-8").endswith("\n")
    return _told("verdicts", told)


def archive() -> str:
    from lasthop.bundle import unbundle

    path = Path("b.zip")
    if not path.exists():
        return "none"
    with tempfile.TemporaryDirectory(dir="..") as folder:
        return f"{len(unbundle(path, folder))} files"


def unpacked() -> str:
    return (
        _told("files", {name: seals.digest_of(Path(name)) for name in _files("b")})
        if Path("b").exists()
        else "none"
    )


def windows() -> str:
    return f"{len(history.read_if_any('h.db'))} rows"


def starters() -> str:
    return str(sorted(name for name in _files(".") if name.startswith("lab")))


def _files(folder: str) -> list[str]:
    """Return the files, without what is not finished, which the next call takes away."""
    found = [one for one in sorted(Path(folder).rglob("*")) if one.is_file()]
    return [str(one) for one in found if not any(part.startswith(".") for part in one.parts)]
