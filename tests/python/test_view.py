"""`lasthop view`: what it shows, what its server answers, and what the page of one file holds."""

import base64
import csv
import http.client
import json
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import lasthop as lh
from lasthop import starter, view
from lasthop.errors import ArgumentError, OutputError, ScenarioError
from lasthop.papers import reproduce
from lasthop.papers.library import find_paper, load_paper

ROOT = Path(__file__).parents[2]

SCENARIOS = starter.ready("scenarios")
INDEX = """<!doctype html>
<html><head>
<meta
  http-equiv="Content-Security-Policy"
  content="default-src 'none'"
/>
<script type="module" crossorigin src="./assets/index-1.js"></script>
<link rel="stylesheet" crossorigin href="./assets/style-1.css">
</head><body><div id="page"></div></body></html>
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Return the folder of a page like the built one, which needs Node."""
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "assets" / "index-1.js").write_text("console.log('</script>');\n")
    (folder / "assets" / "style-1.css").write_text("body { color: red }\n")
    (folder / "assets" / "worker-1.js").write_text("self.x = '</script>';\n")
    (folder / "assets" / "engine-1.wasm").write_bytes(b"\0asm")
    return folder


@pytest.fixture
def server(page: Path) -> Iterator[view.Server]:
    with view.Server(page, {"title": "</script><script>alert(1)</script>"}) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(
    server: view.Server, path: str, host: str | None = None, method: str = "GET"
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.server_port}")
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), content


def test_the_server_hands_out_the_page(server: view.Server) -> None:
    status, headers, content = ask(server, f"/{server.token}/")
    assert status == 200
    assert b'id="lasthop-given"' in content
    assert b"alert(1)" in content
    assert b"</script><script>alert" not in content
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert ask(server, f"/{server.token}/", f"localhost:{server.server_port}")[0] == 200
    status, headers, content = ask(server, f"/{server.token}/assets/engine-1.wasm")
    assert (status, headers["Content-Type"], content) == (200, "application/wasm", b"\0asm")
    assert ask(server, f"/{server.token}/", method="HEAD")[2] == b""


def test_the_server_refuses_everybody_else(server: view.Server) -> None:
    good = f"/{server.token}/"
    assert server.server_address[0] == "127.0.0.1"
    for path in ("/", "/wrong/", f"/{server.token}x/", "/../etc/passwd", "//", ""):
        assert ask(server, path or "/")[0] == 403
    for host in ("evil.example", f"evil.example:{server.server_port}", "127.0.0.1", "127.0.0.1:1"):
        assert ask(server, good, host)[0] == 403
    for name in ("../view.py", "..%2fview.py", "/etc/passwd", "assets", "assets/../index.html", "%00"):
        assert ask(server, good + name)[0] == 404
    assert ask(server, f"/{server.token}")[0] == 404
    assert ask(server, good, method="POST")[0] == 501


def test_one_file_holds_everything(page: Path) -> None:
    text = view.single_page(page, {"title": "<b>"})
    assert "src=" not in text
    assert "<link" not in text
    code = re.search(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    assert code is not None
    assert code[1] == "console.log('<\\/script>');\n"
    policy = re.search(r'http-equiv="Content-Security-Policy"\s+content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].count("'sha256-") == 2
    assert "connect-src 'none'" in policy[1]
    engine = re.search(r'id="lasthop-engine">(.*?)</script>', text)
    assert engine is not None
    assert json.loads(engine[1]) == {"worker": "self.x = '</script>';\n", "wasm": "AGFzbQ=="}


def test_without_a_page_it_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="make page"):
        view.check_page(tmp_path)


def test_a_scenario_is_shown_as_it_is_written(tmp_path: Path) -> None:
    shown = view.given("train-ride")
    assert shown is not None
    assert shown["source"]["text"] == SCENARIOS["train-ride"].read_text()
    assert sorted(shown["source"]["files"]) == ["train.down", "train.up"]
    # A mistake in it is for the page to show.
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("duration = [")
    assert view.given(str(wrong))["source"]["text"] == "duration = ["  # type: ignore[index]
    with pytest.raises(ScenarioError, match="there is no such file"):
        view.given(str(tmp_path / "none.toml"))


def test_values_can_be_set() -> None:
    shown = view.given("single-flow", {"flows.0.transport": "vegas"})
    assert shown is not None
    assert tomllib.loads(shown["source"]["text"])["flows"] == [{"transport": "vegas", "start": "0 s"}]
    with pytest.raises(ScenarioError, match=r"--set flows\.0\.transport=vega"):
        view.given("single-flow", {"flows.0.transport": "vega"})
    with pytest.raises(ArgumentError, match="name one"):
        view.given(None, {"seed": "2"})


def test_nothing_from_outside_the_folder_goes_along(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "lab").mkdir()
    scenario = tmp_path / "lab" / "lab.toml"
    scenario.write_text('[[flows]]\ntraffic = { kind = "trace", file = "../secret.txt" }\n')
    assert view.given(str(scenario))["source"]["files"] == {}  # type: ignore[index]


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_scenario_written_as_toml_is_the_same(name: str) -> None:
    scenario = lh.Scenario.load(SCENARIOS[name])
    assert tomllib.loads(view.toml_of(scenario.to_dict())) == scenario.to_dict()


def test_saved_runs_and_comparisons_are_shown_with_their_fingerprints(tmp_path: Path) -> None:
    scenario = lh.Scenario.load(SCENARIOS["single-flow"]).replace({"duration": "3 s"})
    lh.run_seeds(scenario, [1, 2]).save(tmp_path / "run")
    shown = view.given(str(tmp_path / "run"))
    assert shown is not None
    assert (shown["kind"], shown["senders"], shown["seeds"]) == ("run", ["as written"], [1, 2])
    assert sorted(shown["fingerprints"]["as written"]) == ["1", "2"]
    assert tomllib.loads(shown["source"]["text"])["duration"] == "3 s"
    lh.compare(scenario, ["reno", "vegas"], seeds=[1, 2]).save(tmp_path / "compare")
    shown = view.given(str(tmp_path / "compare"))
    assert shown is not None
    assert (shown["kind"], shown["senders"]) == ("comparison", ["reno", "vegas"])
    assert sorted(shown["fingerprints"]) == ["reno", "vegas"]


STUDY = """
name = "tiny"
title = "A tiny study"
scenario = "{scenario}"
seeds = "1-2"
baseline = {{ sender = "reno" }}

[set]
duration = "2 s"

[[axes]]
name = "sender"
key = "flows.0.transport"
values = ["reno", "vegas"]

[[metrics]]
name = "goodput_bit_s"
unit = "Mbit/s"
scale = 1e-6
"""


def test_a_study_goes_along_with_its_table_and_what_its_points_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "tiny.toml"
    file.write_text(STUDY.format(scenario=SCENARIOS["single-flow"]))
    with pytest.raises(ArgumentError, match="has not been run"):
        view.given(str(file))
    lh.studies.run(lh.studies.Study.load(file), tmp_path / "out" / "tiny")
    shown = view.given(str(file))
    assert shown is not None
    assert shown == view.given("out/tiny")
    assert (shown["kind"], shown["title"]) == ("explore", "A tiny study")
    (table,) = shown["tables"]
    assert base64.b64decode(table["parquet"]) == (tmp_path / "out/tiny/results.parquet").read_bytes()
    assert table["about"] == "4 of 4 runs, seeds 1 to 2"
    (study,) = table["studies"]
    assert study["set"] == [["duration", '"2 s"']]
    assert study["axes"][0]["settings"] == [
        [["flows.0.transport", '"reno"']],
        [["flows.0.transport", '"vegas"']],
    ]
    source = shown["sources"][study["source"]]
    assert tomllib.loads(source["text"]) == lh.Scenario.load(SCENARIOS["single-flow"]).to_dict()
    json.dumps(shown)
    with pytest.raises(ArgumentError, match="--set changes a scenario"):
        view.given("out/tiny", {"seed": "2"})
    (tmp_path / "out/tiny/results.parquet").unlink()
    with pytest.raises(OutputError, match=r"results\.parquet"):
        view.given("out/tiny")


@pytest.mark.parametrize("number", ["000", "001", "002", "003"])
def test_a_paper_goes_along_with_its_claims_and_the_studies_of_its_points(
    number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    shown = view.given(f"docs/papers/{number}")
    assert shown is not None
    paper, (table,) = shown["paper"], shown["tables"]
    with (ROOT / "docs/papers" / number / "verdicts.csv").open() as file:
        verdicts = {row["claim"]: row["verdict"] for row in csv.DictReader(file)}
    assert {one["id"]: one["verdict"] for one in paper["claims"]} == verdicts
    assert sum(one["measured"] is not None for one in paper["claims"]) > 0.8 * len(verdicts)
    assert {figure for one in paper["claims"] for figure in one["figures"]} <= {
        one["id"] for one in paper["figures"]
    }
    experiments = load_paper(find_paper(number)).experiments
    for figure in paper["figures"]:
        assert [one["name"] for one in figure["drawn"]] == list(experiments[figure["id"]].drawn)
    # What a point sets makes the scenario that the study of the paper has there.
    known = reproduce.plan(
        load_paper(find_paper(number)),
        reproduce.choose(load_paper(find_paper(number)), None),
        alternatives=True,
    )
    of_paper = {
        json.dumps(study.scenario_of(point).to_dict(), sort_keys=True)
        for studies in known.studies.values()
        for study in studies.values()
        for point in study.points()
    }
    for study in table["studies"][:: max(1, len(table["studies"]) // 6)]:
        source = shown["sources"][study["source"]]
        scenario = lh.Scenario(tomllib.loads(source["text"]), folder=ROOT)
        last = [axis["settings"][-1] for axis in study["axes"]]
        overrides = dict(pair for settings in (study["set"], *last) for pair in settings)
        assert json.dumps(scenario.overridden(overrides).to_dict(), sort_keys=True) in of_paper


def test_what_is_not_there_of_a_paper_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match="'lasthop reproduce 000' makes them"):
        view.given("000")
    with pytest.raises(ScenarioError, match="there is no such file"):
        view.given("999")
    folder = tmp_path / "out/papers/000"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "docs/papers/000/series.parquet", folder)
    with pytest.raises(OutputError, match="cannot read the verdicts"):
        view.given("000")
    (folder / "verdicts.csv").write_bytes(b"claim,verdict\n\xff\xff\n")
    (folder / "report.md").write_text("# Paper\n")
    with pytest.raises(OutputError, match="are damaged"):
        view.given("000")
    (folder / "verdicts.csv").write_text("claim,verdict\n")
    shown = view.given("p000")
    assert shown is not None
    assert {one["verdict"] for one in shown["paper"]["claims"]} == {"not judged yet"}


def test_the_command_ends_with_ctrl_c(tmp_path: Path) -> None:
    if not (view.PAGE / "index.html").is_file():
        pytest.skip("the page is not built: make page")
    command = [sys.executable, "-m", "lasthop", "view", "--no-browser", "single-flow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/\n", process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
    refused = subprocess.run(
        [*command[:3], "view", "--out", str(tmp_path / "page.txt")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "ends in .html" in refused.stderr


def test_wrong_numbers_and_names_of_files_are_no_tracebacks(tmp_path: Path) -> None:
    """A million digits, and letters that are not UTF-8."""
    many, odd = tmp_path / "many.toml", tmp_path / "lab\udcff.toml"
    many.write_text("a = " + "1" * 1_000_000)
    odd.write_text(Path("scenarios/single-flow.toml").read_text())
    assert view._of_scenario(many, {})["source"]["text"].startswith("a = 1")  # noqa: SLF001 - without a page
    json.dumps(view._of_scenario(odd, {}), ensure_ascii=False).encode()  # noqa: SLF001 - without a page


def packet() -> bytes:
    """Return a datagram over IP with its record of a pcap file."""
    sent = bytes.fromhex("4500002000000000401100000a0000010a00000203e803e9000c0000") + b"abcd"
    return struct.pack("<IIII", 1, 0, len(sent), len(sent)) + sent


def test_a_capture_is_handed_out_beside_the_page(page: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101) + packet())
    shown = view.given(str(file))
    assert shown == {"kind": "capture", "name": "a.pcap", "place": str(file)}
    with view.Server(page, shown) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
        try:
            for method, body in (("GET", file.read_bytes()), ("HEAD", b"")):
                connection.request(method, f"/{server.token}/capture")
                answer = connection.getresponse()
                assert (answer.status, answer.read()) == (200, body)
            connection.request("GET", "/wrong/capture")
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (403, b"not for you\n")
            connection.request("GET", f"/{server.token}/")
            text = connection.getresponse().read().decode()
            assert '"file": "capture"' in text
            assert str(tmp_path) not in text
            file.unlink()
            connection.request("GET", f"/{server.token}/capture")
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (404, b"the capture is gone\n")
        finally:
            connection.close()
            server.shutdown()
            thread.join()


def test_a_capture_is_handed_out_while_a_run_writes_it(page: Path, tmp_path: Path) -> None:
    file = tmp_path / "capture.pcapng"

    def fetch(address: str) -> tuple[int, str | None, bytes]:
        host, _, path = address.removeprefix("http://").partition("/")
        connection = http.client.HTTPConnection(host)
        try:
            connection.request("GET", f"/{path}capture")
            answer = connection.getresponse()
            return answer.status, answer.headers[view.GROWS], answer.read()
        finally:
            connection.close()

    ends: list[tuple[int, str | None, bytes]] = []
    with view.watched(file, page) as address:
        assert fetch(address) == (404, "yes", b"no packets yet\n")
        file.write_bytes(b"one")
        assert fetch(address) == (200, "yes", b"one")
        file.write_bytes(b"one and two")

        def follow() -> None:
            while not ends or ends[-1][1] is not None:
                ends.append(fetch(address))

        page_that_follows = threading.Thread(target=follow)
        page_that_follows.start()
    page_that_follows.join()
    # The end of the file is there before the server is gone.
    assert ends[-1] == (200, None, b"one and two")


def test_a_page_of_one_file_holds_a_capture(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101) + packet())
    text = view.single_page(page, view.given(str(file)))
    assert base64.b64encode(file.read_bytes()).decode() in text
    assert str(tmp_path) not in text
    monkeypatch.setattr(view, "LARGEST_CAPTURE", 20)
    with pytest.raises(ArgumentError, match="too large for a page of one file"):
        view.single_page(page, view.given(str(file)))


def test_what_is_no_capture_is_refused_before_there_is_a_page(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_text("duration = 5")
    with pytest.raises(OutputError, match="it begins neither as pcap nor as pcapng does"):
        view.given(str(tmp_path / "a.pcap"))
    # By its content, whatever it is called.
    (tmp_path / "packets").write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
    with pytest.raises(OutputError, match="no packet of TCP or UDP"):
        view.given(str(tmp_path / "packets"))
    with pytest.raises(ArgumentError, match="not a capture"):
        view.given(str(tmp_path / "packets"), {"seed": "2"})
