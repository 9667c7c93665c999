// Senders compared over the same channels: the metrics, means, differences and verdicts of python/lasthop/comparison.py,
// made of what the engine declares about its columns.

import type { Column, Summary } from "../engine/types";
import { meanText, multiple, verdict } from "../engine/words";
import { excludesZero, sum, type Estimate, type Statistics } from "./stats";

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
}

/** Lengths of transfers, by the groups of their columns in the totals. */
const LENGTHS = ["small", "middle", "large"];

function metricOf(column: Column, by: string, name: string, ending = "", link = ""): Metric {
  const [more, less, times] = [column.more, column.less, column.times].map((words) => words.replace("{link}", link)) as [string, string, string];
  return { name, label: column.label + ending, unit: column.unit, column, by, share: column.share, more, less, times };
}

/** What senders are compared by, in the order of the command, what not every run has last; `link` is the one that counts as the bottleneck. */
export function comparedMetrics(columns: Column[], link: string): Metric[] {
  const name = link === "" || link === "bottleneck" ? "the bottleneck" : link;
  const make = (column: Column, by: string, key: string): Metric => {
    const ending = column.table === "totals" ? "" : by === "bottleneck" ? ` at ${name}` : by === "mean" ? ", mean of flows" : "";
    return metricOf(column, by, key, ending, name);
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

/** What a row of results has in a column, or null. */
export function valueOf(column: Column, row: Record<string, unknown>): number | null {
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

/** The factor and unit in which a quantity of this size reads well. */
export function prefixFor(size: number, unit: string, share = false): [number, string] {
  return multiple(size, share ? "share" : unit);
}

export class Comparison {
  readonly bottleneck: string;
  readonly metrics: Metric[];
  /** Of transfers by their length, if they are of several: shown, and not compared. */
  readonly lengths: Metric[];
  readonly same: boolean;

  constructor(
    readonly runs: Map<string, Summary[]>,
    readonly baseline: string,
    columns: Column[],
    private readonly statistics: Statistics,
  ) {
    this.bottleneck = bottleneckName(runs.get(baseline) ?? []);
    this.same = [...runs.values()].every((records) => records.length > 1 && new Set(records.map((one) => one.fingerprint)).size === 1);
    // A flow that is alone shares with none: as in comparison.py.
    const alone = [...runs.values()].flat().every((record) => record.flows.length < 2);
    const has = (metric: Metric) => !(alone && metric.name === "jain_index") && this.senders.some((sender) => this.values(sender, metric).some((value) => value !== null));
    this.metrics = comparedMetrics(columns, this.bottleneck).filter(has);
    this.lengths = columns.filter((column) => column.table === "totals" && LENGTHS.includes(column.group ?? "")).map((column) => metricOf(column, "mean", column.name)).filter(has);
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
    const { label, unit, share, more, less, times } = metric;
    const text = verdict({ words: { label, unit, share, more, less, times }, sender, baseline, estimate, relative, same });
    return { metric, sender, baseline, estimate, relative, same, shown, better, text };
  }
}

/** A mean and its interval for a table, with the digits that the command gives them. */
export function shownMean(of: Estimate | null, factor: number): { value: string; half: string | null } {
  return of ? meanText(of.mean, of.high, of.n, factor) : { value: "–", half: null };
}
