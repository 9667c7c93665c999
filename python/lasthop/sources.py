"""Senders that are named by their file, ``FILE.py:CLASS``, and the source of every sender written in Python.

`lasthop.api` asks `names_in` which senders a scenario names so, and `load` for their classes; studies ask
`Source.digest`, because what a class says decides what its runs are. Loading a file executes it: that is done
for what a caller names, and for what a file names only where the caller trusts that file.
"""

from __future__ import annotations

import re
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from lasthop import stand_ins
from lasthop._native import Sender
from lasthop.errors import ScenarioError, TrustError

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Iterator, Mapping
    from types import ModuleType

NAMED = re.compile(r"(?P<file>.+\.py):(?P<class>[^\W\d]\w*)")
#: What a text must hold for it to be worth parsing.
MARK = ".py:"
#: Keys of a scenario that name a sender.
KEYS = ("transport", "cc", "congestion")
#: What stands before the name of one that a real stack drives.
IN_STACK = re.compile(r"^(\w+:)?lasthop:")
#: Longer scenarios are refused by the engine.
LONGEST_TEXT = 1 << 20

_loading = threading.Lock()


@dataclass(frozen=True)
class Source:
    """The source of one class.

    Attributes
    ----------
    class_name : str
        Its name in its file.
    file : str
        The file, as a key of `files`; empty for a class that has none, such as one of a notebook.
    files : dict
        Contents of the file and of what it imports from its own folder, by their paths in that folder.
    digest : str
        SHA-256 of all that.
    folder : Path or None
        Where the files are.
    """

    class_name: str
    file: str
    digest: str
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    folder: Path | None = field(default=None, compare=False)

    @property
    def places(self) -> list[Path]:
        """The files."""
        return [] if self.folder is None else [self.folder / name for name in self.files]


def names_in(content: object) -> set[str]:
    """Return the senders that a scenario names by their file.

    Examples
    --------
    >>> flows = [{"transport": "mine.py:Mine"}, {"transport": {"cc": "my.py:Other"}}, {"transport": "reno"}]
    >>> sorted(names_in({"flows": flows}))
    ['mine.py:Mine', 'my.py:Other']
    >>> names_in({"transport": {"stack": "quinn", "congestion": "lasthop:mine.py:Mine"}})
    {'mine.py:Mine'}
    """
    return {name for name in _named(content) if NAMED.fullmatch(name)}


def names_in_text(text: str, *, json_text: bool) -> set[str]:
    """As `names_in`, for the text of a file; one that cannot be parsed names nothing and fails later."""
    if MARK not in text:
        return set()
    import json

    from lasthop.syntax import toml

    try:
        return names_in(json.loads(text) if json_text else toml(text))
    except (ValueError, RecursionError):
        return set()


def names_in_overrides(overrides: Mapping[str, str]) -> set[str]:
    """As `names_in`, for overrides as the command line has them: TOML values, or bare text."""
    found: set[str] = set()
    marked = {key: value for key, value in overrides.items() if MARK in value}
    if not marked:
        return found
    from lasthop.syntax import toml

    for key, value in marked.items():
        last = key.rpartition(".")[2]
        try:
            found |= names_in({last: toml(f"value = {value}")["value"]})
        except (ValueError, RecursionError):
            found |= names_in({last: value})
    return found


def used(content: object, known: Iterable[str]) -> list[str]:
    """Return which of the known names a scenario uses, sorted."""
    return sorted(set(known) & set(_named(content)))


def _named(content: object) -> Iterator[str]:
    """Yield every name of a sender."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key in KEYS and isinstance(value, str):
                yield IN_STACK.sub("", value, count=1)
            yield from _named(value)
    elif isinstance(content, (list, tuple)):
        for value in content:
            yield from _named(value)


def read_text(path: Path) -> str:
    """Return what a scenario file says, if it can be one at all; else nothing, and the engine says why."""
    try:
        if not path.is_file() or path.stat().st_size > LONGEST_TEXT:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def load(name: str, folders: Iterable[Path]) -> tuple[type[Sender], Source]:
    """Return the class that ``FILE.py:CLASS`` names, and its source.

    Parameters
    ----------
    name : str
        The name.
    folders : iterable of path
        Where the file is looked for, in this order.

    Raises
    ------
    ScenarioError
        If there is no such file or class, or the file cannot be executed.
    """
    match = NAMED.fullmatch(name)
    if match is None:
        raise _refusal(name, "it is not the name of a class in a file", "write FILE.py:CLASS")
    tried = list(dict.fromkeys(Path(folder) for folder in folders))
    found = next((folder / match["file"] for folder in tried if (folder / match["file"]).is_file()), None)
    if found is None:
        places = " or ".join(f"'{folder / match['file']}'" for folder in tried)
        raise _refusal(
            name,
            f"there is no file {places}",
            "it is looked for beside the scenario or the study, then in the current folder",
        )
    return load_class(name, found, match["class"])


def load_class(name: str, path: Path, class_name: str) -> tuple[type[Sender], Source]:
    """Return a class of a file, and its source; `name` is what messages call it."""
    try:
        files = _files(path)
        if stand_ins.wanted():
            source = Source(class_name, path.name, _digest(class_name, files), files, path.parent)
            return stand_ins.stand_in(class_name, files), source
        content = tuple(sorted(files.items()))
        with _loading:
            module = _module(path.resolve(), content)
    except OSError as error:
        raise _refusal(name, f"'{path}' cannot be read: {(error.strerror or str(error)).lower()}") from None
    except SyntaxError as error:
        raise _refusal(name, f"'{path}' is not Python: {error.msg}, line {error.lineno}") from None
    except Exception as error:
        what = f"'{path}' raises {type(error).__name__} when it is loaded: {error}"
        raise _refusal(name, what, f"'python {path}' shows where") from error
    class_ = getattr(module, class_name, None)
    if not (isinstance(class_, type) and issubclass(class_, Sender)):
        senders = [
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, Sender) and value is not Sender
        ]
        remedy = f"it has {', '.join(senders)}" if senders else "a sender inherits from lasthop.Sender"
        what = "is no class that inherits from lasthop.Sender" if class_ is not None else "is not there"
        raise _refusal(name, f"{class_name} {what} in '{path}'", remedy)
    return class_, Source(class_name, path.name, _digest(class_name, files), files, path.parent)


def source_of(class_: type) -> Source:
    """Return the source of a class that was handed over as such."""
    module = sys.modules.get(class_.__module__)
    file = getattr(module, "__file__", None)
    if file is not None and Path(file).is_file() and Path(file).suffix == ".py":
        try:
            files = _files(Path(file))
            digest = _digest(class_.__qualname__, files)
            return Source(class_.__qualname__, Path(file).name, digest, files, Path(file).parent)
        except (OSError, SyntaxError):
            pass
    import hashlib

    # A notebook or an interpreter: what the methods were compiled to.
    own = [base for base in class_.__mro__ if base not in (Sender, object)]
    content = repr([(base.__qualname__, _compiled(vars(base))) for base in own])
    return Source(class_.__qualname__, "", hashlib.sha256(content.encode()).hexdigest())


def untrusted(name: str, where: str | None) -> TrustError:
    """Return the refusal of a sender that a file names; `where` is that file, if nothing says it yet."""
    match = NAMED.fullmatch(name)
    file, class_name = (name, "") if match is None else (match["file"], match["class"])
    return TrustError(
        f'scenario error: transport "{name}": a file names this Python code, so it was not run'
        + (f"\n  at {where}" if where is not None else "")
        + f"\n     look at {class_name} in {file}; --trust runs it (in Python: trust=True)"
    )


def _refusal(name: str, what: str, remedy: str = "") -> ScenarioError:
    return ScenarioError(
        f'scenario error: transport "{name}": {what}' + (f"\n     {remedy}" if remedy else "")
    )


@lru_cache(maxsize=64)
def _module(path: Path, content: tuple[tuple[str, bytes], ...]) -> ModuleType:
    """Execute a file; what it imports from its own folder is its own, whatever else bears that name."""
    import importlib.util

    digest = _digest("", dict(content))
    unique = f"lasthop_sender_{path.stem}_{digest[:12]}"
    spec = importlib.util.spec_from_file_location(unique, path)
    if spec is None or spec.loader is None:
        raise OSError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module
    with _siblings(path.parent, {Path(name).parts[0].removesuffix(".py") for name, _ in content}):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _siblings(folder: Path, names: set[str]) -> Iterator[None]:
    """Let modules of a folder be imported from there, and forget them afterwards."""

    def take_away() -> dict[str, ModuleType]:
        mine = [name for name in sys.modules if name.partition(".")[0] in names]
        return {name: sys.modules.pop(name) for name in mine}

    import importlib

    known = take_away()
    # Python takes a file that changes within a second, and keeps its length, for the one it has compiled.
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = kept
        take_away()
        sys.modules.update(known)


def _files(path: Path) -> dict[str, bytes]:
    """Return a file and all that it imports from its own folder, directly or not."""
    import ast

    folder = path.parent
    files: dict[str, bytes] = {}
    waiting = [path]
    while waiting:
        one = waiting.pop()
        name = one.relative_to(folder).as_posix()
        if name in files:
            continue
        files[name] = one.read_bytes()
        for module in _imported(ast.parse(files[name])):
            parts = module.split(".")
            for depth in range(1, len(parts) + 1):
                base = folder.joinpath(*parts[:depth])
                waiting += [
                    place for place in (base.with_suffix(".py"), base / "__init__.py") if place.is_file()
                ]
    return files


def _imported(tree: ast.Module) -> Iterator[str]:
    import ast

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _digest(class_name: str, files: Mapping[str, bytes]) -> str:
    import hashlib

    whole = hashlib.sha256(class_name.encode())
    for name, content in sorted(files.items()):
        whole.update(f"\n{name} {hashlib.sha256(content).hexdigest()}".encode())
    return whole.hexdigest()


def _compiled(value: Any) -> object:  # noqa: ANN401, PLR0911 - whatever a class holds; a case each
    """Return what a method or an attribute is, as far as it decides what the class does."""
    if isinstance(value, (staticmethod, classmethod)):
        return _compiled(value.__func__)
    if isinstance(value, FunctionType):
        return _compiled(value.__code__), repr(value.__defaults__), repr(value.__kwdefaults__)
    if isinstance(value, CodeType):
        return value.co_code.hex(), value.co_names, [_compiled(one) for one in value.co_consts]
    if isinstance(value, (bool, int, float, str, bytes, type(None))):
        return repr(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [
            _compiled(one)
            for one in (sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value)
        ]
    if hasattr(value, "items"):
        mine = {
            str(key): one for key, one in value.items() if key not in ("__module__", "__doc__", "__dict__")
        }
        return sorted((key, repr(_compiled(one))) for key, one in mine.items())
    return type(value).__qualname__
