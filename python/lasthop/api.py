"""The Python API: load a scenario, run it with one or many seeds, compare transports.

The package re-exports it; the command line calls nothing else to run anything.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lasthop import _native, sources, stand_ins
from lasthop.errors import ArgumentError, Interrupted, OutputError, RunError, ScenarioError, native_errors
from lasthop.places import SENDERS
from lasthop.results import NativeTables, Run, Runs
from lasthop.runner import Job, Outcome, Snapshot, run_jobs
from lasthop.senders import Sender, describe, describe_all
from lasthop.spool import SpooledTables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from lasthop.comparison import Comparison
    from lasthop.frames import Traffic
    from lasthop.history import Entry

    #: Names for the transports of scenarios, and the classes behind them.
    Senders = Mapping[str, type[Sender]]

SEEDS_MAX = 100_000

#: A small scenario for examples: two senders share 5 Mbit/s and a slightly lossy last hop for ten seconds.
EXAMPLE: dict[str, Any] = {
    "name": "example",
    "duration": "10 s",
    "topology": {
        "kind": "dumbbell",
        "bottleneck": {
            "rate": "5 Mbit/s",
            "delay": "20 ms",
            "queue": {"kind": "drop-tail", "limit": "30 packets"},
        },
        "access": {"rate": "4 Mbit/s", "delay": "5 ms"},
    },
    "channel": {"error": {"kind": "bernoulli", "packet_error_rate": 0.005}},
    "flows": [{"name": "left", "transport": "reno"}, {"name": "right", "transport": "vegas"}],
}


class Scenario:
    """A checked scenario: what to simulate, without a seed of its own choosing.

    Parameters
    ----------
    content : mapping
        The same structure as a scenario file; quantities are strings with units.
    name : str
        Shown in results unless the scenario names itself.
    transports : mapping, optional
        Classes that inherit from `Sender`, by the names that flows have for them. One that a flow calls
        ``FILE.py:CLASS`` need not be here with `trust`: the file is loaded.
    folder : path
        What the files that the scenario names are relative to.
    trust : bool
        Whether senders that the scenario names ``FILE.py:CLASS`` are loaded, which executes their files.
        Those named in calls, such as `replace` and `lasthop.compare`, are loaded anyway: they are the
        caller's own, and relative to the current folder.

    Raises
    ------
    ScenarioError
        With the place, what was found and what was expected.
    TrustError
        If the scenario names Python code that it is not trusted with.

    Examples
    --------
    >>> import lasthop as lh
    >>> scenario = lh.Scenario(lh.EXAMPLE).replace({"flows.0.transport": "cubic"})
    >>> scenario.flow_names
    ['left', 'right']
    >>> scenario.transports
    ['cubic', 'vegas']
    >>> scenario.duration_s
    10.0
    """

    __slots__ = (
        *("_folder", "_kind", "_name", "_overrides", "_path", "_plan", "_search", "_senders", "_sources"),
        *("_asked", "_text", "_trust"),
    )

    def __init__(
        self,
        content: Mapping[str, Any],
        *,
        name: str = "scenario",
        transports: Senders | None = None,
        folder: str | Path = "",
        trust: bool = False,
    ) -> None:
        if not isinstance(content, Mapping):
            raise ScenarioError(
                f"a scenario is a table of keys, found {type(content).__name__}: "
                "Scenario.load(path) opens a file, Scenario.read(text) reads TOML"
            )
        try:
            text = json.dumps(dict(content))
        except (TypeError, ValueError) as error:
            raise ScenarioError(
                f"a scenario holds text, numbers, booleans, lists and tables only: {error}"
            ) from None
        self._know(transports, trust=trust)
        self._folder = Path(folder)
        self._search: tuple[Path, ...] = ()
        self._kind: Literal["json", "toml"] = "json"
        self._open(None, text, name, self._ask(None))

    @classmethod
    def read(
        cls,
        text: str | bytes,
        *,
        name: str = "scenario",
        transports: Senders | None = None,
        trust: bool = False,
        overrides: Mapping[str, Any] | None = None,
    ) -> Scenario:
        """Read a scenario from TOML text.

        Parameters
        ----------
        text : str or bytes
            What a scenario file says. The files that it names are relative to the current folder.
        name : str
            What messages call it, and results unless the scenario names itself.
        transports : mapping, optional
            As for `load`.
        trust, overrides
            As for `load`.

        Examples
        --------
        >>> import lasthop as lh
        >>> lh.Scenario.read("duration = 5", name="lab")
        Traceback (most recent call last):
        lasthop.errors.ScenarioError: scenario error: duration: 5 has no unit
          at lab:1:12
        1 | duration = 5
          |            ^ did you mean "5 s" or "5 ms"?
        """
        try:
            decoded = text.decode() if isinstance(text, bytes) else text
        except UnicodeDecodeError:
            raise ScenarioError(
                f"scenario error: this is not text in UTF-8\n  at {name}\n     a scenario is TOML text"
            ) from None
        scenario = cls.__new__(cls)
        scenario._know(transports, trust=trust)  # noqa: SLF001 - its own class
        scenario._folder, scenario._search = Path(), ()  # noqa: SLF001 - its own class
        scenario._kind = "toml"  # noqa: SLF001 - its own class
        changed = scenario._ask(overrides)  # noqa: SLF001 - its own class
        scenario._open(None, decoded, name, changed)  # noqa: SLF001 - its own class
        return scenario

    def _ask(self, overrides: Mapping[str, Any] | None) -> dict[str, str]:
        """Take overrides, and the senders that they name as asked for."""
        texts = {
            key: value if isinstance(value, str) else toml_value(value)
            for key, value in (overrides or {}).items()
        }
        self._asked: frozenset[str] = frozenset(sources.names_in_overrides(texts))
        return texts

    def _know(self, transports: Senders | None, *, trust: bool) -> None:
        """Take the classes that are handed over, and whether others may be loaded."""
        self._trust = trust
        self._senders = describe_all(transports)
        self._sources = {name: sources.source_of(class_) for name, class_ in (transports or {}).items()}

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        transports: Senders | None = None,
        search: Iterable[str | Path] = (),
        trust: bool = False,
        overrides: Mapping[str, Any] | None = None,
    ) -> Scenario:
        """Read a scenario file (TOML, or JSON of the same structure).

        Parameters
        ----------
        path : path
            The file.
        transports : mapping, optional
            Classes that inherit from `Sender`, by the names that flows have for them.
        search : iterable of path
            Where the files of senders that are named ``FILE.py:CLASS`` are looked for as well, after the
            folder of the scenario and before the current one.
        trust : bool
            Whether senders that the file names ``FILE.py:CLASS`` are loaded, which executes their files.
        overrides : mapping, optional
            Dotted keys and values that stand in place of the file's before it is judged, as ``--set`` gives
            them. (`replace` changes a scenario that is valid without them.)

        Raises
        ------
        ScenarioError
            With the place, what was found and what was expected.
        TrustError
            If the file names Python code that it is not trusted with.
        """
        scenario = cls.__new__(cls)
        scenario._know(transports, trust=trust)  # noqa: SLF001 - its own class
        scenario._folder = Path(path).parent  # noqa: SLF001 - its own class
        scenario._search = tuple(map(Path, search))  # noqa: SLF001 - its own class
        scenario._kind = "toml"  # noqa: SLF001 - its own class
        try:
            changed = scenario._ask(overrides)  # noqa: SLF001 - its own class
            scenario._open(Path(path), "", "", changed)  # noqa: SLF001 - its own class
        except ScenarioError:
            if _is_study(Path(path)):
                raise ScenarioError(
                    f"scenario error: it is a study, not a scenario\n  at {path}\n"
                    f"     'lasthop study run {path}' runs it"
                ) from None
            raise
        return scenario

    def _open(self, path: Path | None, text: str, name: str, overrides: dict[str, str]) -> None:
        self._path, self._text, self._name, self._overrides = path, text, name, overrides
        self._load_senders()
        classes = list(self._senders.values())
        with native_errors():
            self._plan = (
                _native.parse_scenario(text, self._kind, name, list(overrides.items()), classes, self._folder)
                if path is None
                else _native.load_scenario(path, list(overrides.items()), classes)
            )

    def _load_senders(self) -> None:
        """Load the senders that are named by their files."""
        text = self._text if self._path is None else sources.read_text(self._path)
        json_text = (self._kind == "json") if self._path is None else self._path.suffix.lower() == ".json"
        named = sources.names_in_text(text, json_text=json_text)
        for name in sorted((named | sources.names_in_overrides(self._overrides)) - self._senders.keys()):
            asked = name in self._asked
            if not (asked or self._trust or stand_ins.wanted()):
                where = str(self._path or self._name) if name in named else None
                raise sources.untrusted(name, where)
            # What the caller says is a path as any that is typed: a file of the same name that came with the
            # scenario is not meant.
            beside = (self._folder, *self._search) if self._trust or not asked else ()
            folders = (Path(), *beside) if asked else (*beside, Path())
            class_, source = sources.load(name, folders)
            # Another scenario may share the mappings.
            self._senders = self._senders | {name: describe(name, class_)}
            self._sources = self._sources | {name: source}

    def replace(self, overrides: Mapping[str, Any]) -> Scenario:
        """Return the scenario with some values changed.

        Parameters
        ----------
        overrides : mapping
            Dotted keys and new values, as ``lasthop run --set`` takes them:
            ``{"flows.0.transport": "vegas"}``.

        Examples
        --------
        >>> import lasthop as lh
        >>> lh.Scenario(lh.EXAMPLE).replace({"duration": "5"})
        Traceback (most recent call last):
        lasthop.errors.ScenarioError: scenario error: duration: 5 has no unit
          at replace: duration = 5
             did you mean "5 s" or "5 ms"?
        """
        try:
            return self.overridden(overrides)
        except ScenarioError as error:
            # The diagnostic names an option of the command line; here it was a call.
            text = str(error)
            for key, value in overrides.items():
                shown = value if isinstance(value, str) else toml_value(value)
                text = text.replace(f"at --set {key}={shown}", f"at replace: {key} = {shown}")
            raise ScenarioError(text) from None

    def overridden(self, overrides: Mapping[str, Any], *, of_file: Collection[str] = ()) -> Scenario:
        """As `replace`, for the command line: messages say ``--set``.

        The senders that it names are asked for, but for those at the keys `of_file`, which a file says.
        """
        changed = dict(self._overrides)
        for key, value in overrides.items():
            # A later override of the same key goes last, where it wins over what lies between.
            changed.pop(key, None)
            changed[key] = value if isinstance(value, str) else toml_value(value)
        names = sources.names_in_overrides({key: changed[key] for key in overrides if key not in of_file})
        return self._again(self._senders, self._sources, changed, self._asked | names)

    def with_transports(self, transports: Senders) -> Scenario:
        """Return the scenario with senders written in Python that its flows may name.

        Parameters
        ----------
        transports : mapping
            Classes that inherit from `Sender`, by the names that flows have for them. They are added to
            those that the scenario knows; the same name replaces a class.
        """
        found = {name: sources.source_of(class_) for name, class_ in transports.items()}
        senders = self._senders | describe_all(transports)
        return self._again(senders, self._sources | found, self._overrides, self._asked)

    def _again(
        self,
        senders: dict[str, _native.SenderClass],
        known: dict[str, sources.Source],
        overrides: dict[str, str],
        asked: frozenset[str],
    ) -> Scenario:
        scenario = Scenario.__new__(Scenario)
        scenario._trust, scenario._asked = self._trust, asked  # noqa: SLF001 - its own class
        scenario._senders = senders  # noqa: SLF001 - its own class
        scenario._sources = known  # noqa: SLF001 - its own class
        scenario._search = self._search  # noqa: SLF001 - its own class
        scenario._kind = self._kind  # noqa: SLF001 - its own class
        scenario._folder = self._folder  # noqa: SLF001 - its own class
        scenario._open(self._path, self._text, self._name, overrides)  # noqa: SLF001 - its own class
        return scenario

    @property
    def plan(self) -> _native.Plan:
        """The checked form that the engine runs."""
        return self._plan

    @property
    def history_file(self) -> Path | None:
        """Where ``[history]`` keeps the history of paths; relative to the scenario file."""
        file = self._plan.history_file
        if file is None:
            return None
        return self._folder / file

    @property
    def folder(self) -> Path:
        """What the files that it names are relative to."""
        return self._folder

    @property
    def input_files(self) -> list[Path]:
        """Files whose contents decide what a run does, beside the scenario itself: lists of frames."""
        return [Path(file) for file in self._plan.input_files]

    @property
    def sender_sources(self) -> dict[str, sources.Source]:
        """The source of each sender written in Python that a flow uses, by its name."""
        return {name: self._sources[name] for name in sources.used(self.to_dict(), self._sources)}

    @property
    def is_trusted(self) -> bool:
        """Whether the Python code that it names may be executed."""
        return self._trust

    @property
    def advice(self) -> list[str]:
        """Sentences on what the scenario says and its author may not have meant; often none."""
        return self._plan.advice

    def read_history(self) -> list[Entry]:
        """Return what the history file holds now; nothing if there is none yet."""
        if self.history_file is None:
            return []
        from lasthop.history import read_if_any

        return read_if_any(self.history_file)

    @property
    def name(self) -> str:
        """Name shown in results."""
        return self._plan.name

    @property
    def seed(self) -> int:
        """Seed of a run that asks for none."""
        return self._plan.seed

    @property
    def duration_s(self) -> float:
        """Simulated length of a run in seconds."""
        return self._plan.duration_s

    @property
    def flow_names(self) -> list[str]:
        """Names of all flows."""
        return self._plan.flow_names

    @property
    def ends(self) -> list[tuple[str, str]]:
        """Nodes at which each flow starts and ends."""
        return self._plan.ends

    @property
    def hosts(self) -> dict[str, str]:
        """Nodes at which flows start or end, with their addresses in captures and with real packets.

        Examples
        --------
        >>> import lasthop as lh
        >>> scenario = lh.Scenario(lh.EXAMPLE)
        >>> list(scenario.hosts)
        ['source-1', 'source-2', 'sink-1', 'sink-2']
        """
        return dict(self._plan.hosts)

    @property
    def link_names(self) -> list[str]:
        """Names of all links."""
        return self._plan.link_names

    @property
    def transports(self) -> list[str]:
        """Transport of each flow."""
        return self._plan.transports

    def to_json(self) -> str:
        """Return the scenario, after overrides, as JSON text."""
        return self._plan.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Return the scenario, after overrides, as a dictionary."""
        content: dict[str, Any] = json.loads(self._plan.to_json())
        return content

    def __repr__(self) -> str:
        kinds = sorted(set(self.transports))
        return (
            f"<Scenario {self.name!r}: {self.duration_s:g} s, {len(self.flow_names)} flows "
            f"({', '.join(kinds)}), {len(self.link_names)} links>"
        )

    def _repr_html_(self) -> str:
        import html

        return f"<p>{html.escape(repr(self)[1:-1])}</p>"


def run(
    scenario: Scenario | str | Path | Mapping[str, Any],
    *,
    seed: int | None = None,
    series: bool = False,
    trace: bool = False,
    transports: Senders | None = None,
    trust: bool = False,
) -> Run:
    """Run a scenario once.

    Parameters
    ----------
    scenario : Scenario, path or mapping
        What to simulate.
    seed : int, optional
        Seed of every random draw; the scenario's own if not given.
    series : bool
        Also record windows, queues, throughput and RTT per interval.
    trace : bool
        Also record every packet on every link.
    transports : mapping, optional
        Senders written in Python: classes that inherit from `Sender`, by the names that flows have for them.
    trust : bool
        Whether senders that the scenario names ``FILE.py:CLASS`` are loaded, which executes their files; of a
        `Scenario` it says so itself.

    Returns
    -------
    Run
        Summaries, and the tables asked for.

    Examples
    --------
    >>> import lasthop as lh
    >>> result = lh.run(lh.Scenario(lh.EXAMPLE), seed=7)
    >>> result.totals["goodput_bit_s"] > 1e6
    True
    >>> result.fingerprint == lh.run(lh.Scenario(lh.EXAMPLE), seed=7).fingerprint
    True
    """
    opened = as_scenario(scenario, transports, trust=trust)
    return run_seeds(opened, [opened.seed if seed is None else seed], series=series, trace=trace)[0]


def as_scenario(
    scenario: Scenario | str | Path | Mapping[str, Any],
    transports: Senders | None = None,
    *,
    trust: bool = False,
) -> Scenario:
    """Return the scenario itself, or the one that a path or a mapping stands for."""
    if isinstance(scenario, Scenario):
        return scenario if transports is None else scenario.with_transports(transports)
    if isinstance(scenario, (str, Path)):
        return Scenario.load(scenario, transports=transports, trust=trust)
    return Scenario(scenario, transports=transports, trust=trust)


def run_seeds(  # noqa: PLR0913 - all but two are keywords
    scenario: Scenario | str | Path | Mapping[str, Any],
    seeds: Iterable[int],
    *,
    series: bool = False,
    trace: bool = False,
    jobs: int | None = None,
    observer: Callable[[Snapshot], None] | None = None,
    transports: Senders | None = None,
    learn: bool = True,
    spool: str | Path | None = None,
    capture_at: Sequence[str] | None = None,
    trust: bool = False,
) -> Runs:
    """Run a scenario with several seeds, in parallel on all cores.

    Parameters
    ----------
    scenario : Scenario, path or mapping
        What to simulate.
    seeds : iterable of int
        Each seed once.
    series, trace : bool
        As for `run`.
    jobs : int, optional
        How many runs at once; one per core if not given.
    observer : callable, optional
        Called about ten times a second with how far the runs are.
    transports : mapping, optional
        As for `run`. The threads share one interpreter: what Python computes does not run in parallel.
    learn : bool
        Whether the connections that end are added to the history file of the scenario, if it names one. All
        runs of a call start from the file as it is before the call; none sees what another adds.
    spool : path, optional
        A folder in which series and traces are written while the runs go on, instead of being kept in memory.
        They are read when asked for, `Runs.save` puts them together without reading them whole, and they go
        when the result does.
    capture_at : sequence of str, optional
        With `spool`: nodes and links at which packets are captured, ``"senders"`` for the hosts of all
        senders, or ``"links"`` for every link. With `trace` the senders if not given, otherwise nothing. A
        trace in memory needs no choice: `Run.write_pcapng` looks at it from everywhere.
    trust : bool
        As for `run`.

    Returns
    -------
    Runs
        In the order of `seeds`.

    Raises
    ------
    Interrupted
        After Ctrl-C; its ``finished`` holds the seeds that were complete.
    RunError
        If a run passes one of its limits, or a sender written in Python raises an exception; ``finished`` as
        above.
    """
    wanted = check_seeds(seeds)
    scenario = as_scenario(scenario, transports, trust=trust)
    known = scenario.read_history()
    plan = scenario.plan.with_history(known) if known else scenario.plan
    outcome = run_jobs(
        [Job(plan, seed) for seed in wanted],
        series=series,
        trace=trace,
        workers=jobs,
        observer=observer,
        spool=None if spool is None else Path(spool),
        capture_at=check_places(scenario, capture_at, spooled=spool is not None, trace=trace),
    )
    finished = collect(scenario, outcome)
    if learn:
        add_to_history(scenario, finished)
    raise_if_ended_early(outcome, finished, f"{len(finished)} of {len(wanted)} seeds finished")
    return Runs(finished)


def compare(  # noqa: PLR0913 - all but two are keywords
    scenario: Scenario | str | Path | Mapping[str, Any],
    transports: Iterable[str] = (),
    *,
    seeds: Iterable[int] = range(1, 11),
    baseline: str | None = None,
    jobs: int | None = None,
    observer: Callable[[Snapshot], None] | None = None,
    metrics: Iterable[str] | None = None,
    series: bool = False,
    helpers: Iterable[str] = (),
    at: str | None = None,
    law: str | None = None,
    trust: bool = False,
) -> Comparison:
    """Run a scenario with each transport and helper over the same channels, and compare seed by seed.

    Parameters
    ----------
    scenario : Scenario, path or mapping
        What to simulate; the transport of every flow that is not UDP is replaced.
    transports : iterable of str
        At least two names from ``lasthop transports``, or ``FILE.py:CLASS`` for a sender written in Python.
        With helpers one will do, and without any the flows keep those of the scenario.
    seeds : iterable of int
        Each transport runs with the same ones, so that it meets the same channel errors.
    baseline : str, optional
        The transport that the others are compared with; the first if not given.
    jobs : int, optional
        How many runs at once; one per core if not given.
    observer : callable, optional
        Called about ten times a second with how far the runs are.
    metrics : iterable of str, optional
        What they are compared by: names from ``lasthop metrics``, whose units may be left out.
    series : bool
        Also keep windows, queues and rates over time, for `Comparison.plot`.
    helpers : iterable of str
        Names from ``lasthop helpers``, each in place of the list ``helpers`` of the scenario, with the keys
        that it has there, if it is in the list; ``none`` for none, ``arq+snoop`` for two in series. With
        several transports every pair is run.
    at : str, optional
        The link at which helpers stand; in front of those that lose packets if not given.
    law : str, optional
        One of `lasthop.laws.LAWS`: what it says of each sender with each helper is laid over the bars of
        goodput, and shown beside what was measured.
    trust : bool
        As for `run`; those among `transports` are loaded anyway.

    Raises
    ------
    Interrupted
        After Ctrl-C; its ``comparison`` is of the seeds that every transport had finished.

    Notes
    -----
    All runs start from the same history of paths, if the scenario names a file, and nothing is added to it:
    what one transport learns would be to the good of another in the next comparison.

    Examples
    --------
    >>> import lasthop as lh
    >>> result = lh.compare(lh.Scenario(lh.EXAMPLE), ["reno", "cubic"], seeds=range(1, 5))
    >>> result.baseline
    'reno'
    >>> result.means.columns
    ['metric', 'unit', 'transport', 'mean', 'low', 'high', 'n']
    """
    from lasthop.comparison import compare_transports

    for name, given in (("transports", transports), ("helpers", helpers)):
        if isinstance(given, str):
            names = [one.strip() for one in given.split(",")]
            raise ArgumentError(f"{name} is the text {given!r}: give a list of names, {names}")
    return compare_transports(
        as_scenario(scenario, trust=trust),
        list(transports),
        check_seeds(seeds),
        baseline,
        jobs,
        observer,
        metrics,
        series=series,
        helpers=list(helpers),
        at=at,
        law=law,
    )


def traffic(
    scenario: Scenario | str | Path | Mapping[str, Any],
    *,
    flow: str | None = None,
    seeds: Iterable[int] | None = None,
    frames: int = 60_000,
    lags: Iterable[int] = (1, 2, 5, 10, 20, 50),
) -> Traffic:
    """Make the frames that a flow sends, and their statistics, without running the scenario.

    Parameters
    ----------
    scenario : Scenario, path or mapping
        With a flow whose traffic is of kind ``mpeg4`` or ``frames``.
    flow : str, optional
        Name of the flow; the first that sends frames if not given.
    seeds : iterable of int, optional
        Seeds of the runs whose frames these are; the scenario's own if not given.
    frames : int
        Frames per seed; a list that does not repeat may have fewer.
    lags : iterable of int
        At which distances the autocorrelation is worked out.

    Examples
    --------
    >>> import lasthop as lh
    >>> scenario = lh.Scenario(lh.EXAMPLE).replace({"flows.0.traffic": "mpeg4"})
    >>> video = lh.traffic(scenario, seeds=[1, 2], frames=12_000)
    >>> video.flow, video.series
    ('left', ['all', 'I', 'P', 'B', 'group', 'second'])
    >>> 0.7e6 < video.rate_bit_s.mean < 0.85e6
    True
    """
    from lasthop.frames import traffic_of

    # Nothing runs, so no sender that the scenario names is executed.
    with stand_ins.unexecuted():
        opened = as_scenario(scenario)
    return traffic_of(opened, flow, check_seeds([opened.seed] if seeds is None else seeds), frames, lags)


def transports() -> list[dict[str, Any]]:
    """Every transport, controller and recovery that a scenario may name, with its parameters.

    Examples
    --------
    >>> import lasthop as lh
    >>> "vegas" in [one["name"] for one in lh.transports()]
    True
    """
    listed: list[dict[str, Any]] = json.loads(_native.transports())
    return listed


def helpers() -> list[dict[str, Any]]:
    """Every helper in the network that a scenario may switch on, with its keys.

    ``stands`` says where it may stand, ``columns`` how the names of what it counts begin.

    Examples
    --------
    >>> import lasthop as lh
    >>> [one["name"] for one in lh.helpers()][:2]
    ['snoop', 'arq']
    """
    listed: list[dict[str, Any]] = json.loads(_native.helpers())
    return listed


def metrics() -> list[dict[str, Any]]:
    """Every figure of a run that a study, a plot or a comparison may name, with its unit and meaning.

    ``from`` says which table it is of, ``by`` how the rows of a run become one figure. ``bottleneck_`` before
    the name of a column of the links is its value at the bottleneck.

    Examples
    --------
    >>> import lasthop as lh
    >>> next(one["unit"] for one in lh.metrics() if one["name"] == "goodput_bit_s")
    'bit/s'
    """
    from lasthop.columns import listed

    return listed()


def schema() -> dict[str, Any]:
    """JSON schema of scenario files, for editors.

    Examples
    --------
    >>> import lasthop as lh
    >>> "properties" in lh.schema()
    True
    """
    content: dict[str, Any] = json.loads(_native.schema())
    return content


def _is_study(path: Path) -> bool:
    from lasthop.errors import StudyError
    from lasthop.studies.reader import read_content

    try:
        content = read_content(path)
    except StudyError:
        return False
    return "metrics" in content and "scenario" in content


def load_runs(folder: str | Path) -> Runs:
    """Read the runs that ``lasthop run --out`` or `Runs.save` wrote.

    Parameters
    ----------
    folder : path
        The folder.

    Examples
    --------
    >>> import lasthop as lh, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lh.run_seeds(lh.Scenario(lh.EXAMPLE), [1, 2]).save(folder)
    ...     lh.load_runs(folder).seeds
    [1, 2]
    """
    from lasthop.output import load_runs as load

    return load(folder)


def check_seeds(seeds: Iterable[int]) -> list[int]:
    """Return the seeds as a list; each must be a whole number from 0 to 2^64-1 and appear once."""
    if isinstance(seeds, (str, bytes)) or not hasattr(seeds, "__iter__"):
        raise ArgumentError(f"bad seeds {seeds!r}: give several, such as range(1, 11) or [1, 5]")
    wanted: list[int] = []
    known: set[int] = set()
    for given in seeds:
        try:
            seed = operator.index(given)
        except TypeError:
            seed = -1
        if not 0 <= seed < 2**64:
            raise ArgumentError(f"bad seed {given!r}: a seed is a whole number from 0 to 2^64-1")
        if seed in known:
            raise ArgumentError(f"seed {seed} is given twice: the same seed gives the same run")
        if len(wanted) == SEEDS_MAX:
            raise ArgumentError(f"too many seeds: at most {SEEDS_MAX:,} in one call")
        wanted.append(seed)
        known.add(seed)
    if not wanted:
        raise ArgumentError("no seeds given: at least one is needed")
    return wanted


def check_places(
    scenario: Scenario, places: Sequence[str] | None, *, spooled: bool, trace: bool
) -> list[str]:
    """Return where to capture packets, and refuse places that the scenario does not have."""
    if places is None:
        return [SENDERS] if spooled and trace else []
    if isinstance(places, str):
        raise ArgumentError(f"capture_at is a list of places: say capture_at=[{places!r}]")
    if not spooled:
        raise ArgumentError(
            "capture_at writes files while runs go on: say where with spool=, or run with trace=True and "
            "choose the place in write_pcapng"
        )
    for place in places:
        try:
            scenario.plan.check_place(place)
        except ValueError as error:
            raise ArgumentError(str(error)) from None
    return list(dict.fromkeys(places))


def collect(scenario: Scenario, outcome: Outcome) -> list[Run]:
    """Return the finished runs of a batch."""
    content = scenario.to_dict()
    return [
        Run(
            result.record,
            content,
            _native.__version__,
            NativeTables(result.native, result.summaries)
            if result.spool is None
            else SpooledTables(result.spool, result.summaries),
        )
        for result in outcome.results
        if result is not None
    ]


def add_to_history(scenario: Scenario, finished: list[Run]) -> None:
    """Write what finished runs learnt into the history file of the scenario, in one transaction."""
    file = scenario.history_file
    if file is None or not finished:
        return
    from lasthop import history

    try:
        history.add(file, history.from_records(run.record for run in finished))
    except OutputError as error:
        # The runs themselves are whole: the caller still gets them.
        failed = RunError(f"the runs are complete, but their history was not kept: {error}")
        failed.finished = Runs(finished)
        raise failed from None


def raise_if_ended_early(outcome: Outcome, finished: list[Run], so_far: str) -> None:
    """Raise what ended a batch early, carrying the runs that had finished."""
    if outcome.failure is None and not outcome.interrupted:
        return
    error = (
        RunError(outcome.failure) if outcome.failure is not None else Interrupted(f"interrupted: {so_far}")
    )
    error.finished = Runs(finished) if finished else None
    raise error from outcome.cause


def toml_value(value: object) -> str:
    """Write a Python value as a TOML value, the form in which overrides are read.

    Examples
    --------
    >>> toml_value({"kind": "list", "packets": [20, 22], "position": "before-queue"})
    '{ "kind" = "list", "packets" = [20, 22], "position" = "before-queue" }'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, dict):
        pairs = (f"{json.dumps(str(key))} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}"
    raise ArgumentError(f"a scenario cannot hold {value!r}: use text, numbers, booleans, lists and tables")
