"""What can be simulated: `Scenario`, a checked scenario, and the lists of what scenarios may name.

Runs nothing. `lasthop.api` runs scenarios; studies, laws and plots read them.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lasthop import _native, sources, stand_ins
from lasthop.errors import ArgumentError, ScenarioError, TrustError, native_errors
from lasthop.quantities import time_text
from lasthop.senders import Sender, describe, describe_all
from lasthop.visible import typed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

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
        *("_asked", "_own", "_text", "_trust"),
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
        text = json_of(content, "Scenario")
        self._know(transports, trust=trust)
        self._folder = Path(folder)
        self._search: tuple[Path, ...] = ()
        # The keys of overrides that the caller gave, and not a file: they may name any file. `None`: all may.
        self._own: frozenset[str] | None = None
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
        scenario._own = None  # noqa: SLF001 - its own class
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
            Whether senders that the file names ``FILE.py:CLASS`` are loaded, which executes their files, and
            whether it may name files outside of its folder and the current one.
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
        scenario._own = None if trust else frozenset(overrides or {})  # noqa: SLF001 - its own class
        scenario._search = tuple(map(Path, search))  # noqa: SLF001 - its own class
        scenario._kind = "toml"  # noqa: SLF001 - its own class
        try:
            changed = scenario._ask(overrides)  # noqa: SLF001 - its own class
            scenario._open(Path(path), "", "", changed)  # noqa: SLF001 - its own class
        except ScenarioError:
            if is_study(Path(path)):
                raise ScenarioError(
                    f"scenario error: it is a study, not a scenario\n  at {path}\n"
                    f"     'lasthop study run {typed(path)}' runs it"
                ) from None
            raise
        return scenario

    def _open(self, path: Path | None, text: str, name: str, overrides: dict[str, str]) -> None:
        self._path, self._text, self._name, self._overrides = path, text, name, overrides
        self._load_senders()
        self._plan: _native.Plan | None = self._judged()

    def _judged(self) -> _native.Plan:
        """Let the engine check what the scenario says."""
        changed, classes = list(self._overrides.items()), list(self._senders.values())
        own = None if self._own is None else sorted(self._own)
        with native_errors():
            if self._path is not None:
                return _native.load_scenario(self._path, changed, classes, own)
            return _native.parse_scenario(
                self._text, self._kind, self._name, changed, classes, self._folder, own
            )

    @classmethod
    def draft(
        cls,
        given: Path | Mapping[str, Any],
        *,
        folder: Path,
        transports: Senders | None = None,
        search: Iterable[str | Path] = (),
        trust: bool = False,
    ) -> Scenario:
        """Return what `overridden` makes scenarios of, which need not be one that could be run itself.

        Parameters
        ----------
        given : path or mapping
            A scenario file, or what it says.
        folder : path
            What the files that it names are relative to.
        transports, search, trust
            As for `load`.
        """
        scenario = cls.__new__(cls)
        scenario._know(transports, trust=trust)  # noqa: SLF001 - its own class
        scenario._folder, scenario._search = folder, tuple(map(Path, search))  # noqa: SLF001 - its own class
        scenario._own = None if trust else frozenset()  # noqa: SLF001 - its own class
        is_file = isinstance(given, Path)
        scenario._kind = "toml" if is_file else "json"  # noqa: SLF001 - its own class
        scenario._path = given if isinstance(given, Path) else None  # noqa: SLF001 - its own class
        scenario._text = "" if is_file else json.dumps(given)  # noqa: SLF001 - its own class
        scenario._name, scenario._overrides = "", scenario._ask(None)  # noqa: SLF001 - its own class
        scenario._plan = None  # noqa: SLF001 - its own class
        return scenario

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
        said = {key: changed[key] for key in overrides if key not in of_file}
        names = sources.names_in_overrides(said)
        own = None if self._own is None else (self._own - set(overrides)) | said.keys()
        return self._again(self._senders, self._sources, changed, (self._asked | names, own))

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
        return self._again(senders, self._sources | found, self._overrides, (self._asked, self._own))

    def _again(
        self,
        senders: dict[str, _native.SenderClass],
        known: dict[str, sources.Source],
        overrides: dict[str, str],
        asked: tuple[frozenset[str], frozenset[str] | None],
    ) -> Scenario:
        scenario = Scenario.__new__(Scenario)
        scenario._trust = self._trust  # noqa: SLF001 - its own class
        scenario._asked, scenario._own = asked  # noqa: SLF001 - its own class
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
        if self._plan is None:
            self._plan = self._judged()
        return self._plan

    @property
    def history_file(self) -> Path | None:
        """Where ``[history]`` keeps the history of paths; relative to the scenario file."""
        file = self.plan.history_file
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
        return [Path(file) for file in self.plan.input_files]

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
        return self.plan.advice

    def read_history(self) -> list[Entry]:
        """Return what the history file holds now; nothing if there is none yet."""
        file = self.history_file
        if file is None:
            return []
        self._refuse_elsewhere(file)
        from lasthop.history import read_if_any

        return read_if_any(file)

    def _refuse_elsewhere(self, history: Path) -> None:
        """Refuse a history outside of the folder of the scenario file that asks for it."""
        asked = self._path is None or self._trust or any(key.startswith("history") for key in self._overrides)
        place = history.resolve()
        if asked or any(place.is_relative_to(one.resolve()) for one in (self._folder, Path())):
            return
        raise TrustError(
            f"'{self._path}' keeps its history in '{history}', outside of its folder: if you trust it, add "
            "--trust (trust=True in Python); or say where: --set history.file=PATH"
        )

    @property
    def name(self) -> str:
        """Name shown in results."""
        return self.plan.name

    @property
    def seed(self) -> int:
        """Seed of a run that asks for none."""
        return self.plan.seed

    @property
    def duration_s(self) -> float:
        """Simulated length of a run in seconds."""
        return self.plan.duration_s

    @property
    def flow_names(self) -> list[str]:
        """Names of all flows."""
        return self.plan.flow_names

    @property
    def ends(self) -> list[tuple[str, str]]:
        """Nodes at which each flow starts and ends."""
        return self.plan.ends

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
        return dict(self.plan.hosts)

    @property
    def link_names(self) -> list[str]:
        """Names of all links."""
        return self.plan.link_names

    @property
    def transports(self) -> list[str]:
        """Transport of each flow."""
        return self.plan.transports

    def to_json(self) -> str:
        """Return the scenario, after overrides, as JSON text."""
        return self.plan.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Return the scenario, after overrides, as a dictionary."""
        content: dict[str, Any] = json.loads(self.plan.to_json())
        return content

    def __repr__(self) -> str:
        kinds = sorted(set(self.transports))
        return (
            f"<Scenario {self.name!r}: {time_text(self.duration_s)}, {len(self.flow_names)} flows "
            f"({', '.join(kinds)}), {len(self.link_names)} links>"
        )

    def _repr_html_(self) -> str:
        import html

        return f"<p>{html.escape(repr(self)[1:-1])}</p>"


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


def json_of(content: Mapping[str, Any], what: str) -> str:
    """Return a scenario's content as JSON text; `what` is the class that was given it."""
    if not isinstance(content, Mapping):
        raise ScenarioError(
            f"a scenario is a table of keys, found {type(content).__name__}: "
            f"{what}.load(path) opens a file, {what}.read(text) reads TOML"
        )
    try:
        return json.dumps(dict(content))
    except (TypeError, ValueError) as error:
        raise ScenarioError(
            f"a scenario holds text, numbers, booleans, lists and tables only: {error}"
        ) from None


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


def may_be_scenario(path: Path) -> bool:
    """Whether a file is there and is no study; what it says is not judged."""
    return path.is_file() and not is_study(path)


def is_study(path: Path) -> bool:
    """Whether a file can be read and names metrics and a scenario; what else it says is not judged."""
    from lasthop.errors import StudyError
    from lasthop.studies.content import read_content

    try:
        content = read_content(path)
    except StudyError:
        return False
    return "metrics" in content and "scenario" in content


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
