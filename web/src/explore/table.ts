// A table to be explored: rows at points of some axes with seeds, and metrics. What `lasthop view` was given, or a
// Parquet file that the user opened; the series of a paper's claims are brought into the same form.

import ABOUT from "../../engine/about.json";
import type { About, Overrides, ReadColumn, ReadTable } from "../engine/types";
import { prefixFor } from "../model/compare";
import { greatest } from "../model/extent";
import { sum, type Estimate, type Statistics } from "../model/stats";

export type Value = string | number;

export interface Axis {
  name: string;
  label: string;
  unit: string;
  values: Value[];
  /** The values for people. */
  labels: string[];
}

export interface Metric {
  name: string;
  label: string;
  unit: string;
  /** What is shown is the value in the table times this. */
  scale: number;
  /** Largest value that is possible, as it is shown; null if there is none. */
  most: number | null;
  help: string;
}

/** Values of one metric at one point, by seed. */
export interface Sample {
  seed: number;
  value: number;
  fingerprint: string | null;
}

export interface Row {
  at: Record<string, Value>;
  seed: number;
  values: Record<string, number>;
  fingerprint: string | null;
}

export interface Explored {
  axes: Axis[];
  metrics: Metric[];
  rows: Row[];
}

/** Columns of the table of a study that are of its runs. */
const OF_RUNS = ["seed", "state", "error", "run", "fingerprint", "packet_hops", "wall_s", "engine_version"];
/** Values of an axis beyond which a figure cannot be read. */
const MOST_VALUES = 200;

export function cell(column: ReadColumn | undefined, row: number): Value | null {
  if (!column) return null;
  if (column instanceof Float64Array) {
    const value = column[row];
    return value === undefined || Number.isNaN(value) ? null : value;
  }
  return column.texts[column.codes[row] ?? -1] ?? null;
}

export function compareValues(a: Value, b: Value): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return typeof a === typeof b ? (String(a) < String(b) ? -1 : a === b ? 0 : 1) : typeof a === "number" ? -1 : 1;
}

export const shownValue = (value: Value): string => (typeof value === "number" ? String(Number(value.toPrecision(6))) : value);

function axisOf(name: string, rows: Row[], said: Record<string, string> = {}): Axis {
  const values = [...new Set(rows.map((row) => row.at[name]).filter((value): value is Value => value !== undefined))].sort(compareValues);
  return { name, label: said["label"] ?? name, unit: said["unit"] ?? "", values, labels: values.map(shownValue) };
}

const { columns: COLUMNS } = (ABOUT as unknown as About).declarations;

/** A measure of a table alone: what the file says of it, or else the engine of a column of its name. */
function usual(name: string, said: Record<string, string> = {}): Metric {
  const column = ["totals", "flows", "links"].map((table) => COLUMNS.find((one) => one.name === name && one.table === table)).find(Boolean);
  return { name, label: said["label"] ?? column?.label ?? name, unit: said["unit"] ?? column?.unit ?? "", scale: 1, most: null, help: said["help"] ?? column?.help ?? "" };
}

/** The tidy table of a study. What is known of its axes and metrics may be given; a bare file has them in its schema, or the engine knows columns by their names. */
export function tidy(read: ReadTable, known: { axes: Axis[]; metrics: Metric[] } | null): Explored {
  const names = Object.keys(read.columns);
  const seedAt = names.indexOf("seed");
  if (seedAt < 0) throw new Error("it has no column “seed”: results.parquet of a study has one");
  const end = names.findIndex((name, place) => place > seedAt && OF_RUNS.includes(name));
  const axisNames = known?.axes.map((axis) => axis.name) ?? names.slice(0, seedAt);
  const metrics = known?.metrics ?? names.slice(seedAt + 1, end < 0 ? undefined : end).map((name) => usual(name, read.said[name]));
  const rows: Row[] = [];
  for (let row = 0; row < read.rows; row += 1) {
    const state = cell(read.columns["state"], row);
    if (state !== null && state !== "done") continue;
    const at = Object.fromEntries(axisNames.flatMap((name) => {
      const value = cell(read.columns[name], row);
      return value === null ? [] : [[name, value]];
    }));
    const values: Record<string, number> = {};
    for (const { name } of metrics) {
      const value = cell(read.columns[name], row);
      if (typeof value === "number") values[name] = value;
    }
    const print = cell(read.columns["fingerprint"], row);
    rows.push({ at, seed: Number(cell(read.columns["seed"], row)), values, fingerprint: print === null ? null : String(print) });
  }
  const axes = known?.axes ?? axisNames.map((name) => axisOf(name, rows, read.said[name]));
  const crowded = axes.find((axis) => axis.values.length > MOST_VALUES);
  if (crowded) throw new Error(`its column “${crowded.name}” has ${crowded.values.length} values: an axis has at most ${MOST_VALUES}`);
  return { axes, metrics, rows };
}

export const SETTING = "setting";
export const MAIN = "main";

/** An axis with the names that the studies give it and its values. */
function named(axis: Axis, known: Axis | undefined): Axis {
  if (!known) return axis;
  const labels = axis.values.map((value, place) => known.labels[known.values.indexOf(value)] ?? axis.labels[place] ?? "");
  return { ...axis, label: known.label, unit: known.unit, labels };
}

/** The series of a paper's claims: one row per setting, series, point and seed. */
export function ofSeries(read: ReadTable, metrics: Metric[], known: Axis[] = []): Explored {
  const { columns } = read;
  for (const name of ["setting", "series", "point", "seed", "value"]) if (!columns[name]) throw new Error(`it has no column “${name}”: series.parquet of a paper has one`);
  const parsed = new Map<string, Record<string, Value>>();
  const rows = new Map<string, Row>();
  for (let row = 0; row < read.rows; row += 1) {
    const setting = String(cell(columns["setting"], row));
    const point = String(cell(columns["point"], row));
    const seed = Number(cell(columns["seed"], row));
    const value = cell(columns["value"], row);
    if (typeof value !== "number") continue;
    const key = `${setting} ${seed} ${point}`;
    let made = rows.get(key);
    if (!made) {
      let at = parsed.get(point);
      if (!at) parsed.set(point, (at = JSON.parse(point) as Record<string, Value>));
      rows.set(key, (made = { at: { ...at, [SETTING]: setting }, seed, values: {}, fingerprint: null }));
    }
    made.values[String(cell(columns["series"], row))] = value;
  }
  const all = [...rows.values()];
  const names = [...new Set(all.flatMap((row) => Object.keys(row.at)))];
  const axes = names.map((name) => named(axisOf(name, all), known.find((one) => one.name === name)));
  for (const axis of axes) {
    if (axis.name !== SETTING) continue;
    const called = new Map(axis.values.map((value, place) => [value, axis.labels[place]]));
    axis.values.sort((a, b) => (a === MAIN ? -1 : b === MAIN ? 1 : compareValues(a, b)));
    axis.labels = axis.values.map((value) => called.get(value) ?? shownValue(value));
  }
  const there = new Set(all.flatMap((row) => Object.keys(row.values)));
  return { axes, metrics: metrics.filter((metric) => there.has(metric.name)), rows: all };
}

/** A curve of a paper's figure: what it has on some axes, and its metric if that differs from curve to curve. */
export interface DrawnCurve {
  name: string;
  series: string | null;
  at: Record<string, Value>;
}

/** What is looked at: a metric along x, a line per value of some axes or the curves of a paper, and the rest held. */
export interface Choice {
  metric: string;
  x: string;
  lines: string[];
  held: Record<string, Value>;
  drawn: DrawnCurve[];
}

export interface Point {
  x: Value;
  at: Record<string, Value>;
  samples: Sample[];
  estimate: Estimate;
}

export interface Curve {
  name: string;
  points: Point[];
}

/** What has the metric and fits what is held. */
export function fitting(of: Explored, metric: string, held: Record<string, Value>): Row[] {
  const wanted = Object.entries(held);
  return of.rows.filter((row) => row.values[metric] !== undefined && wanted.every(([axis, value]) => row.at[axis] === undefined || row.at[axis] === value));
}

/** The curves of a paper's figure, each with the axes that it names. */
export function paperCurves(of: Explored, choice: Choice, statistics: Statistics): Curve[] {
  return choice.drawn.flatMap(({ name, series, at }) => {
    const one = { ...choice, metric: series ?? choice.metric, lines: [], held: { ...choice.held, ...at }, drawn: [] };
    return curves(of, one, statistics).map((curve) => ({ ...curve, name }));
  });
}

export function curves(of: Explored, choice: Choice, statistics: Statistics): Curve[] {
  if (choice.drawn.length > 0) return paperCurves(of, choice, statistics);
  const metric = of.metrics.find((one) => one.name === choice.metric);
  const axes = new Map(of.axes.map((axis) => [axis.name, axis]));
  const labelOf = (name: string, value: Value) => {
    const axis = axes.get(name);
    const label = axis?.labels[axis.values.indexOf(value)] ?? shownValue(value);
    return typeof value === "number" || ["on", "off", "true", "false"].includes(label) ? `${axis?.label ?? name} ${label}` : label;
  };
  const groups = new Map<string, { name: string; order: Value[]; points: Map<Value, { at: Record<string, Value>; samples: Sample[] }> }>();
  for (const row of fitting(of, choice.metric, choice.held)) {
    const order = choice.lines.map((axis) => row.at[axis] ?? "–");
    const key = JSON.stringify(order);
    let group = groups.get(key);
    if (!group) groups.set(key, (group = { name: order.map((value, place) => labelOf(choice.lines[place] ?? "", value)).join(", ") || "all", order, points: new Map() }));
    const x = choice.x === "" ? "" : row.at[choice.x];
    if (x === undefined) continue;
    let point = group.points.get(x);
    if (!point) group.points.set(x, (point = { at: row.at, samples: [] }));
    point.samples.push({ seed: row.seed, value: (row.values[choice.metric] ?? 0) * (metric?.scale ?? 1), fingerprint: row.fingerprint });
  }
  const place = (axis: string | undefined, value: Value) => axes.get(axis ?? "")?.values.indexOf(value) ?? -1;
  return [...groups.values()]
    .sort((a, b) => {
      for (const [index, axis] of choice.lines.entries()) {
        const apart = place(axis, a.order[index] ?? "") - place(axis, b.order[index] ?? "");
        if (apart !== 0) return apart;
      }
      return 0;
    })
    .map(({ name, points }) => ({
      name,
      points: [...points]
        .sort(([a], [b]) => place(choice.x, a) - place(choice.x, b))
        .flatMap(([x, { at, samples }]) => {
          samples.sort((a, b) => a.seed - b.seed);
          const estimate = statistics.estimate(samples.map((sample) => sample.value));
          return estimate ? [{ x, at, samples, estimate }] : [];
        }),
    }))
    .filter((curve) => curve.points.length > 0);
}

/** The curves in the multiple of their unit in which the largest mean reads well, as the command chooses it. */
export function prefixed(found: Curve[], unit: string): { curves: Curve[]; unit: string } {
  const largest = greatest(found.flatMap((curve) => curve.points.map((point) => Math.abs(point.estimate.mean))), 0);
  const [factor, name] = prefixFor(largest, unit);
  if (factor === 1) return { curves: found, unit };
  const of = (value: number | null) => (value === null ? null : value / factor);
  const curves = found.map((curve) => ({
    ...curve,
    points: curve.points.map((point) => ({
      ...point,
      samples: point.samples.map((sample) => ({ ...sample, value: sample.value / factor })),
      estimate: { ...point.estimate, mean: point.estimate.mean / factor, low: of(point.estimate.low), high: of(point.estimate.high) },
    })),
  }));
  return { curves, unit: name };
}

/** Axes along which what fits still varies. */
export function varying(of: Explored, metric: string, held: Record<string, Value>): Axis[] {
  const rows = fitting(of, metric, held);
  return of.axes.filter((axis) => new Set(rows.map((row) => row.at[axis.name])).size > 1);
}

/** Means that differ by less than this share of them differ by rounding alone. */
const ROUNDING = 1e-6;

/** Whether what is shown differs from point to point: what does not says nothing. */
export function varies(found: Curve[]): boolean {
  const means = found.flatMap((curve) => curve.points.map((point) => point.estimate.mean));
  const [first = 0] = means;
  return means.some((mean) => Math.abs(mean - first) > ROUNDING * Math.abs(first));
}

/** A choice to begin with: as much as possible along x and lines, the rest held at its first value. */
export function begin(of: Explored, wish: { metric?: string; x?: string | null; lines?: string[]; held?: Record<string, Value>; drawn?: DrawnCurve[] }): Choice {
  const metric = (of.metrics.find((one) => one.name === wish.metric) ?? of.metrics[0])?.name ?? "";
  const held: Record<string, Value> = {};
  for (const [axis, value] of Object.entries(wish.held ?? {})) if (of.axes.find((one) => one.name === axis)?.values.includes(value)) held[axis] = value;
  const setting = of.axes.find((axis) => axis.name === SETTING);
  if (setting?.values.includes(MAIN)) held[SETTING] ??= MAIN;
  let free = varying(of, metric, held);
  const numeric = free.filter((axis) => axis.values.every((value) => typeof value === "number"));
  const longest = [...(numeric.length > 0 ? numeric : free)].sort((a, b) => b.values.length - a.values.length)[0];
  const x = free.find((axis) => axis.name === wish.x)?.name ?? longest?.name ?? "";
  const others = free.filter((axis) => axis.name !== x);
  const drawn = wish.drawn ?? [];
  const named = [...(wish.lines ?? []), ...drawn.flatMap((curve) => Object.keys(curve.at))];
  const wished = [...new Set(named)].filter((name) => others.some((axis) => axis.name === name));
  const lines = wished.length > 0 ? wished : others.slice(0, 1).map((axis) => axis.name);
  for (const axis of others) {
    if (lines.includes(axis.name)) continue;
    const present = new Set(fitting(of, metric, held).map((row) => row.at[axis.name]));
    const first = axis.values.find((value) => present.has(value));
    if (first !== undefined) held[axis.name] = first;
    free = varying(of, metric, held);
  }
  return { metric, x, lines, held, drawn };
}

/** The table as CSV: what is shown, a row per point. */
export function csv(found: Curve[], choice: Choice, unit: string): string {
  const quoted = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [[choice.x || "x", "line", `mean${unit ? ` (${unit})` : ""}`, "low", "high", "seeds"].map(quoted).join(",")];
  for (const curve of found) {
    for (const { x, estimate } of curve.points) {
      lines.push([shownValue(x), curve.name, estimate.mean, estimate.low ?? "", estimate.high ?? "", estimate.n].map((one) => quoted(String(one))).join(","));
    }
  }
  return `${lines.join("\n")}\n`;
}

// What a point is made of, so that it can be opened in Play.

export interface StudyOf {
  source: number;
  set: Overrides;
  /** For each axis, the value and what it sets. */
  axes: { name: string; values: Value[]; settings: Overrides[] }[];
  /** Paper only: settings that hold throughout, and the setting of which it is. */
  fixed?: Record<string, Value>;
  setting?: string;
}

export interface Defaults {
  defaults: Record<string, Value>;
  conditional: Record<string, Record<string, Value>>;
}

/** Settings completed by the paper's defaults, those that depend on a chosen value included. */
export function completed(chosen: Record<string, Value>, { defaults, conditional }: Defaults): Record<string, Value> {
  const complete = { ...defaults, ...chosen };
  for (const value of Object.values(complete)) {
    for (const [name, standard] of Object.entries(conditional[String(value)] ?? {})) if (!(name in chosen)) complete[name] = standard;
  }
  return complete;
}

/** The scenario of a point: a start, and what to set in it; null if none of the studies has the point. */
export function scenarioOf(studies: StudyOf[], at: Record<string, Value>, defaults: Defaults | null): { source: number; overrides: Overrides } | null {
  const { [SETTING]: setting, ...point } = at;
  const wanted = studies.filter((one) => one.setting === undefined || one.setting === setting);
  const others = studies.filter((one) => one.setting === MAIN && setting !== MAIN);
  for (const study of [...wanted, ...others]) {
    const overrides = [...study.set];
    const chosen: Record<string, Value> = { ...study.fixed };
    const isThere = study.axes.every((axis) => {
      const place = axis.values.indexOf(point[axis.name] as Value);
      if (place < 0) return false;
      chosen[axis.name] = axis.values[place] as Value;
      overrides.push(...(axis.settings[place] ?? []));
      return true;
    });
    if (!isThere) continue;
    if (defaults) {
      const complete = completed(chosen, defaults);
      const names = new Set([...Object.keys(complete), ...Object.keys(point)]);
      if ([...names].some((name) => complete[name] !== point[name])) continue;
    }
    return { source: study.source, overrides };
  }
  return null;
}

/** Mean of what a curve has, for its description in words. */
export function meanOf(curve: Curve): number {
  return sum(curve.points.map((point) => point.estimate.mean)) / Math.max(1, curve.points.length);
}
