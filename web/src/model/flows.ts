// Individual flows, over all seeds: boxes by class as in python/lasthop/boxes.py, and distributions by sender as in
// distribution.py.

import type { Column, Summary } from "../engine/types";
import { valueOf } from "./compare";

/** What the engine calls flows without a name, and the number of one flow among those of its entry: as in flow_groups.py. */
const NAMELESS = "flow";
const NUMBER = /-\d+$/;
/** What a box and its whiskers reach over. */
const SHARES = [0.05, 0.25, 0.5, 0.75, 0.95];
/** What is looked at first, if flows have it. */
const FIRST = ["completion_s", "page_p50_s", "call_frame_delay_p95_s", "realtime_index", "player_quality_bit_s", "goodput_bit_s"];

export interface Sample {
  /** Class of the flows; empty if all of them count. */
  name: string;
  sender: string;
  /** In order. */
  values: number[];
  /** Flows of this class that have no value, such as transfers that did not finish. */
  missing: number;
}

type Runs = ReadonlyMap<string, Summary[]>;

function classOf(flow: Record<string, unknown>): string {
  const name = String(flow["name"]).replace(NUMBER, "");
  return name === NAMELESS ? "all flows" : name;
}

/** Whether a transfer came before the end of the run: one that would have come later is none. */
function tookPart(flow: Record<string, unknown>): boolean {
  return flow["start_s"] !== null || flow["transfer_bytes"] == null || Number(flow["packets_sent"]) > 0;
}

/** The samples of a column of flows: of each class and sender, or of each sender over the classes that have the column. */
export function samplesOf(runs: Runs, column: Column, isByClass: boolean): Sample[] {
  const samples = new Map<string, Sample>();
  const of = (name: string, sender: string): Sample => {
    const key = `${name}\n${sender}`;
    const sample = samples.get(key) ?? { name, sender, values: [], missing: 0 };
    samples.set(key, sample);
    return sample;
  };
  for (const [sender, summaries] of runs) {
    const classes = new Map<string, (number | null)[]>();
    for (const flow of summaries.flatMap((one) => one.flows)) {
      if (!tookPart(flow)) continue;
      const name = classOf(flow);
      const values = classes.get(name) ?? [];
      classes.set(name, values);
      values.push(valueOf(column, flow));
    }
    for (const [name, values] of classes) {
      const known = values.filter((one): one is number => one !== null);
      if (known.length === 0) continue;
      const sample = of(isByClass ? name : "", sender);
      sample.values = sample.values.concat(known);
      sample.missing += values.length - known.length;
    }
  }
  const found = [...samples.values()];
  for (const one of found) one.values.sort((a, b) => a - b);
  // Senders of one class stand together.
  return [...new Set(found.map((one) => one.name))].flatMap((name) => found.filter((one) => one.name === name));
}

/** Whether two flows of a run have different values: most columns show it at the first ones. */
function differs(column: Column, { flows }: Summary): boolean {
  let first: number | null = null;
  return flows.some((flow) => {
    const value = valueOf(column, flow);
    first ??= value;
    return value !== null && value !== first;
  });
}

/** The columns of flows that differ from flow to flow, the one to look at first before the others. */
export function measuresOf(columns: Column[], runs: Runs): Column[] {
  const all = [...runs.values()].flat();
  const found = columns.filter((one) => one.table === "flows" && (one.shown || one.compared) && one.kind !== "text" && all.some((run) => differs(one, run)));
  const first = FIRST.map((name) => found.find((one) => one.name === name)).find(Boolean);
  return first ? [first, ...found.filter((one) => one !== first)] : found;
}

/** The values below which lie 5, 25, 50, 75 and 95 % of them, between two of them in proportion. */
export function corners(values: number[]): number[] {
  return SHARES.map((share) => {
    const place = share * (values.length - 1);
    const [low, high] = [values[Math.floor(place)] ?? Number.NaN, values[Math.ceil(place)] ?? Number.NaN];
    return low + (place % 1) * (high - low);
  });
}
