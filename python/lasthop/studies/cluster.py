"""Sends the runs of a study to a Dask cluster: each is a task, results come back here to be stored.

Called by `execute` for ``--cluster``. `distributed` is an optional extra, imported here alone. What runs on a
worker is `run_there`: it needs lasthop of the same version and nothing else, no file and no shared disk.
"""

from __future__ import annotations

import atexit
import logging
import secrets
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import _native
from lasthop.columns import on_demand
from lasthop.errors import ClusterError
from lasthop.runner import SUMMARIES, Snapshot, finished_of
from lasthop.studies.plan import kept_tables
from lasthop.studies.workers import Workers
from lasthop.threads import POLL_INTERVAL_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lasthop._native import ArrowTable
    from lasthop.sources import Source
    from lasthop.studies.parts import Keep
    from lasthop.studies.plan import Task
    from lasthop.studies.store import Entry

#: How long the scheduler may take to answer at the beginning.
CONNECT_S = 3.0
#: How long there may be no worker, or no scheduler, before the study stops.
PATIENCE_S = 30.0
#: What a task comes to. One whose result died with its worker is ``lost`` for a while: it is made again.
SETTLED = frozenset({"finished", "error", "cancelled"})
#: How long a result may take to come here before it is asked for again.
FETCH_S = 5.0
#: Tasks sent beyond those that can run at once, so that no worker waits for the next.
AHEAD = 64


@contextmanager
def connected(address: str, observer: Callable[[Snapshot], None] | None) -> Iterator[Workers]:
    """Give the workers of a cluster, checked: reachable, and of the same version.

    Raises
    ------
    ClusterError
        Naming the address and what to do.
    """
    try:
        import distributed
    except ImportError:
        raise ClusterError(
            "--cluster needs the package distributed: pip install 'lasthop[cluster]'"
        ) from None
    # What goes wrong is said once, in our words.
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        # The library has no types for it.
        library: Any = distributed
        library.comm.addressing.resolve_address(address)
        # One that could not connect is not closed again when it is forgotten: that would wait, and complain.
        make: Any = type("Client", (library.Client,), {"__del__": lambda _: None})
        client = make(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at '{address}' ({_reason(error)}): start one with 'dask scheduler' "
            "and give the address that it prints, such as tcp://10.0.0.1:8786"
        ) from None
    try:
        _check_versions(client, address)
        yield ClusterWorkers(client, address, observer)
    finally:
        with suppress(Exception):
            client.close(timeout=2)


def _reason(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text.splitlines()[0]


def _check_versions(client: Any, address: str) -> None:  # noqa: ANN401 - a client of an untyped library
    deadline = time.monotonic() + PATIENCE_S / 3
    while not client.scheduler_info(n_workers=-1)["workers"]:
        if time.monotonic() > deadline:
            raise ClusterError(
                f"the scheduler at '{address}' has no workers: start some with 'dask worker {address}'"
            )
        time.sleep(POLL_INTERVAL_S)
    answers: dict[str, Any] = client.run(version_there, on_error="return")
    for worker, answer in answers.items():
        if isinstance(answer, BaseException):
            raise ClusterError(
                f"lasthop cannot be used on the worker {worker} ({_reason(answer)}): install lasthop "
                f"{_native.__version__} there"
            )
        if answer != _native.__version__:
            raise ClusterError(
                f"the worker {worker} has engine {answer}, this is {_native.__version__}: install the same "
                "version everywhere"
            )


def version_there() -> str:
    """Return the engine's version on a worker."""
    return _native.__version__


def run_there(
    text: str,
    inputs: Mapping[str, bytes],
    history: Sequence[tuple[Any, ...]],
    seed: int,
    keep: Sequence[Keep],
    engine_version: str,
    senders: Mapping[str, Source] | None = None,
) -> tuple[dict[str, bytes] | None, dict[str, bytes], str | None]:
    """Make one run on a worker; return what it measured, what is kept of it, and the error if it failed."""
    from lasthop.results import NativeTables

    if engine_version != _native.__version__:
        raise RuntimeError(
            f"this worker has engine {_native.__version__}, the study needs {engine_version}: install the "
            "same version everywhere"
        )
    with tempfile.TemporaryDirectory() as folder:
        for name, content in inputs.items():
            (Path(folder) / name).write_bytes(content)
        classes = [_sender_there(name, source) for name, source in (senders or {}).items()]
        plan = _native.parse_scenario(text, "json", "scenario", [], classes, Path(folder))
    if history:
        plan = plan.with_history([tuple(row) for row in history])
    wanted, switches = {one.table for one in keep}, on_demand()
    try:
        result = _native.run(
            plan,
            seed,
            series=any(switches[table] == "series" for table in wanted),
            trace=any(switches[table] == "trace" for table in wanted),
            frames="frames" in wanted,
        )
    except _native.RunError as error:
        return None, {}, str(error)
    tables = NativeTables(result, finished_of(result, keep_native=True).summaries)
    measured = {name: _packed(table) for name in SUMMARIES if (table := tables.summary(name)) is not None}
    kept = {name: _packed(table) for name, table in kept_tables(keep, tables.table).items()}
    return measured, kept, None


def _packed(table: ArrowTable) -> bytes:
    return table.to_ipc(compressed=True)


def _unpacked(tables: Mapping[str, bytes]) -> dict[str, ArrowTable]:
    return {name: _native.ArrowTable.from_ipc(content) for name, content in tables.items()}


def _sender_there(name: str, source: Source) -> _native.SenderClass:
    """Load a sender on a worker from its source."""
    return _described(name, source.class_name, source.file, tuple(sorted(source.files.items())))


@lru_cache(maxsize=64)
def _described(
    name: str, class_name: str, file: str, files: tuple[tuple[str, bytes], ...]
) -> _native.SenderClass:
    from lasthop.senders import describe
    from lasthop.sources import load_class

    # Kept until the worker ends: a traceback into the file shows its lines.
    folder = Path(tempfile.mkdtemp(prefix="lasthop-sender-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for path, content in files:
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return describe(name, load_class(name, folder / file, class_name)[0])


class ClusterWorkers(Workers):
    """Makes runs on the workers of a Dask cluster."""

    def __init__(
        self,
        client: Any,  # noqa: ANN401 - of an untyped library
        address: str,
        observer: Callable[[Snapshot], None] | None,
    ) -> None:
        super().__init__(None, observer)
        self._client = client
        self._address = address
        self._portable: dict[str, tuple[str, dict[str, bytes]]] = {}

    def work(self, tasks: Sequence[Task], deliver: Callable[[list[tuple[Task, Entry]]], None]) -> bool:
        """Make every run, handing on what has finished; return whether Ctrl-C came."""
        check_sources(tasks)
        waiting = list(reversed(tasks))
        sent: dict[Any, Task] = {}
        progress = _Progress(tasks, self._observer)
        healthy = time.monotonic()
        try:
            while waiting or sent:
                threads = sum(worker["nthreads"] for worker in self._workers().values())
                while waiting and len(sent) < threads + AHEAD:
                    task = waiting.pop()
                    sent[self._send(task)] = task
                settled = [future for future in sent if future.status in SETTLED]
                found = [(future, _entry(sent[future], future)) for future in settled]
                entries = [(sent.pop(future), entry) for future, entry in found if entry is not None]
                if entries:
                    deliver(entries)
                    progress.add(entries)
                progress.show()
                if threads and self._client.status == "running":
                    healthy = time.monotonic()
                elif time.monotonic() - healthy > PATIENCE_S:
                    what = "has lost all its workers" if self._client.status == "running" else "is gone"
                    raise ClusterError(
                        f"the scheduler at '{self._address}' {what}: what had finished is stored; "
                        "--resume makes the rest"
                    )
                time.sleep(0 if entries else POLL_INTERVAL_S)
        except KeyboardInterrupt:
            return True
        finally:
            if sent:
                with suppress(Exception):
                    self._client.cancel(list(sent))
        return False

    def _workers(self) -> dict[str, Any]:
        workers: dict[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return workers

    def _send(self, task: Task) -> Any:  # noqa: ANN401 - a future of an untyped library
        digest = task.setup.digest
        if digest not in self._portable:
            self._portable[digest] = task.setup.portable()
        return self._client.submit(
            run_there,
            *self._portable[digest],
            [tuple(row) for row in task.setup.history],
            task.seed,
            task.keep,
            _native.__version__,
            task.setup.senders,
            key=f"lasthop-{task.run}-{secrets.token_hex(4)}",
            pure=False,
        )


def check_sources(tasks: Sequence[Task]) -> None:
    """Refuse senders that no worker could load."""
    for task in tasks:
        for name, source in task.setup.senders.items():
            if not source.file:
                raise ClusterError(
                    f"transport {name!r} is a class of this process alone: put it into a file and name it "
                    "FILE.py:CLASS, which is sent to the workers"
                )


def _entry(task: Task, future: Any) -> Entry | None:  # noqa: ANN401 - a future of an untyped library
    """Return what a task came to; a run whose workers keep dying is a failed run.

    `None` if the worker that held the result has died meanwhile: the scheduler has the run made again.
    """
    try:
        measured, kept, error = future.result(timeout=FETCH_S)
    except TimeoutError:
        return None
    except Exception as failure:  # noqa: BLE001 - whatever came up on a worker, by any library
        return task.entry(None, {}, f"on the cluster: {_reason(failure)}")
    return task.entry(None if measured is None else _unpacked(measured), _unpacked(kept), error)


class _Progress:
    """Tells an observer how far the runs are."""

    def __init__(self, tasks: Sequence[Task], observer: Callable[[Snapshot], None] | None) -> None:
        self._observer = observer
        self._total = len(tasks)
        self._total_s = sum(task.setup.plan.duration_s for task in tasks)
        self._runs = 0
        self._simulated_s = 0.0
        self._packet_hops = 0
        self._started = time.monotonic()

    def add(self, entries: Sequence[tuple[Task, Entry]]) -> None:
        for task, entry in entries:
            self._runs += 1
            self._simulated_s += task.setup.plan.duration_s
            self._packet_hops += entry.packet_hops

    def show(self) -> None:
        if self._observer is not None:
            self._observer(
                Snapshot(
                    runs_finished=self._runs,
                    runs_total=self._total,
                    simulated_s=self._simulated_s,
                    simulated_total_s=self._total_s,
                    packet_hops=self._packet_hops,
                    elapsed_s=time.monotonic() - self._started,
                )
            )
