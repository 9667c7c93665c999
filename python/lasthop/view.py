"""`lasthop view`: shows runs, studies, papers and scenarios in the browser, from a server or as one file.

The page is built by ``make page`` into ``lasthop/page``, which wheels carry. The server listens on 127.0.0.1
alone, answers only requests with its token and its own name, and hands out the page and nothing
else: what is to be shown is a part of it, but for a capture, which is handed out beside it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import mimetypes
import re
import secrets
import sys
import threading
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from lasthop import starter
from lasthop.captured import Captured, is_capture
from lasthop.comparison import Axes
from lasthop.errors import ArgumentError, OutputError, ScenarioError
from lasthop.files import reason_of
from lasthop.places import kind_of
from lasthop.saved import load_comparison, load_runs
from lasthop.scenario_text import files_of, toml_of
from lasthop.stand_ins import unexecuted
from lasthop.syntax import toml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: The built page.
PAGE = Path(__file__).parent / "page"
#: More than the engine reads of a scenario, so that the page says what is wrong with a longer one.
LONGEST_TEXT = 2 << 20
#: The name of a capture beside the page, and the most that a page of one file holds of one.
CAPTURE = "capture"
#: How names of logs of stacks end.
QLOG = (".qlog", ".sqlog")
LARGEST_CAPTURE = 32 << 20
#: The header by which the page learns that a capture is still being written.
GROWS = "Lasthop-Growing"
#: How long the page has to fetch what a run has added at its end, in seconds.
LAST_LOOK_S = 3.0
#: Bytes of a file that are handed out at a time.
PIECE = 1 << 20
ADDRESS = "127.0.0.1"
#: Open at once, and how long one may say nothing, in seconds: a browser keeps six.
CONNECTIONS_MAX = 32
IDLE_S = 10.0
#: The page's name for the senders that a scenario has itself.
AS_WRITTEN = "as written"
POLICY = (
    "default-src 'none'; script-src {script} 'wasm-unsafe-eval'; worker-src {worker}; "
    "connect-src {connect}; style-src {style}; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


def given(place: str | None, settings: Mapping[str, str] | None = None) -> dict[str, Any] | None:
    """Return what the page is to show first; `None` for nothing in particular.

    Parameters
    ----------
    place : str or None
        Folder of a run, a comparison, a study or a reproduced paper; a scenario or study file; a capture; a
        qlog; the name of a ready scenario; the number of a paper that was reproduced below this folder.
    settings : mapping, optional
        Values to set in the scenario, as with ``--set``.
    """
    if place is None:
        if settings:
            raise ArgumentError("--set changes a scenario: name one")
        return None
    path = Path(place)
    if is_capture(path) or (path.is_file() and path.suffix.lower() in QLOG):
        if settings:
            raise ArgumentError("--set changes a scenario: it needs a scenario file, not a capture")
        return _of_capture(path)
    explored = _explored(place, path)
    if path.is_dir() or explored is not None:
        if settings:
            raise ArgumentError("--set changes a scenario: it needs a scenario file, not a folder of results")
        return explored or _of_folder(path)
    ready = starter.ready("scenarios")
    if not path.exists() and place in ready:
        path = ready[place]
    return _of_scenario(path, settings or {})


def _explored(place: str, path: Path) -> dict[str, Any] | None:
    """Return a study or a reproduced paper; `None` if the place is neither."""
    from lasthop import explore

    sources = explore.Sources()
    paper = explore.paper_of(place, path)
    if paper is not None:
        found = explore.of_paper(*paper, sources)
    elif path.is_dir() and kind_of(path) == "study":
        found = explore.of_studies(path, sources)
    elif path.is_file() and (folder := explore.folder_of_study(path)) is not None:
        found = explore.of_studies(folder, sources)
    else:
        return None
    return {"kind": "explore", "sources": sources.listed, **found}


def _of_capture(path: Path) -> dict[str, Any]:
    """Return a capture or a log of a stack; the page reads it itself, and what is wrong is said before."""
    if path.suffix.lower() in QLOG:
        _check_qlog(path)
    else:
        Captured(path)
    return {"kind": "capture", "name": _letters(path.name), "place": str(path)}


def _check_qlog(path: Path) -> None:
    """Refuse what does not begin like a qlog."""
    try:
        with path.open("rb") as file:
            begins = file.read(PIECE)
    except OSError as error:
        raise OutputError(f"cannot read the log '{path}': {reason_of(error)}") from None
    if b'"qlog_' not in begins and b'"file_schema"' not in begins:
        raise OutputError(
            f"cannot read the log '{path}': it does not begin with qlog_version; a qlog is JSON, or "
            "records of JSON, as QUIC stacks and 'lasthop run --qlog' write it"
        )


def _of_folder(path: Path) -> dict[str, Any]:
    kind = kind_of(path)
    if kind == "reproduction":
        raise ArgumentError(f"'{path}' holds a paper that this lasthop does not have: its report.md shows it")
    if kind == "comparison":
        comparison = load_comparison(path)
        shown = {"senders": comparison.transports, "seeds": comparison.seeds}
        records, scenario = comparison.runs, comparison.scenario
        if comparison.axes is not None:
            senders = list(comparison.axes.senders)
            shown |= {"senders": senders or [AS_WRITTEN], "helpers": list(comparison.axes.helpers)}
            if not senders:
                # The page puts the sender before the helper, also where the scenario names it.
                of_scenario = Axes((AS_WRITTEN,), comparison.axes.helpers)
                records = {of_scenario.label(AS_WRITTEN, name): runs for name, runs in records.items()}
    else:
        runs = load_runs(path)
        # Written and set by hand alike: the page runs it as the file says.
        shown = {"senders": [AS_WRITTEN], "seeds": runs.seeds}
        records, scenario = {AS_WRITTEN: [one.record for one in runs]}, runs.scenario
    prints = {
        name: {str(record["seed"]): record["fingerprint"] for record in list_ if "live" not in record}
        for name, list_ in records.items()
    }
    title = f"{'Comparison' if kind == 'comparison' else 'Run'} saved in {_letters(str(path))}"
    if any("live" in record for list_ in records.values() for record in list_):
        # Real packets met once and never again; the page simulates what they crossed.
        title = f"Scenario of the live run in {_letters(str(path))}, simulated"
    files = files_of(scenario, path)
    source = {"name": f"{path.resolve().name}.toml", "text": toml_of(scenario), "files": files}
    return {
        "kind": "comparison" if kind == "comparison" else "run",
        "title": title,
        "source": source,
        "fingerprints": prints,
        **shown,
    }


def _of_scenario(path: Path, settings: Mapping[str, str]) -> dict[str, Any]:
    from lasthop.scenario import Scenario

    try:
        if settings or path.suffix.lower() == ".json" or not path.is_file():
            with unexecuted():
                scenario = Scenario.load(path, overrides=settings)
            text, content = toml_of(scenario.to_dict()), scenario.to_dict()
        else:
            with path.open("rb") as file:
                text = file.read(LONGEST_TEXT).decode("utf-8", errors="replace").removeprefix("\ufeff")
            content = _parsed(text)
    except OSError as error:
        raise ScenarioError(f"cannot read '{path}': {reason_of(error)}") from None
    name = _letters(path.with_suffix(".toml").name)
    source = {"name": name, "text": text, "files": files_of(content, path.parent)}
    return {"kind": "scenario", "title": _letters(str(path)), "source": source}


def _letters(name: str) -> str:
    """Return the name of a file as text; what of it is not UTF-8 becomes question marks."""
    return name.encode("utf-8", errors="replace").decode("utf-8")


def _parsed(text: str) -> dict[str, Any]:
    """Return what a text holds; nothing if it is wrong, which the page says with the place."""
    try:
        return toml(text)
    except (ValueError, RecursionError):
        return {}


def check_page(folder: Path = PAGE) -> Path:
    """Return the folder of the built page, or say what is missing."""
    if not (folder / "index.html").is_file():
        raise OutputError(
            "this installation has no page: in the source tree, 'make page' builds it (with Node and Rust's "
            "target wasm32-unknown-unknown); wheels made by 'make wheel' carry it"
        )
    return folder


def _script(name: str, content: object) -> str:
    """Return data for the page to read; no text in it can end the element."""
    text = json.dumps(content, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>\n'


def index_html(folder: Path, shown: object | None) -> str:
    """Return the page with what it is to show first."""
    page = (folder / "index.html").read_text(encoding="utf-8")
    # A page on a web server keeps its files for later; this one is gone with its server.
    head = '<meta name="lasthop-server" content="view">\n'
    if _is_capture(shown):
        shown = {"kind": "capture", "name": shown["name"], "file": CAPTURE}
    head += "" if shown is None else _script("lasthop-given", shown)
    return page.replace("</head>", head + "</head>", 1)


def single_page(folder: Path, shown: object | None) -> str:
    """Return the page with all that belongs to it in one file, which needs no server."""
    page = (folder / "index.html").read_text(encoding="utf-8")
    script = re.search(r'<script type="module"[^>]*src="\./([^"]+)"[^>]*></script>', page)
    style = re.search(r'<link rel="stylesheet"[^>]*href="\./([^"]+)"[^>]*>', page)
    workers, engines = sorted(folder.glob("assets/worker-*.js")), sorted(folder.glob("assets/*.wasm"))
    if script is None or style is None or len(workers) != 1 or len(engines) != 1:
        raise OutputError(f"the page in '{folder}' is incomplete: build it again with 'make page'")
    code = (folder / script[1]).read_text(encoding="utf-8").replace("</script", "<\\/script")
    looks = (folder / style[1]).read_text(encoding="utf-8")
    engine = {
        "worker": workers[0].read_text(encoding="utf-8"),
        "wasm": base64.b64encode(engines[0].read_bytes()).decode("ascii"),
    }
    policy = POLICY.format(script=_hash(code), worker="blob:", connect="'none'", style=_hash(looks))
    page = page.replace(script[0], "").replace(style[0], f"<style>{looks}</style>")
    page = re.sub(r'\s*<link rel="preload"[^>]*>', "", page)
    page = re.sub(
        r'(http-equiv="Content-Security-Policy"\s+content=")[^"]*',
        lambda found: found[1] + policy,
        page,
        count=1,
    )
    if _is_capture(shown):
        place = Path(shown["place"])
        if place.stat().st_size > LARGEST_CAPTURE:
            raise ArgumentError(
                f"'{place}' is too large for a page of one file, which holds {LARGEST_CAPTURE >> 20} MiB: "
                "cut it (editcap -s 96), or leave out --out"
            )
        shown = {
            "kind": "capture",
            "name": shown["name"],
            "bytes": base64.b64encode(place.read_bytes()).decode(),
        }
    data = _script("lasthop-engine", engine) + ("" if shown is None else _script("lasthop-given", shown))
    return page.replace("</body>", f'{data}<script type="module">{code}</script></body>', 1)


def _is_capture(shown: object | None) -> TypeGuard[dict[str, str]]:
    return isinstance(shown, dict) and shown.get("kind") == "capture"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


class Server(ThreadingHTTPServer):
    """Serves the page to requests with the token; closed like any other server.

    Attributes
    ----------
    address : str
        Where the page is.
    """

    daemon_threads = True

    def __init__(self, folder: Path, shown: object | None, *, grows: bool = False) -> None:
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)
        #: Whether a run still writes into the capture; whether the page has asked, and has had all of it.
        self.grows = grows
        self.asked, self.seen_whole = threading.Event(), threading.Event()
        super().__init__((ADDRESS, 0), _Handler)
        self.token = secrets.token_urlsafe(24)
        self.files = {"": ("text/html; charset=utf-8", index_html(folder, shown).encode())}
        for path in _assets(folder):
            kind = "application/wasm" if path.suffix == ".wasm" else mimetypes.guess_type(path.name)[0]
            self.files[path.relative_to(folder).as_posix()] = (
                kind or "application/octet-stream",
                path.read_bytes(),
            )
        #: A capture is too large to be kept in memory.
        self.capture = Path(shown["place"]) if _is_capture(shown) else None
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}
        self.address = f"http://{ADDRESS}:{self.server_port}/{self.token}/"

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as socketserver has it
        """Answer in a thread of its own; beyond a number of connections the next waits, or is closed."""
        if not self._free.acquire(timeout=IDLE_S):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """Answer one connection, and leave its place to the next."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def finish(self) -> None:
        """Say that the capture is whole, and let a page that follows it fetch the end."""
        self.grows = False
        if self.asked.is_set():
            self.seen_whole.wait(LAST_LOOK_S)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """Say nothing of a browser that has gone; what is wrong in here is told as ever."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@contextmanager
def watched(capture: Path, folder: Path = PAGE) -> Iterator[str]:
    """Show a capture while a run writes it: yields the address of the page, which reads it again and again.

    Parameters
    ----------
    capture : Path
        The file, which need not be there yet.
    folder : Path
        The built page.
    """
    shown = {"kind": "capture", "name": _letters(capture.name), "place": str(capture)}
    with Server(check_page(folder), shown, grows=True) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.2,), name="lasthop-watch", daemon=True)
        thread.start()
        try:
            yield server.address
            server.finish()
        finally:
            server.shutdown()
            thread.join()


def _assets(folder: Path) -> Iterable[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "index.html")


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    #: Of a connection that says nothing.
    timeout = IDLE_S
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "lasthop", ""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        _, token, name = [*self.path.partition("?")[0].split("/", 2), "", ""][:3]
        known = secrets.compare_digest(token.encode(), self.server.token.encode())
        # Another name for this address is how a foreign page would reach it.
        if self.headers.get("Host") not in self.server.hosts or not known:
            self._send(HTTPStatus.FORBIDDEN, "text/plain; charset=utf-8", b"not for you\n")
            return
        if self.path.count("/") < 2:  # noqa: PLR2004 - the slash before the token and the one behind it
            self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"no such page\n")
            return
        if name == CAPTURE and self.server.capture is not None:
            self._send_file(self.server.capture)
            return
        found = self.server.files.get(name)
        if found is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"no such page\n")
            return
        self._send(HTTPStatus.OK, *found)

    def _send_file(self, path: Path) -> None:
        grows = {GROWS: "yes"} if self.server.grows else {}
        self.server.asked.set()
        try:
            with path.open("rb") as file:
                length = path.stat().st_size
                self._send_head(HTTPStatus.OK, "application/octet-stream", length, grows)
                if self.command == "HEAD":
                    return
                while length > 0 and (piece := file.read(min(PIECE, length))):
                    self.wfile.write(piece)
                    length -= len(piece)
                # What has become shorter meanwhile ends with the connection.
                self.close_connection = length > 0
            if not grows:
                self.server.seen_whole.set()
        except FileNotFoundError:
            said = b"no packets yet\n" if grows else b"the capture is gone\n"
            self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", said, grows)

    def _send(
        self, status: HTTPStatus, kind: str, content: bytes, more: Mapping[str, str] | None = None
    ) -> None:
        self._send_head(status, kind, len(content), more)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _send_head(
        self, status: HTTPStatus, kind: str, length: int, more: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        own = "'self'"
        headers = {
            "Content-Type": kind,
            "Content-Length": str(length),
            "Content-Security-Policy": POLICY.format(script=own, worker=own, connect=own, style=own)
            + "; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
        }
        for key, value in [*headers.items(), *(more or {}).items()]:
            self.send_header(key, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gives it
        """Say nothing: the terminal is for people."""
