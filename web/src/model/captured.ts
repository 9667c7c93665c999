// What is drawn of a connection of a capture, and of a simulation beside it: the time-sequence graph, and curves of both
// on one clock. What was read of the files comes from the engine; here it is put on the axis of time.

import type { CapturedWay, QlogRead } from "../engine/types";
import type { Line, Panel, Paper, Pen, Span } from "./curves";
import { prefixFor } from "./compare";

const POINTS = 400;
const RATE_POINTS = 120;
/** An interval of fewer packets shows how they fall, and no rate. */
const PACKETS_IN_BIN = 12;

/** A connection, and which way its data go. */
export interface Chosen {
  flow: number;
  forward: boolean;
}

/** The number of values up to `at` in ascending ones. */
function upTo(times: Float64Array, at: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The highest value up to each time; null before the first, and behind `end`. */
function highest(times: Float64Array, values: Float64Array, at: number[], end: number): (number | null)[] {
  let place = 0;
  let most: number | null = null;
  return at.map((time) => {
    if (time > end) return null;
    for (; place < times.length && (times[place] ?? 0) <= time; place += 1) most = Math.max(most ?? 0, values[place] ?? 0);
    return most;
  });
}

interface Bins {
  at: number[];
  from: number;
  width: number;
}

function bins([from, to]: Span, count: number): Bins {
  const width = (to - from) / count;
  return { at: Array.from({ length: count }, (_, place) => from + (place + 0.5) * width), from, width };
}

/** Sums of what falls into each bin, and how many. */
function summed(times: Float64Array, value: (place: number) => number, { at, from, width }: Bins): { sums: number[]; counts: number[] } {
  const sums = new Array<number>(at.length).fill(0);
  const counts = new Array<number>(at.length).fill(0);
  for (let place = upTo(times, from - 1e-12); place < times.length; place += 1) {
    const bin = Math.floor(((times[place] ?? 0) - from) / width);
    if (bin >= at.length) break;
    if (bin < 0) continue;
    sums[bin] = (sums[bin] ?? 0) + value(place);
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  return { sums, counts };
}

/** Payload per second; nothing before its first packet and behind its last. */
function rateOf({ segments }: CapturedWay, grid: Bins): (number | null)[] {
  const [times, begin, end] = [segments.time_s, segments.begin, segments.end];
  const { sums } = summed(times, (place) => (end[place] ?? 0) - (begin[place] ?? 0), grid);
  const [first, last] = [times[0] ?? Number.POSITIVE_INFINITY, times[times.length - 1] ?? 0];
  return sums.map((bytes, place) => {
    const start = grid.from + place * grid.width;
    return start + grid.width < first || start > last ? null : (bytes * 8) / grid.width;
  });
}

function rttOf({ trips }: CapturedWay, grid: Bins): (number | null)[] {
  const rtts = trips.rtt_s;
  const { sums, counts } = summed(trips.time_s, (place) => rtts[place] ?? 0, grid);
  return sums.map((sum, place) => (counts[place] ? sum / (counts[place] ?? 1) : null));
}

const last = (times: Float64Array): number => times[times.length - 1] ?? 0;

/** When the last of a connection was seen. */
const endOf = ({ segments, acks }: CapturedWay): number => Math.max(last(segments.time_s), last(acks.time_s));

function sentOf(way: CapturedWay, at: number[]): (number | null)[] {
  return highest(way.segments.time_s, way.segments.end, at, endOf(way));
}

function ackedOf(way: CapturedWay, at: number[]): (number | null)[] {
  return highest(way.acks.time_s, way.acks.ack, at, endOf(way));
}

/** Bytes in a multiple that leaves few digits. */
function bytesIn(most: number): [number, string] {
  return ([[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]] as [number, string][]).find(([factor]) => most >= 2 * factor) ?? [1, "B"];
}

/** Bars from one byte to another; those that fall on a bar that is drawn already are left out. */
function bars(context: Pen, times: Float64Array, [low, high]: [Float64Array, Float64Array], [x, y]: [(time: number) => number, (byte: number) => number], span: Span, colourOf: (place: number) => string, thick: number): void {
  let [lastX, lastTop, lastBottom, lastColour] = [-1, 0, -1, ""];
  for (let place = upTo(times, span[0] - 1e-12); place < times.length && (times[place] ?? 0) <= span[1]; place += 1) {
    const at = Math.round(x(times[place] ?? 0));
    const [top, bottom] = [Math.floor(y(high[place] ?? 0)), Math.ceil(y(low[place] ?? 0))];
    const colour = colourOf(place);
    if (at === lastX && colour === lastColour && top >= lastTop && bottom <= lastBottom) continue;
    [lastX, lastTop, lastBottom, lastColour] = [at, top, bottom, colour];
    context.fillStyle = colour;
    context.fillRect(at - thick / 2, top, thick, Math.max(thick, bottom - top));
  }
}

/** A line that goes up in steps. */
function steps(context: Pen, times: Float64Array, values: Float64Array, [x, y]: [(time: number) => number, (byte: number) => number], span: Span): void {
  const begin = Math.max(0, upTo(times, span[0]) - 1);
  context.beginPath();
  let isBegun = false;
  let last = Number.NaN;
  for (let place = begin; place < times.length && (times[place] ?? 0) <= span[1]; place += 1) {
    const value = values[place] ?? Number.NaN;
    if (Number.isNaN(value)) {
      isBegun = false;
      continue;
    }
    const at = x(Math.max(span[0], times[place] ?? 0));
    const height = y(value);
    if (isBegun && Math.abs(height - last) < 0.5) continue;
    if (isBegun) context.lineTo(at, last);
    context[isBegun ? "lineTo" : "moveTo"](at, height);
    [isBegun, last] = [true, height];
  }
  if (isBegun) context.lineTo(x(Math.min(span[1], times[times.length - 1] ?? 0)), last);
  context.stroke();
}

/** Draws the time-sequence graph: what was sent, once or again, what was acknowledged, SACKs and the window. */
function painter({ segments, acks, sacks }: CapturedWay, span: Span, factor: number, [least, most]: [number, number]) {
  return (context: Pen, { box: { left, top, width, height }, ratio, colour }: Paper): void => {
    const x = (time: number) => left + ((time - span[0]) / (span[1] - span[0])) * width;
    const y = (byte: number) => top + height - ((byte / factor - least) / (most - least)) * height;
    const thick = Math.max(1, Math.round(1.5 * ratio));
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.lineWidth = ratio;
    context.strokeStyle = colour("--muted");
    context.setLineDash([2 * ratio, 3 * ratio]);
    steps(context, acks.time_s, acks.limit, [x, y], span);
    context.setLineDash([]);
    const [sent, again] = [colour("--sender-0"), colour("--bad")];
    const isAgain = segments.again;
    bars(context, segments.time_s, [segments.begin, segments.end], [x, y], span, (place) => (isAgain[place] ? again : sent), thick);
    const sacked = colour("--sender-3");
    bars(context, sacks.time_s, [sacks.begin, sacks.end], [x, y], span, () => sacked, thick);
    context.strokeStyle = colour("--sender-2");
    context.lineWidth = 1.5 * ratio;
    steps(context, acks.time_s, acks.ack, [x, y], span);
    context.restore();
  };
}

const largest = (lines: (number | null)[][]): number => lines.flat().reduce<number>((most, value) => Math.max(most, value ?? 0), 0);

function scaled(values: (number | null)[], factor: number): (number | null)[] {
  return values.map((value) => (value === null ? null : value / factor));
}

/** The names of what is laid beside each other. */
export const CAPTURED = "captured";
export const SIMULATED = "simulated";
const LOGGED = "logged";

/** The panels of a log of a stack, beside a simulation if there is one: windows are those that the stack said. */
export function loggedPanels(read: QlogRead, simulated: CapturedWay | null, span: Span): Panel[] {
  const made = panelsOf(read.way, simulated, span, true, LOGGED);
  const [times, window, flight] = [read.said.time_s, read.said.window, read.said.flight];
  const { at } = bins(span, POINTS);
  const lines = ([["window", window], ["in flight", flight]] as [string, Float64Array][]).map(([name, values], style) => ({ name, style, values: at.map((time) => {
    const place = upTo(times, time) - 1;
    const value = place < 0 || time > last(times) ? Number.NaN : (values[place] ?? Number.NaN);
    return Number.isNaN(value) ? null : value;
  }) })).filter(({ values }) => values.some((value) => value !== null));
  if (lines.length === 0) return made;
  const [by, unit] = bytesIn(largest(lines.map(({ values }) => values)));
  const panel: Panel = { id: "cwnd", title: "Congestion window and bytes in flight, as logged", unit, time: at, lines: lines.map((line) => ({ ...line, values: scaled(line.values, by) })), limit: null };
  return [...made.filter(({ id }) => id !== "flight" || simulated), panel];
}

/** The panels of a connection, and of the same in a simulation if there is one; `isTcp` is false for datagrams. */
export function panelsOf(captured: CapturedWay, simulated: CapturedWay | null, span: Span, isTcp: boolean, whose = CAPTURED): Panel[] {
  const both: [string, CapturedWay][] = [[whose, captured], ...(simulated ? [[SIMULATED, simulated] as [string, CapturedWay]] : [])];
  const { at } = bins(span, POINTS);
  const sequences = both.map(([name, way]) => ({ name, way, sent: sentOf(way, at), acked: ackedOf(way, at) }));
  const all = sequences.flatMap(({ sent, acked }) => [sent, acked]);
  const top = largest(all);
  const bottom = all.flat().reduce<number>((least, value) => Math.min(least, value ?? top), top);
  const [factor, unit] = bytesIn(top);
  const margin = Math.max(top - bottom, top * 0.01, 1) * 0.06;
  const range: [number, number] = [Math.max(0, bottom - margin) / factor, (top + margin) / factor];
  const made: Panel[] = sequences.map(({ name, way, sent, acked }) => {
    const lines: Line[] = [{ name: isTcp ? "sent" : "bytes", style: 0, values: scaled(sent, factor) }];
    if (acked.some((value) => value !== null)) lines.push({ name: "ACKs", style: 2, values: scaled(acked, factor) });
    return { id: name === SIMULATED ? "sequence-simulated" : "sequence", title: `${isTcp ? "Time and sequence" : "Payload so far"}, ${name}`, unit, time: at, lines, limit: null, range, paint: painter(way, span, factor, range), data: way.segments };
  });
  const curve = (id: Panel["id"], title: string, unitOf: string, time: number[], of: (way: CapturedWay) => (number | null)[]): void => {
    const found = both.map(([name, way], style) => ({ name, style, values: of(way) })).filter(({ values }) => values.some((value) => value));
    if (found.length === 0) return;
    const most = largest(found.map(({ values }) => values));
    const [by, shown] = unitOf === "B" ? bytesIn(most) : prefixFor(most, unitOf);
    made.push({ id, title, unit: shown, time, lines: found.map((line) => ({ ...line, values: scaled(line.values, by) })), limit: null });
  };
  const times = captured.segments.time_s;
  const seen = upTo(times, span[1]) - upTo(times, span[0]);
  const coarse = bins(span, Math.max(10, Math.min(RATE_POINTS, Math.round(seen / PACKETS_IN_BIN))));
  curve("throughput", whose === LOGGED ? "Bytes per second" : "Payload per second", "bit/s", coarse.at, (way) => rateOf(way, coarse));
  if (!isTcp) return made;
  curve("flight", "In flight, as seen where it was captured", "B", at, (way) => {
    const [sent, acked] = [sentOf(way, at), ackedOf(way, at)];
    return sent.map((value, place) => (value === null ? null : Math.max(0, value - (acked[place] ?? 0))));
  });
  curve("rtt", "Round-trip time", "s", coarse.at, (way) => rttOf(way, coarse));
  return made;
}
