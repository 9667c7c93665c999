"""Every page can be followed, and the site has every public name and no broken link.

A page is followed in a folder of its own, beside the ready scenarios and studies, with the files that its
reader is told to have: its commands and its blocks of Python run in their order. Programs of others, and
commands that stand for something, are passed over.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lasthop as lh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typer.testing import Result

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("tutorial/*.md")), *sorted(DOCS.glob("how-to/*.md"))]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: What is ours to run; what has a test of its own (a paper, the page) or needs a cluster is not.
OURS = re.compile(r"(?:\.venv/bin/)?lasthop ")
ELSEWHERE = re.compile(r"<|reproduce \d|--cluster|lasthop view|--transport reno,turtle")
#: A mistake that a page makes on purpose.
REFUSED = "flows.0.transport=vega"

LAB = """
duration = "20 s"
[history]
clock = "2024-03-04T09:00"
file = "paths.sqlite"
[topology]
kind = "dumbbell"
access = { rate = "100 Mbit/s", delay = "1 ms" }
[topology.bottleneck]
rate = "10 Mbit/s"
delay = "10 ms"
queue = { kind = "drop-tail", limit = "20 packets" }
[channel.error]
kind = "bernoulli"
packet_error_rate = 0.01
[[flows]]
transport = "reno"
"""


def a_lab(folder: Path) -> None:
    """Write a scenario with a history of paths, and a sender in a file beside it."""
    (folder / "lab.toml").write_text(LAB)
    text = (ROOT / "examples" / "reno_in_python.py").read_text()
    (folder / "my.py").write_text(text.replace("Reno", "Mine"))


def a_study(folder: Path) -> None:
    """Write the study that a reader of the page about clusters has already."""
    subprocess.run([sys.executable, "-m", "lasthop", "study", "new"], cwd=folder, check=True)


#: What the reader of a page has before the first command.
HAS: dict[str, Callable[[Path], None]] = {
    "use-a-path-history": a_lab,
    "write-a-sender-in-python": a_lab,
    "run-on-a-cluster": a_study,
}


def steps(page: Path) -> Iterator[tuple[str, str]]:
    """Give the commands and the blocks of Python of a page in their order."""
    for language, body in BLOCK.findall(page.read_text()):
        if language == "python":
            yield "python", body
            continue
        for line in body.replace("\\\n", "").splitlines():
            command = line.removeprefix("$ ")
            if line.startswith("$ ") and OURS.match(command) and not ELSEWHERE.search(command):
                yield "command", OURS.sub("", command, count=1)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_followed(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., Result]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("scenarios", "scripts", "studies", "examples"):
        Path(name).symlink_to(ROOT / name)
    HAS.get(page.stem, lambda _: None)(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    for kind, text in steps(page):
        if kind == "python":
            exec(compile(text, str(page), "exec"), names)  # noqa: S102 - our own pages
            continue
        result = command(*shlex.split(text))
        assert result.exit_code == (2 if REFUSED in text.split() else 0), f"{text}\n{result.output}"


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
