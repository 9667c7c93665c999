"""The data behind the claims of a paper, and arithmetic over them that keeps the seeds apart.

`reproduce` fills a `Dataset`, `evaluation` asks `Measured` for the quantities of one comparison. Every
quantity is an array whose first row is for all seeds and whose other rows leave out one seed each. Nothing
here knows what a claim is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from lasthop.extras import np
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lasthop.papers.library import Value, Vocabulary

    Floats = NDArray[np.float64]
    Quantity: TypeAlias = "Floats | Curve | Samples"
    Scope = dict[str, Value]

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
        self._values: dict[str, dict[frozenset[tuple[str, Value]], dict[int, float | Floats]]] = {}

    def add(
        self, series: str, settings: Mapping[str, Value], seed: int, value: float | Sequence[float] | Floats
    ) -> None:
        """Add the value, or the samples, of one run."""
        kept = float(value) if isinstance(value, int | float) else np.asarray(value, dtype=np.float64)
        self._values.setdefault(series, {}).setdefault(self._key(settings), {})[seed] = kept

    def find(self, series: str, settings: Mapping[str, Value]) -> dict[int, float | Floats]:
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

    def rows(self) -> Iterator[tuple[str, dict[str, Value], int, float]]:
        """Yield series, settings, seed and value of everything that is one figure per run."""
        for series, points in self._values.items():
            for key, by_seed in points.items():
                for seed, value in by_seed.items():
                    if isinstance(value, float):
                        yield series, dict(sorted(key)), seed, value

    def _key(self, settings: Mapping[str, Value]) -> frozenset[tuple[str, Value]]:
        complete = self._vocabulary.settings(settings)
        return frozenset(
            (name, value if isinstance(value, str) else float(value))
            for name, value in complete.items()
            if name not in SAMPLE_AXES
        )


@dataclass(frozen=True)
class Curve:
    """Values along a running axis: one row per replicate, one column per point."""

    values: Floats
    points: tuple[Value, ...]


@dataclass(frozen=True)
class Samples:
    """Samples along `t` or `i`, seed by seed."""

    by_seed: list[Floats]


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

    @staticmethod
    def _look_up(data: Dataset, key: _Key) -> list[dict[int, float | Floats]]:
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
                return self._call(node.function, quantities)

    @property
    def _rows(self) -> int:
        count = len(self._seeds)
        return count + 1 if count > 1 else 1

    def _series(self, reference: Reference) -> Quantity:
        columns = self._found[_Key(reference)]
        if isinstance(columns[0][self._seeds[0]], np.ndarray):
            return Samples([cast("Floats", columns[0][seed]) for seed in self._seeds])
        table = np.array([[column[seed] for column in columns] for seed in self._seeds], dtype=np.float64)
        values = _replicates(table)
        return values[:, 0] if reference.axis is None else Curve(values, reference.points)

    def _call(self, function: str, arguments: list[Quantity]) -> Quantity:
        first = arguments[0] if arguments else None
        if function in AGGREGATES:
            aggregate = AGGREGATE_FUNCTIONS[function]
            if isinstance(first, Samples):
                by_seed = np.array([[aggregate(samples[None, :])[0]] for samples in first.by_seed])
                return _replicates(by_seed)[:, 0]
            if isinstance(first, Curve):
                return aggregate(first.values)
            return aggregate(cast("Floats", first)[:, None])
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


def _rank_correlation(first: Floats, second: Floats) -> Floats:
    from lasthop.extras import scipy

    ranks = [np.asarray(scipy.stats.rankdata(one, axis=1), dtype=np.float64) for one in (first, second)]
    a, b = (one - one.mean(axis=1, keepdims=True) for one in ranks)
    lengths = np.sqrt(np.sum(a * a, axis=1) * np.sum(b * b, axis=1))
    correlation: Floats = np.sum(a * b, axis=1) / lengths
    return correlation


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
    "rank_corr": _rank_correlation,
}
_ELEMENTWISE: dict[str, Callable[..., Floats]] = {
    "abs": np.abs,
    "sqrt": np.sqrt,
    "gain": lambda first, second: first / second - 1,
}
