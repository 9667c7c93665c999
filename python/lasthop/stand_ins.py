"""Senders of files that are read and not executed, for commands that look at a scenario and run nothing.

`lasthop.api` asks for them inside `unexecuted`. What a class is called, takes and has is read from its text;
a run of it would end with an error. Nothing here imports or compiles what it reads.
"""

from __future__ import annotations

import ast
import inspect
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from lasthop._native import Sender

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_only_read: ContextVar[bool] = ContextVar("_only_read", default=False)

#: What a class must have, in case it inherits it from where nothing was read.
METHODS = ("on_ack", "on_loss")
#: What a class says of itself in its body.
ATTRIBUTES = ("recovery", "classifies")


@contextmanager
def unexecuted() -> Iterator[None]:
    """Within it no sender that is named by its file is executed: a stand-in takes its place.

    Examples
    --------
    >>> with unexecuted():
    ...     wanted()
    True
    >>> wanted()
    False
    """
    token = _only_read.set(True)
    try:
        yield
    finally:
        _only_read.reset(token)


def wanted() -> bool:
    """Whether we are within `unexecuted`."""
    return _only_read.get()


def stand_in(class_name: str, files: Mapping[str, bytes]) -> type[Sender]:
    r"""Return a class that is described as the one of this name in these files, and cannot run.

    Examples
    --------
    >>> text = "class Mine(Sender):\n    recovery = 'sack'\n    def __init__(self, gain=2): pass"
    >>> found = stand_in("Mine", {"my.py": text.encode()})
    >>> found.recovery, str(inspect.signature(found))
    ('sack', '(gain=2)')
    """
    known = {
        node.name: node
        for text in files.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    }
    has: dict[str, Any] = dict.fromkeys(METHODS, _refuse)
    # The nearest comes last, and wins.
    for node in reversed(_line(class_name, known)):
        has["__doc__"] = ast.get_docstring(node)
        for part in node.body:
            if isinstance(part, ast.FunctionDef):
                has[part.name] = _constructor(part.args) if part.name == "__init__" else _refuse
            elif isinstance(part, (ast.Assign, ast.AnnAssign)):
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                names = [one.id for one in targets if isinstance(one, ast.Name)]
                has |= {name: _value(part.value) for name in names if name in ATTRIBUTES}
    return type(class_name, (Sender,), has)


def _line(class_name: str, known: Mapping[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """Return a class and those that it inherits from, as far as they are known, the nearest first."""
    line: list[ast.ClassDef] = []
    waiting = [class_name]
    while waiting:
        node = known.get(waiting.pop(0))
        if node is None or node in line:
            continue
        line.append(node)
        waiting += [
            base.attr if isinstance(base, ast.Attribute) else ast.unparse(base) for base in node.bases
        ]
    return line


def _refuse(*_: object) -> None:
    raise RuntimeError("its file was read and not executed")


def _constructor(arguments: ast.arguments) -> Any:  # noqa: ANN401 - a function with a signature of its own
    def construct(*_: object, **__: object) -> None:
        _refuse()

    kinds = inspect.Parameter
    placed = [*arguments.posonlyargs, *arguments.args]
    lacking = len(placed) - len(arguments.defaults)
    defaults = [kinds.empty] * lacking + [_value(value) for value in arguments.defaults]
    found = [
        kinds(one.arg, kinds.POSITIONAL_OR_KEYWORD, default=default)
        for one, default in zip(placed, defaults, strict=True)
    ]
    found += [
        kinds(one.arg, kinds.KEYWORD_ONLY, default=kinds.empty if value is None else _value(value))
        for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    construct.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    return construct


def _value(node: ast.expr | None) -> Any:  # noqa: ANN401 - whatever stands there
    """Return a value that stands in a text; one that would have to be worked out counts as a number."""
    try:
        return None if node is None else ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return 0.0
