// Senders compared over the same channels: the metrics, means, differences and verdicts of python/lasthop/comparison.py,
// made of what the engine declares about its columns.

import type { Column, Summary } from "../engine/types";
import { excludesZero, scaled, sum, type Estimate, type Statistics } from "./stats";

export interface Metric {
  name: string;
  label: string;
  unit: string;
  column: Column;
  by: string;
  share: boolean;
  optional: boolean;
}

export interface Verdict {
  metric: Metric;
  sender: string;
  baseline: string;
  estimate: Estimate | null;
  relative: Estimate | null;
  same: boolean;
  better: boolean | null;
  text: string;
  interval: string;
}

/** What senders are compared by, in the order of the command; what not every run has comes last. */
export function comparedMetrics(columns: Column[]): Metric[] {
  const make = (column: Column, by: string, name: string): Metric => {
    const ending = column.table === "totals" ? "" : by === "bottleneck" ? " at the bottleneck" : by === "mean" ? ", mean of flows" : "";
    return { name, label: column.label + ending, unit: column.unit, column, by, share: column.share, optional: column.group !== null };
  };
  const of = (table: string) => columns.filter((column) => column.table === table && column.compared);
  const all = [
    ...of("totals").map((column) => make(column, "mean", column.name)),
    ...of("flows").map((column) => make(column, column.over, column.name)),
    ...of("links").map((column) => make(column, "bottleneck", `bottleneck_${column.name}`)),
  ];
  return [...all.filter((one) => !one.optional), ...all.filter((one) => one.optional)];
}

function valueOf(column: Column, row: Record<string, unknown>): number | null {
  let value: unknown = row;
  for (const key of column.path) value = value && typeof value === "object" ? (value as Record<string, unknown>)[key] : null;
  if (value && typeof value === "object") return sum(Object.values(value as Record<string, number>));
  return typeof value === "number" ? value : null;
}

/** The value of a metric in a run. */
export function metricValue(run: Summary, metric: Metric, bottleneck: string): number | null {
  const { table } = metric.column;
  let rows = table === "totals" ? [run.totals] : table === "flows" ? run.flows : run.links;
  if (metric.by === "bottleneck") rows = rows.filter((row) => row["name"] === bottleneck);
  const values = rows.map((row) => valueOf(metric.column, row)).filter((value): value is number => value !== null);
  if (values.length === 0) return null;
  return metric.by === "sum" ? sum(values) : sum(values) / values.length;
}

/** The link whose queue is compared: `bottleneck` if there is one, else the busiest. */
export function bottleneckName(runs: Pick<Summary, "links">[]): string {
  const busy = new Map<string, number>();
  for (const run of runs) {
    for (const link of run.links) {
      const name = String(link["name"]);
      busy.set(name, (busy.get(name) ?? 0) + Number(link["utilisation"] ?? 0));
    }
  }
  if (busy.has("bottleneck")) return "bottleneck";
  let best = "";
  for (const [name, value] of busy) if (best === "" || value > (busy.get(best) ?? 0)) best = name;
  return best;
}

const PREFIXES: [number, string][] = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];

/** The factor and unit in which a quantity of this size reads well. */
export function prefixFor(size: number, unit: string, share = false): [number, string] {
  if (share) return [0.01, "%"];
  if (unit !== "bit/s" && unit !== "s") return [1, unit];
  const largest = unit === "s" ? 1 : 1e9;
  for (const [factor, prefix] of PREFIXES) if (factor <= largest && size >= factor) return [factor, prefix + unit];
  return [1, unit];
}

function decimals(low: number, high: number): number {
  const larger = Math.max(Math.abs(low), Math.abs(high));
  let places = larger >= 10 ? 0 : larger >= 1 ? 1 : 2;
  const isZero = (end: number) => end !== 0 && Number(end.toFixed(places)) === 0;
  while (places < 4 && (isZero(low) || isZero(high))) places += 1;
  return places;
}

function signed(value: number, places: number): string {
  const text = value.toFixed(places);
  return text.startsWith("-") ? text : `+${text}`;
}

export class Comparison {
  readonly bottleneck: string;
  readonly metrics: Metric[];
  readonly same: boolean;

  constructor(
    readonly runs: Map<string, Summary[]>,
    readonly baseline: string,
    columns: Column[],
    private readonly statistics: Statistics,
  ) {
    this.bottleneck = bottleneckName(runs.get(baseline) ?? []);
    this.same = [...runs.values()].every((records) => records.length > 1 && new Set(records.map((one) => one.fingerprint)).size === 1);
    const has = (metric: Metric) => this.senders.some((sender) => this.values(sender, metric).some((value) => value !== null));
    this.metrics = comparedMetrics(columns).filter((metric) => !metric.optional || has(metric));
  }

  get senders(): string[] {
    return [...this.runs.keys()];
  }

  values(sender: string, metric: Metric): (number | null)[] {
    return (this.runs.get(sender) ?? []).map((run) => metricValue(run, metric, this.bottleneck));
  }

  estimate(sender: string, metric: Metric): Estimate | null {
    return this.exact(this.statistics.estimate(this.values(sender, metric)));
  }

  private exact(found: Estimate | null): Estimate | null {
    return found && this.same ? { ...found, low: null, high: null } : found;
  }

  /** Against the baseline, metric by metric. */
  verdicts(): Verdict[] {
    const others = this.senders.filter((sender) => sender !== this.baseline);
    return this.metrics.flatMap((metric) => others.map((sender) => this.verdict(metric, sender)));
  }

  private verdict(metric: Metric, sender: string): Verdict {
    const pair = [this.values(sender, metric), this.values(this.baseline, metric)] as const;
    const estimate = this.exact(this.statistics.paired(...pair));
    const relative = this.exact(this.statistics.relative(...pair));
    const { same, baseline } = this;
    const shown = estimate !== null && excludesZero(estimate);
    const good = metric.column.higher_is_better;
    const better = !shown || good === null || !estimate ? null : estimate.mean > 0 === good;
    const about = `between ${sender} and ${baseline} in ${metric.label}`;
    const made = { metric, sender, baseline, estimate, relative, same, better };
    if (!estimate) return { ...made, text: `no values to compare ${about}`, interval: "–" };
    const [amount, interval] = this.texts(metric, estimate, relative);
    if (estimate.n === 1 && !same) return { ...made, text: `one seed cannot show a difference ${about}: use more seeds`, interval: "–" };
    const sure = same ? ": all seeds gave the same run" : ` (${interval})`;
    if (estimate.mean === 0 && (same || estimate.low === estimate.high)) {
      return { ...made, text: `no difference at all ${about}${same ? sure : ""}`, interval };
    }
    if (!same && !shown) return { ...made, text: `no difference shown ${about}${sure}`, interval };
    const words = (estimate.mean > 0 ? metric.column.more : metric.column.less).replace("{}", amount);
    return { ...made, text: `${sender} ${words} than ${baseline}${sure}`, interval };
  }

  private texts(metric: Metric, estimate: Estimate, relative: Estimate | null): [string, string] {
    let unit = "%";
    let shown: Estimate;
    if (relative) shown = scaled(relative, 100);
    else {
      const [factor, prefixed] = prefixFor(Math.abs(estimate.mean), metric.unit);
      [shown, unit] = [scaled(estimate, 1 / factor), prefixed];
    }
    const low = shown.low ?? shown.mean;
    const high = shown.high ?? shown.mean;
    const places = decimals(low, high);
    const tail = unit ? ` ${unit}` : "";
    const amount = Math.abs(shown.mean).toFixed(places) + tail;
    if (this.same) return [amount, signed(shown.mean, places) + tail];
    return [amount, `${signed(low, places)}..${signed(high, places)}${tail}`];
  }
}

/** A mean and its interval for a table, and its unit. */
export function shownMean(of: Estimate | null, factor: number): { value: string; half: string | null } {
  if (!of) return { value: "–", half: null };
  const mean = of.mean / factor;
  const half = of.high === null ? null : (of.high - of.mean) / factor;
  const size = half || Math.abs(mean) / 100;
  const isWhole = !half && Number.isInteger(mean);
  const places = size <= 0 || isWhole ? 0 : Math.max(0, Math.min(4, -Math.floor(Math.log10(size))));
  const format = (value: number) => value.toLocaleString("en-GB", { minimumFractionDigits: places, maximumFractionDigits: places });
  return { value: format(mean), half: half === null ? null : format(half) };
}
