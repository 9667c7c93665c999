"""The how-to pages hold: what they quote is the code of the tree, and their examples are scenarios that run.

A Rust block behind `<!-- from FILE -->` stands in that file, line by line. A TOML block behind
`<!-- link -->` holds keys of a link, one behind `<!-- flow -->` keys of a flow. A command behind
`<!-- prints A, B -->` runs and prints these.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lasthop as lh

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.testing import Result

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
QUOTED = re.compile(r"^<!-- from (?P<file>\S+) -->\n```rust\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)
EXAMPLE = re.compile(r"^<!-- (?P<kind>link|flow) -->\n```toml\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(
    r"^<!-- prints (?P<printed>[^\n]*) -->\n```console\n\$ \.venv/bin/lasthop (?P<words>.*?)^```",
    re.DOTALL | re.MULTILINE,
)

#: Two paths from a server to a host; the keys of an example go where `{link}` or `{flow}` stands.
AROUND = """
duration = "12 s"
[topology]
kind = "graph"
nodes = ["server", "core", "old", "new", "host"]
[[topology.links]]
from = "server"
to = "core"
rate = "100 Mbit/s"
delay = "5 ms"
[[topology.links]]
from = "core"
to = "old"
rate = "10 Mbit/s"
delay = "10 ms"
{link}
[[topology.links]]
from = "old"
to = "host"
rate = "5 Mbit/s"
delay = "5 ms"
[[topology.links]]
from = "core"
to = "new"
rate = "10 Mbit/s"
delay = "10 ms"
[[topology.links]]
from = "new"
to = "host"
rate = "5 Mbit/s"
delay = "5 ms"
[[topology.links]]
from = "old"
to = "new"
rate = "10 Mbit/s"
delay = "1 ms"
[[flows]]
source = "server"
sink = "host"
transport = "cubic"
{flow}
"""


def found(pattern: re.Pattern[str]) -> list[pytest.param]:
    """Return page and match of every block that a pattern finds."""
    matches = [
        (page, match) for page in PAGES for match in pattern.finditer(page.read_text(encoding="utf-8"))
    ]
    assert matches
    return [
        pytest.param(match, id=f"{page.stem}-{number}")
        for number, (page, match) in enumerate(matches, start=1)
    ]


@pytest.mark.parametrize("quotation", found(QUOTED))
def test_quoted_code_is_that_of_the_tree(quotation: re.Match[str]) -> None:
    source = (ROOT / quotation["file"]).read_text(encoding="utf-8")
    # Whole lines: a quotation that begins or ends within a line would hide what it leaves out.
    assert "\n" + quotation["code"] in source, f"{quotation['file']} does not have:\n{quotation['code']}"


@pytest.mark.parametrize("example", found(EXAMPLE))
def test_examples_run(example: re.Match[str]) -> None:
    text = AROUND.replace(f"{{{example['kind']}}}", example["text"])
    text = text.replace("{link}", "").replace("{flow}", "")
    run = lh.run(tomllib.loads(text), seed=1)
    assert run.flows["bytes_delivered"].sum() > 0


@pytest.mark.parametrize("example", found(COMMAND))
def test_commands_print_what_the_page_says(
    example: re.Match[str], command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    result = command(*shlex.split(example["words"].replace("\\\n", " ")))
    assert result.exit_code == 0, result.output
    assert [shown for shown in example["printed"].split(", ") if shown not in result.output] == []
