"""The data behind the claims of a paper, and arithmetic over them that keeps the seeds apart.

`reproduce` fills a `Dataset`, `evaluation` asks `Measured` for the quantities of one comparison. Every
quantity is an array whose first row is for all seeds and whose other rows leave out one seed each. Nothing
here knows what a claim is.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, cast

from lasthop.extras import np
from lasthop.papers.decisions import LEVEL, widened
from lasthop.papers.functions import CLOSED_FORMS
from lasthop.papers.grammar import (
    AGGREGATES,
    WITH_AXIS,
    Arithmetic,
    Binary,
    Call,
    Name,
    Number,
    Series,
    format_value,
)
from lasthop.papers.library import SAMPLE_AXES, PaperError
from lasthop.stats import jackknife

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lasthop.papers.library import Value, Vocabulary

    Floats = NDArray[np.float64]
    #: What a run has of a series: a value, samples over time, or what aggregates made of those.
    Datum: TypeAlias = "float | Floats | dict[str, float]"
    Quantity: TypeAlias = "Floats | Curve | Samples"
    Scope = dict[str, Value]
    #: Where a series stands on each of its axes.
    Place: TypeAlias = "frozenset[tuple[str, Value]]"

#: More choices than this of what runs leave open are cut to two for each maximum.
MOST_CHOICES = 256
#: Orders of at most this many points are all looked at.
MOST_RANKED = 5
#: Stands for the axis under an aggregate: the x axis of the experiment, if the bracket leaves it out.
FREE = "*"


class Missing(Exception):  # noqa: N818 - caught here, never seen by a user
    """Data or a definition that a formula needs and that are not there."""


class Dataset:
    """The series of a paper, as measured: for each setting and seed a value, or samples over time.

    Parameters
    ----------
    vocabulary : Vocabulary
        Of the paper; completes settings by the paper's defaults.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._values: dict[str, dict[Place, dict[int, Datum]]] = {}

    def add(
        self, series: str, settings: Mapping[str, Value], seed: int, value: float | Sequence[float] | Floats
    ) -> None:
        """Add the value, or the samples, of one run."""
        kept = float(value) if isinstance(value, int | float) else np.asarray(value, dtype=np.float64)
        self._values.setdefault(series, {}).setdefault(self._key(settings), {})[seed] = kept

    def add_aggregate(
        self, series: str, function: str, settings: Mapping[str, Value], seed: int, value: float
    ) -> None:
        """Add what an aggregate makes of the samples of one run, which are not there themselves."""
        kept = self._values.setdefault(series, {}).setdefault(self._key(settings), {}).setdefault(seed, {})
        cast("dict[str, float]", kept)[function] = value

    def find(self, series: str, settings: Mapping[str, Value]) -> dict[int, Datum]:
        """Return the values by seed at a setting; empty if there are none."""
        return self._values.get(series, {}).get(self._key(settings), {})

    def points(self, series: str, settings: Mapping[str, Value], axis: str) -> list[Value]:
        """Return the values of `axis` at which there are data, the other settings being as given."""
        found = [dict(key) for key in self._values.get(series, {})]
        points = {
            point[axis]
            for point in found
            if axis in point and self._key({**settings, axis: point[axis]}) == frozenset(point.items())
        }
        return sorted(points, key=lambda point: (isinstance(point, str), point))

    def updated(self, other: Dataset) -> Dataset:
        """Return the union of both, the other's values where both have one."""
        union = Dataset(self._vocabulary)
        for name in {**self._values, **other._values}:
            union._values[name] = {**self._values.get(name, {}), **other._values.get(name, {})}
        return union

    def without(self, places: Mapping[str, Collection[Place]]) -> Dataset:
        """Return this without some places of series."""
        kept = Dataset(self._vocabulary)
        for name, points in self._values.items():
            out = places.get(name, ())
            kept._values[name] = {key: by_seed for key, by_seed in points.items() if key not in out}
        return kept

    def differing(self, base: Dataset) -> Dataset:
        """Return what is not as in `base`."""
        found = Dataset(self._vocabulary)
        for series, points in self._values.items():
            others = base._values.get(series, {})
            found._values[series] = {
                key: by_seed
                for key, by_seed in points.items()
                if key not in others or not _alike(by_seed, others[key])
            }
        return found

    def clashes(self, other: Dataset) -> list[str]:
        """Return the series of which both have a point with different values."""
        return sorted(
            series
            for series, points in self._values.items()
            if any(
                key in other._values.get(series, {}) and not _alike(by_seed, other._values[series][key])
                for key, by_seed in points.items()
            )
        )

    def has(self, series: str) -> bool:
        """Whether there is any value of this series."""
        return bool(self._values.get(series))

    def relabelled(self, values: Mapping[str, Mapping[str, Value]]) -> Dataset:
        """Return this with other points in the place of some: by axis, what stands for a value."""
        changed = Dataset(self._vocabulary)
        for series, points in self._values.items():
            for key, by_seed in points.items():
                settings = dict(key)
                for axis, stands_for in values.items():
                    for ours, theirs in stands_for.items():
                        if settings.get(axis) == theirs:
                            moved = self._key({**settings, axis: ours})
                            changed._values.setdefault(series, {})[moved] = by_seed
        return self.updated(changed)

    def rows(
        self, aggregates: Mapping[str, Collection[str]] = MappingProxyType({})
    ) -> Iterator[tuple[str, dict[str, Value], int, float]]:
        """Yield series, settings, seed and value of everything that is one figure per run.

        Samples are many per run. Of a series of samples these aggregates are yielded, by ``cv(queue)``.
        """
        for series, points in self._values.items():
            for key, by_seed in points.items():
                for seed, value in by_seed.items():
                    if isinstance(value, float):
                        yield series, dict(sorted(key)), seed, value
                        continue
                    for function in sorted(aggregates.get(series, ())):
                        found = value[function] if isinstance(value, dict) else aggregate(function, value)
                        yield f"{function}({series})", dict(sorted(key)), seed, found

    def _key(self, settings: Mapping[str, Value]) -> Place:
        return place(self._vocabulary, settings)


def place(vocabulary: Vocabulary, settings: Mapping[str, Value]) -> Place:
    """Return where settings, completed by the defaults of the paper, stand on each axis."""
    return frozenset(
        (name, value if isinstance(value, str) else float(value))
        for name, value in vocabulary.settings(settings).items()
        if name not in SAMPLE_AXES
    )


def _alike(one: Mapping[int, Datum], other: Mapping[int, Datum]) -> bool:
    """Whether two points have the same seeds with the same values."""
    return one.keys() == other.keys() and all(_same(value, other[seed]) for seed, value in one.items())


def _same(one: Datum, other: Datum) -> bool:
    if isinstance(one, dict) or isinstance(other, dict):
        return one is other or one == other
    return bool(np.array_equal(one, other, equal_nan=True))


@dataclass(frozen=True)
class Curve:
    """Values along a running axis: one row per replicate, one column per point."""

    values: Floats
    points: tuple[Value, ...]


@dataclass(frozen=True)
class Samples:
    """Samples along `t` or `i`, seed by seed, or what aggregates made of them."""

    by_seed: list[Floats | dict[str, float]]


@dataclass(frozen=True)
class Reference:
    """A series with every setting that it needs, and the axis along which it runs."""

    text: str
    series: str
    settings: Mapping[str, Value]
    axis: str | None
    points: tuple[Value, ...]


class Measured:
    """Computes arithmetic over the seeds that every series of one comparison has.

    The first row of every array is for all seeds, the others leave out one seed each.
    """

    def __init__(self, paper: str, data: Dataset, references: Sequence[Reference]) -> None:
        self._paper = paper
        self._found = {one: self._look_up(data, one) for one in map(_Key, references)}
        seeds = [set(values) for columns in self._found.values() for values in columns]
        self._seeds = sorted(set.intersection(*seeds)) if seeds else []
        if seeds and not self._seeds:
            raise Missing("no seed has all of these series")
        # How many values each maximum or rank correlation may have, and which one is computed.
        self._doubtful: dict[Call, int] = {}
        self._chosen: dict[Call, int] = {}

    def variants(
        self,
        nodes: Sequence[Arithmetic],
        scope: Scope,
        along: str | None,
        reference: Callable[[Series, Scope, str | None], Reference],
    ) -> list[list[Quantity]]:
        """Compute expressions for every choice of what the runs leave open: the place of a maximum, an order.

        The first is that of the means over all seeds. A maximum over points has no jackknife interval where
        the runs do not show which point it is: there each point that may be the largest is one choice. Of
        ranks the choices are the least and the greatest coefficient of all orders that the runs allow.
        """
        self._doubtful, self._chosen = {}, {}
        found = [[self.compute(node, scope, along, reference) for node in nodes]]
        open_choices = self._doubtful
        counts = [range(count) for count in open_choices.values()]
        if math.prod(map(len, counts)) > MOST_CHOICES:
            counts = [range(min(len(one), 2)) for one in counts]
        for choice in itertools.product(*counts):
            if any(choice):
                self._chosen = dict(zip(open_choices, choice, strict=True))
                found.append([self.compute(node, scope, along, reference) for node in nodes])
        self._chosen = {}
        return found

    @staticmethod
    def _look_up(data: Dataset, key: _Key) -> list[dict[int, Datum]]:
        reference = key.reference
        if reference.axis is None:
            settings = [dict(reference.settings)]
        else:
            settings = [{**reference.settings, reference.axis: point} for point in reference.points]
        columns = []
        for one in settings:
            values = data.find(reference.series, one)
            if not values:
                at = f" at {reference.axis} {format_value(one[reference.axis])}" if reference.axis else ""
                raise Missing(f"no data of {reference.text}{at}")
            columns.append(values)
        if not columns:
            raise Missing(f"no data of {reference.text} along {reference.axis}")
        return columns

    def compute(
        self,
        node: Arithmetic,
        scope: Scope,
        along: str | None,
        reference: Callable[[Series, Scope, str | None], Reference],
    ) -> Quantity:
        """Compute an arithmetic expression; `along` is the axis that runs, and `reference` finds the data."""
        with np.errstate(all="ignore"):
            return self._compute(node, scope, along, reference)

    def _compute(
        self,
        node: Arithmetic,
        scope: Scope,
        along: str | None,
        reference: Callable[[Series, Scope, str | None], Reference],
    ) -> Quantity:
        match node:
            case Number() | Name():
                value = value_of(node, scope)
                if isinstance(value, str):
                    raise PaperError(f"'{value}' is no number")
                return np.full(self._rows, value)
            case Series():
                return self._series(reference(node, scope, along))
            case Binary():
                left = self._compute(node.left, scope, along, reference)
                right = self._compute(node.right, scope, along, reference)
                return _elementwise(_OPERATIONS[node.operator], left, right)
            case Call():
                inner, arguments = inside(node, along)
                quantities = [self._compute(one, scope, inner, reference) for one in arguments]
                curves = [one.values for one in quantities if isinstance(one, Curve)]
                if node.function in OPEN_CHOICES and curves and len(curves) == len(quantities):
                    return self._choice(node, curves)
                return self._call(node.function, quantities)

    @property
    def _rows(self) -> int:
        count = len(self._seeds)
        return count + 1 if count > 1 else 1

    def _series(self, reference: Reference) -> Quantity:
        columns = self._found[_Key(reference)]
        if not isinstance(columns[0][self._seeds[0]], float):
            return Samples([cast("Floats", columns[0][seed]) for seed in self._seeds])
        table = np.array([[column[seed] for column in columns] for seed in self._seeds], dtype=np.float64)
        values = _replicates(table)
        return values[:, 0] if reference.axis is None else Curve(values, reference.points)

    def _choice(self, node: Call, curves: Sequence[Floats]) -> Floats:
        """Return one of the values that an extremum or a rank correlation may have."""
        choices = OPEN_CHOICES[node.function](*curves)
        if len(choices) > 1:
            self._doubtful[node] = len(choices)
        return choices[min(self._chosen.get(node, 0), len(choices) - 1)]

    def _call(self, function: str, arguments: list[Quantity]) -> Quantity:
        first = arguments[0] if arguments else None
        if function in AGGREGATES:
            if isinstance(first, Samples):
                by_seed = np.array([[aggregate(function, samples)] for samples in first.by_seed])
                return _replicates(by_seed)[:, 0]
            over = AGGREGATE_FUNCTIONS[function]
            return over(first.values if isinstance(first, Curve) else cast("Floats", first)[:, None])
        if function in WITH_AXIS:
            curves = [one for one in arguments if isinstance(one, Curve)]
            if len(curves) < len(arguments):
                raise PaperError(f"{function} needs curves")
            return _ALONG[function](*[one.values for one in curves])
        operation = _ELEMENTWISE.get(function)
        if operation is None:
            closed_form = CLOSED_FORMS.get((self._paper, function))
            if closed_form is None:
                raise Missing(f"{function}() is not computed by lasthop yet")
            operation = np.vectorize(closed_form, otypes=[np.float64])
            if not arguments:
                return np.full(self._rows, closed_form())
        return _elementwise(operation, *arguments)


class _Key:
    """A reference as a key: two are the same if they mean the same data."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        settings = frozenset(reference.settings.items())
        self._identity = (reference.series, settings, reference.axis, reference.points)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other._identity == self._identity

    def __hash__(self) -> int:
        return hash(self._identity)


def aggregate(function: str, samples: Floats | dict[str, float]) -> float:
    """Return what an aggregate makes of the samples of one run."""
    if not isinstance(samples, dict):
        return float(AGGREGATE_FUNCTIONS[function](samples[None, :])[0])
    if function not in samples:
        raise Missing(f"of the samples, {function} was not kept")
    return samples[function]


def inside(call: Call, along: str | None) -> tuple[str | None, tuple[Arithmetic, ...]]:
    """Return what runs inside a call, and its arguments without the axis."""
    if call.function in AGGREGATES:
        return FREE, call.arguments
    if call.function in WITH_AXIS:
        return cast("Name", call.arguments[-1]).name, call.arguments[:-1]
    return along, call.arguments


def value_of(item: Name | Number, scope: Scope) -> Value:
    """Return the number, the value that a quantifier gave the name, or the name itself."""
    return item.value if isinstance(item, Number) else scope.get(item.name, item.name)


def normal(value: Value) -> Value:
    """Return a value of an axis such that 1 and 1.0 are the same."""
    return value if isinstance(value, str) else float(value)


def _replicates(by_seed: Floats) -> Floats:
    """Return the mean over the seeds, and below it the means that leave out one seed each."""
    count = by_seed.shape[0]
    mean: Floats = by_seed.mean(axis=0, keepdims=True)
    if count == 1:
        return mean
    # The mean shifted by what the seed adds: exact where all seeds agree.
    return np.concatenate([mean, mean + (mean - by_seed) / (count - 1)])


def _elementwise(operation: Callable[..., Floats], *quantities: Quantity) -> Quantity:
    curves = [one for one in quantities if isinstance(one, Curve)]
    if any(isinstance(one, Samples) for one in quantities):
        raise PaperError("samples over time can only be aggregated, not calculated with")
    if not curves:
        return operation(*quantities)
    if len({one.points for one in curves}) > 1:
        raise PaperError("curves over different points cannot be calculated with")
    aligned = [one.values if isinstance(one, Curve) else cast("Floats", one)[:, None] for one in quantities]
    return Curve(operation(*aligned), curves[0].points)


def extreme_columns(values: Floats, sign: int) -> list[int]:
    """Return the points that may be the largest (`sign` 1) or smallest (-1): first that of the means."""
    best = int(np.argmax(sign * values[0]))
    if len(values) == 1:
        return [best]

    def may_be(column: int) -> bool:
        return not _shown(sign * (values[:, best] - values[:, column]), values.shape[1] - 1)

    return [best, *(one for one in range(values.shape[1]) if one != best and may_be(one))]


def _shown(difference: Floats, together: int) -> bool:
    """Whether a difference is shown to be positive, one of some looked at together (Bonferroni)."""
    if np.all(difference == difference[0]):
        # No seed differs from the others.
        return bool(difference[0] >= 0)
    found = jackknife(difference.tolist())
    if found is None:
        return False
    low = widened(found, LEVEL / together).low
    return low is not None and low > 0


def _extremes(values: Floats, sign: int) -> list[Floats]:
    return [values[:, column] for column in extreme_columns(values, sign)]


def spreads(values: Floats) -> list[Floats]:
    """Return the spread of a curve for each pair of points that may be its largest and smallest."""
    mean = values.mean(axis=1)
    ends = itertools.product(extreme_columns(values, 1), extreme_columns(values, -1))
    return [(values[:, high] - values[:, low]) / mean for high, low in ends]


def _rank_correlations(first: Floats, second: Floats) -> list[Floats]:
    """Return Spearman's coefficient of the means, then the least and greatest that the runs allow."""
    from lasthop.extras import scipy

    def rank(row: Floats) -> Floats:
        return np.asarray(scipy.stats.rankdata(row), dtype=np.float64)

    def coefficient(a: Floats, b: Floats) -> float:
        a, b = a - a.mean(), b - b.mean()
        return float(np.sum(a * b) / np.sqrt(np.sum(a * a) * np.sum(b * b)))

    whole = coefficient(rank(first[0]), rank(second[0]))
    found = [whole]
    if len(first) > 1 and first.shape[1] <= MOST_RANKED:
        orders = [_orders(one) for one in (first, second)]
        possible = [coefficient(a, b) for a, b in itertools.product(*orders)]
        found += sorted({min(possible), max(possible)} - {whole})
    return [np.full(len(first), one) for one in found]


def _orders(values: Floats) -> list[Floats]:
    """Return the ranks of points in every order that no difference between two of them excludes."""
    count = values.shape[1]
    shown = set()
    for low, high in itertools.permutations(range(count), 2):
        difference = values[:, high] - values[:, low]
        if np.any(difference != 0) and _shown(difference, count * (count - 1) // 2):
            shown.add((low, high))
    return [
        np.array(ranks, dtype=np.float64)
        for ranks in itertools.permutations(range(count))
        if all(ranks[low] < ranks[high] for low, high in shown)
    ]


_OPERATIONS: dict[str, Callable[..., Floats]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}
AGGREGATE_FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {
    "mean": lambda values: values.mean(axis=1),
    "median": lambda values: cast("Floats", np.median(values, axis=1)),
    "max": lambda values: values.max(axis=1),
    "min": lambda values: values.min(axis=1),
    "std": lambda values: values.std(axis=1),
    "cv": lambda values: values.std(axis=1) / values.mean(axis=1),
    "spread": lambda values: (values.max(axis=1) - values.min(axis=1)) / values.mean(axis=1),
    "first": lambda values: values[:, 0],
    "last": lambda values: values[:, -1],
    "sum": lambda values: values.sum(axis=1),
}
_ALONG: dict[str, Callable[..., Floats]] = {
    "drop": lambda curve: 1 - curve[:, -1] / curve[:, 0],
    "rise": lambda curve: curve[:, -1] / curve[:, 0] - 1,
    "rank_corr": lambda first, second: _rank_correlations(first, second)[0],
}
#: What the runs may leave open, with the values that are possible.
OPEN_CHOICES: dict[str, Callable[..., list[Floats]]] = {
    "max": lambda values: _extremes(values, 1),
    "min": lambda values: _extremes(values, -1),
    "spread": spreads,
    "rank_corr": _rank_correlations,
}
_ELEMENTWISE: dict[str, Callable[..., Floats]] = {
    "abs": np.abs,
    "sqrt": np.sqrt,
    "gain": lambda first, second: first / second - 1,
}
