// Senders compared over the same channels: the metrics, means, differences and verdicts of python/lasthop/comparison.py,
// made of what the engine declares about its columns.

import type { Column, Declarations, Summary } from "../engine/types";
import { excludesZero, scaled, sum, type Estimate, type Statistics } from "./stats";

export interface Metric {
  name: string;
  label: string;
  unit: string;
  column: Column;
  by: string;
  share: boolean;
  more: string;
  less: string;
  times: string;
}

export interface Verdict {
  metric: Metric;
  sender: string;
  baseline: string;
  estimate: Estimate | null;
  relative: Estimate | null;
  same: boolean;
  /** Whether it is a difference: of the interval, or of what is exact. */
  shown: boolean;
  better: boolean | null;
  text: string;
  interval: string;
}

/** What senders are compared by, in the order of the command, what not every run has last; `link` is the one that counts as the bottleneck. */
export function comparedMetrics(columns: Column[], link: string): Metric[] {
  const name = link === "" || link === "bottleneck" ? "the bottleneck" : link;
  const make = (column: Column, by: string, key: string): Metric => {
    const ending = column.table === "totals" ? "" : by === "bottleneck" ? ` at ${name}` : by === "mean" ? ", mean of flows" : "";
    const [more, less, times] = [column.more, column.less, column.times].map((words) => words.replace("{link}", name)) as [string, string, string];
    return { name: key, label: column.label + ending, unit: column.unit, column, by, share: column.share, more, less, times };
  };
  const of = (table: string) => columns.filter((column) => column.table === table && column.compared);
  const all = [
    ...of("totals").map((column) => make(column, "mean", column.name)),
    ...of("flows").map((column) => make(column, column.over, column.name)),
    ...of("links").map((column) => make(column, "bottleneck", `bottleneck_${column.name}`)),
  ];
  const isOptional = (metric: Metric) => metric.column.group !== null;
  return [...all.filter((one) => !isOptional(one)), ...all.filter(isOptional)];
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
  if (metric.by === "bottleneck") rows = rowsAt(rows, bottleneck, metric.column.name);
  const values = rows.map((row) => valueOf(metric.column, row)).filter((value): value is number => value !== null);
  if (values.length === 0) return null;
  return metric.by === "sum" ? sum(values) : sum(values) / values.length;
}

/** The row of a link, or of the one that tells of the queue that it shares with it. */
export function rowsAt(links: Record<string, unknown>[], name: string, field: string): Record<string, unknown>[] {
  const own = links.filter((row) => row["name"] === name);
  const shared = (own[0]?.[field] ?? null) === null ? own[0]?.["queue_of"] : undefined;
  return shared === undefined ? own : links.filter((row) => row["name"] === shared);
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

let steps: Declarations["steps"] = {};

/** Takes what the engine declares of units: once, before anything is shown. */
export function readUnits(declarations: Declarations) {
  steps = declarations.steps;
}

/** The factor and unit in which a quantity of this size reads well. */
export function prefixFor(size: number, unit: string, share = false): [number, string] {
  if (share) return [0.01, "%"];
  return steps[unit]?.find(([factor]) => size >= factor) ?? [1, unit];
}

function decimals(low: number, high: number): number {
  const larger = Math.max(Math.abs(low), Math.abs(high));
  let places = larger >= 10 ? 0 : larger >= 1 ? 1 : 2;
  const isZero = (end: number) => end !== 0 && Number(end.toFixed(places)) === 0;
  while (places < 4 && (isZero(low) || isZero(high))) places += 1;
  return places;
}

/** Whether there is no difference in any of several seeds: more of them would show none. */
function isTie(of: Estimate): boolean {
  return of.n > 1 && of.mean === 0 && of.low === of.high;
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
    this.metrics = comparedMetrics(columns, this.bottleneck).filter(has);
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
    const shown = estimate !== null && (same ? estimate.mean !== 0 : excludesZero(estimate));
    const good = metric.column.higher_is_better;
    const better = same || !shown || good === null || !estimate ? null : estimate.mean > 0 === good;
    const about = `between ${sender} and ${baseline} in ${metric.label}`;
    const made = { metric, sender, baseline, estimate, relative, same, shown, better };
    if (!estimate) return { ...made, text: `no values to compare ${about}`, interval: "–" };
    const [amount, interval] = this.texts(metric, estimate, relative);
    if (estimate.n === 1 && !same) return { ...made, text: `one seed cannot show a difference ${about}: use more seeds`, interval: "–" };
    const sure = same ? ": all seeds gave the same run" : ` (${interval})`;
    if (isTie(estimate)) return { ...made, text: `an exact tie ${about}${same ? sure : ""}`, interval };
    if (!shown) return { ...made, text: `no difference shown ${about}${sure}`, interval };
    if (metric.times && relative && relative.mean >= 1) return { ...made, text: `${sender} ${this.inTimes(metric, relative)}`, interval };
    const words = (estimate.mean > 0 ? metric.more : metric.less).replace("{}", amount);
    return { ...made, text: `${sender} ${words} than ${baseline}${sure}`, interval };
  }

  /** Several times what the baseline has: per cent above a hundred are hard to read. */
  private inTimes(metric: Metric, relative: Estimate): string {
    const mean = relative.mean + 1;
    const low = relative.low === null ? mean : relative.low + 1;
    const high = relative.high === null ? mean : relative.high + 1;
    const places = decimals(low, high);
    const sure = this.same ? ": all seeds gave the same run" : ` (${low.toFixed(places)}..${high.toFixed(places)} times)`;
    return `${metric.times.replace("{}", mean.toFixed(places))} as ${this.baseline}${sure}`;
  }

  private texts(metric: Metric, estimate: Estimate, relative: Estimate | null): [string, string] {
    let unit = "%";
    let shown: Estimate;
    if (isTie(estimate)) [shown, unit] = [estimate, metric.share ? "" : metric.unit];
    else if (relative) shown = scaled(relative, 100);
    else if (metric.share) [shown, unit] = [scaled(estimate, 100), "percentage points"];
    else {
      const [factor, prefixed] = prefixFor(Math.abs(estimate.mean), metric.unit);
      [shown, unit] = [scaled(estimate, 1 / factor), prefixed];
    }
    const low = shown.low ?? shown.mean;
    const high = shown.high ?? shown.mean;
    const places = decimals(low, high);
    const tail = unit ? ` ${unit}` : "";
    const amount = Math.abs(shown.mean).toFixed(places) + tail;
    if (isTie(estimate)) return [amount, `0${tail}`];
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
