// The curves of the page: series of the first seed, cut to as many points as a figure can show. The figures on the page
// and the ones that are downloaded are made of these.

import type { Checked, Series, Summary } from "../engine/types";
import { bottleneckName, prefixFor } from "./compare";

export interface Line {
  name: string;
  style: number;
  values: (number | null)[];
}

export interface Panel {
  id: "cwnd" | "rtt" | "queue" | "throughput";
  title: string;
  unit: string;
  time: number[];
  lines: Line[];
  /** Room in the queue, if this is one with a limit in packets. */
  limit: number | null;
}

/** What curves are drawn of: a run, or the beginning of one that goes on. */
export interface Drawn {
  series: Series | null;
  summary?: Summary;
  seconds?: number;
}

/** The lowest and highest value that the axis of a panel shows: from zero, but for RTTs, which never come near it. */
export function extent(panel: Panel): [number, number] {
  let least = Number.POSITIVE_INFINITY;
  let most = panel.limit ?? 0;
  for (const line of panel.lines) {
    for (const value of line.values) {
      if (value === null) continue;
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
  }
  if (!(most > 0)) return [0, 1];
  if (panel.id !== "rtt" || !Number.isFinite(least)) return [0, most * 1.06];
  const margin = Math.max(most - least, most * 0.1) * 0.08;
  return [Math.max(0, least - margin), most + margin];
}

const MOST_POINTS = 900;
const RATE_POINTS = 120;

/** Means of this many consecutive rows; what is absent does not count. */
function binned(values: ArrayLike<number>, bin: number): (number | null)[] {
  const count = Math.floor(values.length / bin);
  const out: (number | null)[] = new Array(count);
  for (let place = 0; place < count; place += 1) {
    let total = 0;
    let known = 0;
    for (let inner = place * bin; inner < (place + 1) * bin; inner += 1) {
      const value = values[inner] ?? Number.NaN;
      if (!Number.isNaN(value)) {
        total += value;
        known += 1;
      }
    }
    out[place] = known ? total / known : null;
  }
  return out;
}

/** One flow of a column, or a sum or mean over all. */
function column(values: Float64Array, width: number, flow: number | "sum" | "mean"): Float64Array {
  const rows = Math.floor(values.length / Math.max(1, width));
  const out = new Float64Array(rows);
  for (let row = 0; row < rows; row += 1) {
    if (typeof flow === "number") {
      out[row] = values[row * width + flow] ?? Number.NaN;
      continue;
    }
    let total = 0;
    let known = 0;
    for (let place = row * width; place < (row + 1) * width; place += 1) {
      const value = values[place] ?? Number.NaN;
      if (!Number.isNaN(value)) {
        total += value;
        known += 1;
      }
    }
    out[row] = known === 0 ? Number.NaN : flow === "sum" ? total : total / known;
  }
  return out;
}

/** How busy each direction was so far, in the form of a summary. */
function busyLinks(series: Series | null, names: string[]): Record<string, unknown>[] {
  const values = series?.links["utilisation"] ?? new Float64Array();
  return names.map((name, place) => ({ name, utilisation: column(values, names.length, place).reduce((total, one) => total + one, 0) }));
}

function largest(lines: Line[]): number {
  return lines.reduce((most, line) => line.values.reduce<number>((best, value) => Math.max(best, value ?? 0), most), 0);
}

/** The panels for these runs; `flow` is the number of one, or -1 for the mean of all. */
export function panels(runs: Map<string, Drawn>, checked: Checked, style: Map<string, number>, flow: number): Panel[] {
  const { description } = checked;
  const { flows, links, series_interval_s: interval } = description;
  const which = flow < 0 ? "mean" : Math.min(flow, flows.length - 1);
  const whose = flow < 0 ? "mean of all flows" : flows.length > 1 ? (flows[Number(which)]?.name ?? "") : "";
  const rows = Math.max(0, Math.floor(description.duration_s / interval + 1e-9));
  const bin = Math.max(1, Math.ceil(rows / MOST_POINTS));
  const rateBin = Math.max(1, Math.round(rows / RATE_POINTS));
  const names = links.flatMap((link) => [link.name, `${link.name} (reverse)`]);
  const bottleneck = bottleneckName([...runs.values()].map((run) => run.summary ?? { links: busyLinks(run.series, names) }));
  const direction = Math.max(0, names.indexOf(bottleneck));
  const room = links[direction >> 1]?.[direction % 2 === 0 ? "forward" : "reverse"].queue_limit_packets ?? null;

  const times = (step: number) => Array.from({ length: Math.floor(rows / step) }, (_, place) => (place + 0.5) * step * interval);
  const lines = (step: number, get: (run: Drawn) => Float64Array | null): Line[] =>
    [...runs].flatMap(([name, run]) => {
      const values = get(run);
      const drawn = values && binned(values, step);
      while (drawn && drawn.length < Math.floor(rows / step)) drawn.push(null);
      return drawn ? [{ name, style: style.get(name) ?? 0, values: drawn }] : [];
    });
  const ofFlow = (name: string) => (run: Drawn) => {
    const values = run.series?.flows[name];
    return values ? column(values, flows.length, which) : null;
  };

  const cwnd = lines(bin, ofFlow("cwnd_segments"));
  // RTT samples are rarer than intervals: one line instead of many short ones.
  const rtt = lines(rateBin, ofFlow("rtt_s"));
  const queue = lines(bin, (run) => {
    const values = run.series?.links["queue_packets"];
    return values ? column(values, names.length, direction) : null;
  });
  const throughput = lines(rateBin, (run) => {
    const values = run.series?.flows["throughput_bit_s"];
    return values ? column(values, flows.length, "sum") : null;
  });
  const scale = (of: Line[], unit: string): string => {
    const [factor, shown] = prefixFor(largest(of), unit);
    for (const line of of) line.values = line.values.map((value) => (value === null ? null : value / factor));
    return shown;
  };
  const about = (text: string, more: string) => (more ? `${text}, ${more}` : text);
  return [
    { id: "cwnd", title: about("Congestion window", whose), unit: "segments", time: times(bin), lines: cwnd, limit: null },
    { id: "rtt", title: about("Round-trip time", whose), unit: scale(rtt, "s"), time: times(rateBin), lines: rtt, limit: null },
    { id: "queue", title: `Queue at ${bottleneck}`, unit: "packets", time: times(bin), lines: queue, limit: room },
    { id: "throughput", title: about("Throughput", flows.length > 1 ? "all flows" : ""), unit: scale(throughput, "bit/s"), time: times(rateBin), lines: throughput, limit: null },
  ];
}
