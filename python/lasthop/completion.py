"""What the shell offers behind ``--set``: the keys of the scenario that is named, or all that there are.

Nothing is executed and no scenario is judged for it: files are read as tables, and only small ones. Called by
the completion of the command line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer  # noqa: TC002 - it reads the annotation when a command runs

from lasthop import _native

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Bytes of a file that is read while somebody waits for the shell.
MOST_BYTES = 1 << 18
#: More keys than these are not offered at once.
OFFERED_MAX = 100
#: What may stand in place of a number.
RANDOM = "#/$defs/random-value"
#: Tables within tables that are looked into: no key lies deeper.
DEPTH_MAX = 10


def complete_settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the keys that ``--set`` may go on with, for the shell."""
    if "=" in incomplete:
        return []
    content = _named_content([*ctx.params.values(), *ctx.args])
    own = [key for key in dict.fromkeys(_keys_of(content)) if key.startswith(incomplete)]
    return offered(own or known_keys(incomplete, content), incomplete)


def offered(keys: list[str], begun: str) -> list[str]:
    """Return the keys with their sign; of many, those of the next table only, as shells do with folders.

    Examples
    --------
    >>> offered(["tcp.mss", "tcp.rto.min", "tcp.rto.max"], "tcp.")
    ['tcp.mss=', 'tcp.rto.min=', 'tcp.rto.max=']
    """
    if len(keys) <= OFFERED_MAX:
        return [f"{key}=" for key in keys]
    depth = begun.count(".") + 1
    cut = [(".".join(key.split(".")[:depth]), key.count(".") >= depth) for key in keys]
    return list(dict.fromkeys(f"{key}." if is_table else f"{key}=" for key, is_table in cut))


def known_keys(begun: str, content: Mapping[str, Any] | None = None) -> list[str]:
    """Return every key that a scenario may have and that begins so.

    Parameters
    ----------
    begun : str
        How the key begins.
    content : mapping, optional
        A scenario: of a list in it, each entry is named by its number. Without one only the first is.

    Examples
    --------
    >>> known_keys("dur")
    ['duration']
    >>> known_keys("tcp.initial_w")
    ['tcp.initial_window']
    """
    schema = json.loads(_native.schema())
    keys = _keys_within(schema, schema["$defs"], content or {}, begun)
    return list(dict.fromkeys(keys))


def _named_content(words: Iterable[object]) -> dict[str, Any]:
    """Return what the first scenario or study that is named says; nothing if it cannot be read at once."""
    from lasthop.errors import LasthopError
    from lasthop.studies.content import read_content

    named = [one for word in words for one in (word if isinstance(word, (list, tuple)) else [word])]
    for path in (Path(one) for one in named if isinstance(one, (str, Path))):
        if path.suffix not in {".toml", ".json"} or not path.is_file() or path.stat().st_size > MOST_BYTES:
            continue
        try:
            content = read_content(path)
        except LasthopError:
            continue
        inner = content.get("scenario")
        if isinstance(inner, dict):
            return inner
        return _named_content([path.parent / inner]) if isinstance(inner, str) else content
    return {}


def _keys_of(value: object, before: str = "") -> Iterator[str]:
    """Yield the keys of all values in tables within tables."""
    inner: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        inner = enumerate(value)
    elif before:
        yield before
    for key, one in inner:
        yield from _keys_of(one, f"{before}.{key}" if before else str(key))


def _keys_within(
    node: Mapping[str, Any],
    known: Mapping[str, Any],
    content: object,
    begun: str,
    before: str = "",
    depth: int = 0,
) -> Iterator[str]:
    """Yield the keys of a schema that begin so, and go through what may lead to them alone."""
    if depth > DEPTH_MAX or not (before.startswith(begun) or begun.startswith(before)):
        return
    variants = list(_variants(node, known))
    has_inner = False
    for variant in variants:
        inner: Iterable[tuple[object, object]] = variant.get("properties", {}).items()
        entries = variant.get("items")
        if isinstance(entries, dict) and any("properties" in one for one in _variants(entries, known)):
            count = len(content) if isinstance(content, list) and content else 1
            inner = [*inner, *((place, entries) for place in range(count))]
        for key, given in inner:
            # A schema may be ``true``: any value.
            has_inner, one = True, given if isinstance(given, dict) else {}
            place = f"{before}.{key}" if before else str(key)
            yield from _keys_within(one, known, _within(content, key), begun, place, depth + 1)
    # A list of names is a value, and one of tables is not.
    lists = [variant["items"] if isinstance(variant.get("items"), dict) else variant for variant in variants]
    within = [one for variant in lists for one in _variants(variant, known)]
    is_value = any("properties" not in one for one in within)
    if before and before.startswith(begun) and (is_value or not has_inner):
        yield before


def _variants(node: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what a part of a schema may be: itself, what it refers to, and its alternatives."""
    if "$ref" in node:
        yield from _variants(known[node["$ref"].rpartition("/")[2]], known)
        return
    others = [one for kind in ("oneOf", "anyOf", "allOf") for one in node.get(kind, [])]
    # Nearly every number may be random: its keys would hide all others.
    others = [one for one in others if one.get("$ref") != RANDOM]
    if not others or "properties" in node:
        yield node
    for one in others:
        yield from _variants(one, known)


def _within(content: object, key: object) -> object:
    if isinstance(content, dict):
        return content.get(key)
    if isinstance(content, list) and isinstance(key, int) and key < len(content):
        return content[key]
    return None
