"""The report, the tables and the figures of studies: what they say, and that nothing leaks in or out."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lasthop as lh
from lasthop import studies
from lasthop.studies import Study, digest, report, show
from lasthop.tables import render

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

HOSTILE = "</script><script>alert('x')</script><img src=https://example.org/x.png> & \"co\""
EVIL_NAME = "<b>reno</b>"

CONTENT: dict[str, Any] = {
    "name": "races",
    "title": f"Races {HOSTILE}",
    "scenario": lh.EXAMPLE,
    "seeds": "1-10",
    "baseline": {"proto": EVIL_NAME},
    "axes": [
        {"name": "delay", "label": "delay", "key": "topology.bottleneck.delay", "values": ["10 ms", "40 ms"]},
        {
            "name": "proto",
            "label": "transport",
            "points": [
                {"name": EVIL_NAME, "set": {"flows.0.transport": "reno"}},
                {"name": "vegas", "label": "Vegas", "set": {"flows.0.transport": "vegas"}},
                {"name": "udp", "label": "UDP", "set": {"flows.0.transport": "udp"}},
            ],
        },
        {"name": "env", "points": [{"name": "wired"}, {"name": "wireless"}]},
    ],
    "metrics": [
        "goodput_bit_s",
        {"name": "late", "label": f"late {HOSTILE}", "from": "flows", "field": "delay_p95_s", "unit": "s"},
        {"name": "nothing", "from": "flows", "field": "stall_s"},
    ],
}


def a_study(**changes: Any) -> Study:
    return Study.parse(CONTENT | changes, check=False)


def a_table(seeds: int = 10) -> pl.DataFrame:
    """Return results in which Vegas is better, UDP worse, and one run failed."""
    rows = []
    for place, delay in enumerate(("10 ms", "40 ms"), start=1):
        for step, proto in enumerate((EVIL_NAME, "vegas", "udp")):
            for env in ("wired", "wireless"):
                for seed in range(1, seeds + 1):
                    failed = seeds > 1 and (proto, env, seed, place) == ("udp", "wireless", 2, 1)
                    wild = 40.0 if (proto, env, seed, place) == ("vegas", "wired", 3, 2) else 1.0
                    goodput = (4e6 / place + 1e4 * seed) * (1, 1.2, 0.7)[step] * wild
                    rows.append(
                        {
                            "delay": delay,
                            "proto": proto,
                            "env": env,
                            "seed": seed,
                            "goodput_bit_s": None if failed else goodput,
                            "late": None if failed else 0.01 * place * (1 + step) + 1e-4 * (seed % 3),
                            "nothing": None,
                            "state": "failed" if failed else "done",
                            "error": f"run error: {HOSTILE}\nmore" if failed else None,
                            "run": f"run{len(rows):03}",
                            "fingerprint": f"{len(rows):016x}",
                            "packet_hops": 1000,
                            "wall_s": 0.5,
                            "engine_version": "0.1.0",
                        }
                    )
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col("nothing").cast(pl.Float64))


def a_series() -> pl.DataFrame:
    rows = [
        {"delay": delay, "proto": proto, "env": "wired", "seed": seed, "link": "bottleneck",
         "time_s": 0.1 * step, "queue_packets": float(step % 7 + seed)}
        for delay in ("10 ms", "40 ms") for proto in (EVIL_NAME, "vegas") for seed in (1, 2)
        for step in range(1, 60)
    ]  # fmt: skip
    return pl.DataFrame(rows)


class Page(HTMLParser):
    """What a browser would see of a page: tags with their attributes, text, and scripts apart."""

    VOID = ("meta", "br", "link", "img", "base", "input", "hr")

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self.words: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self._open == [], "elements that are not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of an element."""
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Check that elements are closed in order."""
        assert self._open.pop()[0] == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        """Sort text by the element that it stands in."""
        tag, attributes = self._open[-1] if self._open else ("", {})
        if tag == "script":
            self.scripts.append((attributes, data))
        elif tag == "style":
            self.styles.append(data)
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        """All text, blanks made single."""
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    path = tmp_path_factory.mktemp("report") / "report.html"
    made = digest.make_digest(a_study(), a_table())
    report.write_report(made, path, series={"queue": a_series()}, versions={"Python": "3.11"})
    return Page(path.read_text(encoding="utf-8"))


def test_the_report_refers_to_nothing_outside(page: Page) -> None:
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form", "video", "audio"), tag
        assert not {"src", "srcset", "action", "data", "poster", "background"} & attributes.keys()
        assert (attributes.get("href") or "#").startswith("#")
        assert not any(name.startswith("on") for name in attributes)
    assert not any(re.search(r"url\(|@import", style) for style in page.styles)
    policies = [
        one["content"] for tag, one in page.tags if one.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policies) == 1
    assert (policies[0] or "").startswith("default-src 'none';")


def test_the_report_has_plotly_once_and_a_figure_per_metric(page: Page) -> None:
    assert sum("plotly.js v" in text for _, text in page.scripts) == 1
    figures = {one["data-figure"]: json.loads(text) for one, text in page.scripts if "data-figure" in one}
    assert list(figures) == ["figure-1", "figure-2", "series-1"]
    places = [one["id"] for tag, one in page.tags if tag == "div" and one.get("class") == "figure"]
    assert places == list(figures)
    goodput = figures["figure-1"]
    assert [trace["name"] for trace in goodput["data"][:3]] == ["&lt;b&gt;reno&lt;/b&gt;", "Vegas", "UDP"]
    # A delay is a number, though the study file has it as text.
    assert goodput["data"][0]["x"] == [10.0, 40.0]
    assert goodput["layout"]["xaxis"]["title"]["text"] == "delay (ms)"
    assert len(goodput["data"][0]["error_y"]["array"]) == 2


def test_the_report_escapes_hostile_names(page: Page) -> None:
    assert HOSTILE in page.text
    assert EVIL_NAME in page.text
    assert not any(tag in ("b", "img") for tag, _ in page.tags)
    # Ours: three figures, plotly, and what starts them.
    assert len([tag for tag, _ in page.tags if tag == "script"]) == len(page.scripts) == 5


def test_the_report_says_everything(page: Page) -> None:
    for expected in (
        "goodput",
        "late",
        "No run has a value of this metric.",
        "1 run of 120 failed",
        "run error: ",
        "Vegas: better at 3, no difference shown at 1 of 4 points",
        "UDP: worse at 4 of 4 points",
        "✓ +20..+20 %",
        "† A few seeds decide this mean",
        "delay 40 ms, Vegas",
        "120 runs, 120,000 packet-hops, 60.0 s of computing time.",
        f"{119:016x}",
        "goodput_bit_s, of the run",
        "delay_p95_s, mean over the flows",
        'kind = "dumbbell"',
        "Python",
        "In brackets",
    ):
        assert expected in page.text, expected


def test_tables_of_the_terminal_say_the_same() -> None:
    text = render(show.digest_tables(digest.make_digest(a_study(), a_table(), metrics=["goodput_bit_s"])))
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "env delay <b>reno</b> Vegas UDP" in rows
    assert "wired 10 ms 4.05 ± 0.02 4.87 ± 0.03 2.84 ± 0.02" in rows
    assert "wireless 10 ms ✓ +20..+20 % ✗ -30..-30 %" in rows
    assert "UDP: worse at 4 of 4 points" in rows
    assert "1 of 120 runs failed:" in rows
    assert any(row.startswith("† env wired, delay 40 ms, Vegas: 10 seeds; sd") for row in rows)
    assert any(row.startswith("‡ env wired, delay 40 ms, Vegas: no difference shown") for row in rows)


def test_one_seed_has_no_intervals_and_says_so() -> None:
    made = digest.make_digest(a_study(), a_table(seeds=1), metrics=["goodput_bit_s"])
    text = render(show.digest_tables(made))
    assert "±" not in text
    assert "One seed has no intervals and shows no difference: use more seeds." in text
    page = Page(report.report_html(made))
    assert "There is one seed per point: no intervals" in page.text
    assert "12 of 120 runs are there" in page.text


def test_a_part_may_be_looked_at_and_another_baseline_taken() -> None:
    made = digest.make_digest(
        a_study(), a_table(), metrics=["late"], baseline={"proto": "UDP"}, where={"env": "wired"}
    )
    assert (made.x, made.lines, made.panels) == ("delay", "proto", [])
    assert (made.baseline, made.chosen_text) == ({"proto": "udp"}, "wired")
    assert made.differences is not None
    assert made.differences["baseline"].unique().to_list() == ["proto=udp"]
    content = json.loads(json.dumps(made.to_dict()))
    assert [one["name"] for one in content["metrics"]] == ["late"]
    assert len(content["summary"]) == 6
    assert len(content["differences"]) == 4


def test_axes_are_laid_out_as_wished() -> None:
    made = digest.make_digest(a_study(), a_table(), x="proto", lines="delay")
    assert (made.x, made.lines, made.panels) == ("proto", "delay", ["env"])
    assert made.chart(made.metrics[0]).categories == [EVIL_NAME, "Vegas", "UDP"]


def test_a_study_without_axes_is_one_point(tmp_path: Path) -> None:
    study = a_study(axes=[], baseline={})
    table = a_table().filter(delay="10 ms", proto="vegas", env="wired").drop("delay", "proto", "env")
    made = digest.make_digest(study, table)
    assert "4.87 ± 0.03" in render(show.digest_tables(made))
    made = digest.make_digest(study, table, metrics=["goodput_bit_s"])
    (path,) = show.write_figures(made, tmp_path / "goodput.svg")
    assert path.read_text().startswith("<?xml")


def test_figures_are_one_file_per_metric_and_series(tmp_path: Path) -> None:
    made = digest.make_digest(a_study(), a_table(), where={"env": "wired"})
    written = show.write_figures(made, tmp_path / "new" / "figures", series={"queue": a_series()})
    names = ["goodput_bit_s.png", "late.png", "queue-queue_packets.png"]
    assert [path.name for path in written] == sorted(
        path.name for path in (tmp_path / "new" / "figures").iterdir()
    )
    assert [path.name for path in written] == names


def message(call: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(lh.ArgumentError) as caught:
        call(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"metrics": ["god_put_bit_s"]}, "unknown metric 'god_put_bit_s': did you mean 'goodput_bit_s'?"),
        ({"x": "protto"}, "unknown axis 'protto': did you mean 'proto'?"),
        ({"where": {"enf": "wired"}}, "unknown axis 'enf': did you mean 'env'?"),
        (
            {"baseline": {"proto": "vega"}},
            "--baseline proto=vega: did you mean 'vegas'? proto is one of <b>reno</b>, vegas, udp",
        ),
        ({"x": "env", "lines": "env"}, "axis 'env' cannot be both along x and the lines: choose two axes"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(options: dict[str, Any], expected: str) -> None:
    assert message(digest.make_digest, a_study(), a_table(), **options).startswith(expected)


def test_nothing_to_look_at_is_refused() -> None:
    table = a_table()
    assert message(digest.make_digest, a_study(), table.clear()) == (
        "nothing to look at: no run has finished; 'lasthop study run FILE' makes them"
    )
    failed = table.with_columns(state=pl.lit("failed"), error=pl.lit("run error: too many events\nat 3 s"))
    assert message(digest.make_digest, a_study(), failed) == (
        "nothing to look at: all 120 runs failed, the first with: run error: too many events"
    )
    wired = table.filter(env="wired")
    assert message(digest.make_digest, a_study(), wired, where={"env": "wireless"}) == (
        "nothing to look at: no run has env=wireless yet"
    )


def test_files_that_do_not_fit_are_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    made = digest.make_digest(a_study(), a_table(), where={"env": "wired"})
    one = digest.make_digest(a_study(), a_table(), where={"env": "wired"}, metrics=["late"])
    nothing = digest.make_digest(a_study(), a_table(), metrics=["nothing"])
    file = tmp_path / "a.png"
    assert message(show.write_figures, made, file) == (
        f"'{file}' is one file, and there are 2 figures: name one with --metric, or give --out a folder"
    )
    assert message(show.write_figures, one, file, "svg") == (
        f"'{file}' does not end in .svg: leave out --format, or rename the file"
    )
    assert message(show.write_figures, one, tmp_path, "gif") == (
        "unknown format 'gif': use one of png, svg, pdf, html"
    )
    assert message(show.write_figures, nothing, tmp_path) == "nothing to draw: no run has a value of nothing"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", ["proto", "=reno", "proto="])
def test_places_need_an_axis_and_a_value(word: str) -> None:
    assert message(show.parse_places, "--where", [word]) == (
        f"bad --where {word!r}: write AXIS=VALUE, such as proto=reno"
    )
    assert message(show.parse_places, "--where", ["a=1", "a=2"]) == "--where names 'a' twice: give one value"


# As a user types them, on a small study that really ran.

TINY: dict[str, Any] = {
    "name": "tiny",
    "title": "Two senders",
    "scenario": {
        "duration": "2 s",
        "topology": {
            "kind": "dumbbell",
            "bottleneck": {
                "rate": "2 Mbit/s",
                "delay": "20 ms",
                "queue": {"kind": "drop-tail", "limit": "20 packets"},
            },
            "access": {"rate": "4 Mbit/s", "delay": "5 ms"},
        },
        "channel": {"error": {"kind": "bernoulli", "packet_error_rate": 0.01}},
        "flows": [{"count": 2, "transport": "reno"}],
    },
    "seeds": "1-3",
    "baseline": {"sender": "reno"},
    "keep": [{"table": "link_series", "links": ["bottleneck"], "columns": ["time_s", "queue_packets"]}],
    "axes": [
        {"name": "n", "label": "flows", "key": "flows.0.count", "values": [1, 4]},
        {"name": "sender", "key": "flows.0.transport", "values": ["reno", "vegas"]},
    ],
    "metrics": ["goodput_bit_s", "jain_index"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "tiny"
    studies.run(studies.Study.parse(TINY), path, jobs=1)
    return path


def test_show_prints_means_and_differences(command: Callable[..., Result], folder: Path) -> None:
    result = command("study", "show", folder, "--metric", "goodput_bit_s")
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "Two senders  3 seeds per point\n\ngoodput  Mbit/s  mean ± 95 % interval\n"
    )
    assert "difference from reno" in result.stdout
    assert "vegas: " in result.stdout


def test_json_has_every_estimate(command: Callable[..., Result], folder: Path) -> None:
    content = json.loads(command("study", "show", folder, "--json", "--baseline", "sender=vegas").stdout)
    assert len(content["summary"]) == 2 * 2 * 2
    assert {one["baseline"] for one in content["differences"]} == {"sender=vegas"}
    assert content["versions"]["engine_version"]
    assert content["failed"] == []


def test_figures_lie_in_the_folder_and_the_page_too(command: Callable[..., Result], folder: Path) -> None:
    result = command("study", "plot", folder)
    names = ["goodput_bit_s.png", "jain_index.png", "link_series-queue_packets.png"]
    assert result.stdout.splitlines() == [f"written: {folder / 'figures' / name}" for name in names]
    assert all((folder / "figures" / name).stat().st_size > 5000 for name in names)
    assert command("study", "report", folder).stdout == f"written: {folder / 'report.html'}\n"
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    assert "12 runs, " in page.text
    assert [one["data-figure"] for one, _ in page.scripts if "data-figure" in one] == [
        "figure-1",
        "figure-2",
        "series-1",
    ]


def test_one_figure_may_be_a_file(command: Callable[..., Result], folder: Path, tmp_path: Path) -> None:
    for arguments in (
        ["--metric", "jain_index", "--x", "sender"],
        ["--series", "link_series", "--seed", "2"],
    ):
        path = tmp_path / "one.svg"
        assert command("study", "plot", folder, *arguments, "--out", path).exit_code == 0
        assert path.read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["show", "DIR", "--metric", "godput_bit_s"],
            "unknown metric 'godput_bit_s': did you mean 'goodput_bit_s'?",
        ),
        (["plot", "DIR", "--x", "senders"], "unknown axis 'senders': did you mean 'sender'?"),
        (["plot", "DIR", "--series", "flows", "--seed", "9"], "nothing to draw"),
        (
            ["plot", "DIR", "--series", "queue"],
            "the study keeps no 'queue': it keeps flows, links, link_series",
        ),
        (
            ["plot", "DIR", "--series", "link_series", "--seed", "9"],
            "the series has no seed 9: it has 1, 2, 3",
        ),
        (["plot", "DIR", "--format", "gif"], "unknown format 'gif': use one of png, svg, pdf, html"),
        (["report", "DIR", "--out", "DIR/nowhere/report.html"], "cannot write"),
        (
            ["show", "DIR", "--baseline", "reno"],
            "bad --baseline 'reno': write AXIS=VALUE, such as proto=reno",
        ),
        (["show", "DIR/nowhere"], "no study at"),
        (["report", "DIR/runs"], "no study at"),
    ],
)
def test_mistakes_exit_with_two_and_one_message(
    command: Callable[..., Result], folder: Path, arguments: list[str], expected: str
) -> None:
    before = sorted(folder.rglob("*"))
    result = command("study", *(word.replace("DIR", str(folder)) for word in arguments))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {expected}")
    assert sorted(folder.rglob("*")) == before
