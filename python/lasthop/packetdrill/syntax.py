"""The syntax of packetdrill scripts: text to statements with their lines.

Statements are options (``--name=value``), commands of a shell in backticks, and events: a time with a
segment, a system call or Python between ``%{`` and ``}%``. `translation.py` knows what they mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from lasthop.errors import ScenarioError

if TYPE_CHECKING:
    from lark import Lark

#: Line breaks are blanks; calls hold parentheses in parentheses.
GRAMMAR = r"""
start: statement*
?statement: option | shell | event
option: OPTION
shell: SHELL
event: TIME (call | segment | shell | code)
code: CODE
call: NAME "(" inner* ")" "=" RESULT [ERRNO] [NOTE]
inner: INNER | "(" inner* ")"
segment: DIRECTION [ECN] FLAGS [RANGE] ["ack" NUMBER] ["win" NUMBER] [urgent] [OPTIONS]
urgent: "urg" NUMBER

OPTION: /--[a-z_0-9]+(=[^\s]+)?/
SHELL: /`[^`]*`/
CODE: /%\{.*?\}%/s
TIME.2: /\*|\+?(\d+(\.\d+)?|\.\d+)(\s*(~|\.\.\.)\s*\+?(\d+(\.\d+)?|\.\d+))?/
NAME: /[a-z_][a-z_0-9]*/
INNER: /(?:"[^"]*"|[^()"\/]|\/(?![\/*]))+/
RESULT: /-?(0x[0-9a-fA-F]+|\d+)|\.\.\./
ERRNO: /E[A-Z]+/
NOTE: /\([^()]*\)/
DIRECTION: "<" | ">"
ECN: /\[[a-z0-9]+\]/
FLAGS: /[SFRPEWAU.]+|-/
RANGE.3: /\d+:\d+\(\d+\)/
NUMBER: /\d+/
OPTIONS: /<[^<>]*>/
COMMENT: /\/\/[^\n]*/ | /#[^\n]*/ | /\/\*.*?\*\//s
%ignore COMMENT
%ignore /\s+/
"""


@dataclass(frozen=True, slots=True)
class When:
    """A time in seconds; `relative` to the event before it, up to `until`. `any` is at whatever time."""

    at: float = 0.0
    until: float | None = None
    relative: bool = False
    any: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """What all statements have: the line on which they begin."""

    line: int


@dataclass(frozen=True, slots=True)
class Option(Statement):
    """``--name=value``."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Shell(Statement):
    """A command of a shell."""

    text: str


@dataclass(frozen=True, slots=True)
class Code(Statement):
    """Python that looks at what the kernel tells."""

    when: When
    text: str


@dataclass(frozen=True, slots=True)
class Call(Statement):
    """A system call with its arguments as they are written, and what it returns."""

    when: When
    name: str
    arguments: list[str]
    result: int | None


@dataclass(frozen=True, slots=True)
class Segment(Statement):
    """A TCP segment that the stack gets (``<``) or sends (``>``); options as words."""

    when: When
    inbound: bool
    ecn: str | None
    flags: str
    seq: int | None
    end: int | None
    length: int
    ack: int | None
    window: int | None
    options: list[list[str]] = field(default_factory=list)


@cache
def _parser() -> Lark:
    from lark import Lark

    return Lark(GRAMMAR, parser="lalr")


def parse(text: str, name: str) -> list[Statement]:
    r"""Read a script of packetdrill.

    Parameters
    ----------
    text, name : str
        The script, and what it is called in messages.

    Raises
    ------
    ScenarioError
        If something in it is not understood; with the line.

    Examples
    --------
    >>> [one.line for one in parse("// a SYN\n0 < S 0:0(0) win 100 <mss 1000,nop>\n", "x.pkt")]
    [2]
    """
    from lark.exceptions import UnexpectedInput

    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        line = getattr(error, "line", 0)
        lines = text.split("\n")
        line = line if 0 < line <= len(lines) else len(lines)
        shown = lines[line - 1].strip()
        raise ScenarioError(f"{name}, line {line}: not understood: {shown!r}") from None
    return [_statement(child) for child in tree.children]


def _statement(tree: Any) -> Statement:  # noqa: ANN401 (trees of lark have no finer type)
    if tree.data != "event":
        written = tree.children[0]
        if tree.data == "shell":
            return Shell(written.line, written[1:-1])
        option, _, value = written[2:].partition("=")
        return Option(written.line, option, value)
    time, what = tree.children
    when, line = _when(time), time.line
    if what.data == "shell":
        return Shell(line, what.children[0][1:-1])
    if what.data == "code":
        return Code(line, when, what.children[0][2:-2])
    if what.data == "call":
        return _call(line, when, what.children)
    return _segment(line, when, what.children)


def _when(text: str) -> When:
    if text == "*":
        return When(any=True)
    relative = text.startswith("+")
    parts = re.split(r"~|\.\.\.", text.replace(" ", ""))
    at, *rest = [float(part.lstrip("+")) for part in parts]
    return When(at, rest[0] if rest else None, relative)


def _call(line: int, when: When, children: list[Any]) -> Call:
    name, *inner, result, _, _ = children
    text = "".join(_flat(piece) for piece in inner)
    value = None if result == "..." else int(result, 16 if "x" in result else 10)
    return Call(line, when, str(name), split(text), value)


def _flat(piece: Any) -> str:  # noqa: ANN401 (as above)
    if not hasattr(piece, "data"):
        return str(piece)
    inner = "".join(_flat(child) for child in piece.children)
    return inner if len(piece.children) == 1 and not hasattr(piece.children[0], "data") else f"({inner})"


def split(text: str) -> list[str]:
    """Split arguments at the commas outside of brackets.

    Examples
    --------
    >>> split("3, {a, b}, [1, 2]")
    ['3', '{a, b}', '[1, 2]']
    """
    arguments, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            arguments.append(text[begin:place].strip())
            begin = place + 1
    return [*arguments, text[begin:].strip()]


def _segment(line: int, when: When, children: list[Any]) -> Segment:
    direction, ecn, flags, numbers, ack, window, urgent, options = children
    seq, end, length = (int(part) for part in re.split(r"[:(]", numbers[:-1])) if numbers else (None, None, 0)
    if urgent is not None:
        flags += "U"
    words = [option.split() for option in options[1:-1].split(",")] if options else []
    return Segment(
        line,
        when,
        direction == "<",
        ecn[1:-1] if ecn else None,
        str(flags),
        seq,
        end,
        length or 0,
        int(ack) if ack else None,
        int(window) if window else None,
        [option for option in words if option],
    )
