"""`lasthop view`: what it shows, what its server answers, and what the page of one file holds."""

import http.client
import json
import re
import signal
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


def test_studies_are_sent_to_what_shows_them(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with pytest.raises(ArgumentError, match="study report"):
        view.given(str(tmp_path))


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
