"""What a source of frames sends: sizes by type, rate, autocorrelation.

Behind `lasthop.traffic` and `lasthop traffic`. The frames come from the engine, the very ones that a run of
the scenario with the same seed sends; statistics are made seed by seed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lasthop import _native, stats
from lasthop.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import numpy as np
    import polars as pl
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from lasthop.scenario import Scenario
    from lasthop.stats import Estimate

FRAMES = 60_000
FRAMES_MAX = 10_000_000
LAGS = (1, 2, 5, 10, 20, 50)
#: Windows over which the rate is measured, in seconds.
WINDOW_S = 1.0
TYPES = ("I", "P", "B")

#: What the plot shows: seconds of frames, bins of the histogram, lags of the autocorrelation.
SHOWN_S = 20.0
BINS = 40
LAGS_SHOWN = 100


class Traffic:
    """The frames of one flow, for one or more seeds, and what is said of them.

    Attributes
    ----------
    name, flow : str
        The scenario and the flow.
    frame_rate : float
        Frames per second.
    seeds : list of int
        One sequence of frames each.
    frames : polars.DataFrame
        ``seed``, ``frame``, ``time_s`` since the flow started, ``kind`` (I, P, B or any), ``bytes`` of the
        frame, and ``carried_bytes``, what the transport makes of it (ns-2's TCP rounds up to full segments).
    statistics : polars.DataFrame
        A row per seed and series. Series are ``all`` frames, those of a type, each ``group`` of pictures from
        one I frame to the next, and each ``second``. Columns are ``count``; ``mean``, ``sd``, ``min`` and
        ``max`` in bytes; ``cov``, ``peak_to_mean``, and ``acf_<lag>``, the autocorrelation at that number of
        elements of the series; null where the series is too short or constant.
    """

    def __init__(
        self, name: str, flow: str, frame_rate: float, frames: pl.DataFrame, lags: Sequence[int] = LAGS
    ) -> None:
        self.name = name
        self.flow = flow
        self.frame_rate = frame_rate
        self.frames = frames
        self.lags = list(lags)
        self.seeds: list[int] = frames["seed"].unique(maintain_order=True).to_list()
        self.statistics = _statistics(frames, frame_rate, self.lags)

    @property
    def series(self) -> list[str]:
        """Names of the series that there are."""
        names: list[str] = self.statistics["series"].unique(maintain_order=True).to_list()
        return names

    @property
    def rate_bit_s(self) -> Estimate | None:
        """Mean payload rate over the seeds, in bit/s."""
        mean = self.estimate("all", "mean")
        return mean.scaled(8 * self.frame_rate) if mean else None

    @property
    def rate_sd_bit_s(self) -> Estimate | None:
        """Standard deviation of the rate of each second, in bit/s; its square is the variance of the rate."""
        deviation = self.estimate("second", "sd")
        return deviation.scaled(8 / WINDOW_S) if deviation else None

    def values(self, series: str, column: str) -> list[float | None]:
        """One statistic of each seed."""
        found: list[float | None] = self.statistics.filter(self.statistics["series"] == series)[
            column
        ].to_list()
        return found

    def estimate(self, series: str, column: str) -> Estimate | None:
        """Mean over the seeds of one statistic, with its 95 % interval; `None` where there is none."""
        return stats.estimate(self.values(series, column))

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, per seed and as means over the seeds, but not the frames."""
        columns = [name for name in self.statistics.columns if name not in ("seed", "series")]
        means = {
            series: {
                column: estimate.mean if (estimate := self.estimate(series, column)) else None
                for column in columns
            }
            for series in self.series
        }
        rate, deviation = self.rate_bit_s, self.rate_sd_bit_s
        return {
            "scenario": self.name,
            "flow": self.flow,
            "engine_version": _native.__version__,
            "frame_rate": self.frame_rate,
            "frames_per_seed": self.frames.height // len(self.seeds),
            "seeds": self.seeds,
            "lags": self.lags,
            "rate_bit_s": rate.mean if rate else None,
            "rate_sd_bit_s": deviation.mean if deviation else None,
            "rate_variance_bit2_s2": deviation.mean**2 if deviation else None,
            "means": means,
            "runs": [
                {"seed": seed} | {row.pop("series"): row for row in table.drop("seed").to_dicts()}
                for (seed,), table in self.statistics.group_by("seed", maintain_order=True)
            ],
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict())

    def plot(self, *paths: str | Path) -> None:
        """Draw sizes over time, their histogram and their autocorrelation; the ending chooses the format."""
        from lasthop.drawing import draw

        draw(paths, lambda: _figure(self), lambda: _page(self))

    def __repr__(self) -> str:
        from lasthop.tables import render_traffic

        return render_traffic(self)


def traffic_of(
    scenario: Scenario, flow: str | None, seeds: Sequence[int], frames: int, lags: Iterable[int]
) -> Traffic:
    """Make the frames of a flow; see `lasthop.traffic`."""
    from lasthop.extras import pl

    if not 1 <= frames <= FRAMES_MAX:
        raise ArgumentError(f"bad number of frames {frames}: ask for 1 to {FRAMES_MAX:,}")
    wanted = sorted(set(lags))
    if not wanted or wanted[0] < 1:
        raise ArgumentError("bad lags: give at least one whole number from 1 on")
    number = _flow_number(scenario, flow)
    parts = []
    for seed in seeds:
        table = pl.DataFrame(scenario.plan.frames(number, seed, frames))
        parts.append(table.select(pl.lit(seed, dtype=pl.UInt64).alias("seed"), pl.all()))
    frame_rate = scenario.plan.frame_rates[number]
    assert frame_rate is not None  # noqa: S101 - for the type checker
    return Traffic(scenario.name, scenario.flow_names[number], frame_rate, pl.concat(parts), wanted)


def _flow_number(scenario: Scenario, flow: str | None) -> int:
    names = scenario.flow_names
    able = [name for name, rate in zip(names, scenario.plan.frame_rates, strict=True) if rate is not None]
    if flow is not None and flow not in names:
        raise ArgumentError(f"no flow {flow!r}: the scenario has {_few(names)}")
    if not able:
        raise ArgumentError(
            f"no flow of {scenario.name!r} sends frames: this looks at traffic of the kinds mpeg4 and frames"
        )
    if flow is not None and flow not in able:
        raise ArgumentError(f"flow {flow!r} sends no frames: those that do are {_few(able)}")
    return names.index(able[0] if flow is None else flow)


def _few(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _statistics(frames: pl.DataFrame, frame_rate: float, lags: Sequence[int]) -> pl.DataFrame:
    from lasthop.extras import pl

    rows = []
    for (seed,), table in frames.group_by("seed", maintain_order=True):
        for series, values in _series(table, frame_rate).items():
            rows.append({"seed": seed, "series": series} | _describe(values, lags))
    schema = {"seed": pl.UInt64, "series": pl.String, "count": pl.UInt64}
    return pl.DataFrame(rows, schema_overrides=schema, infer_schema_length=None)


def _series(table: pl.DataFrame, frame_rate: float) -> dict[str, NDArray[np.float64]]:
    """All frames, those of each type, whole groups of pictures and whole seconds, in bytes."""
    from lasthop.extras import np

    sizes = table["bytes"].to_numpy().astype(float)
    found = {"all": sizes}
    for kind in TYPES:
        mine = (table["kind"] == kind).to_numpy()
        if mine.any():
            found[kind] = sizes[mine]
    starts = np.flatnonzero((table["kind"] == "I").to_numpy())
    if len(starts) > 1:
        found["group"] = np.add.reduceat(sizes[: starts[-1]], starts[:-1])
    seconds = int((len(sizes) / frame_rate + 1e-9) / WINDOW_S)
    if seconds > 0:
        window = (np.arange(len(sizes)) / frame_rate / WINDOW_S + 1e-9).astype(int)
        found["second"] = np.bincount(window, sizes)[:seconds]
    return found


def _describe(values: NDArray[np.float64], lags: Sequence[int]) -> dict[str, float | int | None]:
    mean, deviation = float(values.mean()), float(values.std())
    largest = float(values.max())
    return {
        "count": len(values),
        "mean": mean,
        "sd": deviation,
        "cov": deviation / mean if mean else None,
        "min": float(values.min()),
        "max": largest,
        "peak_to_mean": largest / mean if mean else None,
    } | {f"acf_{lag}": autocorrelation(values, lag) for lag in lags}


def autocorrelation(values: NDArray[np.float64], lag: int) -> float | None:
    """Sample autocorrelation at `lag` elements, with the divisor n; `None` if it cannot be told.

    Examples
    --------
    >>> import numpy as np
    >>> round(autocorrelation(np.array([1.0, 2.0, 1.0, 2.0]), 1), 2)
    -0.75
    >>> autocorrelation(np.array([1.0, 1.0]), 1) is None
    True
    """
    if lag >= len(values):
        return None
    centred = values - values.mean()
    power = float(centred @ centred)
    return float(centred[:-lag] @ centred[lag:]) / power if power > 0 else None


def _shown_types(traffic: Traffic) -> list[str]:
    return [series for series in traffic.series if series in TYPES] or ["all"]


def _panels(traffic: Traffic) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return what the three panels show of the first seed: x and y by type."""
    from lasthop.extras import np

    table = traffic.frames.filter(traffic.frames["seed"] == traffic.seeds[0])
    sizes, times = table["bytes"].to_numpy().astype(float), table["time_s"].to_numpy()
    edges = np.linspace(0, max(sizes.max(), 1), BINS + 1)
    over_time, histogram, correlation = {}, {}, {}
    for series in _shown_types(traffic):
        mine = (table["kind"] == series).to_numpy() if series in TYPES else np.ones(len(sizes), dtype=bool)
        shown = mine & (times < SHOWN_S)
        over_time[series] = times[shown], sizes[shown] / 1e3
        counts, _ = np.histogram(sizes[mine], edges)
        histogram[series] = edges / 1e3, 100 * counts / max(counts.sum(), 1)
        lags = range(min(LAGS_SHOWN, int(mine.sum()) - 1) + 1)
        values = [1.0 if lag == 0 else autocorrelation(sizes[mine], lag) for lag in lags]
        correlation[series] = list(lags), [float("nan") if value is None else value for value in values]
    return over_time, histogram, correlation


def _title(traffic: Traffic) -> str:
    mean = traffic.values("all", "mean")[0] or 0.0
    rate = f"{mean * 8 * traffic.frame_rate / 1e3:.0f} kbit/s on average"
    return f"{traffic.name}: frames of {traffic.flow}, seed {traffic.seeds[0]}, {rate}"


TITLES = ("frame size (kB)", "share of frames (%)", "autocorrelation")
ABSCISSAE = ("time (s)", "frame size (kB)", "lag (frames of the type)")


def _figure(traffic: Traffic) -> Figure:
    from matplotlib.figure import Figure

    from lasthop.drawing import COLOURS, MATPLOTLIB_DASHES

    figure = Figure(figsize=(9.6, 9.0), layout="constrained")
    panels = _panels(traffic)
    for index, (axes, panel) in enumerate(zip(figure.subplots(3, 1), panels, strict=True)):
        for style, (series, (x, y)) in enumerate(panel.items()):
            look: dict[str, Any] = {"color": COLOURS[style], "linestyle": MATPLOTLIB_DASHES[style]}
            label = f"{series} frames"
            if index == 1:
                axes.stairs(y, x, label=label, lw=1.3, **look)
            else:
                axes.plot(x, y, label=label, lw=0.9 if index == 0 else 1.3, **look)
        axes.set_ylabel(TITLES[index])
        axes.set_xlabel(ABSCISSAE[index])
        axes.grid(visible=True, color="#E6E6E6", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        if index < 2:  # noqa: PLR2004 - the last panel may fall below zero
            axes.set_ylim(bottom=0)
        if index == 0:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
    figure.suptitle(_title(traffic), fontsize=11)
    return figure


def _page(traffic: Traffic) -> Any:  # noqa: ANN401 - untyped
    from plotly.graph_objects import Scatter
    from plotly.subplots import make_subplots

    from lasthop.drawing import COLOURS, PLOTLY_DASHES

    page = make_subplots(rows=3, cols=1, vertical_spacing=0.09, subplot_titles=TITLES)
    for index, panel in enumerate(_panels(traffic)):
        for style, (series, (x, y)) in enumerate(panel.items()):
            line = {"color": COLOURS[style], "dash": PLOTLY_DASHES[style], "width": 1.4}
            if index == 1:
                line["shape"] = "hv"
            trace = Scatter(
                x=x[: len(y)],
                y=y,
                mode="lines",
                line=line,
                name=f"{series} frames",
                legendgroup=series,
                showlegend=index == 0,
            )
            page.add_trace(trace, row=index + 1, col=1)
        page.update_xaxes(title_text=ABSCISSAE[index], row=index + 1)
    page.update_layout(title=_title(traffic), template="plotly_white", height=1050)
    return page
