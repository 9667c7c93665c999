"""Parses the formula of a claim and checks its words against a paper's vocabulary.

`evaluation` computes the tree that `parse` returns; `check` is what a test runs over every claim of every
paper. The grammar is described in docs/reference/claims.md. Nothing here knows any data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, cast

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedInput

from lasthop.papers.library import PaperError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lasthop.papers.library import Value, Vocabulary

Quantifier = Literal["all", "most", "some", "none"]
Operator = Literal["<", "<=", ">", ">=", "==", "~=", ">>", "<<"]
Direction = Literal["rising", "falling", "flat"]

# A quantifier's body reaches as far to the right as it can: the parser shifts where it could also reduce.
GRAMMAR = r"""
?start: predicate
?predicate: conjunction ("or" conjunction)*             -> either
?conjunction: unit ("and" unit)*                        -> both
?unit: "not" unit                                       -> negation
     | QUANTIFIER binding ("," binding)* ":" predicate  -> quantified
     | DIRECTION "(" sum "," NAME ")"                   -> trend
     | sum OPERATOR sum                                 -> comparison
     | "(" predicate ")"
binding: NAME "in" (NAME | items)
items: "{" item ("," item)* "}"
?sum: product
    | sum "+" product                                   -> plus
    | sum "-" product                                   -> minus
?product: factor
    | product "*" factor                                -> times
    | product "/" factor                                -> over
?factor: "-" factor                                     -> negative
    | NUMBER                                            -> number
    | NAME                                              -> name
    | NAME "[" entry ("," entry)* "]"                   -> series
    | NAME "(" [sum ("," sum)*] ")"                     -> call
    | "(" sum ")"
entry: [NAME "="] item
?item: NAME                                             -> word
     | SIGNED_NUMBER                                    -> value

QUANTIFIER.2: "all" | "most" | "some" | "none"
DIRECTION.2: "rising" | "falling" | "flat"
OPERATOR: "<=" | ">=" | "==" | "~=" | ">>" | "<<" | "<" | ">"
NAME: /[A-Za-z_]\w*/
%import common.NUMBER
%import common.SIGNED_NUMBER
%import common.WS
%ignore WS
"""

#: Functions of every paper: how many arguments, of which the last may be an axis.
GENERAL_FUNCTIONS = {
    "mean": 1,
    "median": 1,
    "max": 1,
    "min": 1,
    "std": 1,
    "cv": 1,
    "spread": 1,
    "first": 1,
    "last": 1,
    "sum": 1,
    "abs": 1,
    "sqrt": 1,
    "gain": 2,
    "drop": 2,
    "rise": 2,
    "rank_corr": 3,
}
AGGREGATES = frozenset({"mean", "median", "max", "min", "std", "cv", "spread", "first", "last", "sum"})
WITH_AXIS = frozenset({"drop", "rise", "rank_corr"})


@dataclass(frozen=True, slots=True)
class Number:
    """A number."""

    value: float


@dataclass(frozen=True, slots=True)
class Name:
    """A name that a quantifier binds, or an axis as the argument of a function."""

    name: str


@dataclass(frozen=True, slots=True)
class Series:
    """A series with its bracket; the axis of a leading entry without one is `None`."""

    name: str
    entries: tuple[tuple[str | None, Name | Number], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function call."""

    function: str
    arguments: tuple[Arithmetic, ...]


@dataclass(frozen=True, slots=True)
class Binary:
    """A sum, difference, product or quotient."""

    operator: Literal["+", "-", "*", "/"]
    left: Arithmetic
    right: Arithmetic


Arithmetic = Number | Name | Series | Call | Binary


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two quantities and what is said about them."""

    operator: Operator
    left: Arithmetic
    right: Arithmetic


@dataclass(frozen=True, slots=True)
class Trend:
    """A curve and where it goes along an axis."""

    direction: Direction
    curve: Arithmetic
    axis: str


@dataclass(frozen=True, slots=True)
class Not:
    """A denied predicate."""

    body: Predicate


@dataclass(frozen=True, slots=True)
class Joined:
    """Predicates of which all, or at least one, must hold."""

    word: Literal["and", "or"]
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Quantified:
    """A predicate said of all, most, some or none of the combinations of its names' values."""

    quantifier: Quantifier
    bindings: tuple[tuple[str, str | tuple[Value, ...]], ...]
    body: Predicate


Predicate = Comparison | Trend | Not | Joined | Quantified
Node = Predicate | Arithmetic


def parse(text: str) -> Predicate:
    """Parse a formula.

    Raises
    ------
    PaperError
        It is no formula; the text says where.

    Examples
    --------
    >>> parse("rtpi[udp,n=80] < 0.5")
    Comparison(operator='<', left=Series(name='rtpi', entries=((None, Name(name='udp')), ('n',
    Number(value=80.0)))), right=Number(value=0.5))
    """
    try:
        return cast("Predicate", _Builder().transform(_parser().parse(text)))
    except UnexpectedInput as error:
        if str(getattr(error, "token", "")) == "" and not hasattr(error, "char"):
            raise PaperError(f"bad formula '{text}': it ends too early") from None
        column = error.column
        raise PaperError(f"bad formula '{text}': not understood from column {column} on") from None


def check(predicate: Predicate, vocabulary: Vocabulary) -> None:
    """Refuse a formula that uses a word the paper does not have.

    Raises
    ------
    PaperError
        The text names the word and says what there is.
    """
    _check(predicate, vocabulary, frozenset())


def children(node: Node) -> tuple[Node, ...]:
    """Return the parts of a node, from left to right."""
    match node:
        case Comparison() | Binary():
            return (node.left, node.right)
        case Trend():
            return (node.curve,)
        case Not() | Quantified():
            return (node.body,)
        case Joined():
            return node.parts
        case Call():
            return node.arguments
        case _:
            return ()


def series_in(node: Node) -> Iterator[Series]:
    """Yield every series with its bracket below a node."""
    if isinstance(node, Series):
        yield node
    for child in children(node):
        yield from series_in(child)


def axes_of_name(name: str, node: Node, vocabulary: Vocabulary) -> set[str]:
    """Return the axes whose place a bound name takes below a node."""
    return {
        axis
        for one in series_in(node)
        for axis, item in bracket(one, vocabulary)
        if isinstance(item, Name) and item.name == name
    }


def bracket(series: Series, vocabulary: Vocabulary) -> list[tuple[str, Name | Number]]:
    """Return the entries of a bracket with the axis that the first may leave out."""
    main = vocabulary.series[series.name].axes[0]
    return [(main if axis is None else axis, item) for axis, item in series.entries]


def show(  # noqa: C901, PLR0911 - one case for each kind of node
    node: Node, scope: dict[str, Value] | None = None
) -> str:
    """Write a formula, with the values of the names in `scope` in their place.

    Examples
    --------
    >>> show(parse("all n in N: rtpi[udp,n=n] < 1-2*n"))
    'all n in N: rtpi[udp,n=n] < 1-2*n'
    """
    names = scope or {}
    match node:
        case Number():
            return format_value(node.value)
        case Name():
            return format_value(names.get(node.name, node.name))
        case Series():
            entries = (
                f"{axis}={show(item, names)}" if axis else show(item, names) for axis, item in node.entries
            )
            return f"{node.name}[{','.join(entries)}]"
        case Call():
            return f"{node.function}({','.join(show(argument, names) for argument in node.arguments)})"
        case Binary():
            return _show_binary(node, names)
        case Comparison():
            return f"{show(node.left, names)} {node.operator} {show(node.right, names)}"
        case Trend():
            return f"{node.direction}({show(node.curve, names)},{node.axis})"
        case Not():
            return f"not {_nested(node.body, names)}"
        case Joined():
            return f" {node.word} ".join(_nested(part, names) for part in node.parts)
        case Quantified():
            sets = ", ".join(
                f"{name} in {values if isinstance(values, str) else _show_set(values)}"
                for name, values in node.bindings
            )
            return f"{node.quantifier} {sets}: {show(node.body, names)}"


def format_value(value: Value) -> str:
    """Write a value of an axis or a number of a formula.

    Examples
    --------
    >>> [format_value(value) for value in (80.0, 0.01, "udp")]
    ['80', '0.01', 'udp']
    """
    return value if isinstance(value, str) else f"{value:.12g}"


def _show_set(values: tuple[Value, ...]) -> str:
    return "{" + ",".join(format_value(value) for value in values) + "}"


def _nested(node: Predicate, names: dict[str, Value]) -> str:
    text = show(node, names)
    return f"({text})" if isinstance(node, Joined | Quantified) else text


def _show_binary(node: Binary, names: dict[str, Value]) -> str:
    left, right = show(node.left, names), show(node.right, names)
    multiplies = node.operator in {"*", "/"}
    if multiplies and isinstance(node.left, Binary) and node.left.operator in {"+", "-"}:
        left = f"({left})"
    if isinstance(node.right, Binary) and (multiplies or node.operator == "-"):
        loose = node.right.operator in {"+", "-"} or node.operator == "/"
        right = f"({right})" if loose else right
    return f"{left}{node.operator}{right}"


def _check(node: Node, vocabulary: Vocabulary, bound: frozenset[str]) -> None:
    match node:
        case Name() if node.name not in bound:
            raise PaperError(f"'{node.name}' stands alone, but no quantifier gives it a value")
        case Series():
            _check_series(node, vocabulary, bound)
        case Call():
            _check_call(node, vocabulary, bound)
        case Quantified():
            for name, values in node.bindings:
                if isinstance(values, str) and values not in vocabulary.grids:
                    raise PaperError(f"unknown grid '{values}': there are {_listed(vocabulary.grids)}")
                bound |= {name}
            _check(node.body, vocabulary, bound)
        case Trend():
            _check_axis(node.axis, vocabulary)
            _check(node.curve, vocabulary, bound)
        case _:
            for child in children(node):
                _check(child, vocabulary, bound)


def _check_series(series: Series, vocabulary: Vocabulary, bound: frozenset[str]) -> None:
    known = vocabulary.series.get(series.name)
    if known is None:
        raise PaperError(f"unknown series '{series.name}': there are {_listed(vocabulary.series)}")
    entries = bracket(series, vocabulary)
    if any(axis is None for axis, _ in series.entries[1:]):
        raise PaperError(f"{show(series)}: only the first entry may leave out its axis")
    if len({axis for axis, _ in entries}) < len(entries):
        raise PaperError(f"{show(series)}: an axis is given twice")
    for axis, item in entries:
        if axis not in known.axes:
            raise PaperError(f"{show(series)}: {series.name} has no axis '{axis}', but {_listed(known.axes)}")
        values = vocabulary.axes.get(axis)
        if isinstance(item, Name) and item.name in bound:
            continue
        fits = isinstance(item, Number) if values is None else isinstance(item, Name) and item.name in values
        if not fits:
            wanted = "a number" if values is None else _listed(values)
            raise PaperError(f"{show(series)}: '{show(item)}' is no value of {axis}, which takes {wanted}")


def _check_call(call: Call, vocabulary: Vocabulary, bound: frozenset[str]) -> None:
    wanted = GENERAL_FUNCTIONS.get(call.function)
    if wanted is None and call.function not in vocabulary.functions:
        known = _listed([*GENERAL_FUNCTIONS, *vocabulary.functions])
        raise PaperError(f"unknown function '{call.function}': there are {known}")
    if wanted is not None and len(call.arguments) != wanted:
        raise PaperError(f"{call.function} takes {wanted} arguments, found {len(call.arguments)}")
    arguments = call.arguments
    if call.function in WITH_AXIS:
        axis = arguments[-1]
        if not isinstance(axis, Name):
            raise PaperError(f"the last argument of {call.function} is an axis, found {show(axis)}")
        _check_axis(axis.name, vocabulary)
        arguments = arguments[:-1]
    for argument in arguments:
        _check(argument, vocabulary, bound)


def _check_axis(axis: str, vocabulary: Vocabulary) -> None:
    if axis not in vocabulary.axes:
        raise PaperError(f"unknown axis '{axis}': there are {_listed(vocabulary.axes)}")


def _listed(names: object) -> str:
    return ", ".join(str(name) for name in cast("Any", names))


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr")


class _Builder(Transformer[Token, Any]):
    """Turns lark's tree into ours, from the leaves up."""

    def plus(self, parts: list[Any]) -> Binary:
        return Binary("+", parts[0], parts[1])

    def minus(self, parts: list[Any]) -> Binary:
        return Binary("-", parts[0], parts[1])

    def times(self, parts: list[Any]) -> Binary:
        return Binary("*", parts[0], parts[1])

    def over(self, parts: list[Any]) -> Binary:
        return Binary("/", parts[0], parts[1])

    def number(self, parts: list[Any]) -> Number:
        return Number(float(parts[0]))

    value = number

    def name(self, parts: list[Any]) -> Name:
        return Name(str(parts[0]))

    word = name

    def negative(self, parts: list[Any]) -> Arithmetic:
        inner = parts[0]
        return Number(-inner.value) if isinstance(inner, Number) else Binary("-", Number(0.0), inner)

    def entry(self, parts: list[Any]) -> tuple[str | None, Name | Number]:
        return (None if parts[0] is None else str(parts[0]), parts[1])

    def series(self, parts: list[Any]) -> Series:
        return Series(str(parts[0]), tuple(parts[1:]))

    def call(self, parts: list[Any]) -> Call:
        return Call(str(parts[0]), tuple(part for part in parts[1:] if part is not None))

    def items(self, parts: list[Any]) -> tuple[Value, ...]:
        return tuple(part.value if isinstance(part, Number) else part.name for part in parts)

    def binding(self, parts: list[Any]) -> tuple[str, str | tuple[Value, ...]]:
        return (str(parts[0]), parts[1] if isinstance(parts[1], tuple) else str(parts[1]))

    def comparison(self, parts: list[Any]) -> Comparison:
        return Comparison(cast("Operator", str(parts[1])), parts[0], parts[2])

    def trend(self, parts: list[Any]) -> Trend:
        return Trend(cast("Direction", str(parts[0])), parts[1], str(parts[2]))

    def quantified(self, parts: list[Any]) -> Quantified:
        return Quantified(cast("Quantifier", str(parts[0])), tuple(parts[1:-1]), parts[-1])

    def negation(self, parts: list[Any]) -> Not:
        return Not(parts[0])

    def both(self, parts: list[Any]) -> Predicate:
        return parts[0] if len(parts) == 1 else Joined("and", tuple(parts))

    def either(self, parts: list[Any]) -> Predicate:
        return parts[0] if len(parts) == 1 else Joined("or", tuple(parts))
