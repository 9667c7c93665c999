"""The history of paths between commands: a small SQLite file that runs read first and add to afterwards.

Each row is a finished connection: the host at its other end, when it opened, and the window that it kept.
Called by `lasthop.api` around runs and by the commands `lasthop history ...`. Writing is one transaction
that takes the lock at its start, so two writers follow each other and a process that is killed leaves all
of its rows or none.
"""

from __future__ import annotations

import csv
import io
import json
import math
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lasthop.errors import ArgumentError, OutputError
from lasthop.syntax import slip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Newest rows kept for each host, hour, day, week and month; the engine keeps as many.
SAMPLES_MAX = 32
#: How long a writer waits for another one.
BUSY_TIMEOUT_S = 60.0
#: Marks the file as ours: "lhph" in ASCII.
APPLICATION_ID = 0x6C687068
SCHEMA = """
CREATE TABLE IF NOT EXISTS windows (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    endpoint TEXT NOT NULL,
    hour INTEGER NOT NULL CHECK (hour BETWEEN 0 AND 23),
    weekday INTEGER NOT NULL CHECK (weekday BETWEEN 0 AND 6),
    month INTEGER NOT NULL CHECK (month BETWEEN 1 AND 12),
    window_segments REAL NOT NULL CHECK (window_segments >= 1)
)
"""
#: Files of before weeks were noted get the column when they are next written to.
ADD_WEEK = "ALTER TABLE windows ADD COLUMN week INTEGER NOT NULL DEFAULT 0 CHECK (week BETWEEN 0 AND 53)"
#: What every row has; the week may be missing in older files, and is 0 then.
REQUIRED = ("endpoint", "hour", "weekday", "month", "window_segments")
COLUMNS = (*REQUIRED, "week")
INSERT = f"INSERT INTO windows ({', '.join(COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608 - constants
SELECT = "SELECT {} FROM windows ORDER BY id"
SAME_KEY = "endpoint = ?1 AND hour = ?2 AND weekday = ?3 AND month = ?4 AND week = ?5"
DELETE_OLD = (
    f"DELETE FROM windows WHERE {SAME_KEY} AND id <= "  # noqa: S608 - constants
    f"(SELECT id FROM windows WHERE {SAME_KEY} ORDER BY id DESC LIMIT 1 OFFSET ?6)"
)
INDEX = "CREATE INDEX IF NOT EXISTS windows_by_week ON windows (endpoint, hour, weekday, month, week, id)"
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
#: Rows that an import may bring: far more than a history keeps.
IMPORT_MAX = 1_000_000
#: Letters of the name of a node, and of a wrong value in an error.
NAME_MAX, SHOWN_MAX = 255, 60
IMPORT_BYTES_MAX = 1 << 27
WINDOW_MAX = 1e9
#: Bytes of a row: far more than a name of a node needs.
VALUE_MAX = 1 << 20
#: What a history consists of. Views and triggers would be programs of somebody else.
PARTS = frozenset({"table windows", "table sqlite_sequence", "index windows_by_week"})


class Entry(NamedTuple):
    """A finished connection.

    Attributes
    ----------
    endpoint : str
        The node at the other end.
    hour, weekday, month : int
        When it opened; Monday is 0.
    window_segments : float
        Time average of its window over its second half.
    week : int
        Week of the year as ISO 8601 counts it, 1 to 53; 0 if it is not known.
    """

    endpoint: str
    hour: int
    weekday: int
    month: int
    window_segments: float
    week: int = 0


def read(file: str | Path) -> list[Entry]:
    """Return all rows, oldest first.

    Parameters
    ----------
    file : path
        It must exist.
    """
    path = Path(file)
    with _errors(path), closing(_open(path)) as connection:
        return _read(path, connection)


def read_if_any(file: str | Path) -> list[Entry]:
    """Return all rows, or none if there is no file yet; refuse a place where none could be made."""
    path = Path(file)
    _refuse_place(path)
    return read(path) if path.exists() else []


def add(file: str | Path, entries: Iterable[Entry]) -> None:
    """Add rows in one transaction; the file is made if need be, and of each key the newest rows are kept."""
    path = Path(file)
    rows = list(entries)
    _refuse_place(path)
    with _errors(path), closing(_connect(path)) as connection, _transaction(connection):
        # Whether the file is ours is looked at under the lock: another process may be making it just now.
        if _is_empty(connection):
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        else:
            _check(path, connection)
        connection.execute(SCHEMA)
        if "week" not in _columns(connection):
            connection.execute(ADD_WEEK)
        connection.execute(INDEX)
        connection.executemany(INSERT, rows)
        keys = dict.fromkeys((*row[:4], row.week) for row in rows)
        connection.executemany(DELETE_OLD, [(*key, SAMPLES_MAX) for key in keys])


def clear(file: str | Path) -> int:
    """Delete all rows and return how many there were."""
    path = Path(file)
    with _errors(path), closing(_open(path)) as connection, _transaction(connection):
        return 0 if _is_empty(connection) else connection.execute("DELETE FROM windows").rowcount


def from_records(records: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Return the rows that finished runs have added, in the order of the runs."""
    return [Entry(**row) for record in records for row in record.get("history") or ()]


def parse(text: str, file_format: str, source: str) -> list[Entry]:
    r"""Read rows from CSV or JSON text; `source` stands for the text in messages.

    Examples
    --------
    >>> parse("endpoint,hour,weekday,month,window_segments\nserver,9,0,3,21.5", "csv", "a.csv")
    [Entry(endpoint='server', hour=9, weekday=0, month=3, window_segments=21.5, week=0)]
    """
    rows = _rows_of_json(text, source) if file_format == "json" else _rows_of_csv(text, source)
    entries: list[Entry] = []
    for number, row in rows:
        if len(entries) == IMPORT_MAX:
            raise ArgumentError(f"'{source}' has more than {IMPORT_MAX:,} rows")
        entries.append(_entry(row, f"'{source}', {number}"))
    return entries


def dump(entries: Iterable[Entry], file_format: str) -> str:
    r"""Write rows as CSV or JSON text, which `parse` reads back unchanged.

    Examples
    --------
    >>> dump([Entry("server", 9, 0, 3, 21.5)], "csv")
    'endpoint,hour,weekday,month,window_segments,week\nserver,9,0,3,21.5,0\n'
    """
    if file_format == "json":
        return json.dumps([entry._asdict() for entry in entries], indent=1) + "\n"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(entries)
    return text.getvalue()


def format_of(file: str | Path) -> str:
    """Return ``csv`` or ``json``, whichever the name ends in."""
    ending = Path(file).suffix.lower().removeprefix(".")
    if ending not in ("csv", "json"):
        raise ArgumentError(f"'{file}' ends neither in .csv nor in .json: the ending chooses the format")
    return ending


def read_text(file: str | Path) -> str:
    """Return the text of a file that is to be imported."""
    from lasthop.files import read_at_most

    try:
        raw = read_at_most(Path(file), IMPORT_BYTES_MAX)
        if raw is None:
            raise OutputError(f"cannot read '{file}': it has more than {IMPORT_BYTES_MAX} bytes")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise OutputError(f"cannot read '{file}': it is not text in UTF-8") from None
    except OSError as error:
        raise OutputError(f"cannot read '{file}': {(error.strerror or str(error)).lower()}") from None


def _rows_of_csv(text: str, source: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    try:
        _check_columns(reader.fieldnames or (), f"'{source}'")
        for row in reader:
            yield f"line {reader.line_num}", row
    except csv.Error as error:
        raise OutputError(f"'{source}' is not valid CSV: {error}") from None


def _rows_of_json(text: str, source: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OutputError(f"'{source}' is {slip(text, 'json', source, error)}") from None
    if not isinstance(content, list):
        raise OutputError(f"'{source}' holds no list of rows; 'lasthop history export' writes one")
    for number, row in enumerate(content, 1):
        if not isinstance(row, dict):
            raise OutputError(f"'{source}', row {number}: it is no object with the keys {', '.join(COLUMNS)}")
        _check_columns(row, f"'{source}', row {number},")
        yield f"row {number}", row


def _check_columns(found: Iterable[str], where: str) -> None:
    columns = list(found)
    if sorted(columns) not in (sorted(COLUMNS), sorted(REQUIRED)):
        shown = ", ".join(map(str, columns)) or "none"
        raise OutputError(f"{where} has the columns {shown}; expected {', '.join(COLUMNS)}")


def _entry(row: Mapping[str, Any], where: str) -> Entry:
    """Check one row of a file."""
    endpoint = row["endpoint"]
    if not isinstance(endpoint, str) or not endpoint.strip() or len(endpoint) > NAME_MAX:
        raise OutputError(f"{where}: endpoint is {_shown(endpoint)}; expected the name of a node")
    limits = {"hour": (0, 23), "weekday": (0, 6), "month": (1, 12), "week": (0, 53)}
    known = {"week": 0, **row}
    numbers = {name: _whole(known[name], name, low, high, where) for name, (low, high) in limits.items()}
    try:
        window = float(row["window_segments"])
    except (TypeError, ValueError, OverflowError):
        window = math.nan
    if not 1 <= window <= WINDOW_MAX:
        given = _shown(row["window_segments"])
        raise OutputError(f"{where}: window_segments is {given}; expected a number of segments, at least 1")
    return Entry(endpoint, window_segments=window, **numbers)


def _whole(value: object, name: str, low: int, high: int, where: str) -> int:
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if not isinstance(number, int) or isinstance(number, bool) or not low <= number <= high:
        raise OutputError(f"{where}: {name} is {_shown(value)}; expected a whole number from {low} to {high}")
    return number


def _shown(value: object) -> str:
    """Return the beginning of a value for an error."""
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "..."


def _connect(path: Path) -> sqlite3.Connection:
    # Transactions are begun by hand. The busy timeout makes a second writer wait instead of failing.
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    # Nothing that a file says is executed, and no value is larger than any of ours.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_MAX)
    return connection


def _refuse_place(path: Path) -> None:
    """Refuse a place where no history can be written."""
    from lasthop.files import check_file

    if "\0" in str(path):
        raise OutputError(f"no path history can be called {str(path)!r}: the name has a zero byte")
    if path.is_dir():
        raise OutputError(f"'{path}' is a folder, not a path history")
    check_file(path)


def _open(path: Path) -> sqlite3.Connection:
    """Open a file that must be a history."""
    if path.is_dir():
        raise OutputError(f"'{path}' is a folder, not a path history")
    if not path.exists():
        raise OutputError(
            f"no path history at '{path}': there is no such file; runs with [history] file = ... make one"
        )
    connection = _connect(path)
    try:
        if not _is_empty(connection):
            _check(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_empty(connection: sqlite3.Connection) -> bool:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return int(tables) == 0


def _check(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse a database that is not a history."""
    found = connection.execute("SELECT type || ' ' || name, sql FROM sqlite_master").fetchall()
    foreign = [part for part, sql in found if part not in PARTS or "VIRTUAL TABLE" in (sql or "").upper()]
    if foreign and any(part == "table windows" or part.endswith(" windows") for part, _ in found):
        raise OutputError(f"'{path}' is no path history of ours: it has a {foreign[0]!r}")
    columns = _columns(connection)
    if not columns:
        raise OutputError(f"'{path}' is a database, but not a path history: it has no table 'windows'")
    missing = [name for name in ("id", *REQUIRED) if name not in columns]
    if missing:
        raise OutputError(
            f"'{path}' is a database, but not a path history: its table 'windows' lacks {', '.join(missing)}"
        )


def _columns(connection: sqlite3.Connection) -> list[str]:
    return [row[1] for row in connection.execute("PRAGMA table_info(windows)")]


def _read(path: Path, connection: sqlite3.Connection) -> list[Entry]:
    if _is_empty(connection):
        # Made by a writer that was killed before its first transaction was complete.
        return []
    columns = COLUMNS if "week" in _columns(connection) else REQUIRED
    (held,) = connection.execute("SELECT count(*) FROM windows").fetchone()
    if held > IMPORT_MAX:
        raise OutputError(f"'{path}' has more than {IMPORT_MAX:,} rows: 'lasthop history clear' empties it")
    rows = enumerate(connection.execute(SELECT.format(", ".join(columns))), 1)
    return [_entry(dict(zip(columns, row, strict=True)), f"'{path}', row {number}") for number, row in rows]


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    # IMMEDIATE: the lock is taken before anything is read: two writers cannot both start from the same state.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Say in one line what SQLite says in its own words."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            why = f"another process has held it for {BUSY_TIMEOUT_S:g} s; try again"
            raise OutputError(f"cannot use the path history '{path}': {why}") from None
        raise OutputError(f"cannot use the path history '{path}': {error}") from None
    except sqlite3.DatabaseError as error:
        raise OutputError(
            f"'{path}' is not a path history, or it is damaged: {error}; "
            "delete it, or name another file in [history]"
        ) from None
